"""Reprocessing a whole knowledge base: in groups, of one run, bounded, whatever is deleted meanwhile."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult
from corpusmesh_core.tenancy import DocumentRow, Identity, LifeState, Role, Scope, document_not_found
from corpusmesh_ingest.handlers.reprocessing import DerivationDependencies, Reprocessor
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_runtime.context import CallContext, current_call

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "knowledgeBases/kb"
ROW = DocumentRow("acme", "kb", "", "a.txt", "", "", 1, False, LifeState.ACTIVE, "ann", MOMENT, MOMENT)


class Stores:
    def __init__(self, document_count: int) -> None:
        self.rows = [replace(ROW, document_id=f"d{place:04}") for place in range(document_count)]
        self.calls: list[tuple[Sequence[Derivation], IngestOptions]] = []
        self.deleted_before_call: dict[int, str] = {}
        self.attempts = 0
        self.max_input_tokens = 512

    async def get(self, *_: object) -> Any:
        return SimpleNamespace(config={}, knowledge_base_id="kb")

    async def list(
        self, identity: Identity, kb: str, after_key: str, limit: int, *, name_prefix: str = ""
    ) -> Sequence[DocumentRow]:
        return [row for row in self.rows if row.document_id > after_key][:limit]

    async def derive(
        self, identity: Identity, kb: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        self.attempts += 1
        if gone := self.deleted_before_call.get(self.attempts):
            self.rows = [row for row in self.rows if row.document_id != gone]
        living = {row.document_id for row in self.rows}
        for derivation in derivations:
            if derivation.document_id not in living:
                raise document_not_found(derivation.document_id)
        self.calls.append((derivations, options))
        versions = tuple(
            cast(Any, SimpleNamespace(knowledge_base_id="kb", document_id=entry.document_id, version=2))
            for entry in derivations
        )
        return IngestResult("run", versions, (False,) * len(versions))

    def taken(self) -> Sequence[str]:
        return [derivation.document_id for derivations, _ in self.calls for derivation in derivations]


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.EDITOR, Scope.WRITE)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


def reprocessor_of(stores: Stores, max_documents: int = 1000) -> Reprocessor:
    fake = cast(Any, stores)
    return Reprocessor(DerivationDependencies(fake, fake, fake, PasswordSealer(["aa" * 32]), fake, max_documents))


async def test_every_document_is_taken_once_in_groups_of_one_run() -> None:
    stores = Stores(200)
    response = await reprocessor_of(stores).all(pb.ReprocessKnowledgeBaseRequest(name=BASE))
    assert stores.taken() == [row.document_id for row in stores.rows]
    assert [options.run_id for _, options in stores.calls] == ["", "run", "run", "run"]
    assert [options.is_last for _, options in stores.calls] == [False, False, False, True]
    assert (response.document_count, response.run, response.next_page_token) == (200, f"{BASE}/runs/run", "")


@pytest.mark.parametrize("count", [0, 1, 64, 128])
async def test_a_last_full_group_ends_the_run(count: int) -> None:
    stores = Stores(count)
    response = await reprocessor_of(stores).all(pb.ReprocessKnowledgeBaseRequest(name=BASE))
    assert len(stores.taken()) == response.document_count == count
    assert [options.is_last for _, options in stores.calls][-1:] == ([True] if count else [])
    assert bool(response.run) is bool(count)


async def test_more_documents_than_a_run_takes_are_left_to_the_next_call() -> None:
    stores = Stores(200)
    reprocessor = reprocessor_of(stores, max_documents=128)
    first = await reprocessor.all(pb.ReprocessKnowledgeBaseRequest(name=BASE))
    assert first.document_count == 128
    assert stores.calls[-1][1].is_last
    second = await reprocessor.all(pb.ReprocessKnowledgeBaseRequest(name=BASE, page_token=first.next_page_token))
    assert (second.document_count, second.next_page_token) == (72, "")
    assert stores.taken() == [row.document_id for row in stores.rows]
    with pytest.raises(InvalidArgumentError):
        await reprocessor.all(
            pb.ReprocessKnowledgeBaseRequest(name=BASE, display_name_prefix="other/", page_token=first.next_page_token)
        )


async def test_a_document_that_is_deleted_meanwhile_costs_the_others_nothing() -> None:
    stores = Stores(100)
    stores.deleted_before_call = {1: "d0003", 3: "d0099"}
    await reprocessor_of(stores).all(pb.ReprocessKnowledgeBaseRequest(name=BASE))
    assert stores.taken() == [f"d{place:04}" for place in range(100) if place not in (3, 99)]


async def test_one_document_with_settings_and_a_password_that_is_sealed() -> None:
    stores = Stores(1)
    one = knowledge_base_pb.ChunkSettings(template="one")
    request = pb.ReprocessDocumentRequest(
        name=f"{BASE}/documents/d0000",
        version=f"{BASE}/documents/d0000/versions/3",
        chunk_settings=one,
        parse_settings=knowledge_base_pb.ParseSettings(),
        password="open sesame",
    )
    await reprocessor_of(stores).one(request)
    ((derivation,), _) = stores.calls[0]
    assert derivation.config == {"chunking": {"template": "one", "settings": {}}, "parsing": {}}
    assert derivation.version == 3
    assert b"sesame" not in derivation.sealed_password
    assert "sesame" not in repr(derivation)
    assert PasswordSealer(["aa" * 32]).unseal("acme", derivation.sealed_password) == "open sesame"


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.ReprocessDocumentRequest(name=BASE), "name"),
        (pb.ReprocessDocumentRequest(name=f"{BASE}/documents/a", request_id="x"), "request_id"),
        (pb.ReprocessDocumentRequest(name=f"{BASE}/documents/a", version=f"{BASE}/documents/b/versions/1"), "version"),
        (pb.ReprocessDocumentRequest(name=f"{BASE}/documents/a", password="x" * 1025), "password"),
        (
            pb.ReprocessDocumentRequest(
                name=f"{BASE}/documents/a", chunk_settings=knowledge_base_pb.ChunkSettings(max_chunk_tokens=1)
            ),
            "chunk_settings.settings.max_tokens",
        ),
    ],
)
async def test_what_cannot_be_made_is_named(request_: pb.ReprocessDocumentRequest, field: str) -> None:
    stores = Stores(1)
    with pytest.raises(InvalidArgumentError) as refused:
        await reprocessor_of(stores).one(request_)
    assert refused.value.field == field
    assert not stores.calls


async def test_a_document_that_is_gone_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        await reprocessor_of(Stores(0)).one(pb.ReprocessDocumentRequest(name=f"{BASE}/documents/a"))
