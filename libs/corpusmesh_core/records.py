"""Entries of the one index: what every record carries, whatever made it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.documents import Box

PAGE_VECTORS_KEY = "page_vectors"
"""Attribute of a page image: key of the object that holds the vectors of its version's pages."""
PAGE_SPACE = "page_space"
"""Attribute of a page image: space of those vectors."""
PAGE_PLACE = "page_place"
"""Attribute of a page image: its place in that object, from 0."""
VECTOR_DECIMALS = 7
"""Decimals of a vector that the index keeps: they hold a float32 of unit scale."""

Ordinal = NewType("Ordinal", int)
"""A 32-bit integer, unique in its tenant, that names one document version or one build."""


class RecordKind(StrEnum):
    """What a record is (design, section 1)."""

    CHUNK = "chunk"
    PARENT = "parent"
    SUMMARY = "summary"
    QUESTION = "question"
    PROPOSITION = "proposition"
    TOC = "toc"
    MEMORY = "memory"
    PAGE_IMAGE = "page_image"
    ENTITY = "entity"
    RELATION = "relation"
    COMMUNITY_REPORT = "community_report"
    TAG_EXAMPLE = "tag_example"
    TREE_NODE = "tree_node"
    """A summary in a tree over chunks, of one document or of a knowledge base (ADR-0012)."""
    DESCRIPTION = "description"
    """What a language model made of all that documents say of one entity or relation (ADR-0014)."""
    GRAPH_TABLE = "graph_table"
    """Entities, relations and a report as one text, made for one request: evidence like any other, and never in the
    index."""
    WEB_PAGE = "web_page"
    """A page of the web, found for one request: evidence like any other, and never in the index."""


class VisibilityRule(StrEnum):
    """When a record made from several sources may be seen (design, section 2)."""

    ANY = "any"
    ALL = "all"


_OF_ALL = (
    RecordKind.SUMMARY,
    RecordKind.COMMUNITY_REPORT,
    RecordKind.MEMORY,
    RecordKind.TREE_NODE,
    RecordKind.DESCRIPTION,
    RecordKind.GRAPH_TABLE,
)
RULE_BY_KIND: Mapping[RecordKind, VisibilityRule] = {
    kind: (VisibilityRule.ALL if kind in _OF_ALL else VisibilityRule.ANY) for kind in RecordKind
}
"""The rule of every kind, fixed: a summary or a report needs all its sources, an entity one of them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the index.

    Attributes:
        record_id: Deterministic, so that a redelivered task overwrites and never duplicates.
        kind: What it is.
        knowledge_base_id: The knowledge base it belongs to.
        publisher: Ordinal whose presence in a snapshot publishes it: its document version, or the build that made it.
        sources: Ordinals it was made from, field `ver`; for a chunk just its own version.
        text: What is shown and cited.
        title: Title of its document.
        document_id: Its document; "" for a record of a build.
        version: Its document's version number from 1; 0 for a record of a build.
        display_name: File name of its document.
        heading_path: Headings above it, outermost first.
        page: First page from 1; 0 where the format has none.
        boxes: Where its text stands.
        position: Place in its document from 0.
        token_count: Tokens of `text` by the embedder's tokenizer.
        language: BCP 47 primary tag, "" where unknown.
        keywords: Keywords, searched with a higher weight.
        questions: Questions it answers, searched with a higher weight.
        vector: Shape (dimension,), unit norm, float32; None for a kind that is not searched by vector.
        attributes: Further values by kind (parent id, layer, method, …), stored and not searched.
        context: What goes before `text` where it is searched and embedded, and is not shown.
        tags: Tags with their weights, above 0.
        links: Ids of records that it points at (a question's chunk, a child's parent, a summary's leaves); can be
            searched for.
        layer: Layer of a node of a tree, from 1 above the chunks; of a report one more than the level of its
            community; 0 for everything else.
    """

    record_id: str
    kind: RecordKind
    knowledge_base_id: str
    publisher: Ordinal
    sources: tuple[Ordinal, ...]
    text: str
    title: str = ""
    document_id: str = ""
    version: int = 0
    display_name: str = ""
    heading_path: tuple[str, ...] = ()
    page: int = 0
    boxes: tuple[Box, ...] = ()
    position: int = 0
    token_count: int = 0
    language: str = ""
    keywords: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    vector: NDArray[np.float32] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    context: str = ""
    tags: Mapping[str, float] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    layer: int = 0


def chunk_record_id(version: Ordinal, position: int) -> str:
    """Name the record of a chunk.

    Every record's id begins with the ordinal that publishes it: what is published is never written over, since another
    version or build writes under ids of its own.

    Args:
        version: Its version.
        position: Its place in the document, from 0, so that neighbours can be named too.

    Returns:
        The id, the same however often it is made.
    """
    return f"{version}-{position}"


def parent_record_id(version: Ordinal, position: int) -> str:
    """Name the record of a parent chunk.

    Args:
        version: Its version.
        position: Its place among the parents of the document, from 0.

    Returns:
        The id, the same however often it is made.
    """
    return f"{version}-parent-{position}"


def derived_record_id(version: Ordinal, kind: RecordKind, key: str) -> str:
    """Name a record that was made from the chunks of a version.

    Args:
        version: Its version.
        kind: What it is.
        key: Unique among the records of that kind of the version, such as "12-0" for the first question of chunk 12.

    Returns:
        The id, the same however often it is made.
    """
    return f"{version}-{kind.value}-{key}"
