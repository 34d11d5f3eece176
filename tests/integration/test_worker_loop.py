"""The worker loop on a real Postgres and a real broker: crashes, cancels, outages, losses, drain."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.orchestration.values import RunState
from corpusmesh_core.ports.runs import RunRecord
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.tenancy.values import VersionState
from corpusmesh_runtime.worker_metrics import MESSAGES_REJECTED_TOTAL
from tests.support.broker import OwnBroker, own_broker
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, upload
from tests.support.worker_process import RECORDS_PER_PART, WorkerParts

pytestmark = pytest.mark.servers
ROOT = Path(__file__).parents[2]

if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN
else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


@pytest.fixture
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as made:
        yield made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OwnBroker]:
    (tmp_path / "jetstream").mkdir()
    async with own_broker(tmp_path / "jetstream") as broker:
        yield broker


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    made = await metadata.tenant()
    await metadata.knowledge_base(made)
    return made


@asynccontextmanager
async def running(parts: WorkerParts) -> AsyncIterator[WorkerParts]:
    task = asyncio.create_task(parts.run())
    try:
        yield parts
    finally:
        parts.worker.stop()
        await asyncio.wait_for(task, 30)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.1)


async def ended(metadata: Metadata, owner: Identity, run_id: str, seconds: float = 40.0) -> RunRecord:
    async def over() -> bool:
        return (await metadata.runs.get(owner, "kb", run_id)).run.state.is_ended

    await until(over, seconds)
    return await metadata.runs.get(owner, "kb", run_id)


def calls(folder: Path) -> list[dict[str, object]]:
    path = folder / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_documents_go_through_every_stage_and_are_published_once(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(64)])
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path)) as parts:
        record = await ended(metadata, owner, result.run_id)
        await until(lambda: _fetches(parts))
        assert (record.run.state, record.run.succeeded_part_count) == (RunState.SUCCEEDED, 64)
        assert await metadata.published(owner, "kb") == {version.ordinal for version in result.versions}
        assert len(list((tmp_path / "index").iterdir())) == 64 * RECORDS_PER_PART
        await until(lambda: _is_empty(parts))
    assert [call["stage"] for call in calls(tmp_path)] == [
        "parse",
        "chunk",
        "enrich",
        "embed",
        "tree",
        "index",
        "publish",
    ]


async def _is_empty(parts: WorkerParts) -> bool:
    return await parts.work.count_messages() == {}


FAILPOINTS = [
    f"{stage}:{point}"
    for stage in ("parse", "chunk", "embed", "index", "publish")
    for point in ("before_work", "after_artefact", "after_commit", "before_ack")
] + ["index:after_index"]
SAMPLE = ("parse:before_work", "embed:before_ack", "index:after_index", "publish:after_commit")
"""What every run tries; `CORPUSMESH_TEST_ALL_FAILPOINTS=1` tries all of them."""


@pytest.mark.parametrize("failpoint", FAILPOINTS if os.environ.get("CORPUSMESH_TEST_ALL_FAILPOINTS") else SAMPLE)
async def test_killed_worker_costs_nothing_but_time(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path, failpoint: str
) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(12)])
    command = [sys.executable, "-m", "tests.support.worker_process", metadata.dsn, server.url, str(tmp_path)]
    first = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env={**os.environ, "CORPUSMESH_FAILPOINT": failpoint}
    )
    assert await asyncio.wait_for(first.wait(), 40) == -signal.SIGKILL
    second = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={**os.environ, "CORPUSMESH_FAILPOINT": ""})
    try:
        record = await ended(metadata, owner, result.run_id)
    finally:
        second.kill()
        await second.wait()
    assert (record.run.state, record.run.succeeded_part_count, record.run.failed_part_count) == (
        RunState.SUCCEEDED, 12, 0,
    )  # fmt: skip
    assert await metadata.published(owner, "kb") == {version.ordinal for version in result.versions}
    assert len(list((tmp_path / "index").iterdir())) == 12 * RECORDS_PER_PART
    assert len((await metadata.snapshots.list(owner, "kb", 0, 100))[0]) <= 12


async def test_frozen_worker_that_wakes_up_late_changes_nothing(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(4)])
    command = [sys.executable, "-m", "tests.support.worker_process", metadata.dsn, server.url, str(tmp_path)]
    zombie = subprocess.Popen(command, cwd=ROOT)  # noqa: ASYNC220 - returns at once
    try:

        async def has_begun() -> bool:
            return any(call["stage"] == "embed" for call in calls(tmp_path))

        await until(has_begun)
        zombie.send_signal(signal.SIGSTOP)
        async with running(WorkerParts(metadata.dsn, server.url, tmp_path)):
            record = await ended(metadata, owner, result.run_id)
            assert record.run.state is RunState.SUCCEEDED
            snapshot_count = len((await metadata.snapshots.list(owner, "kb", 0, 100))[0])
            zombie.send_signal(signal.SIGCONT)
            await asyncio.sleep(2.0)
        assert len((await metadata.snapshots.list(owner, "kb", 0, 100))[0]) == snapshot_count
        assert await metadata.published(owner, "kb") == {version.ordinal for version in result.versions}
    finally:
        zombie.kill()
        zombie.wait()


async def test_cancel_stops_running_work_soon_and_leaves_nothing_fr_a02(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path, work_seconds=30.0)):

        async def is_embedding() -> bool:
            return any(call["stage"] == "embed" for call in calls(tmp_path))

        await until(is_embedding)
        seen = [(await metadata.runs.cancel(owner, "kb", result.run_id)).run.state]
        # Without the stop it would go on for 30 seconds.
        record = await ended(metadata, owner, result.run_id, seconds=10)
        seen.append(record.run.state)
        assert seen == [RunState.CANCELLING, RunState.CANCELLED]
        [version] = await metadata.documents.versions_by_ordinal(owner.tenant_id, [result.versions[0].ordinal])
        assert version.state is VersionState.CANCELLED
        assert list((tmp_path / "index").iterdir()) == []
        assert await metadata.published(owner, "kb") == set()
    # A later start works (FR-A01).
    again = await metadata.ingest(owner, "kb", [upload("a.txt")])
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path)):
        assert (await ended(metadata, owner, again.run_id)).run.state is RunState.SUCCEEDED


async def test_unknown_task_is_buried_and_others_are_served_fr_a01(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    before = MESSAGES_REJECTED_TOTAL.labels("TASK_UNKNOWN")._value.get()
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path)) as parts:
        await until(lambda: _fetches(parts))
        body = {"tenant": owner.tenant_id, "run": "gone", "task": "gone.0.parse", "dispatch": 1}
        await parts.broker.stream().publish(f"work.parse.bulk.{owner.tenant_id}", json.dumps(body).encode())
        result = await metadata.ingest(owner, "kb", [upload("b.txt"), upload("c.txt")])
        assert (await ended(metadata, owner, result.run_id)).run.state is RunState.SUCCEEDED
        dead = await parts.broker.stream().get_last_msg("DEAD", "dead.parse.undeliverable")
        assert json.loads(dead.data or b"")["reason"] == "TASK_UNKNOWN"
    assert MESSAGES_REJECTED_TOTAL.labels("TASK_UNKNOWN")._value.get() == before + 1


async def _fetches(parts: WorkerParts) -> bool:
    return parts.worker.is_fetching


async def test_lost_stream_is_rebuilt_from_the_database(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(4)])
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path, work_seconds=0.5)) as parts:

        async def has_begun() -> bool:
            return any(call["stage"] == "embed" for call in calls(tmp_path))

        await until(has_begun)
        server.kill()
        server.lose_everything()
        await until(lambda: _does_not_fetch(parts))
        await server.start()
        record = await ended(metadata, owner, result.run_id, seconds=60)
        assert (record.run.state, record.run.succeeded_part_count) == (RunState.SUCCEEDED, 4)
        await until(lambda: _fetches(parts))


async def _does_not_fetch(parts: WorkerParts) -> bool:
    return not parts.worker.is_fetching


async def test_outage_of_a_dependency_fails_nothing(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    parts = WorkerParts(metadata.dsn, server.url, tmp_path)
    parts.stages.outage = True
    async with running(parts):

        async def tried_often() -> bool:
            return len(calls(tmp_path)) > metadata.policy.max_attempts + 2

        await until(tried_often)
        parts.stages.outage = False
        assert (await ended(metadata, owner, result.run_id)).run.state is RunState.SUCCEEDED


async def test_bad_documents_fail_alone_and_a_bad_batch_is_split(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(3)])
    ordinals = [version.ordinal for version in result.versions]
    parts = WorkerParts(metadata.dsn, server.url, tmp_path)
    parts.stages.bad = frozenset(ordinals)
    async with running(parts):
        record = await ended(metadata, owner, result.run_id)
        assert (record.run.state, record.run.failed_part_count) == (RunState.FAILED, 3)
        assert len(await metadata.runs.failed_versions(owner, "kb", result.run_id, 10)) == 3
        parts.stages.bad = frozenset(ordinals[:1])
        _, count = await metadata.runs.retry(owner, "kb", result.run_id)
        assert count == 3
        record = await ended(metadata, owner, result.run_id)
        assert (record.run.succeeded_part_count, record.run.failed_part_count) == (2, 1)
    assert await metadata.published(owner, "kb") == set(ordinals[1:])


async def test_stopped_worker_gives_its_task_back_at_once(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])

    async def is_embedding() -> bool:
        return any(call["stage"] == "embed" for call in calls(tmp_path))

    async with running(WorkerParts(metadata.dsn, server.url, tmp_path, work_seconds=60.0)):
        await until(is_embedding)
    async with metadata.database.tenant(owner.tenant_id) as connection:
        row = await connection.fetchrow("SELECT state, attempt FROM corpusmesh.tasks WHERE stage = 'embed'")
    assert row is not None
    assert tuple(row) == ("pending", 0)
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path)):
        assert (await ended(metadata, owner, result.run_id)).run.state is RunState.SUCCEEDED


async def test_interactive_work_does_not_wait_behind_bulk_work(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    for place in range(4):
        await metadata.ingest(owner, "kb", [upload(f"bulk {place}.txt")])
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path, work_seconds=2.0)):

        async def bulk_is_embedding() -> bool:
            return sum(call["stage"] == "embed" for call in calls(tmp_path)) >= 2

        await until(bulk_is_embedding)
        urgent = await metadata.ingest(owner, "kb", [upload("urgent.txt")], is_interactive=True)
        await ended(metadata, owner, urgent.run_id)
        async with metadata.database.tenant(owner.tenant_id) as connection:
            waiting = await connection.fetchval("SELECT count(*) FROM corpusmesh.runs WHERE end_time IS NULL")
        assert waiting >= 1, "bulk work was done before the interactive one"


async def test_run_moves_are_published_as_events(
    metadata: Metadata, server: OwnBroker, owner: Identity, tmp_path: Path
) -> None:
    async with running(WorkerParts(metadata.dsn, server.url, tmp_path)) as parts:
        await until(lambda: _fetches(parts))
        feed = parts.work.subscribe(f"events.*.*.{owner.tenant_id}.>")
        run_feed = parts.work.subscribe(f"events.run.{owner.tenant_id}.*")
        published = asyncio.ensure_future(anext(feed))
        first = asyncio.ensure_future(anext(run_feed))
        await asyncio.sleep(0.3)
        result = await metadata.ingest(owner, "kb", [upload("a.txt")])
        event = json.loads(await asyncio.wait_for(first, 20))
        assert event["run"] == f"knowledgeBases/kb/runs/{result.run_id}"
        assert json.loads(await asyncio.wait_for(published, 20))["snapshot"] == "knowledgeBases/kb/snapshots/1"
        for each in (feed, run_feed):
            await each.aclose()  # type: ignore[attr-defined]
