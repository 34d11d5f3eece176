"""Chats and conversations on the command line, against a real gRPC server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corpusmesh_app.cli.app import build_app
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway


class Shell:
    def __init__(self, gateway: CannedGateway) -> None:
        self.gateway = gateway
        self.environment = {"CORPUSMESH_ENDPOINT": gateway.address, "CORPUSMESH_API_KEY": KEY}

    def run(self, *arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(
            build_app(), list(arguments), env=self.environment, catch_exceptions=False, input=typed
        )

    def json(self, *arguments: str, typed: str = "") -> Any:
        result = self.run(*arguments, "--json", typed=typed)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with run_gateway() as gateway:
        made = Shell(gateway)
        (tmp_path / "a.txt").write_text("six times seven is 42")
        assert made.run("kb", "create", "Handbook").exit_code == 0
        assert made.run("ingest", str(tmp_path / "a.txt"), "--kb", "Handbook").exit_code == 0
        yield made


def test_chat_asks_line_by_line_in_one_conversation(shell: Shell) -> None:
    result = shell.run("chat", "--kb", "Handbook", typed="what is it?\n\n  and why?  \n/quit\nnever asked\n")
    assert result.exit_code == 0
    assert result.stdout.count("The answer is 42 [ID:7].") == 2
    assert "a.txt" in result.stdout
    shown = shell.json("conversations", "show", "c1")
    assert [(message["speaker"], message["text"]) for message in shown["messages"]] == [
        ("user", "what is it?"),
        ("assistant", "The answer is 42 [ID:7]."),
        ("user", "and why?"),
        ("assistant", "The answer is 42 [ID:7]."),
    ]
    assert shown["conversation"]["knowledge_bases"] == ["knowledgeBases/handbook"]
    went_on = shell.json("chat", "--conversation", "c1", typed="once more?\n")
    assert went_on["conversation"] == "conversations/c1"
    assert [answer["question"] for answer in went_on["answers"]] == ["once more?"]
    assert "You" in (told := shell.run("conversations", "show", "c1").stdout)
    assert "once more?" in told


def test_ask_begins_a_conversation_and_goes_on_with_it(shell: Shell) -> None:
    first = shell.json("ask", "what is it?", "--kb", "Handbook", "--conversation", "new")
    assert first["conversation"] == "conversations/c1"
    second = shell.json("ask", "and why?", "--conversation", "c1")
    assert second["conversation"] == "conversations/c1"
    (listed,) = shell.json("conversations", "list")["conversations"]
    assert (listed["id"], listed["title"], listed["message_count"]) == ("c1", "what is it?", 4)
    # Each question is named, so that one that is sent again is not added again.
    names = shell.gateway.mesh.request_ids[-2:]
    assert len(set(names)) == 2
    assert all(names)


def test_conversations_are_deleted_after_a_question(shell: Shell) -> None:
    shell.run("chat", typed="")
    assert shell.run("conversations", "delete", "c1", typed="n\n").exit_code == 1
    assert shell.json("conversations", "delete", "conversations/c1") == {"deleted": "conversations/c1"}
    assert "No conversation yet" in shell.run("conversations", "list").stdout
    assert shell.run("conversations", "show", "c1").exit_code == 3
