"""`corpusmesh tree …` against a real gRPC server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from corpusmesh_app.cli.app import build_app
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway


@pytest.fixture
def gateway() -> Iterator[CannedGateway]:
    with run_gateway() as running:
        command(running, "kb", "create", "Harbour")
        yield running


def command(gateway: CannedGateway, *arguments: str, columns: int = 120, stdin: str | None = None) -> Result:
    environment = {"CORPUSMESH_ENDPOINT": gateway.address, "CORPUSMESH_API_KEY": KEY, "COLUMNS": str(columns)}
    return CliRunner().invoke(build_app(), list(arguments), env=environment, input=stdin)


def upload(gateway: CannedGateway, folder: Path) -> str:
    path = folder / "port.txt"
    path.write_text("Vessels moor at the quay.", encoding="utf-8")
    command(gateway, "ingest", str(path), "--kb", "harbour")
    return next(iter(gateway.mesh.documents))


def test_the_tree_of_a_document_is_drawn_from_the_top_down(gateway: CannedGateway, tmp_path: Path) -> None:
    upload(gateway, tmp_path)
    shown = command(gateway, "tree", "show", "port.txt", "--kb", "harbour")
    assert shown.exit_code == 0, shown.output
    lines = [line.rstrip() for line in shown.stdout.splitlines()]
    assert lines[0] == (
        "ready · watershed · 4 nodes on 2 layers (1 ← 3) · 12 chunks, 1 call of a model · staleness 0.25, drift 0.00"
    )
    assert lines[2].startswith("└── L2 · 12 chunks · 99 tokens · by a model · All about vessels")
    assert lines[2].endswith("…")
    assert lines[3] == "    ├── L1 · 4 chunks · 21 tokens · sentences · Part 1 · Mooring of vessels."
    assert "sentences (unfaithful) · Part 2 · Dues in the port." in lines[4]
    assert len(lines) == 6


def test_text_of_documents_cannot_steer_the_terminal(gateway: CannedGateway, tmp_path: Path) -> None:
    upload(gateway, tmp_path)
    shown = command(gateway, "tree", "show", "port.txt", "--kb", "harbour")
    assert "Pilots" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_a_narrow_terminal_gets_a_line_for_the_text(gateway: CannedGateway, tmp_path: Path) -> None:
    upload(gateway, tmp_path)
    shown = command(gateway, "tree", "show", "port.txt", "--kb", "harbour", columns=60)
    lines = [line.rstrip() for line in shown.stdout.splitlines()]
    assert lines[-1] == "        Pilots \ufffd[31mred\ufffd[0m."
    assert max(map(len, lines[2:])) <= 60


def test_depth_layer_and_limit_bound_what_is_shown(gateway: CannedGateway, tmp_path: Path) -> None:
    upload(gateway, tmp_path)
    names = ("tree", "show", "port.txt", "--kb", "harbour", "--json")
    assert [node["layer"] for node in json.loads(command(gateway, *names).stdout)["nodes"]] == [2, 1, 1, 1]
    assert [node["layer"] for node in json.loads(command(gateway, *names, "--depth", "1").stdout)["nodes"]] == [2]
    assert [node["layer"] for node in json.loads(command(gateway, *names, "--layer", "1").stdout)["nodes"]] == [1, 1, 1]
    cut = json.loads(command(gateway, *names, "--limit", "2").stdout)
    assert (len(cut["nodes"]), cut["truncated"]) == (2, True)
    assert "--limit shows more" in command(gateway, *names[:-1], "--limit", "2").stdout


def test_json_holds_the_tree_and_its_nodes(gateway: CannedGateway, tmp_path: Path) -> None:
    document = upload(gateway, tmp_path)
    shape = json.loads(command(gateway, "tree", "show", document, "--json").stdout)
    assert shape["tree"]["name"] == f"{document}/tree"
    assert (shape["tree"]["state"], shape["tree"]["layer_node_counts"], shape["tree"]["run"]) == ("ready", [3, 1], None)
    assert shape["tree"]["bill"]["model_call_count"] == 1
    top, first = shape["nodes"][:2]
    assert top["children"][0] == first["name"]
    assert (top["by_model"], first["fallback_reason"], first["title"]) == (True, None, "Part 1")


def test_a_tree_that_is_not_built_says_so(gateway: CannedGateway) -> None:
    shown = command(gateway, "tree", "show", "--knowledge-base", "harbour")
    assert (shown.exit_code, shown.stdout.strip()) == (0, "empty")


def test_neither_document_nor_knowledge_base_is_wrong_usage(gateway: CannedGateway) -> None:
    refused = command(gateway, "tree", "show")
    assert refused.exit_code == 2
    assert "--kb" in refused.output


def test_an_unknown_document_is_not_found(gateway: CannedGateway) -> None:
    assert command(gateway, "tree", "show", "nothing.txt", "--kb", "harbour").exit_code == 3


def test_a_plan_tells_the_cost_and_what_it_is_projected_from(gateway: CannedGateway) -> None:
    shown = command(gateway, "tree", "plan", "--kb", "harbour")
    assert shown.exit_code == 0, shown.output
    assert "4 (3, 1)" in shown.stdout
    assert "7 calls" in shown.stdout
    assert "Projected from 2 documents" in shown.stdout
    shape = json.loads(command(gateway, "tree", "plan", "--kb", "harbour", "--full", "--json").stdout)
    assert (shape["plan"]["model_call_count"], shape["max_model_calls"], shape["max_model_tokens"]) == (1, 7, None)
    assert (shape["tenant_tokens_left"], shape["sampled_document_count"]) == (None, 5)


def test_a_build_that_is_waited_for_shows_plan_and_bill(gateway: CannedGateway) -> None:
    shown = command(gateway, "tree", "build", "--kb", "harbour", "--wait")
    assert shown.exit_code == 0, shown.output
    assert "trees/dataset: ready · watershed" in shown.stdout
    assert "PLAN" in shown.stdout
    assert "BILL" in shown.stdout
    drawn = command(gateway, "tree", "show", "--kb", "harbour")
    assert "L2 · 12 chunks" in drawn.stdout


def test_a_build_that_is_not_waited_for_names_its_run(gateway: CannedGateway) -> None:
    shape = json.loads(command(gateway, "tree", "build", "--kb", "harbour", "--json").stdout)
    assert shape["run"] == "knowledgeBases/harbour/runs/tree-1"
    assert shape["tree"]["state"] == "building"


def test_trees_of_documents_are_made_by_a_run(gateway: CannedGateway, tmp_path: Path) -> None:
    upload(gateway, tmp_path)
    gateway.mesh.trees_of_files = True
    nothing = command(gateway, "tree", "build", "--kb", "harbour")
    assert (nothing.exit_code, nothing.stdout.strip()) == (0, "Every document has its tree.")
    arguments = ("tree", "build", "--kb", "harbour", "--document", "port.txt")
    assert "1 tree: knowledgeBases/harbour/runs/tree-1" in command(gateway, *arguments).stdout
    shape = json.loads(command(gateway, *arguments, "--wait", "--json").stdout)
    assert (shape["document_count"], shape["ended"]["state"]) == (1, "succeeded")


def test_a_knowledge_base_without_trees_is_a_refused_state(gateway: CannedGateway) -> None:
    gateway.mesh.knowledge_bases["knowledgeBases/harbour"].description = "no trees"
    refused = command(gateway, "tree", "build", "--kb", "harbour", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["reason"] == "TREE_SCOPE_OFF"


def test_a_build_that_failed_is_a_failure_of_the_watch(gateway: CannedGateway) -> None:
    command(gateway, "kb", "create", "Broken")
    watched = command(gateway, "tree", "watch", "--kb", "broken")
    assert watched.exit_code == 1
    assert "last build failed: it broke" in watched.stdout
    assert command(gateway, "tree", "watch", "--kb", "harbour").exit_code == 0


def test_a_node_is_shown_with_its_chunks_and_their_places(gateway: CannedGateway) -> None:
    command(gateway, "tree", "build", "--kb", "harbour")
    nodes = json.loads(command(gateway, "tree", "show", "--kb", "harbour", "--json").stdout)["nodes"]
    shown = command(gateway, "tree", "node", nodes[0]["name"])
    assert "Nodes beneath: 3" in shown.stdout
    assert "port.pdf, page 3, Rules" in shown.stdout
    shape = json.loads(command(gateway, "tree", "node", nodes[0]["name"], "--json").stdout)
    assert [child["layer"] for child in shape["children"]] == [1, 1, 1]
    assert (shape["leaves"][0]["page"], shape["leaves"][0]["heading_path"]) == (3, ["Rules"])
    assert command(gateway, "tree", "node", nodes[0]["name"][:-1] + "0").exit_code == 3


def test_deleting_asks_first(gateway: CannedGateway) -> None:
    command(gateway, "tree", "build", "--kb", "harbour")
    assert command(gateway, "tree", "delete", "--kb", "harbour", stdin="n\n").exit_code == 1
    assert "trees/dataset; knowledgeBases/harbour/runs/sweep removes it" in (
        command(gateway, "tree", "delete", "--kb", "harbour", "--yes").stdout
    )
    assert (
        json.loads(command(gateway, "tree", "cancel", "--kb", "harbour", "--json").stdout)["tree"]["state"] == "ready"
    )
