"""People's edits of chunks: each call makes one new version of a document."""

from collections.abc import Callable, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh_core.chunking.edits import ChunkEdit, EditAction
from corpusmesh_core.documents import Chunk
from corpusmesh_core.errors import ConflictError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.edits import ChunkEditRow, ChunkEditStore, EditState, edit_id_of
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_core.ports.runs import Derivation
from corpusmesh_core.tenancy import Access, VersionRow
from corpusmesh_ingest.convert import run_name, version_name
from corpusmesh_ingest.convert_chunks import (
    MAX_SHOWN_CHARACTERS,
    checked_items,
    checked_tags,
    checked_text,
    find_chunk,
)
from corpusmesh_ingest.edit_planning import ChunkFields, EditPlanner
from corpusmesh_ingest.edits import edit_of_row, stored_edit
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_token, within_page
from corpusmesh_ingest.handlers.reprocessing import Reprocessor, check_request_id
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.names import ResourceName, parse_name
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.timestamps import timestamp

_MAX_BATCH = 100
_MAX_EDITS = 5_000
_MAX_EDIT_CHARACTERS = 16 * 1024 * 1024
"""All edits of a document together: each change of one of them, and each cutting, reads them all."""
_UPDATABLE = ("text", "keywords", "questions", "tags", "enabled")
_STATES = {
    EditState.PENDING: pb.ChunkEdit.STATE_PENDING,
    EditState.PLACED: pb.ChunkEdit.STATE_PLACED,
    EditState.UNPLACED: pb.ChunkEdit.STATE_UNPLACED,
    EditState.WITHDRAWN: pb.ChunkEdit.STATE_WITHDRAWN,
}
_KINDS = {
    EditAction.CHANGE: pb.ChunkEdit.KIND_UPDATE,
    EditAction.ADD: pb.ChunkEdit.KIND_CREATE,
    EditAction.DELETE: pb.ChunkEdit.KIND_DELETE,
}

Ask = Callable[[EditPlanner, Sequence[Chunk]], None]
"""Puts a request to the planner, given the chunks that its author saw."""


class ChunkEditor:
    """Makes, lists and withdraws edits."""

    def __init__(
        self,
        edits: ChunkEditStore,
        *,
        knowledge_bases: KnowledgeBaseStore,
        versions: VersionReader,
        chunks: ChunkReader,
        reprocessor: Reprocessor,
    ) -> None:
        """Create the editor.

        Args:
            edits: The edits.
            knowledge_bases: Rights and configuration.
            versions: Versions that the caller may read.
            chunks: Their chunks.
            reprocessor: Makes the new version.
        """
        self._edits = edits
        self._knowledge_bases = knowledge_bases
        self._versions = versions
        self._chunks = chunks
        self._reprocessor = reprocessor

    async def edit(self, name: ResourceName, asks: Sequence[Ask], request_id: str) -> pb.StartedEdit:
        """Edit chunks of a version.

        Args:
            name: The version whose chunks the author saw.
            asks: The requests.
            request_id: Names the run.

        Returns:
            Run, version and edits.

        Raises:
            ConflictError: CHUNK_EDITS_CHANGED if somebody else has edited the same chunks since they were read.
        """
        check_request_id(request_id)
        version = await self._versions.readable(name)
        rows = await self._all_edits(version)
        if (earlier := await self._earlier(version, request_id)) is not None:
            return earlier
        chunks = await self._chunks.chunks_of(version, as_cut=True)
        planner = EditPlanner(chunks, [edit_of_row(row) for row in rows])
        for ask in asks:
            ask(planner, chunks)
        plan = planner.plan()
        if len(rows) - len(plan.withdrawn) + len(plan.edits) > _MAX_EDITS:
            raise FailedPreconditionError(
                "CHUNK_EDITS_TOO_MANY",
                f"a document keeps at most {_MAX_EDITS} edits; change its original instead",
                limit=_MAX_EDITS,
            )
        edits = tuple(stored_edit(edit) for edit in plan.edits)
        kept = [row.change for row in rows if row.edit_id not in plan.withdrawn]
        if sum(len(str(change)) for change in (*kept, *(edit.change for edit in edits))) > _MAX_EDIT_CHARACTERS:
            raise FailedPreconditionError(
                "CHUNK_EDITS_TOO_MANY",
                f"a document keeps at most {_MAX_EDIT_CHARACTERS} characters of edits; change its original instead",
                limit=_MAX_EDIT_CHARACTERS,
            )
        derivation = Derivation(
            version.document_id, seen_version=version.version, edits=edits, withdrawn=plan.withdrawn
        )
        made = await self._derive(name, derivation, request_id)
        document = f"knowledgeBases/{made.knowledge_base_id}/documents/{made.document_id}"
        return _started(
            made,
            [
                f"{document}/chunkEdits/{edit_id_of(int(made.ordinal), place)}" if place >= 0 else ""
                for place in plan.places
            ],
        )

    async def withdraw(self, request: pb.DeleteChunkEditRequest) -> pb.StartedEdit:
        """Withdraw an edit.

        Args:
            request: Which.

        Returns:
            Run and version.
        """
        name = parse_name("chunk edit", request.name)
        check_request_id(request.request_id)
        return _started(
            await self._derive(name, Derivation(name.identifier, withdrawn=(name.part,)), request.request_id), []
        )

    async def list(self, request: pb.ListChunkEditsRequest) -> pb.ListChunkEditsResponse:
        """List the edits of a document.

        Args:
            request: Which page.

        Returns:
            The page.
        """
        name = parse_name("document", request.parent, field="parent")
        size = page_size_of(request.page_size)
        states = [state for state, wire in _STATES.items() if wire == request.state]
        if request.state and not states:
            raise InvalidArgumentError("EDIT_STATE_UNKNOWN", "state must be one that this release knows", field="state")
        listing = f"{request.parent}/chunkEdits/{request.state}"
        after = read_page_token(listing, request.page_token)
        rows = await self._edits.list(
            require_call().identity, name.knowledge_base_id, name.identifier, states, after, size + 1
        )
        page = within_page(_edit_to_wire(row) for row in rows[:size])
        return pb.ListChunkEditsResponse(
            edits=page,
            next_page_token=make_page_token(listing, rows[len(page) - 1].edit_id) if len(rows) > len(page) else "",
        )

    async def _derive(self, name: ResourceName, derivation: Derivation, request_id: str) -> VersionRow:
        knowledge_base = await self._knowledge_bases.get(require_call().identity, name.knowledge_base_id, Access.WRITE)
        try:
            result = await self._reprocessor.derive(knowledge_base, [derivation], request_id=request_id)
        except NotFoundError as error:
            if error.reason != "CHUNK_EDIT_NOT_FOUND" or not derivation.edits:
                raise
            raise ConflictError(
                "CHUNK_EDITS_CHANGED", "somebody else has edited these chunks: read them again and try again"
            ) from error
        return result.versions[0]

    async def _earlier(self, version: VersionRow, request_id: str) -> pb.StartedEdit | None:
        """Give what the same call has started before: what it saw then may carry its own edit by now."""
        if not request_id:
            return None
        made = [
            row
            for row in await self._reprocessor.made_by(version.knowledge_base_id, request_id)
            if row.document_id == version.document_id
        ]
        if not made:
            return None
        # Withdrawn ones too: it is what the call made that is asked for, not what became of it.
        rows = await self._edits.list(
            require_call().identity,
            version.knowledge_base_id,
            version.document_id,
            tuple(EditState),
            edit_id_of(int(made[0].ordinal), 0)[:-1],
            _MAX_EDITS,
        )
        prefix = edit_id_of(int(made[0].ordinal), 0)[:-4]
        document = f"knowledgeBases/{version.knowledge_base_id}/documents/{version.document_id}"
        edits = [f"{document}/chunkEdits/{row.edit_id}" for row in rows if row.edit_id.startswith(prefix)]
        return _started(made[0], edits)

    async def _all_edits(self, version: VersionRow) -> Sequence[ChunkEditRow]:
        return await self._edits.list(
            require_call().identity, version.knowledge_base_id, version.document_id, (), "", _MAX_EDITS + 1
        )


def creation(request: pb.CreateChunkRequest, parent: str, *, field: str) -> Ask:
    """Check a request to add a chunk.

    Args:
        request: The request.
        parent: The version's name.
        field: Path of the request in the call, "" or with a dot at its end.

    Returns:
        What puts it to a planner.
    """
    fields = _fields(request.chunk, _UPDATABLE, field=f"{field}chunk")
    after = _part_of(request.after, parent, field=f"{field}after") if request.after else ""

    def ask(planner: EditPlanner, chunks: Sequence[Chunk]) -> None:
        planner.create(fields, find_chunk(chunks, after) if after else None)

    return ask


def change(request: pb.UpdateChunkRequest, parent: str, *, field: str) -> Ask:
    """Check a request to change a chunk.

    Args:
        request: The request.
        parent: The version's name.
        field: Path of the request in the call, "" or with a dot at its end.

    Returns:
        What puts it to a planner.

    Raises:
        InvalidArgumentError: UPDATE_MASK_INVALID if the mask names something else than what can be changed.
    """
    part = _part_of(request.chunk.name, parent, field=f"{field}chunk.name")
    mask = list(request.update_mask.paths) if request.HasField("update_mask") else None
    if mask is None:
        mask = [path for path in _UPDATABLE if path != "enabled" and getattr(request.chunk, path)]
        mask += ["enabled"] if request.chunk.HasField("enabled") else []
    elif mask == ["*"]:
        mask = list(_UPDATABLE)
    if not mask or any(path not in _UPDATABLE for path in mask):
        raise InvalidArgumentError(
            "UPDATE_MASK_INVALID", f"update_mask takes {', '.join(_UPDATABLE)} or *", field=f"{field}update_mask"
        )
    fields = _fields(request.chunk, mask, field=f"{field}chunk")
    return lambda planner, chunks: planner.update(find_chunk(chunks, part), fields)


def deletion(request: pb.DeleteChunkRequest, parent: str, *, field: str) -> Ask:
    """Check a request to leave a chunk out.

    Args:
        request: The request.
        parent: The version's name.
        field: Path of the request in the call, "" or with a dot at its end.

    Returns:
        What puts it to a planner.
    """
    part = _part_of(request.name, parent, field=f"{field}name")
    return lambda planner, chunks: planner.delete(find_chunk(chunks, part))


def batch(request: pb.BatchEditChunksRequest) -> list[Ask]:
    """Check several requests.

    Args:
        request: The requests.

    Returns:
        What puts them to a planner, in their order.

    Raises:
        InvalidArgumentError: EDITS_INVALID if there are none or too many, or one says nothing.
    """
    if not 1 <= len(request.edits) <= _MAX_BATCH:
        raise InvalidArgumentError("EDITS_INVALID", f"give 1 to {_MAX_BATCH} edits", field="edits")
    asks = []
    for place, entry in enumerate(request.edits):
        field = f"edits.{place}."
        kind = entry.WhichOneof("edit")
        if kind == "create":
            asks.append(creation(entry.create, request.parent, field=f"{field}create."))
        elif kind == "update":
            asks.append(change(entry.update, request.parent, field=f"{field}update."))
        elif kind == "delete":
            asks.append(deletion(entry.delete, request.parent, field=f"{field}delete."))
        else:
            raise InvalidArgumentError("EDITS_INVALID", "an edit creates, updates or deletes", field=field[:-1])
    return asks


def _part_of(chunk: str, parent: str, *, field: str) -> str:
    name = parse_name("chunk", chunk, field=field)
    if chunk.rsplit("/chunks/", 1)[0] != parent:
        raise InvalidArgumentError(
            "CHUNK_OF_ANOTHER_VERSION", "the chunk must be one of the version that is edited", field=field
        )
    return name.part


def _fields(chunk: pb.Chunk, paths: Sequence[str], *, field: str) -> ChunkFields:
    return ChunkFields(
        text=checked_text(chunk.text, field=f"{field}.text") if "text" in paths else None,
        keywords=checked_items(chunk.keywords, field=f"{field}.keywords") if "keywords" in paths else None,
        questions=checked_items(chunk.questions, field=f"{field}.questions") if "questions" in paths else None,
        tags=checked_tags(chunk.tags, field=f"{field}.tags") if "tags" in paths else None,
        enabled=(chunk.enabled if chunk.HasField("enabled") else True) if "enabled" in paths else None,
    )


def _started(version: VersionRow, edits: Sequence[str]) -> pb.StartedEdit:
    return pb.StartedEdit(
        run=run_name(version.knowledge_base_id, version.run_id), version=version_name(version), edits=edits
    )


def _edit_to_wire(row: ChunkEditRow) -> pb.ChunkEdit:
    edit = edit_of_row(row)
    document = f"knowledgeBases/{row.knowledge_base_id}/documents/{row.document_id}"
    return pb.ChunkEdit(
        name=f"{document}/chunkEdits/{row.edit_id}",
        state=_STATES[row.state],
        kind=_KINDS[edit.action],
        version=f"{document}/versions/{row.version}",
        original_text=_original_text(edit),
        chunk=_values(edit),
        update_mask=FieldMask(paths=[path for path in _UPDATABLE if getattr(edit, path) is not None]),
        creator=f"users/{row.created_by}",
        create_time=timestamp(row.create_time),
    )


def _values(edit: ChunkEdit) -> pb.Chunk:
    chunk = pb.Chunk(
        text=edit.text or "", keywords=edit.keywords or (), questions=edit.questions or (), tags=edit.tags or {}
    )
    if edit.enabled is not None:
        chunk.enabled = edit.enabled
    return chunk


def _original_text(edit: ChunkEdit) -> str:
    """Show what an anchor keeps of a text: both ends of a long one."""
    start, end = edit.anchor.excerpt_start, edit.anchor.excerpt_end
    if start == end or end in start:
        return start
    overlap = next((size for size in range(min(len(start), len(end)), 0, -1) if start.endswith(end[:size])), 0)
    return (start + end[overlap:] if overlap else f"{start} … {end}")[:MAX_SHOWN_CHARACTERS]
