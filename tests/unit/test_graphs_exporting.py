"""Exports that other programs read: an XML parser, a JSON parser, and networkx where it is there."""

import io
import json
from xml.etree import ElementTree

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.exporting import (
    ExportedEntity,
    ExportedRelation,
    GraphMlWriter,
    GraphWriter,
    JsonWriter,
)

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
ENTITIES = [
    ExportedEntity("0" * 16, 'Berg & "Söhne" <GmbH>', "organization", "a\nb", ("B & S", "Berg"), 0.25, 2, 3),
    ExportedEntity("f" * 16, "港务局"),
]
RELATIONS = [ExportedRelation("0" * 16, "f" * 16, "supplies", "It's < 5 %", ("steel",), ("ner", "light"), 1.5, 0.75)]


def written(writer: GraphWriter, entities: list[ExportedEntity], relations: list[ExportedRelation]) -> str:
    pieces = [writer.begin(), *map(writer.entity, entities), *map(writer.relation, relations), writer.end()]
    return "".join(pieces)


def read(text: str) -> tuple[list[tuple[str, dict[str, str]]], list[tuple[str, str, dict[str, str]]]]:
    root = ElementTree.fromstring(text)
    names = {key.attrib["id"]: key.attrib["attr.name"] for key in root.iter(f"{SPACE}key")}

    def data(element: ElementTree.Element) -> dict[str, str]:
        return {names[one.attrib["key"]]: one.text or "" for one in element.iter(f"{SPACE}data")}

    nodes = [(node.attrib["id"], data(node)) for node in root.iter(f"{SPACE}node")]
    edges = [(edge.attrib["source"], edge.attrib["target"], data(edge)) for edge in root.iter(f"{SPACE}edge")]
    return nodes, edges


def test_graphml_says_all_that_is_known_and_escapes_it() -> None:
    nodes, edges = read(written(GraphMlWriter(), ENTITIES, RELATIONS))
    assert [node for node, _ in nodes] == ["0" * 16, "f" * 16]
    assert nodes[0][1] == {
        "title": 'Berg & "Söhne" <GmbH>',
        "type": "organization",
        "description": "a\nb",
        "aliases": "B & S; Berg",
        "rank": "0.25",
        "document_count": "2",
        "chunk_count": "3",
    }
    assert nodes[1][1]["title"] == "港务局"
    assert edges == [
        (
            "0" * 16,
            "f" * 16,
            {
                "predicate": "supplies",
                "description": "It's < 5 %",
                "keywords": "steel",
                "methods": "ner; light",
                "weight": "1.5",
                "confidence": "0.75",
            },
        )
    ]


def test_json_says_the_same() -> None:
    found = json.loads(written(JsonWriter(), ENTITIES, RELATIONS))
    assert [node["title"] for node in found["nodes"]] == ['Berg & "Söhne" <GmbH>', "港务局"]
    assert found["nodes"][0]["aliases"] == ["B & S", "Berg"]
    assert found["edges"][0] | {"keywords": ["steel"], "weight": 1.5} == found["edges"][0]


@pytest.mark.parametrize(("entities", "relations"), [([], []), (ENTITIES, []), (ENTITIES, RELATIONS)])
def test_an_export_of_little_is_whole_too(entities: list[ExportedEntity], relations: list[ExportedRelation]) -> None:
    nodes, edges = read(written(GraphMlWriter(), entities, relations))
    assert (len(nodes), len(edges)) == (len(entities), len(relations))
    found = json.loads(written(JsonWriter(), entities, relations))
    assert (len(found["nodes"]), len(found["edges"])) == (len(entities), len(relations))


def test_networkx_reads_both() -> None:
    graph = networkx.read_graphml(io.BytesIO(written(GraphMlWriter(), ENTITIES, RELATIONS).encode()))
    assert (graph.number_of_nodes(), graph.edges["0" * 16, "f" * 16]["weight"]) == (2, 1.5)
    graph = networkx.node_link_graph(json.loads(written(JsonWriter(), ENTITIES, RELATIONS)), edges="edges")
    assert graph.edges["0" * 16, "f" * 16]["predicate"] == "supplies"


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=8))
def test_whatever_documents_write_the_export_can_be_read(texts: list[tuple[str, str]]) -> None:
    entities = [
        ExportedEntity(f"{place:016x}", title, description=description, aliases=(title,))
        for place, (title, description) in enumerate(texts)
    ]
    relations = [ExportedRelation("0" * 16, one.key, one.title, one.description) for one in entities]
    nodes, edges = read(written(GraphMlWriter(), entities, relations))
    assert (len(nodes), len(edges)) == (len(entities), len(relations))
    found = json.loads(written(JsonWriter(), entities, relations))
    assert [node["title"] for node in found["nodes"]] == [one.title for one in entities]
