"""What tools give back: text for a model to read, the same as values, and links that open citations."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusmesh.raptor.v1 import tree_service_pb2 as tree_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_gateway.mcp.places import uri_of, uri_of_leaf
from corpusmesh_gateway.mcp.quoting import Quote

Shape = dict[str, Any]
_MAX_PLACES = 8
_TEXT: Shape = {"type": "string"}
_TEXTS: Shape = {"type": "array", "items": _TEXT}
_NUMBER: Shape = {"type": "number"}
_FLAG: Shape = {"type": "boolean"}
_PASSAGE: Shape = {
    "type": "object",
    "properties": {
        "document": _TEXT,
        "version": _TEXT,
        "title": _TEXT,
        "file_name": _TEXT,
        "page": {"type": "integer"},
        "heading_path": _TEXTS,
        "text": _TEXT,
        "uri": _TEXT,
        "marker": _TEXT,
        "similarity": _NUMBER,
        # Of a summary alone: its layer in the tree, and the passages that it stands on.
        "layer": {"type": "integer"},
        "places": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["document", "title", "text", "uri"],
}


def object_schema(**properties: Shape) -> Shape:
    """Write the schema of an object all of whose values are there.

    Args:
        properties: Schema by name.

    Returns:
        The schema.
    """
    return {"type": "object", "properties": properties, "required": sorted(properties)}


KNOWLEDGE_BASES_SCHEMA = object_schema(
    knowledge_bases={
        "type": "array",
        "items": object_schema(name=_TEXT, display_name=_TEXT, description=_TEXT, document_count={"type": "integer"}),
    },
    truncated=_FLAG,
)
SEARCH_SCHEMA = object_schema(hits={"type": "array", "items": _PASSAGE}, snapshots=_TEXTS, standalone_query=_TEXT)
ANSWER_SCHEMA = object_schema(
    text=_TEXT,
    citations={"type": "array", "items": _PASSAGE},
    method=_TEXT,
    abstained=_FLAG,
    confidence=_NUMBER,
    notes=_TEXTS,
)
RESEARCH_SCHEMA = object_schema(
    **ANSWER_SCHEMA["properties"], open_questions=_TEXTS, questions=_TEXTS, partial=_FLAG, partial_reason=_TEXT
)
READ_SCHEMA = object_schema(
    version=_TEXT,
    chunks={
        "type": "array",
        "items": object_schema(name=_TEXT, page={"type": "integer"}, position={"type": "integer"}, text=_TEXT),
    },
    truncated=_FLAG,
)
OUTLINE_SCHEMA = object_schema(
    name=_TEXT,
    summaries={
        "type": "array",
        "items": object_schema(
            layer={"type": "integer"}, title=_TEXT, text=_TEXT, chunk_count={"type": "integer"}, by_model=_FLAG
        ),
    },
    truncated=_FLAG,
)


@dataclass(frozen=True, slots=True)
class Link:
    """What opens a citation.

    Attributes:
        uri: Its URI.
        name: Its name.
        title: For people.
    """

    uri: str
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back.

    Attributes:
        text: For a model to read.
        values: The same as values, after the tool's schema.
        links: What opens the citations.
    """

    text: str
    values: Shape
    links: tuple[Link, ...] = field(default_factory=tuple)


def passage_of(hit: retrieval_pb.SearchHit, *, marker: int = 0) -> Shape:
    """Describe a hit.

    Args:
        hit: The hit.
        marker: Number of its marker; 0 for none.

    Returns:
        Its values.
    """
    passage = {
        "document": hit.document,
        "version": hit.place.version,
        "title": hit.title or hit.place.display_name,
        "file_name": hit.place.display_name,
        "page": hit.place.page,
        "heading_path": list(hit.place.heading_path),
        "text": hit.text,
        "uri": uri_of(hit),
    }
    if hit.layer:
        passage["layer"] = hit.layer
        passage["places"] = [_leaf_shape(leaf) for leaf in hit.leaves[:_MAX_PLACES]]
    return passage | ({"marker": f"[ID:{marker}]"} if marker else {"similarity": round(hit.scores.similarity, 4)})


def _leaf_shape(leaf: retrieval_pb.HitLeaf) -> Shape:
    return {
        "document": leaf.document,
        "title": leaf.title or leaf.place.display_name,
        "page": leaf.place.page,
        "uri": uri_of_leaf(leaf),
    }


def quote_of(hit: retrieval_pb.SearchHit, label: str) -> Quote:
    """Quote a hit.

    Args:
        hit: The hit.
        label: What stands before it.

    Returns:
        The quote.
    """
    page = f"page {hit.place.page}" if hit.place.page else ""
    source = ", ".join(filter(None, (hit.title or hit.place.display_name, page, " > ".join(hit.place.heading_path))))
    return Quote(label, source, uri_of(hit), hit.text)


def links_of(hits: Sequence[retrieval_pb.SearchHit]) -> tuple[Link, ...]:
    """Give links to what hits stand on.

    Args:
        hits: The hits.

    Returns:
        Links, each once.
    """
    links = {}
    for hit in hits:
        uri = uri_of(hit)
        if uri and uri not in links:
            page = f", page {hit.place.page}" if hit.place.page else ""
            name = hit.place.display_name or hit.title or hit.document or hit.url
            links[uri] = Link(uri, name, f"{hit.title or name}{page}")
    return tuple(links.values())


def answer_values(summary: answer_pb.AnswerSummary) -> Shape:
    """Describe an answer.

    Args:
        summary: Its end.

    Returns:
        Its values.
    """
    return {
        "text": summary.text,
        "citations": [passage_of(citation.hit, marker=citation.marker) for citation in summary.citations],
        "method": answer_pb.AnswerSummary.Method.Name(summary.method).removeprefix("METHOD_").lower(),
        "abstained": summary.abstained,
        "confidence": summary.confidence,
        "notes": list(summary.notes),
    }


def outline_values(tree: str, page: tree_pb.ListTreeNodesResponse) -> Shape:
    """Describe the top of a tree.

    Args:
        tree: Its name.
        page: Its first nodes.

    Returns:
        Its values.
    """
    summaries = [
        {
            "layer": node.layer,
            "title": node.title,
            "text": node.text,
            "chunk_count": node.leaf_count,
            "by_model": node.by_model,
        }
        for node in page.nodes
    ]
    return {"name": tree, "summaries": summaries, "truncated": bool(page.next_page_token)}


def summary_quote(node: tree_pb.TreeNode) -> Quote:
    """Quote a summary: it is made of documents, and as untrusted as they are.

    Args:
        node: The node.

    Returns:
        The quote.
    """
    return Quote(f"layer {node.layer}", f"{node.title} ({node.leaf_count} chunks)".strip(), "", node.text)
