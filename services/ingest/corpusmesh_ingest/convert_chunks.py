"""Chunks to messages and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.chunking.edits import DISABLED_ATTRIBUTE, EDITS_ATTRIBUTE, is_disabled
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.convert import version_name

MAX_TEXT_CHARACTERS: Final = 64_000
MAX_SHOWN_CHARACTERS: Final = 8_000
_OWN_ATTRIBUTES: Final = frozenset({DISABLED_ATTRIBUTE, EDITS_ATTRIBUTE})
_MAX_ITEMS: Final = 64
_MAX_ITEM_CHARACTERS: Final = 1_000
_ROLES: Final[Mapping[ChunkRole, "pb.Chunk.Role.ValueType"]] = {
    ChunkRole.TEXT: pb.Chunk.ROLE_TEXT,
    ChunkRole.PARENT: pb.Chunk.ROLE_PARENT,
    ChunkRole.TAG_EXAMPLE: pb.Chunk.ROLE_TAG_EXAMPLE,
}
_PREFIXES: Final[Mapping[ChunkRole, str]] = {ChunkRole.TEXT: "", ChunkRole.PARENT: "p", ChunkRole.TAG_EXAMPLE: "t"}


def chunk_id(role: ChunkRole, position: int) -> str:
    """Name a chunk within its version.

    Args:
        role: What it is for.
        position: Its place among the chunks of its role.

    Returns:
        Such as "12", or "p3" for a parent.
    """
    return f"{_PREFIXES[role]}{position}"


def role_of(role: "pb.Chunk.Role.ValueType") -> ChunkRole | None:
    """Read what chunks are for.

    Args:
        role: Wire value.

    Returns:
        The role; None for all.

    Raises:
        InvalidArgumentError: CHUNK_ROLE_UNKNOWN if this release does not know the value.
    """
    if role == pb.Chunk.ROLE_UNSPECIFIED:
        return None
    for known, wire in _ROLES.items():
        if wire == role:
            return known
    raise InvalidArgumentError("CHUNK_ROLE_UNKNOWN", "role must be one that this release knows", field="role")


def find_chunk(chunks: Sequence[Chunk], part: str) -> Chunk:
    """Find a chunk of a version.

    Args:
        chunks: Its chunks.
        part: What its name ends with.

    Returns:
        The chunk.

    Raises:
        NotFoundError: CHUNK_NOT_FOUND if there is none.
    """
    for chunk in chunks:
        if chunk_id(chunk.role, chunk.position) == part:
            return chunk
    raise NotFoundError("CHUNK_NOT_FOUND", "the version has no such chunk, or you may not see it")


def place_of(chunk: Chunk, *, version: str, display_name: str) -> place_pb2.Place:
    """Write where a chunk stands.

    Args:
        chunk: The chunk.
        version: Name of its version; "" for none.
        display_name: File name of its document.

    Returns:
        The place.
    """
    return place_pb2.Place(
        version=version,
        display_name=display_name,
        page=chunk.page,
        boxes=[
            place_pb2.Box(page=box.page, left=box.left, top=box.top, right=box.right, bottom=box.bottom)
            for box in chunk.boxes
        ],
        heading_path=chunk.heading_path,
    )


def chunk_to_wire(chunk: Chunk, version: VersionRow | None, *, display_name: str = "") -> pb.Chunk:
    """Write a chunk.

    Args:
        chunk: The chunk.
        version: Its version; None for one that is not stored, which has no name.
        display_name: File name, where there is no version.

    Returns:
        The message.
    """
    name = version_name(version) if version is not None else ""
    return pb.Chunk(
        name=f"{name}/chunks/{chunk_id(chunk.role, chunk.position)}" if name else "",
        text=chunk.text,
        keywords=chunk.keywords,
        questions=chunk.questions,
        tags=dict(chunk.tags),
        enabled=not is_disabled(chunk),
        place=place_of(chunk, version=name, display_name=version.display_name if version else display_name),
        role=_ROLES[chunk.role],
        context=chunk.context,
        token_count=chunk.token_count,
        block_kind=chunk.block_kind.value,
        parent=f"{name}/chunks/{chunk_id(ChunkRole.PARENT, chunk.parent)}" if name and chunk.parent >= 0 else "",
        attributes={name: value for name, value in chunk.attributes.items() if name not in _OWN_ATTRIBUTES},
        picture=f"{name}/pictures/{chunk.picture}" if name and chunk.picture else "",
        confidence=chunk.confidence,
        edited=chunk.is_edited,
        position=chunk.position,
    )


def checked_text(text: str, *, field: str) -> str:
    """Check the text that a person gives a chunk.

    Args:
        text: The text.
        field: Field of the request, for the message.

    Returns:
        The same without what no text has.

    Raises:
        InvalidArgumentError: CHUNK_TEXT_INVALID if nothing is left of it or it is too long.
    """
    cleaned = text.replace("\x00", "").strip()
    if not cleaned or len(cleaned) > MAX_TEXT_CHARACTERS:
        raise InvalidArgumentError(
            "CHUNK_TEXT_INVALID", f"a chunk's text takes 1 to {MAX_TEXT_CHARACTERS} characters", field=field
        )
    return cleaned


def checked_items(items: Iterable[str], *, field: str) -> tuple[str, ...]:
    """Check keywords, questions or names of tags.

    Args:
        items: The items.
        field: Field of the request, for the message.

    Returns:
        Each once, in their order, without empty ones.

    Raises:
        InvalidArgumentError: CHUNK_VALUE_INVALID if there are too many or one is too long.
    """
    cleaned = tuple(dict.fromkeys(text for item in items if (text := item.replace("\x00", "").strip())))
    if len(cleaned) > _MAX_ITEMS or any(len(item) > _MAX_ITEM_CHARACTERS for item in cleaned):
        raise InvalidArgumentError(
            "CHUNK_VALUE_INVALID",
            f"a chunk takes at most {_MAX_ITEMS} of them, each of at most {_MAX_ITEM_CHARACTERS} characters",
            field=field,
        )
    return cleaned


def checked_tags(tags: Mapping[str, float], *, field: str) -> dict[str, float]:
    """Check tags and their weights.

    Args:
        tags: Weights by tag.
        field: Field of the request, for the message.

    Returns:
        The same.

    Raises:
        InvalidArgumentError: CHUNK_VALUE_INVALID if there are too many, one is too long, or a weight is not above 0.
    """
    names = checked_items(tags, field=field)
    if len(names) != len(tags) or not all(0.0 < tags.get(name, 0.0) <= 1000.0 for name in names):
        raise InvalidArgumentError(
            "CHUNK_VALUE_INVALID", "a tag has a name and a weight above 0 and at most 1,000", field=field
        )
    return {name: tags[name] for name in names}
