"""What enrichment makes of a document: changed chunks, derived records, metadata, warnings; and their plain forms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corpusmesh_core.documents import Box, Chunk
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy.values import MetadataValue

DERIVED_KINDS: Final = frozenset(
    {RecordKind.QUESTION, RecordKind.SUMMARY, RecordKind.PROPOSITION, RecordKind.TOC, RecordKind.MEMORY}
)
"""Kinds of records that enrichment makes."""
DERIVED_FORMAT: Final = 1
"""Number of the plain form of derived records; raised whenever a reader of the old form would misread the new one."""
IMAGE_CAPTION_PREFIX: Final = "IMAGE_CAPTION:"
"""Begins the text of a chunk that describes a picture, so that a reader can tell it from the document's own words."""

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Derived:
    """A record made from chunks of one version.

    Attributes:
        kind: One of `DERIVED_KINDS`.
        key: `[a-z0-9-]{1,60}`, unique among the records of its kind in the version; equal input gives equal keys.
        text: What is shown, searched and, where `is_embedded`, embedded.
        chunks: Positions of the chunks of role TEXT that it points at, ascending; they are those of `Enriched.chunks`.
        is_embedded: Whether it has a vector of its own.
        page: First page from 1; 0 where the format has none.
        boxes: Where what it was made from stands.
        heading_path: Headings above it, outermost first.
        token_count: Tokens of `text` by the embedder's own tokenizer.
        attributes: "method" ("lite" or "llm") and values by kind: "level" of a TOC entry from 1, "scope" of a summary,
            "topic" of a memory, "scores" of a proposition, "prompt" that made it.
    """

    kind: RecordKind
    key: str
    text: str
    chunks: tuple[int, ...]
    is_embedded: bool
    page: int = 0
    boxes: tuple[Box, ...] = ()
    heading_path: tuple[str, ...] = ()
    token_count: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TagExample:
    """One entry of a tag set.

    Attributes:
        text: Description or question that the tags belong to.
        tags: Its tags with their weights, above 0.
    """

    text: str
    tags: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Enriched:
    """All that enrichment made of one version.

    Attributes:
        chunks: All chunks of the version, of every role, with what was added to them. Captions of pictures that no
            chunk showed are chunks of their own, in reading order: positions of role TEXT are dense again, but not
            always those that went in.
        derived: Further records, ordered by kind, then by place.
        metadata: Values for the document, of the names and types of the knowledge base's schema.
        warnings: What could not be made, one sentence each, without document text.
    """

    chunks: tuple[Chunk, ...]
    derived: tuple[Derived, ...] = ()
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def derived_to_plain(derived: Sequence[Derived]) -> Plain:
    """Turn derived records into their plain form.

    Args:
        derived: Records of one version.

    Returns:
        A tree of dicts, lists, strings and numbers, as msgpack carries them.
    """
    return {"format": DERIVED_FORMAT, "derived": [_to_plain(item) for item in derived]}


def derived_from_plain(plain: Mapping[str, Any]) -> list[Derived]:
    """Read the plain form of derived records.

    Args:
        plain: What `derived_to_plain` made.

    Returns:
        Equal records in the same order.

    Raises:
        InvalidArgumentError: ARTEFACT_MALFORMED if it is not such a form or of another format number.
    """
    return _checked(plain, lambda known: [_from_plain(item) for item in known["derived"]])


def _checked(plain: Mapping[str, Any], read: Callable[[Mapping[str, Any]], list[Derived]]) -> list[Derived]:
    try:
        if plain["format"] != DERIVED_FORMAT:
            raise InvalidArgumentError(
                "ARTEFACT_MALFORMED",
                f"The artefact has format {plain['format']!r}; this build reads {DERIVED_FORMAT}. Ingest the document"
                " again.",
                found=plain["format"],
                known=DERIVED_FORMAT,
            )
        return read(plain)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InvalidArgumentError(
            "ARTEFACT_MALFORMED", "The artefact cannot be read. Ingest the document again.", cause=type(error).__name__
        ) from error


def _to_plain(item: Derived) -> Plain:
    plain: Plain = {
        "kind": item.kind.value,
        "key": item.key,
        "text": item.text,
        "chunks": list(item.chunks),
        "tokens": item.token_count,
    }
    if item.is_embedded:
        plain["embedded"] = True
    if item.page:
        plain["page"] = item.page
    if item.boxes:
        plain["boxes"] = [
            [box.page, round(box.left, 2), round(box.top, 2), round(box.right, 2), round(box.bottom, 2)]
            for box in item.boxes
        ]
    if item.heading_path:
        plain["path"] = list(item.heading_path)
    if item.attributes:
        plain["attributes"] = dict(item.attributes)
    return plain


def _from_plain(plain: Mapping[str, Any]) -> Derived:
    kind = RecordKind(plain["kind"])
    if kind not in DERIVED_KINDS:
        raise ValueError(f"{kind} is not made by enrichment")
    return Derived(
        kind=kind,
        key=plain["key"],
        text=plain["text"],
        chunks=tuple(plain["chunks"]),
        is_embedded=plain.get("embedded", False),
        page=plain.get("page", 0),
        boxes=tuple(Box(page, left, top, right, bottom) for page, left, top, right, bottom in plain.get("boxes", ())),
        heading_path=tuple(plain.get("path", ())),
        token_count=plain["tokens"],
        attributes=dict(plain.get("attributes", {})),
    )
