"""Records of a document version, with ids that are the same however often they are made.

The vectors of a version stand in the order of `corpusmesh_core.artefacts.embedded_texts`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts import EMBEDDED_ROLES, FileTree, embedded_texts, indexed_chunks, title_of
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.enrichment.values import Derived
from corpusmesh_core.errors import InternalError
from corpusmesh_core.records import (
    PAGE_PLACE,
    PAGE_SPACE,
    PAGE_VECTORS_KEY,
    Record,
    RecordKind,
    chunk_record_id,
    derived_record_id,
    parent_record_id,
)
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.page_vectors import PageImages
from corpusmesh_ingest.tree_records import tree_records

_PAGE_TEXT_CHARACTERS: Final = 4_000
_KIND_BY_ROLE: Final = {
    ChunkRole.TEXT: RecordKind.CHUNK,
    ChunkRole.PARENT: RecordKind.PARENT,
    ChunkRole.TAG_EXAMPLE: RecordKind.TAG_EXAMPLE,
}


@dataclass(frozen=True, slots=True)
class VersionPieces:
    """What the records of one version are made of.

    Attributes:
        version: The version.
        chunks: Its chunks of every role.
        derived: What was made of them.
        pages: Its page images.
        tree: Its tree; None where it has none.
    """

    version: VersionRow
    chunks: Sequence[Chunk]
    derived: Sequence[Derived] = ()
    pages: PageImages = field(default_factory=PageImages)
    tree: FileTree | None = None

    @property
    def record_count(self) -> int:
        """Records that it makes."""
        nodes = self.tree.node_count if self.tree is not None else 0
        return len(self.indexed) + len(self.derived) + len(self.pages.images) + nodes

    @property
    def indexed(self) -> list[Chunk]:
        """Chunks that get a record: all but those that a person switched off."""
        return indexed_chunks(self.chunks)

    @property
    def embedded_texts(self) -> list[str]:
        """Texts whose vectors stand for its records, in the order of the vectors."""
        return embedded_texts(title_of(self.version), self.chunks, self.derived)


def version_records(pieces: VersionPieces, vectors: NDArray[np.float32]) -> Iterator[Record]:
    """Make the records of a version.

    Args:
        pieces: Chunks and derived records.
        vectors: Shape (embedded texts, dimension).

    Yields:
        One record for each chunk, each derived record, each page image and each node of its tree.

    Raises:
        InternalError: VECTORS_MISMATCH if there is another number of vectors than of embedded texts.
    """
    embedded = sum(chunk.role in EMBEDDED_ROLES for chunk in pieces.indexed)
    embedded += sum(item.is_embedded for item in pieces.derived)
    if embedded != len(vectors):
        raise InternalError(
            "VECTORS_MISMATCH", "a version has another number of vectors", expected=embedded, found=len(vectors)
        )
    following = iter(vectors)
    for chunk in pieces.indexed:
        yield _chunk_record(pieces, chunk, next(following) if chunk.role in EMBEDDED_ROLES else None)
    for item in pieces.derived:
        yield _derived_record(pieces, item, next(following) if item.is_embedded else None)
    yield from _page_records(pieces)
    if pieces.tree is not None:
        yield from tree_records(pieces.version, pieces.chunks, pieces.tree)


def _record_id(version: VersionRow, chunk: Chunk) -> str:
    match chunk.role:
        case ChunkRole.TEXT:
            return chunk_record_id(version.ordinal, chunk.position)
        case ChunkRole.PARENT:
            return parent_record_id(version.ordinal, chunk.position)
        case ChunkRole.TAG_EXAMPLE:
            return derived_record_id(version.ordinal, RecordKind.TAG_EXAMPLE, str(chunk.position))


def _chunk_record(pieces: VersionPieces, chunk: Chunk, vector: NDArray[np.float32] | None) -> Record:
    version = pieces.version
    attributes = {**chunk.attributes, "block_kind": chunk.block_kind.value}
    links: tuple[str, ...] = ()
    if chunk.parent >= 0:
        attributes["parent"] = parent_record_id(version.ordinal, chunk.parent)
        links = (attributes["parent"],)
    if chunk.picture:
        attributes["picture"] = chunk.picture
    if chunk.confidence < 1.0:
        attributes["confidence"] = f"{chunk.confidence:.3f}"
    if chunk.is_edited:
        attributes["edited"] = "true"
    return Record(
        record_id=_record_id(version, chunk),
        kind=_KIND_BY_ROLE[chunk.role],
        knowledge_base_id=version.knowledge_base_id,
        publisher=version.ordinal,
        sources=(version.ordinal,),
        text=chunk.text,
        title=title_of(version),
        document_id=version.document_id,
        version=version.version,
        display_name=version.display_name,
        heading_path=chunk.heading_path,
        page=chunk.page,
        boxes=chunk.boxes,
        position=chunk.position,
        token_count=chunk.token_count,
        keywords=chunk.keywords,
        questions=chunk.questions,
        vector=vector,
        attributes=attributes,
        context=chunk.context,
        tags=chunk.tags,
        links=links,
    )


def _page_records(pieces: VersionPieces) -> Iterator[Record]:
    """Make a record of each page image: what is written on the page is searched, what is seen is looked at later."""
    texts: dict[int, str] = {}
    for chunk in pieces.indexed:
        if chunk.role is ChunkRole.TEXT and len(texts.get(chunk.page, "")) < _PAGE_TEXT_CHARACTERS:
            texts[chunk.page] = f"{texts.get(chunk.page, '')}{chunk.text}\n"
    places = {image.page: place for place, image in enumerate(pieces.pages.embedded)}
    version = pieces.version
    for image in pieces.pages.images:
        attributes = {"picture": image.name}
        if pieces.pages.vectors_key and image.page in places:
            attributes[PAGE_VECTORS_KEY] = pieces.pages.vectors_key
            attributes[PAGE_SPACE] = pieces.pages.space_id
            attributes[PAGE_PLACE] = str(places[image.page])
        yield Record(
            record_id=derived_record_id(version.ordinal, RecordKind.PAGE_IMAGE, str(image.page)),
            kind=RecordKind.PAGE_IMAGE,
            knowledge_base_id=version.knowledge_base_id,
            publisher=version.ordinal,
            sources=(version.ordinal,),
            text=texts.get(image.page, "")[:_PAGE_TEXT_CHARACTERS].strip(),
            title=title_of(version),
            document_id=version.document_id,
            version=version.version,
            display_name=version.display_name,
            page=image.page,
            position=image.page - 1,
            attributes=attributes,
        )


def _derived_record(pieces: VersionPieces, item: Derived, vector: NDArray[np.float32] | None) -> Record:
    version = pieces.version
    return Record(
        record_id=derived_record_id(version.ordinal, item.kind, item.key),
        kind=item.kind,
        knowledge_base_id=version.knowledge_base_id,
        publisher=version.ordinal,
        sources=(version.ordinal,),
        text=item.text,
        title=title_of(version),
        document_id=version.document_id,
        version=version.version,
        display_name=version.display_name,
        heading_path=item.heading_path,
        page=item.page,
        boxes=item.boxes,
        position=item.chunks[0] if item.chunks else 0,
        token_count=item.token_count,
        vector=vector,
        attributes=dict(item.attributes),
        links=tuple(chunk_record_id(version.ordinal, position) for position in item.chunks),
    )
