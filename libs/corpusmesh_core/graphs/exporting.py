"""Writes graphs for other programs piece by piece: GraphML, and the node-link JSON of networkx."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NODE_KEYS: Final[Mapping[str, str]] = {
    "title": "string",
    "type": "string",
    "description": "string",
    "aliases": "string",
    "rank": "double",
    "document_count": "long",
    "chunk_count": "long",
}
_EDGE_KEYS: Final[Mapping[str, str]] = {
    "predicate": "string",
    "description": "string",
    "keywords": "string",
    "methods": "string",
    "weight": "double",
    "confidence": "double",
}


@dataclass(frozen=True, slots=True)
class ExportedEntity:
    """An entity of an export.

    Attributes:
        key: Its key, sixteen hexadecimal digits.
        title: Its name.
        type: Its type; "" where unknown.
        description: What is said of it.
        aliases: Other names.
        rank: PageRank.
        document_count: Documents that speak of it.
        chunk_count: Chunks that it stands in.
    """

    key: str
    title: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    rank: float = 0.0
    document_count: int = 0
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class ExportedRelation:
    """A relation of an export.

    Attributes:
        source: Key of one entity.
        target: Key of the other.
        predicate: How they are related, from source to target; "" where only that they are.
        description: What is said of it.
        keywords: What it is about.
        methods: How it was found.
        weight: How strong it is.
        confidence: How sure the method is, 0 to 1.
    """

    source: str
    target: str
    predicate: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    weight: float = 1.0
    confidence: float = 1.0


class GraphWriter(Protocol):
    """Writes a graph: the beginning, all entities, all relations, the end; each piece stands by itself."""

    def begin(self) -> str:
        """Write the beginning."""
        ...

    def entity(self, entity: ExportedEntity) -> str:
        """Write an entity; all come before the first relation."""
        ...

    def relation(self, relation: ExportedRelation) -> str:
        """Write a relation."""
        ...

    def end(self) -> str:
        """Write the end."""
        ...


class GraphMlWriter:
    """Writes GraphML (http://graphml.graphdrawing.org), undirected; what XML cannot hold is left out."""

    def begin(self) -> str:
        """Write the beginning.

        Returns:
            Declaration, keys of attributes, and the start of the graph.
        """
        keys = [
            f'  <key id="{place}_{name}" for="{place}" attr.name="{name}" attr.type="{kind}"/>'
            for place, kinds in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS))
            for name, kind in kinds.items()
        ]
        return "\n".join(
            [
                '<?xml version="1.0" encoding="UTF-8"?>',
                '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
                *keys,
                '  <graph edgedefault="undirected">',
                "",
            ]
        )

    def entity(self, entity: ExportedEntity) -> str:
        """Write an entity.

        Args:
            entity: The entity.

        Returns:
            A node.
        """
        return f"    <node id={_quoted(entity.key)}>{_data('node', _NODE_KEYS, entity)}</node>\n"

    def relation(self, relation: ExportedRelation) -> str:
        """Write a relation.

        Args:
            relation: The relation.

        Returns:
            An edge.
        """
        ends = f"source={_quoted(relation.source)} target={_quoted(relation.target)}"
        return f"    <edge {ends}>{_data('edge', _EDGE_KEYS, relation)}</edge>\n"

    def end(self) -> str:
        """Write the end.

        Returns:
            What closes the graph.
        """
        return "  </graph>\n</graphml>\n"


class JsonWriter:
    """Writes what `networkx.node_link_graph` reads: `nodes`, then `edges`."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self._has_nodes = False
        self._has_edges = False

    def begin(self) -> str:
        """Write the beginning.

        Returns:
            What opens the graph and its nodes.
        """
        return '{"directed": false, "multigraph": false, "graph": {}, "nodes": ['

    def entity(self, entity: ExportedEntity) -> str:
        """Write an entity.

        Args:
            entity: The entity.

        Returns:
            A node.
        """
        comma = "," if self._has_nodes else ""
        self._has_nodes = True
        return f"{comma}\n{_json({'id': entity.key, **_values(_NODE_KEYS, entity)})}"

    def relation(self, relation: ExportedRelation) -> str:
        """Write a relation.

        Args:
            relation: The relation.

        Returns:
            An edge, and before the first one what closes the nodes.
        """
        opening = "," if self._has_edges else _EDGES
        self._has_edges = True
        ends = {"source": relation.source, "target": relation.target}
        return f"{opening}\n{_json({**ends, **_values(_EDGE_KEYS, relation)})}"

    def end(self) -> str:
        """Write the end.

        Returns:
            What closes the graph.
        """
        return ("" if self._has_edges else _EDGES) + "\n]}\n"


_EDGES: Final = '\n], "edges": ['


def _values(kinds: Mapping[str, str], thing: ExportedEntity | ExportedRelation) -> dict[str, object]:
    values = {name: getattr(thing, name) for name in kinds}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _data(place: str, kinds: Mapping[str, str], thing: ExportedEntity | ExportedRelation) -> str:
    return "".join(
        f'<data key="{place}_{name}">{_escaped(_text(value))}</data>'
        for name in kinds
        if (value := getattr(thing, name)) not in ("", ())
    )


def _text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(str, value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return escape(_NOT_IN_XML.sub("", text))


def _quoted(text: str) -> str:
    return quoteattr(_NOT_IN_XML.sub("", text))
