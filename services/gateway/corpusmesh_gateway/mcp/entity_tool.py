"""The tool that tells what documents say of an entity, and what it is related to."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import Message

from corpusmesh.graph.v1 import graph_service_pb2 as graph_pb
from corpusmesh_gateway.mcp.arguments import EntityArguments
from corpusmesh_gateway.mcp.definitions import ToolCall, ToolDefinition
from corpusmesh_gateway.mcp.places import SCHEME, graph_name_of
from corpusmesh_gateway.mcp.quoting import Quote, quote_all
from corpusmesh_gateway.mcp.results import Shape, ToolResult, object_schema

Call = Callable[[str, Message, ToolCall], Awaitable[Any]]
"""Calls a method of the gateway's own gRPC port with the caller's key."""
_GRAPH: Final = "/corpusmesh.graph.v1.GraphService/"
_MAX_PASSAGES: Final = 5
_TEXT: Final[Shape] = {"type": "string"}
_NUMBER: Final[Shape] = {"type": "number"}
_ENTITY: Final[Shape] = object_schema(
    title=_TEXT,
    type=_TEXT,
    description=_TEXT,
    aliases={"type": "array", "items": _TEXT},
    hops={"type": "integer"},
    document_count={"type": "integer"},
)
ENTITY_SCHEMA: Final[Shape] = object_schema(
    entity=_ENTITY,
    neighbours={"type": "array", "items": _ENTITY},
    relations={
        "type": "array",
        "items": object_schema(source=_TEXT, target=_TEXT, predicate=_TEXT, description=_TEXT, weight=_NUMBER),
    },
    passages={"type": "array", "items": object_schema(document=_TEXT, title=_TEXT, uri=_TEXT, text=_TEXT)},
    truncated={"type": "boolean"},
)


class EntityTool:
    """Reads an entity and its neighbourhood out of a graph."""

    def __init__(self, call: Call) -> None:
        """Create it.

        Args:
            call: Calls the gateway's own port.
        """
        self._call = call

    def definition(self) -> ToolDefinition:
        """Describe the tool.

        Returns:
            Its definition.
        """
        return ToolDefinition(
            "entity",
            "What an entity is related to",
            "Tells what documents say of a person, organization, place or thing, and what it is related to, out of the "
            "graph of a knowledge base. For questions on how things hang together; not there where no graph is made.",
            EntityArguments,
            ENTITY_SCHEMA,
            self._run,
        )

    async def _run(self, arguments: EntityArguments, call: ToolCall) -> ToolResult:
        name = f"{graph_name_of(arguments.knowledge_base)}/entities/-"
        found: graph_pb.GetEntityResponse = await self._call(
            _GRAPH + "GetEntity", graph_pb.GetEntityRequest(name=name, title=arguments.entity), call
        )
        request = graph_pb.GetNeighbourhoodRequest(
            name=name,
            title=arguments.entity,
            hops=arguments.hops,
            max_entities=arguments.max_entities,
            max_relations=2 * arguments.max_entities,
        )
        near: graph_pb.GetNeighbourhoodResponse = await self._call(_GRAPH + "GetNeighbourhood", request, call)
        passages = list(found.passages[:_MAX_PASSAGES])
        values = {
            "entity": _entity_values(found.entity, 0),
            "neighbours": [_entity_values(one.entity, one.hops) for one in near.neighbours if one.hops],
            "relations": [_relation_values(one) for one in near.relations],
            "passages": [_passage_values(one) for one in passages],
            "truncated": near.truncated,
        }
        return ToolResult(quote_all([_summary(found.entity, near), *map(_quote, passages)]), values)


def _entity_values(entity: graph_pb.Entity, hops: int) -> Shape:
    return {
        "title": entity.title,
        "type": entity.type,
        "description": entity.description,
        "aliases": list(entity.aliases),
        "hops": hops,
        "document_count": entity.document_count,
    }


def _relation_values(relation: graph_pb.Relation) -> Shape:
    return {
        "source": relation.source_title,
        "target": relation.target_title,
        "predicate": relation.predicate,
        "description": relation.description,
        "weight": round(relation.weight, 4),
    }


def _passage_values(passage: graph_pb.GraphPassage) -> Shape:
    return {
        "document": passage.document,
        "title": passage.title or passage.place.display_name,
        "uri": _uri_of(passage),
        "text": passage.text,
    }


def _summary(entity: graph_pb.Entity, near: graph_pb.GetNeighbourhoodResponse) -> Quote:
    """Quote what is said of an entity: names are made of documents, and as untrusted as they are."""
    kind = f" ({entity.type})" if entity.type else ""
    lines = [f"{entity.title}{kind}", entity.description, ""]
    for relation in near.relations:
        arrow = f"– {relation.predicate} →" if relation.predicate else "–"
        said = f": {' '.join(relation.description.split())}" if relation.description else ""
        lines.append(f"{relation.source_title} {arrow} {relation.target_title}{said}")
    return Quote("entity", entity.title, "", "\n".join(lines).strip())


def _quote(passage: graph_pb.GraphPassage) -> Quote:
    return Quote("passage", passage.title or passage.place.display_name, _uri_of(passage), passage.text)


def _uri_of(passage: graph_pb.GraphPassage) -> str:
    if not passage.place.version:
        return ""
    if passage.place.page:
        return f"{SCHEME}{passage.place.version}/pages/{passage.place.page}"
    return f"{SCHEME}{passage.place.version}/chunks/{passage.record_id.rpartition('-')[2]}"
