"""`corpusmesh research` against a real gRPC server."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from corpusmesh_app.cli.app import build_app
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway


@pytest.fixture
def gateway() -> Iterator[CannedGateway]:
    with run_gateway() as running:
        yield running


def research(gateway: CannedGateway, *arguments: str) -> Result:
    environment = {"CORPUSMESH_ENDPOINT": gateway.address, "CORPUSMESH_API_KEY": KEY}
    runner = CliRunner()
    runner.invoke(build_app(), ["kb", "create", "Handbook"], env=environment)
    return runner.invoke(build_app(), ["research", *arguments, "--kb", "handbook"], env=environment)


def test_progress_answer_open_questions_and_cost_are_shown(gateway: CannedGateway) -> None:
    shown = research(gateway, "why", "--budget", "seconds=7, depth=2", "--web")
    assert shown.exit_code == 0
    assert "1 stopped: why · missing: the year" in shown.output
    assert "The answer is 42." in shown.output
    assert "Open: within 7 seconds, web True" in shown.output
    assert "searches: 1," in shown.output
    assert "partial: seconds spent" in shown.output


def test_json_holds_the_tree_and_the_cost(gateway: CannedGateway) -> None:
    shape = json.loads(research(gateway, "why", "--json").stdout)
    assert shape["text"] == "The answer is 42."
    assert (shape["questions"][0]["state"], shape["questions"][0]["missing"]) == ("stopped", ["the year"])
    assert shape["open_questions"] == ["within 0 seconds, web False"]
    assert (shape["cost"]["search_count"], shape["partial"], shape["partial_reason"]) == (1, True, "seconds")


@pytest.mark.parametrize("budget", ["hours=3", "seconds", "seconds=-1", "seconds=many"])
def test_a_budget_that_is_none_is_refused(gateway: CannedGateway, budget: str) -> None:
    refused = research(gateway, "why", "--budget", budget)
    assert refused.exit_code == 2
    assert "--budget takes name=number" in refused.output


def test_a_stream_without_an_end_is_a_failure(gateway: CannedGateway) -> None:
    assert research(gateway, "break off").exit_code == 1
