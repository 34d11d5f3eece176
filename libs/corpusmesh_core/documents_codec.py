"""Plain forms of parsed documents and chunks, for artefacts that one stage hands to the next.

The forms hold only dicts, lists, strings, bytes, ints and floats, so that msgpack carries them as they are. Each has a
format number: a reader refuses one that it does not know instead of guessing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from corpusmesh_core.documents import (
    Block,
    BlockKind,
    Box,
    CellSpan,
    Chunk,
    ChunkRole,
    OutlineEntry,
    ParsedDocument,
    Picture,
    Table,
)
from corpusmesh_core.errors import InvalidArgumentError

FORMAT: Final = 2
"""Number of the form written here; raised whenever a reader of the old form would misread the new one."""

Plain = dict[str, Any]
_Value = TypeVar("_Value")


def document_to_plain(document: ParsedDocument) -> Plain:
    """Turn a parsed document into its plain form.

    Args:
        document: What a parser made.

    Returns:
        A tree of dicts, lists, strings, bytes and numbers; boxes are flat lists of five numbers, points to two
        decimals.
    """
    return {
        "format": FORMAT,
        "media_type": document.media_type,
        "title": document.title,
        "page_count": document.page_count,
        "language": document.language,
        "outline": [[entry.title, entry.level, entry.page] for entry in document.outline],
        "warnings": list(document.warnings),
        "metadata": dict(document.metadata),
        "blocks": [_block_to_plain(block) for block in document.blocks],
        "pictures": [_picture_to_plain(picture) for picture in document.pictures],
        "page_images": [_picture_to_plain(picture) for picture in document.page_images],
        "recognized_pages": list(document.recognized_pages),
    }


def document_from_plain(plain: Mapping[str, Any]) -> ParsedDocument:
    """Read the plain form of a parsed document.

    Args:
        plain: What `document_to_plain` made.

    Returns:
        An equal document.

    Raises:
        InvalidArgumentError: ARTEFACT_MALFORMED if it is not such a form or of another format number.
    """
    return _checked(plain, _document)


def chunks_to_plain(chunks: Sequence[Chunk]) -> Plain:
    """Turn chunks into their plain form.

    Args:
        chunks: Chunks of one document.

    Returns:
        A tree of dicts, lists, strings and numbers.
    """
    return {
        "format": FORMAT,
        "chunks": [_chunk_to_plain(chunk) for chunk in chunks],
    }


def chunks_from_plain(plain: Mapping[str, Any]) -> list[Chunk]:
    """Read the plain form of chunks.

    Args:
        plain: What `chunks_to_plain` made.

    Returns:
        Equal chunks in the same order.

    Raises:
        InvalidArgumentError: ARTEFACT_MALFORMED if it is not such a form or of another format number.
    """
    return _checked(plain, _chunks)


def _checked(plain: Mapping[str, Any], read: Callable[[Mapping[str, Any]], _Value]) -> _Value:
    try:
        if plain["format"] != FORMAT:
            raise InvalidArgumentError(
                "ARTEFACT_MALFORMED",
                f"The artefact has format {plain['format']!r}; this build reads {FORMAT}. Parse the document again.",
                found=plain["format"],
                known=FORMAT,
            )
        return read(plain)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidArgumentError(
            "ARTEFACT_MALFORMED", "The artefact cannot be read. Parse the document again.", cause=type(error).__name__
        ) from error


def _document(plain: Mapping[str, Any]) -> ParsedDocument:
    return ParsedDocument(
        media_type=plain["media_type"],
        title=plain["title"],
        blocks=tuple(_block(block) for block in plain["blocks"]),
        page_count=plain["page_count"],
        language=plain["language"],
        outline=tuple(OutlineEntry(title, level, page) for title, level, page in plain["outline"]),
        warnings=tuple(plain["warnings"]),
        metadata=dict(plain["metadata"]),
        pictures=tuple(_picture(picture) for picture in plain["pictures"]),
        page_images=tuple(_picture(picture) for picture in plain["page_images"]),
        recognized_pages=tuple(plain["recognized_pages"]),
    )


def _chunks(plain: Mapping[str, Any]) -> list[Chunk]:
    return [_chunk(chunk) for chunk in plain["chunks"]]


def _chunk_to_plain(chunk: Chunk) -> Plain:
    plain: Plain = {
        "position": chunk.position,
        "text": chunk.text,
        "path": list(chunk.heading_path),
        "page": chunk.page,
        "boxes": _boxes_to_plain(chunk.boxes),
        "tokens": chunk.token_count,
        "kind": chunk.block_kind.value,
    }
    if chunk.role is not ChunkRole.TEXT:
        plain["role"] = chunk.role.value
    if chunk.parent >= 0:
        plain["parent"] = chunk.parent
    if chunk.context:
        plain["context"] = chunk.context
    if chunk.keywords:
        plain["keywords"] = list(chunk.keywords)
    if chunk.questions:
        plain["questions"] = list(chunk.questions)
    if chunk.tags:
        plain["tags"] = dict(chunk.tags)
    if chunk.attributes:
        plain["attributes"] = dict(chunk.attributes)
    if chunk.picture:
        plain["picture"] = chunk.picture
    if chunk.confidence != 1.0:
        plain["confidence"] = chunk.confidence
    if chunk.is_edited:
        plain["edited"] = True
    return plain


def _chunk(plain: Mapping[str, Any]) -> Chunk:
    return Chunk(
        position=plain["position"],
        text=plain["text"],
        heading_path=tuple(plain["path"]),
        page=plain["page"],
        boxes=_boxes(plain["boxes"]),
        token_count=plain["tokens"],
        block_kind=BlockKind(plain["kind"]),
        role=ChunkRole(plain.get("role", ChunkRole.TEXT)),
        parent=plain.get("parent", -1),
        context=plain.get("context", ""),
        keywords=tuple(plain.get("keywords", ())),
        questions=tuple(plain.get("questions", ())),
        tags=dict(plain.get("tags", {})),
        attributes=dict(plain.get("attributes", {})),
        picture=plain.get("picture", ""),
        confidence=plain.get("confidence", 1.0),
        is_edited=plain.get("edited", False),
    )


def _block_to_plain(block: Block) -> Plain:
    plain: Plain = {"kind": block.kind.value, "text": block.text}
    # Most blocks leave most fields at their defaults: leaving those out halves the artefact of a text file.
    if block.level:
        plain["level"] = block.level
    if block.page:
        plain["page"] = block.page
    if block.boxes:
        plain["boxes"] = _boxes_to_plain(block.boxes)
    if block.heading_path:
        plain["path"] = list(block.heading_path)
    if block.line:
        plain["line"] = block.line
    if block.table is not None:
        plain["rows"] = [list(row) for row in block.table.rows]
        plain["header_rows"] = block.table.header_row_count
        if block.table.spans:
            plain["spans"] = [[span.row, span.column, span.row_count, span.column_count] for span in block.table.spans]
    if block.language:
        plain["language"] = block.language
    if block.confidence != 1.0:
        plain["confidence"] = block.confidence
    if block.picture:
        plain["picture"] = block.picture
    return plain


def _block(plain: Mapping[str, Any]) -> Block:
    table = None
    if "rows" in plain:
        table = Table(
            tuple(tuple(row) for row in plain["rows"]),
            plain["header_rows"],
            tuple(CellSpan(*span) for span in plain.get("spans", ())),
        )
    return Block(
        kind=BlockKind(plain["kind"]),
        text=plain["text"],
        level=plain.get("level", 0),
        page=plain.get("page", 0),
        boxes=_boxes(plain.get("boxes", ())),
        heading_path=tuple(plain.get("path", ())),
        table=table,
        line=plain.get("line", 0),
        language=plain.get("language", ""),
        confidence=plain.get("confidence", 1.0),
        picture=plain.get("picture", ""),
    )


def _picture_to_plain(picture: Picture) -> Plain:
    box = picture.box
    return {
        "name": picture.name,
        "media_type": picture.media_type,
        "content": picture.content,
        "width": picture.width,
        "height": picture.height,
        "box": _boxes_to_plain([box])[0] if box is not None else None,
    }


def _picture(plain: Mapping[str, Any]) -> Picture:
    return Picture(
        name=plain["name"],
        media_type=plain["media_type"],
        content=plain["content"],
        width=plain["width"],
        height=plain["height"],
        box=_boxes([plain["box"]])[0] if plain["box"] is not None else None,
    )


def _boxes_to_plain(boxes: Iterable[Box]) -> list[list[float]]:
    return [
        [box.page, round(box.left, 2), round(box.top, 2), round(box.right, 2), round(box.bottom, 2)] for box in boxes
    ]


def _boxes(plain: Iterable[Sequence[Any]]) -> tuple[Box, ...]:
    return tuple(Box(page, left, top, right, bottom) for page, left, top, right, bottom in plain)
