"""`corpusmesh graph …` against a real gRPC server with the service's own handlers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from corpusmesh.ingest.v1 import document_service_pb2, run_service_pb2
from corpusmesh_app.cli.app import build_app
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway
from tests.support.canned_graphs import KB

DOCUMENT = f"knowledgeBases/{KB}/documents/open"


@pytest.fixture
def gateway() -> Iterator[CannedGateway]:
    with run_gateway() as running:
        command(running, "kb", "create", "Handbook")
        running.mesh.documents[DOCUMENT] = document_service_pb2.Document(name=DOCUMENT, display_name="port.txt")
        yield running


def command(gateway: CannedGateway, *arguments: str, columns: int = 120, stdin: str | None = None) -> Result:
    environment = {"CORPUSMESH_ENDPOINT": gateway.address, "CORPUSMESH_API_KEY": KEY, "COLUMNS": str(columns)}
    return CliRunner().invoke(build_app(), list(arguments), env=environment, input=stdin)


def graph(gateway: CannedGateway, *arguments: str, columns: int = 120, stdin: str | None = None) -> str:
    done = command(gateway, "graph", *arguments, "--kb", "handbook", columns=columns, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


def shape(gateway: CannedGateway, *arguments: str, stdin: str | None = None) -> Any:
    return json.loads(graph(gateway, *arguments, "--json", stdin=stdin))


def test_a_graph_says_what_it_holds_and_what_it_would_cost(gateway: CannedGateway) -> None:
    assert graph(gateway, "show").splitlines()[0] == (
        f"knowledgeBases/{KB}/graph: ready · 4 entities, 4 relations, 2 reports"
    )
    assert shape(gateway, "show")["graph"]["entity_count"] == 4
    assert "Documents" in graph(gateway, "plan")
    assert shape(gateway, "plan", "--full")["plan"]["document_count"] == 2


def test_what_is_around_an_entity_is_drawn(gateway: CannedGateway) -> None:
    lines = [line.rstrip() for line in graph(gateway, "show", "North Quay", "--hops", "2").splitlines()]
    assert lines[0] == "North Quay (geo)"
    assert lines[1].startswith("└─ – Harbour Board (organization)  ")
    assert any(line.startswith("   ├─ ← chairs Anna Berg (person)") for line in lines)
    assert any("met" in line for line in lines[4:])
    cut = graph(gateway, "show", "North Quay", "--hops", "2", "--limit", "2")
    assert "--limit shows more" in cut
    found = shape(gateway, "show", "North Quay", "--hops", "2")
    assert [one["hops"] for one in found["entities"]] == [0, 1, 2, 2]
    assert max(map(len, graph(gateway, "show", "North Quay", "--hops", "2", columns=40).splitlines())) <= 40


def test_entities_relations_communities_and_pairs_are_listed_and_read(gateway: CannedGateway) -> None:
    assert "Harbour Board" in graph(gateway, "entities")
    assert [one["title"] for one in shape(gateway, "entities", "anna")["entities"]] == ["Anna Berg"]
    listed = shape(gateway, "entities", "--type", "person", "--limit", "1")
    assert (len(listed["entities"]), listed["truncated"]) == (1, True)
    assert "She chairs the board." in graph(gateway, "entity", "Anna Berg")
    assert shape(gateway, "entity", "Anna Berg")["passages"][0]["record_id"] == "1-0"
    assert "Anna Berg – chairs → Harbour Board" in graph(gateway, "relations", "Anna Berg", "Harbour Board")
    assert len(shape(gateway, "relations")["relations"]) == 4
    key = shape(gateway, "communities", "--level", "1")["communities"][0]["name"].rsplit("/", 1)[1]
    assert "What a is about." in graph(gateway, "report", key)
    assert "No two names" in graph(gateway, "resolved")
    assert shape(gateway, "resolved")["pairs"] == []


def test_an_export_is_written_whole_for_other_programs(gateway: CannedGateway, tmp_path: Path) -> None:
    assert "4 entities and 4 relations" in graph(gateway, "export", "-o", str(tmp_path / "harbour.graphml"))
    root = ElementTree.parse(tmp_path / "harbour.graphml").getroot()
    assert sum(1 for one in root.iter() if one.tag.endswith("}node")) == 4
    written = shape(gateway, "export", "-o", str(tmp_path / "harbour.json"))
    assert (written["format"], written["relation_count"]) == ("json", 4)
    found = json.loads((tmp_path / "harbour.json").read_text(encoding="utf-8"))
    assert (len(found["nodes"]), len(found["edges"])) == (4, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["harbour.graphml", "harbour.json"]
    refused = command(gateway, "graph", "export", "-o", str(tmp_path / "a.dot"), "--kb", "handbook")
    assert (refused.exit_code, "--format" in refused.output) == (2, True)
    refused = command(gateway, "graph", "export", "-o", str(tmp_path / "no" / "a.json"), "--kb", "handbook")
    assert refused.exit_code != 0


def test_corrections_are_made_listed_and_taken_back(gateway: CannedGateway) -> None:
    assert "it holds when" in graph(gateway, "correct", "rename", "North Quay", "Quay 1")
    for arguments in (
        ("merge", "North Quay", "--into", "Harbour Board"),
        ("split", "Anna Berg", "--as", "Anna Berg (other)", "--document", DOCUMENT),
        ("keep-apart", "Anna Berg", "Carl Dahl"),
        ("edit", "Anna Berg", "--type", "official", "--description", "Chair."),
        ("delete", "Carl Dahl"),
        ("edit-relation", "Anna Berg", "Harbour Board", "--predicate", "leads", "--keyword", "rule"),
        ("delete-relation", "Anna Berg", "Carl Dahl"),
    ):
        made = shape(gateway, "correct", *arguments)
        kind = made["correction"]["change"]
        assert made["correction"][kind]
    listed = shape(gateway, "correct", "list")["corrections"]
    assert [one["change"] for one in listed] == [
        "rename",
        "merge",
        "split",
        "keep_apart",
        "edit_entity",
        "delete_entity",
        "edit_relation",
        "delete_relation",
    ]
    identifier = listed[0]["name"].rsplit("/", 1)[1]
    assert "Quay 1" in graph(gateway, "correct", "list")
    assert "Taken back" in graph(gateway, "correct", "undo", identifier)
    assert len(shape(gateway, "correct", "list")["corrections"]) == 7


def test_triples_are_read_from_files_and_from_standard_input(gateway: CannedGateway, tmp_path: Path) -> None:
    path = tmp_path / "triples.json"
    path.write_text('[["A", "knows", "B"], {"subject": "B", "predicate": "knows", "object": "C", "passage": "p"}]')
    assert shape(gateway, "triples", "put", "port.txt", str(path))["triple_count"] == 2
    found = shape(gateway, "triples", "get", "port.txt")
    assert found["triples"][1] == {"subject": "B", "predicate": "knows", "object": "C", "passage": "p"}
    lines = '["A", "knows", "B"]\n{"subject": "C", "predicate": "knows", "object": "D"}\n'
    assert "Stored 2 facts" in graph(gateway, "triples", "put", "port.txt", "-", stdin=lines)
    assert "Stored 1 facts" in graph(gateway, "triples", "put", "port.txt", "-", stdin='["A", "knows", "B"]')
    for wrong in ('["A", "B"]', "{", '{"subjekt": "A"}', "[1, 2, 3]"):
        refused = command(gateway, "graph", "triples", "put", "port.txt", "-", "--kb", "handbook", stdin=wrong)
        assert refused.exit_code == 2, refused.output
    assert "Taken back" in graph(gateway, "triples", "delete", "port.txt")
    assert "No fact" in graph(gateway, "triples", "get", "port.txt")


def test_a_build_is_followed_to_its_end(gateway: CannedGateway) -> None:
    run = run_service_pb2.Run(name=f"knowledgeBases/{KB}/runs/run-1", state=run_service_pb2.Run.STATE_SUCCEEDED)
    gateway.mesh.runs[run.name] = run
    row = gateway.mesh.graphs.row
    assert row is not None
    started = shape(gateway, "build")
    assert (started["run"], started["graph"]["state"]) == (run.name, "building")
    gateway.mesh.graphs.row = row
    assert shape(gateway, "watch")["graph"]["state"] == "ready"
    assert shape(gateway, "cancel")["graph"]["state"] == "ready"


def test_what_is_left_of_a_document_is_counted(gateway: CannedGateway) -> None:
    left = command(gateway, "graph", "verify", "open", "--kb", "handbook", "--json")
    assert (left.exit_code, json.loads(left.stdout)["erased"]) == (1, False)
    assert json.loads(left.stdout)["subgraph_count"] == 1
    assert shape(gateway, "verify", "never-there")["erased"]


def test_a_graph_is_deleted_once_that_was_confirmed(gateway: CannedGateway) -> None:
    assert command(gateway, "graph", "delete", "--kb", "handbook", stdin="n\n").exit_code == 1
    assert shape(gateway, "delete", "--yes")["run"] == f"knowledgeBases/{KB}/runs/sweep"
    assert "deleting" in graph(gateway, "show")


def test_an_unknown_entity_is_not_found_and_names_steer_no_terminal(gateway: CannedGateway) -> None:
    assert command(gateway, "graph", "show", "Nobody", "--kb", "handbook").exit_code == 3
    graph(gateway, "correct", "rename", "North Quay", "Quay \x1b[31mred")
    gateway.mesh.graphs.is_followed = True
    assert "\x1b" not in graph(gateway, "show", "Harbour Board") + graph(gateway, "entities")
