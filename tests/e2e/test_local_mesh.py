"""`corpusmesh up` as a user runs it: detached, killed, started again, ended; nothing is lost and nothing is left."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from corpusmesh_app.stack.leftovers import DATA_VARIABLE
from tests.support.mesh_probes import until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
START_SECONDS = 240
COMMAND_SECONDS = 240
NO_ORPHAN_SECONDS = 30
QUESTION = json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8"))[0]


@dataclass
class Shell:
    """Runs the command line with a state folder of its own."""

    folder: Path
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    async def run(self, *arguments: str, status: int = 0) -> Any:
        """Run a command with `--json` and give what it printed; fails if it ends with another status."""
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "corpusmesh_app", *arguments, "--json"],
            cwd=self.folder,
            env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "CORPUSMESH_API_KEY": ""},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return json.loads(done.stdout)

    async def up(self) -> Any:
        return await self.run("up", "--detach", "--data", str(self.data))

    def processes(self) -> list[psutil.Process]:
        """Living processes that work on the data folder, by environment or command line."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(DATA_VARIABLE) == str(self.data)
                named = any(str(self.data) in word for word in process.cmdline()[1:])
                if (marked or named) and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def services(self) -> psutil.Process:
        """The process of all services."""
        [found] = [process for process in self.processes() if "corpusmesh_app.child" in process.cmdline()]
        return found


@pytest.fixture(scope="module")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("local"))
    try:
        yield made
    finally:
        for process in await asyncio.to_thread(made.processes):
            process.kill()


async def _until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    async def holds() -> bool:
        return await asyncio.to_thread(condition)

    await until(holds, what, seconds)


async def test_up_ingest_search_ask_and_status(shell: Shell) -> None:
    mesh = await shell.up()
    assert mesh["data"] == str(shell.data)
    assert os.stat(mesh["api_key_file"]).st_mode & 0o777 == 0o600
    made = await shell.run("kb", "create", "Guides")
    name = made.get("knowledge_base", made)["name"]
    report = await shell.run("ingest", str(EXAMPLES / "documents"), "--kb", "Guides", "--wait")
    assert report["document_count"] == len(list((EXAMPLES / "documents").iterdir()))
    assert {entry["state"] for entry in report["documents"]} == {"done"}
    found = await shell.run("search", QUESTION["question"], "--kb", "Guides", "--top-k", "5")
    assert QUESTION["expected_documents"][0] in [hit["display_name"] for hit in found["hits"]]
    assert found["unreachable"] == []
    answer = await shell.run("ask", QUESTION["question"], "--kb", "Guides")
    assert QUESTION["expected_text"] in answer["text"]
    assert answer["citations"][0]["display_name"] == QUESTION["expected_documents"][0]
    status = await shell.run("status")
    assert "Guides" in json.dumps(status)
    again = await shell.run("ingest", str(EXAMPLES / "documents"), "--kb", "Guides", "--wait")
    assert again["unchanged_count"] == again["document_count"]
    shell.seen = {"name": name, "hits": found["hits"], "text": answer["text"], "pid": mesh["pid"]}


async def test_a_second_mesh_on_the_folder_is_refused_with_the_pid(shell: Shell) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "corpusmesh_app", "up", "--data", str(shell.data)],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(shell.folder / "other-state")},
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode != 0
    assert str(shell.seen["pid"]) in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    found = await shell.run("search", QUESTION["question"], "--kb", "Guides", "--data", str(shell.data))
    assert found["hits"], "the first one goes on, and is found"


async def test_killed_services_are_started_again(shell: Shell) -> None:
    before = await asyncio.to_thread(shell.services)
    before.kill()

    def is_another() -> bool:
        try:
            return shell.services().pid != before.pid
        except ValueError:
            return False

    await _until(is_another, "another process of the services", START_SECONDS)
    # The command waits for a gateway that is on its way, as it does for any that is away for a moment.
    found: Any = None

    async def answers() -> bool:
        nonlocal found
        try:
            found = await shell.run("search", QUESTION["question"], "--kb", "Guides", "--top-k", "5")
        except AssertionError:
            return False
        return not found["unreachable"]

    await until(answers, "the services answer again", START_SECONDS)
    assert [hit["record_id"] for hit in found["hits"]] == [hit["record_id"] for hit in shell.seen["hits"]]
    assert (await asyncio.to_thread(psutil.pid_exists, shell.seen["pid"])) is True


async def test_a_killed_mesh_leaves_no_process_and_loses_nothing(shell: Shell) -> None:
    assert len(await asyncio.to_thread(shell.processes)) >= 6, "four servers, the services, and their supervisor"
    psutil.Process(shell.seen["pid"]).kill()
    await _until(lambda: not shell.processes(), "every process of the mesh has ended", NO_ORPHAN_SECONDS)
    mesh = await shell.up()
    assert mesh["pid"] != shell.seen["pid"]
    found = await shell.run("search", QUESTION["question"], "--kb", "Guides", "--top-k", "5")
    assert [(hit["record_id"], hit["text"]) for hit in found["hits"]] == [
        (hit["record_id"], hit["text"]) for hit in shell.seen["hits"]
    ]
    answer = await shell.run("ask", QUESTION["question"], "--kb", "Guides")
    assert plain(answer["text"]) == plain(shell.seen["text"])


def plain(text: str) -> str:
    """An answer without the numbers of its markers, which are drawn anew for every request."""
    return "".join(character for character in text if not character.isdigit())


async def test_down_ends_every_process(shell: Shell) -> None:
    ended = await shell.run("down", "--data", str(shell.data))
    assert ended["stopped"] is True
    assert await asyncio.to_thread(shell.processes) == []
    await shell.run("search", "anything", "--kb", "Guides", "--data", str(shell.data), status=5)
    again = await shell.run("down", "--data", str(shell.data))
    assert again["stopped"] is False
