"""People's edits of chunks: they outlive parsing and cutting again, or are listed as unplaced; none is lost."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from corpusmesh_core.chunking.assembly import number_by_role
from corpusmesh_core.chunking.drafts import Draft, within_budget
from corpusmesh_core.chunking.pieces import Piece, split_piece
from corpusmesh_core.chunking.similarity import word_similarity
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.ports.embedding import TextTokenizer

EDITS_ATTRIBUTE = "edits"
"""Attribute with the ids of the edits that a chunk carries, joined by commas."""
DISABLED_ATTRIBUTE = "disabled"
"""Attribute that says "true" on a chunk that a person switched off: it is kept and shown, and not searched."""
EXCERPT_CHARACTERS = 200
"""How much of either end of a text an anchor keeps."""
MIN_SIMILARITY = 0.8
"""A chunk whose ends are less like an anchor's is another chunk."""
NEAR_POSITIONS = 50
"""How many places away a changed chunk is looked for."""


_GAP = re.compile(r"\n{3,}")


class EditAction(StrEnum):
    """What a person did."""

    CHANGE = "change"
    """To a chunk: its text, keywords, questions, tags, or whether it is searched."""
    ADD = "add"
    """Wrote a chunk to stand after another one."""
    DELETE = "delete"
    """Took a chunk out."""


@dataclass(frozen=True, slots=True)
class ChunkAnchor:
    """What a chunk was when a person edited it.

    Attributes:
        position: Its position.
        text_sha256: Hexadecimal digest of its text; "" anchors an added chunk before all others.
        heading_path: Its headings.
        excerpt_start: First characters of its text.
        excerpt_end: Last characters of its text.
        page: Its page.
    """

    position: int
    text_sha256: str
    heading_path: tuple[str, ...] = ()
    excerpt_start: str = ""
    excerpt_end: str = ""
    page: int = 0


@dataclass(frozen=True, slots=True)
class ChunkEdit:
    """One edit.

    Attributes:
        edit_id: Unique in its document.
        action: What was done.
        anchor: The chunk it was done to; for an added one the chunk that it stands after.
        text: The new text; None leaves it. An added chunk needs one.
        keywords: The new keywords; None leaves them.
        questions: The new questions; None leaves them.
        tags: The new tags with their weights; None leaves them.
        enabled: Whether the chunk is searched; None leaves it.
    """

    edit_id: str
    action: EditAction
    anchor: ChunkAnchor
    text: str | None = None
    keywords: tuple[str, ...] | None = None
    questions: tuple[str, ...] | None = None
    tags: dict[str, float] | None = None
    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class EditedChunks:
    """Chunks with the edits in them.

    Attributes:
        chunks: In reading order, positions dense from 0 among those of each role.
        placed: Ids of the edits that found their chunk, in the order given.
        unplaced: Ids of those that did not, in the order given.
    """

    chunks: tuple[Chunk, ...]
    placed: tuple[str, ...]
    unplaced: tuple[str, ...]


def text_digest(text: str) -> str:
    """Digest a chunk's text for an anchor.

    Args:
        text: The text.

    Returns:
        SHA-256 in hexadecimal digits.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def anchor_of(chunk: Chunk) -> ChunkAnchor:
    """Remember a chunk, so that it can be found among the chunks of a later parse.

    Args:
        chunk: A chunk of role TEXT or TAG_EXAMPLE as the template made it, without edits.

    Returns:
        Its anchor.
    """
    return ChunkAnchor(
        position=chunk.position,
        text_sha256=text_digest(chunk.text),
        heading_path=chunk.heading_path,
        excerpt_start=chunk.text[:EXCERPT_CHARACTERS],
        excerpt_end=chunk.text[-EXCERPT_CHARACTERS:],
        page=chunk.page,
    )


def is_disabled(chunk: Chunk) -> bool:
    """Say whether a person switched a chunk off.

    Args:
        chunk: Any chunk.

    Returns:
        True if it is not to be searched.
    """
    return chunk.attributes.get(DISABLED_ATTRIBUTE) == "true"


def apply_edits(
    chunks: Sequence[Chunk], edits: Sequence[ChunkEdit], counter: TextTokenizer, max_tokens: int
) -> EditedChunks:
    """Put people's edits into the chunks that a template made.

    A chunk with the very text of an edit's anchor is the one (of several the one with the same headings nearest to the
    old position); else the nearest-looking one under the same headings, within 50 places and with ends at least 0.8
    alike, that no other anchor has taken; else the edit is unplaced. Edits of one chunk take effect in the order given,
    and an edit whose id is among the chunks' attributes already is not done again. A text over the budget is split, and
    its parts follow each other. Where a child of a parent is changed, deleted or switched off, the parent's text
    follows; where its text is not found in it, the parent is left out and its children are read alone.

    Args:
        chunks: What a template made.
        edits: In the order in which they were made.
        counter: The embedder's tokenizer.
        max_tokens: Budget of a chunk.

    Returns:
        The chunks with every edit that could be placed, and which edits those are. The same input gives the same.
    """
    return _Application(chunks, counter, max_tokens).run(edits)


class _Application:
    def __init__(self, chunks: Sequence[Chunk], counter: TextTokenizer, max_tokens: int) -> None:
        self._counter = counter
        self._max_tokens = max_tokens
        self._chunks = list(chunks)
        self._current: list[Chunk | None] = list(chunks)
        self._added: dict[int, list[Chunk]] = {}
        self._written: dict[int, str] = {}  # whole texts of changed chunks, which may have been split
        self._searched = [index for index, chunk in enumerate(chunks) if chunk.role is not ChunkRole.PARENT]
        self._parents = {chunk.position: index for index, chunk in enumerate(chunks) if chunk.role is ChunkRole.PARENT}

    def run(self, edits: Sequence[ChunkEdit]) -> EditedChunks:
        done = {
            edit_id
            for chunk in self._chunks
            for edit_id in chunk.attributes.get(EDITS_ATTRIBUTE, "").split(",")
            if edit_id
        }
        places = self._places([edit.anchor for edit in edits if edit.edit_id not in done])
        placed: list[str] = []
        unplaced: list[str] = []
        for edit in edits:
            if edit.edit_id in done or self._apply(edit, places.get(edit.anchor, -1)):
                placed.append(edit.edit_id)
                done.add(edit.edit_id)
            else:
                unplaced.append(edit.edit_id)
        self._follow()
        return EditedChunks(tuple(self._result()), tuple(placed), tuple(unplaced))

    def _places(self, anchors: Sequence[ChunkAnchor]) -> dict[ChunkAnchor, int]:
        """Find the chunk of each anchor: first all exact ones, then the others among what is left."""
        by_digest: dict[str, list[int]] = {}
        for index in self._searched:
            by_digest.setdefault(text_digest(self._chunks[index].text), []).append(index)
        places: dict[ChunkAnchor, int] = {}
        taken: set[int] = set()
        for anchor in dict.fromkeys(anchors):
            candidates = [index for index in by_digest.get(anchor.text_sha256, ()) if index not in taken]
            if candidates:
                places[anchor] = min(candidates, key=lambda index: self._distance(anchor, index))
                taken.add(places[anchor])
        for anchor in dict.fromkeys(anchors):
            # An anchor without a digest is none of a chunk: its empty excerpts are like every text's.
            if anchor.text_sha256 and anchor not in places and (index := self._nearest(anchor, taken)) >= 0:
                places[anchor] = index
                taken.add(index)
        return places

    def _distance(self, anchor: ChunkAnchor, index: int) -> tuple[bool, int, int]:
        chunk = self._chunks[index]
        return (chunk.heading_path != anchor.heading_path, abs(chunk.position - anchor.position), chunk.position)

    def _nearest(self, anchor: ChunkAnchor, taken: set[int]) -> int:
        best, best_key = -1, (MIN_SIMILARITY, 0)
        for index in self._searched:
            chunk = self._chunks[index]
            away = abs(chunk.position - anchor.position)
            if away > NEAR_POSITIONS or index in taken or chunk.heading_path != anchor.heading_path:
                continue
            key = (_likeness(anchor, chunk.text), -away)
            if key[0] >= MIN_SIMILARITY and (best < 0 or key > best_key):
                best, best_key = index, key
        return best

    def _apply(self, edit: ChunkEdit, index: int) -> bool:
        if edit.action is EditAction.ADD:
            if not (edit.text or "").strip() or (index < 0 and edit.anchor.text_sha256):
                return False
            self._add(edit, index)
            return True
        chunk = self._current[index] if index >= 0 else None
        if chunk is None:
            # Not found, or deleted by an edit before: there is nothing that it could be done to.
            return index >= 0 and edit.action is EditAction.DELETE
        if edit.action is EditAction.DELETE:
            self._current[index] = None
            return True
        self._change(edit, index, chunk)
        return True

    def _add(self, edit: ChunkEdit, index: int) -> None:
        anchor = self._chunks[index] if index >= 0 else None
        text = (edit.text or "").strip()
        base = Chunk(
            position=0,
            text=text,
            heading_path=anchor.heading_path if anchor else edit.anchor.heading_path,
            page=anchor.page if anchor else edit.anchor.page,
            boxes=(),
            token_count=0,
            role=anchor.role if anchor else ChunkRole.TEXT,
            context=anchor.context if anchor else "",
        )
        self._added.setdefault(index, []).extend(self._within_budget(_with_fields(base, edit)))

    def _change(self, edit: ChunkEdit, index: int, chunk: Chunk) -> None:
        changed = _with_fields(chunk, edit)
        text = edit.text.strip() if edit.text is not None else chunk.text
        if text == chunk.text or not text:
            self._current[index] = changed
            return
        first, *others = self._within_budget(replace(changed, text=text))
        self._current[index] = first
        self._written[index] = text
        if others:
            self._added.setdefault(index, [])[:0] = others

    def _within_budget(self, chunk: Chunk) -> list[Chunk]:
        tokens = self._counter.count_tokens([chunk.text])[0]
        whole = Piece(0, chunk.text, 0, tokens, True, False, False, "")
        parts = split_piece(whole, self._counter, max_tokens=self._max_tokens)
        counted = within_budget([Draft([part], 0, 0, self._max_tokens) for part in parts], self._counter)
        return [replace(chunk, text=entry.text, token_count=entry.token_count) for entry in counted]

    def _follow(self) -> None:
        """Write edits into the texts of parents, so that what is read in a child's place says the same."""
        for index in self._searched:
            child, edited = self._chunks[index], self._current[index]
            place = self._parents.get(child.parent)
            before = _shown(child)
            after = self._written.get(index, _shown(edited)) if _shown(edited) else ""
            if place is None or before == after:
                continue
            parent = self._current[place]
            if parent is not None and before and before in parent.text:
                text = _GAP.sub("\n\n", parent.text.replace(before, after, 1)).strip()
                tokens = self._counter.count_tokens([text])[0]
                self._current[place] = replace(parent, text=text, token_count=tokens, is_edited=True)
            else:
                # Nobody can say where the text belongs: its children are read alone.
                self._current[place] = None

    def _result(self) -> Iterable[Chunk]:
        ordered = list(self._added.get(-1, ()))
        for index, chunk in enumerate(self._current):
            if chunk is not None:
                ordered.append(chunk)
            ordered.extend(self._added.get(index, ()))
        living = {chunk.parent for chunk in ordered if chunk.role is not ChunkRole.PARENT}
        kept = [
            chunk
            for chunk in ordered
            if chunk.role is not ChunkRole.PARENT or (chunk.text and chunk.position in living)
        ]
        parents = [chunk.position for chunk in kept if chunk.role is ChunkRole.PARENT]
        renumbered = {position: number for number, position in enumerate(parents)}
        return number_by_role(
            replace(chunk, parent=renumbered.get(chunk.parent, -1)) if chunk.parent >= 0 else chunk for chunk in kept
        )


def _shown(chunk: Chunk | None) -> str:
    return "" if chunk is None or is_disabled(chunk) else chunk.text


def _with_fields(chunk: Chunk, edit: ChunkEdit) -> Chunk:
    attributes = dict(chunk.attributes)
    ids = attributes.get(EDITS_ATTRIBUTE, "")
    attributes[EDITS_ATTRIBUTE] = f"{ids},{edit.edit_id}" if ids else edit.edit_id
    if edit.enabled is not None:
        attributes.pop(DISABLED_ATTRIBUTE, None)
        if not edit.enabled:
            attributes[DISABLED_ATTRIBUTE] = "true"
    return replace(
        chunk,
        keywords=chunk.keywords if edit.keywords is None else edit.keywords,
        questions=chunk.questions if edit.questions is None else edit.questions,
        tags=chunk.tags if edit.tags is None else dict(edit.tags),
        attributes=attributes,
        is_edited=True,
    )


def _likeness(anchor: ChunkAnchor, text: str) -> float:
    """Compare the ends of a text with an anchor's excerpts."""
    start = word_similarity(anchor.excerpt_start, text[: len(anchor.excerpt_start)])
    if start < 2 * MIN_SIMILARITY - 1:
        # Whatever its end is like, the mean of both is too low.
        return start / 2
    return (start + word_similarity(anchor.excerpt_end, text[-len(anchor.excerpt_end) :])) / 2
