"""Calls that edit chunks: what they check, and what they ask of the store."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh_core.artefacts import pack_chunks, pack_enriched
from corpusmesh_core.chunking.edits import EDITS_ATTRIBUTE, text_digest
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.errors import ConflictError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.edits import ChunkEditRow, EditState, edit_id_of
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, Identity, Role, Scope, VersionRow, VersionState
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.chunks import ChunkHandlerDependencies, ChunkHandlers
from corpusmesh_ingest.handlers.editing import ChunkEditor
from corpusmesh_ingest.handlers.reprocessing import DerivationDependencies, Reprocessor
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_runtime.context import CallContext, current_call

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
DOCUMENT = "knowledgeBases/kb/documents/a"
VERSION = f"{DOCUMENT}/versions/1"
REQUEST_ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
CUT = [
    Chunk(0, "The larger piece.", (), 1, (), 3, role=ChunkRole.PARENT),
    Chunk(0, "As it was cut.", (), 1, (), 4, parent=0),
    Chunk(1, "Another one.", (), 1, (), 2),
]
SHOWN = VersionRow(
    tenant_id="acme", knowledge_base_id="kb", document_id="a", version=1, ordinal=Ordinal(1), display_name="a.txt",
    original_sha256="a" * 64, size_bytes=4, media_type="text/plain", title="", page_count=0, chunk_count=1,
    record_count=1, token_count=1, state=VersionState.READY, failed_stage="", error_reason="", error_message="",
    config_hash="", artefacts={"chunks": "run/chunks", "enriched": "run/enriched"}, warnings=(), run_id="run",
    publish_time=MOMENT, create_time=MOMENT,
)  # fmt: skip


class Stores:
    """Everything that the calls stand on, and what they asked of it."""

    def __init__(self) -> None:
        enriched = [replace(chunk, text=f"IMAGE_CAPTION: {chunk.text}") for chunk in CUT]
        self.objects = {"run/chunks": pack_chunks({1: CUT}), "run/enriched": pack_enriched({1: (enriched, [])})}
        self.edits: list[ChunkEditRow] = []
        self.derived: list[Derivation] = []
        self.earlier: list[VersionRow] = []
        self.failure: Exception | None = None
        self.audited: list[str] = []

    async def get(self, *arguments: Any, **_: Any) -> Any:
        if isinstance(arguments[0], Identity):
            return SimpleNamespace(config={}, knowledge_base_id="kb")
        return self.objects[arguments[0]]

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], access: Access) -> None:
        return None

    async def list_versions(self, *_: object) -> Sequence[VersionRow]:
        return [SHOWN]

    async def list(
        self, identity: Identity, kb: str, document: str, states: Collection[EditState], after_key: str, limit: int
    ) -> Sequence[ChunkEditRow]:
        return [row for row in self.edits if row.edit_id > after_key][:limit]

    async def made_by(self, identity: Identity, kb: str, request_id: str) -> Sequence[VersionRow]:
        return self.earlier

    async def derive(
        self, identity: Identity, kb: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        if self.failure is not None:
            raise self.failure
        self.derived.extend(derivations)
        return IngestResult("run-2", (replace(SHOWN, version=2, ordinal=Ordinal(7), run_id="run-2"),), (False,))

    async def append(self, identity: Identity, action: str, *_: object) -> None:
        self.audited.append(action)


@pytest.fixture
def stores() -> Iterator[Stores]:
    identity = Identity("acme", "ann", Role.EDITOR, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield Stores()
    current_call.reset(token)


def handlers_of(stores: Stores) -> ChunkHandlers:
    fake = cast(Any, stores)
    versions, chunks = VersionReader(fake, fake), ChunkReader(fake)
    reprocessor = Reprocessor(DerivationDependencies(fake, fake, fake, fake, fake, 10))
    editor = ChunkEditor(fake, knowledge_bases=fake, versions=versions, chunks=chunks, reprocessor=reprocessor)
    return ChunkHandlers(
        ChunkHandlerDependencies(versions=versions, chunks=chunks, previewer=fake, editor=editor, audit=fake)
    )


async def test_an_edit_remembers_its_chunk_as_it_was_cut_and_not_as_it_was_enriched(stores: Stores) -> None:
    handlers = handlers_of(stores)
    shown = await handlers.GetChunk(pb.GetChunkRequest(name=f"{VERSION}/chunks/0"), None)
    assert shown.text == "IMAGE_CAPTION: As it was cut."
    await handlers.UpdateChunk(pb.UpdateChunkRequest(chunk=pb.Chunk(name=shown.name, keywords=["one"])), None)
    (edit,) = stores.derived[0].edits
    assert edit.anchor["text_sha256"] == text_digest("As it was cut.")
    assert edit.change == {"action": "change", "keywords": ["one"]}
    assert stores.audited == ["chunk.edit"]


async def test_edits_of_a_document_are_bounded_in_number_and_together(stores: Stores) -> None:
    anchor = {"position": 9, "text_sha256": "", "heading_path": [], "excerpt_start": "", "excerpt_end": "", "page": 0}
    large = ChunkEditRow(
        tenant_id="acme", knowledge_base_id="kb", document_id="a", edit_id="00000002-0000", version=1,
        anchor=anchor, change={"action": "change", "text": "x" * 16 * 1024 * 1024}, state=EditState.PLACED,
        created_by="ann", create_time=SHOWN.create_time, update_time=SHOWN.create_time,
    )  # fmt: skip
    update = pb.UpdateChunkRequest(chunk=pb.Chunk(name=f"{VERSION}/chunks/0", keywords=["one"]))
    small = replace(large, change={"action": "change", "text": "x"})
    for rows in ([large], [replace(small, edit_id=edit_id_of(2, place)) for place in range(5_000)]):
        stores.edits = rows
        with pytest.raises(FailedPreconditionError) as caught:
            await handlers_of(stores).UpdateChunk(update, None)
        assert caught.value.reason == "CHUNK_EDITS_TOO_MANY"
    stores.edits = [small]
    await handlers_of(stores).UpdateChunk(update, None)
    assert len(stores.derived) == 1


async def test_a_batch_names_its_edits_in_the_order_given(stores: Stores) -> None:
    requests = [
        pb.ChunkEditRequest(create=pb.CreateChunkRequest(chunk=pb.Chunk(text="New."))),
        pb.ChunkEditRequest(delete=pb.DeleteChunkRequest(name=f"{VERSION}/chunks/1")),
    ]
    request = pb.BatchEditChunksRequest(parent=VERSION, edits=requests)
    started = (await handlers_of(stores).BatchEditChunks(request, None)).started
    assert (started.version, started.run) == (f"{DOCUMENT}/versions/2", "knowledgeBases/kb/runs/run-2")
    assert list(started.edits) == [f"{DOCUMENT}/chunkEdits/{edit_id_of(7, place)}" for place in (1, 0)]
    assert [edit.change["action"] for edit in stores.derived[0].edits] == ["delete", "add"]


async def test_what_a_mask_does_not_name_is_left_alone_and_what_it_names_is_emptied(stores: Stores) -> None:
    chunk = pb.Chunk(name=f"{VERSION}/chunks/0", text="Ignored.")
    mask = FieldMask(paths=["keywords", "enabled"])
    await handlers_of(stores).UpdateChunk(pb.UpdateChunkRequest(chunk=chunk, update_mask=mask), None)
    assert stores.derived[0].edits[0].change == {"action": "change", "keywords": [], "enabled": True}


async def test_a_call_made_again_makes_nothing_and_names_what_it_made(stores: Stores) -> None:
    handlers = handlers_of(stores)
    request = pb.DeleteChunkRequest(name=f"{VERSION}/chunks/1", request_id=REQUEST_ID)
    await handlers.DeleteChunk(request, None)
    made = stored_row(stores, edit_id_of(7, 0))
    stores.edits = [made, replace(made, edit_id=edit_id_of(8, 0))]
    stores.earlier = [replace(SHOWN, version=2, ordinal=Ordinal(7), run_id="run-2")]
    again = (await handlers.DeleteChunk(request, None)).started
    assert list(again.edits) == [f"{DOCUMENT}/chunkEdits/{edit_id_of(7, 0)}"]
    assert len(stores.derived) == 1


def stored_row(stores: Stores, edit_id: str) -> ChunkEditRow:
    made = stores.derived[0].edits[0]
    return ChunkEditRow(
        "acme", "kb", "a", edit_id, 1, made.anchor, made.change, EditState.PLACED, "ann", MOMENT, MOMENT
    )


async def test_two_who_edit_the_same_added_chunk_at_once_are_told(stores: Stores) -> None:
    handlers = handlers_of(stores)
    await handlers.CreateChunk(pb.CreateChunkRequest(parent=VERSION, chunk=pb.Chunk(text="Added.")), None)
    stores.edits = [stored_row(stores, edit_id_of(7, 0))]
    added = Chunk(0, "Added.", (), 0, (), 1, attributes={EDITS_ATTRIBUTE: edit_id_of(7, 0)})
    stores.objects["run/chunks"] = pack_chunks({1: [added, replace(CUT[2], position=1)]})
    stores.failure = NotFoundError("CHUNK_EDIT_NOT_FOUND", "there is no such edit")
    with pytest.raises(ConflictError, match="read them again"):
        await handlers_of(stores).UpdateChunk(
            pb.UpdateChunkRequest(chunk=pb.Chunk(name=f"{VERSION}/chunks/0", text="Other.")), None
        )


def edit(**values: Any) -> pb.ChunkEditRequest:
    return pb.ChunkEditRequest(**values)


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        ([], "edits"),
        ([edit()] * 101, "edits"),
        ([edit()], "edits.0"),
        ([edit(create=pb.CreateChunkRequest())], "edits.0.create.chunk.text"),
        ([edit(create=pb.CreateChunkRequest(chunk=pb.Chunk(text="x" * 64_001)))], "edits.0.create.chunk.text"),
        (
            [edit(update=pb.UpdateChunkRequest(chunk=pb.Chunk(name=f"{VERSION}/chunks/0")))],
            "edits.0.update.update_mask",
        ),
        ([edit(delete=pb.DeleteChunkRequest(name=f"{DOCUMENT}/versions/2/chunks/0"))], "edits.0.delete.name"),
        ([edit(delete=pb.DeleteChunkRequest(name=f"{VERSION}/chunks/p0"))], "chunk"),
        (
            [edit(create=pb.CreateChunkRequest(chunk=pb.Chunk(text="x", tags={"red": 0.0})))],
            "edits.0.create.chunk.tags",
        ),
        (
            [edit(create=pb.CreateChunkRequest(chunk=pb.Chunk(text="x", keywords=[str(n) for n in range(65)])))],
            "edits.0.create.chunk.keywords",
        ),
    ],
)
async def test_what_cannot_be_done_is_named_and_nothing_is_made(
    stores: Stores, edits: list[pb.ChunkEditRequest], field: str
) -> None:
    request = pb.BatchEditChunksRequest(parent=VERSION, edits=edits)
    with pytest.raises(InvalidArgumentError) as refused:
        await handlers_of(stores).BatchEditChunks(request, None)
    assert refused.value.field == field
    assert stores.derived == []


async def test_a_request_id_that_is_no_uuid_is_refused(stores: Stores) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await handlers_of(stores).DeleteChunk(
            pb.DeleteChunkRequest(name=f"{VERSION}/chunks/0", request_id="again"), None
        )
    assert refused.value.field == "request_id"


async def test_an_edit_is_listed_with_what_it_sets_and_what_it_was_about(stores: Stores) -> None:
    handlers = handlers_of(stores)
    chunk = pb.Chunk(name=f"{VERSION}/chunks/0", text="Changed.", enabled=False)
    await handlers.UpdateChunk(pb.UpdateChunkRequest(chunk=chunk), None)
    stores.edits = [replace(stored_row(stores, edit_id_of(7, 0)), state=EditState.UNPLACED)]
    (listed,) = (await handlers.ListChunkEdits(pb.ListChunkEditsRequest(parent=DOCUMENT), None)).edits
    assert (listed.state, listed.kind) == (pb.ChunkEdit.STATE_UNPLACED, pb.ChunkEdit.KIND_UPDATE)
    assert (listed.original_text, listed.chunk.text) == ("As it was cut.", "Changed.")
    assert list(listed.update_mask.paths) == ["text", "enabled"]
    assert not listed.chunk.enabled
