"""What people ask of the chunks that they see, as edits that hold for every later version (ADR-0008).

Edits apply to chunks as a template makes them; people see chunks that carry earlier edits. So an edit of an edited
chunk takes the anchor of the earlier one, an edit of a chunk that a person added replaces the edit that added it, and a
chunk that is added between two added ones lets those that follow be added again after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.chunking.edits import EDITS_ATTRIBUTE, ChunkAnchor, ChunkEdit, EditAction, anchor_of
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError

_BEFORE_ALL = ChunkAnchor(position=0, text_sha256="")


@dataclass(frozen=True, slots=True)
class ChunkFields:
    """What to set of a chunk; None leaves a field as it is.

    Attributes:
        text: Text.
        keywords: Keywords.
        questions: Questions.
        tags: Tags with their weights.
        enabled: Whether it is searched.
    """

    text: str | None = None
    keywords: tuple[str, ...] | None = None
    questions: tuple[str, ...] | None = None
    tags: dict[str, float] | None = None
    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class EditPlan:
    """What to store.

    Attributes:
        edits: New edits, in the order in which they apply; their ids are still to be given.
        withdrawn: Ids of edits that they replace or undo.
        places: For each request the place of its edit in `edits`; -1 where it undoes an edit and makes none.
    """

    edits: tuple[ChunkEdit, ...]
    withdrawn: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Entry:
    """An edit that adds a chunk: one that is stored, or a new one."""

    edit: ChunkEdit
    is_new: bool
    is_gone: bool = False
    """Deleted by the same call: its place is kept for what is added after it."""


class EditPlanner:
    """Plans the edits of one version's chunks, request by request."""

    def __init__(self, chunks: Sequence[Chunk], edits: Sequence[ChunkEdit]) -> None:
        """Create a planner.

        Args:
            chunks: Chunks of the version that the author saw.
            edits: The document's edits that were not withdrawn, in the order in which they apply.
        """
        self._chunks = [chunk for chunk in chunks if chunk.role is not ChunkRole.PARENT]
        self._edits: Mapping[str, ChunkEdit] = {edit.edit_id: edit for edit in edits}
        self._deleted_anchors = {edit.anchor for edit in edits if edit.action is EditAction.DELETE}
        self._added: dict[ChunkAnchor, list[_Entry]] = {}
        for edit in edits:
            if edit.action is EditAction.ADD:
                self._added.setdefault(edit.anchor, []).append(_Entry(edit, is_new=False))
        self._entries = {entry.edit.edit_id: entry for entries in self._added.values() for entry in entries}
        self._others: list[ChunkEdit] = []
        self._withdrawn: list[str] = []
        self._requests: list[ChunkEdit | _Entry | None] = []
        self._gone: set[int] = set()

    def create(self, fields: ChunkFields, after: Chunk | None) -> None:
        """Add a chunk.

        Args:
            fields: Its text and more.
            after: Chunk that it follows; None for before the first one.
        """
        anchor, place = _BEFORE_ALL, 0
        if after is not None:
            added = self._added_by(after)
            anchor = added.edit.anchor if added is not None else self._anchor(after)
            place = self._added[anchor].index(added) + 1 if added is not None else 0
        entry = _Entry(_edit(EditAction.ADD, anchor, fields), is_new=True)
        entries = self._added.setdefault(anchor, [])
        entries.insert(place, entry)
        self._renew(entries, place + 1)
        self._requests.append(entry)

    def update(self, chunk: Chunk, fields: ChunkFields) -> None:
        """Change a chunk.

        Args:
            chunk: The chunk, as its author saw it.
            fields: What to set.

        Raises:
            FailedPreconditionError: CHUNK_IS_CONTINUATION if it is not the first part of a longer edited text;
                CHUNK_EDIT_WITHDRAWN if it carries an edit that was withdrawn since.
            InvalidArgumentError: CHUNK_DELETED if an earlier request of the call deletes it; CHUNK_NOT_EDITABLE if it
                is the larger piece around others.
        """
        self._check(chunk)
        added = self._added_by(chunk)
        if added is None:
            edit = _edit(EditAction.CHANGE, self._anchor(chunk), fields)
            self._others.append(edit)
            self._requests.append(edit)
            return
        entries = self._added[added.edit.anchor]
        place = entries.index(added)
        self._renew(entries, place)
        added.edit = _overlaid(added.edit, fields)
        self._requests.append(added)

    def delete(self, chunk: Chunk) -> None:
        """Leave a chunk out.

        Args:
            chunk: The chunk, as its author saw it.

        Raises:
            FailedPreconditionError: As for `update`.
            InvalidArgumentError: As for `update`.
        """
        self._check(chunk)
        self._gone.add(chunk.position)
        added = self._added_by(chunk)
        if added is None:
            edit = _edit(EditAction.DELETE, self._anchor(chunk), ChunkFields())
            self._others.append(edit)
            self._requests.append(edit)
            return
        added.is_gone = True
        if not added.is_new:
            self._withdrawn.append(added.edit.edit_id)
        self._requests.append(None)

    def plan(self) -> EditPlan:
        """Give what the requests so far come to.

        Returns:
            The plan.
        """
        fresh = [entry for entries in self._added.values() for entry in entries if entry.is_new and not entry.is_gone]
        edits = (*self._others, *(entry.edit for entry in fresh))
        places = []
        for made in self._requests:
            if isinstance(made, _Entry):
                places.append(len(self._others) + fresh.index(made) if made in fresh else -1)
            else:
                # By identity: two requests may say the same.
                places.append(next((n for n, edit in enumerate(self._others) if edit is made), -1))
        return EditPlan(edits, tuple(self._withdrawn), tuple(places))

    def _renew(self, entries: list[_Entry], start: int) -> None:
        """Add stored entries again, so that they follow what is new before them."""
        for entry in entries[start:]:
            if not entry.is_new and not entry.is_gone:
                self._withdrawn.append(entry.edit.edit_id)
                entry.is_new = True

    def _check(self, chunk: Chunk) -> None:
        if chunk.role is ChunkRole.PARENT:
            raise InvalidArgumentError(
                "CHUNK_NOT_EDITABLE", "this is the larger piece around other chunks: edit those", field="chunk"
            )
        if chunk.position in self._gone:
            raise InvalidArgumentError("CHUNK_DELETED", "the same call deletes the chunk", field="edits")
        ids = _ids_of(chunk)
        if not ids:
            return
        if ids[0] not in self._edits:
            raise FailedPreconditionError(
                "CHUNK_EDIT_WITHDRAWN",
                "the chunk carries an edit that was withdrawn since: look at the newest version",
                edit=ids[0],
            )
        first = next(other for other in self._chunks if _ids_of(other)[:1] == ids[:1])
        if first.position != chunk.position:
            raise FailedPreconditionError(
                "CHUNK_IS_CONTINUATION",
                "the chunk is a further part of a long text that a person wrote: edit its first part",
                position=first.position,
            )

    def _added_by(self, chunk: Chunk) -> _Entry | None:
        ids = _ids_of(chunk)
        return self._entries.get(ids[0]) if ids else None

    def _anchor(self, chunk: Chunk) -> ChunkAnchor:
        """Find the anchor of a chunk that a template made: of one chunk there must never be two."""
        ids = _ids_of(chunk)
        if ids and ids[0] in self._edits:
            return self._edits[ids[0]].anchor
        following = next((other for other in self._chunks if other.position == chunk.position + 1), None)
        added = self._added_by(following) if following is not None else None
        if added is not None:
            anchor = added.edit.anchor
            if anchor.text_sha256 and anchor not in self._deleted_anchors:
                return anchor
        return anchor_of(chunk)


def _ids_of(chunk: Chunk) -> list[str]:
    return [edit_id for edit_id in chunk.attributes.get(EDITS_ATTRIBUTE, "").split(",") if edit_id]


def _edit(action: EditAction, anchor: ChunkAnchor, fields: ChunkFields) -> ChunkEdit:
    return ChunkEdit(
        edit_id="",
        action=action,
        anchor=anchor,
        text=fields.text,
        keywords=fields.keywords,
        questions=fields.questions,
        tags=fields.tags,
        enabled=fields.enabled,
    )


def _overlaid(edit: ChunkEdit, fields: ChunkFields) -> ChunkEdit:
    return replace(
        edit,
        text=edit.text if fields.text is None else fields.text,
        keywords=edit.keywords if fields.keywords is None else fields.keywords,
        questions=edit.questions if fields.questions is None else fields.questions,
        tags=edit.tags if fields.tags is None else fields.tags,
        enabled=edit.enabled if fields.enabled is None else fields.enabled,
    )
