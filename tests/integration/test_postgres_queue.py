"""Claims, fencing, cancel, retry and publishing on a real Postgres."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from corpusmesh_adapters.postgres import OutboxRelay, PostgresRunStore, RelaySettings, WorkLimits
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.orchestration.values import FailureKind, Lane, PartFailure, RunState, Stage, TaskFailure, Verdict
from corpusmesh_core.ports.work import OutboxMessage, StageOutcome, VersionPatch, WorkMessage
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.tenancy.values import VersionState
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, upload

pytestmark = pytest.mark.servers

if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN
else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


@pytest.fixture(scope="module")
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as made:
        yield made


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    made = await metadata.tenant()
    await metadata.knowledge_base(made)
    return made


async def states(metadata: Metadata, owner: Identity, ordinals: Sequence[int]) -> list[VersionState]:
    return [version.state for version in await metadata.documents.versions_by_ordinal(owner.tenant_id, ordinals)]


async def due(metadata: Metadata, tenant_id: str, seconds: float = 5.0) -> list[WorkMessage]:
    for _ in range(int(seconds / 0.05)):
        found = await metadata.due_messages(tenant_id)
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("no message became due")


async def test_one_of_many_workers_gets_a_task(metadata: Metadata, owner: Identity) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt")])
    [message] = await metadata.due_messages(owner.tenant_id)
    answers = await asyncio.gather(*(metadata.queue.claim(message, f"w{place}") for place in range(8)))
    verdicts = [answer.verdict for answer in answers]
    assert verdicts.count(Verdict.CLAIMED) == 1
    assert verdicts.count(Verdict.BUSY) == 7
    assert all(answer.nak_delay_seconds for answer in answers if answer.verdict is Verdict.BUSY)


async def test_zombie_changes_nothing_and_must_not_acknowledge(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    [message] = await metadata.due_messages(owner.tenant_id)
    zombie = await metadata.claim(message, "zombie")
    await asyncio.sleep(metadata.policy.lease_seconds + 0.1)
    answer = await metadata.queue.claim(message, "second")
    assert (answer.verdict, answer.must_ack) == (Verdict.REDISPATCHED, True)
    [again] = await due(metadata, owner.tenant_id)
    second = await metadata.claim(again, "second")
    assert second.epoch > zombie.epoch
    for late in (
        await metadata.queue.heartbeat(zombie),
        await metadata.queue.complete(zombie, StageOutcome(patches=(VersionPatch(1, title="late"),))),
        await metadata.queue.fail(zombie, TaskFailure(FailureKind.PERMANENT, "LATE", "late")),
        await metadata.queue.release(zombie),
    ):
        assert (late.verdict, late.must_ack, late.nak_delay_seconds) == (Verdict.FENCED, False, None)
    await metadata.finish(second)
    await metadata.work_off(owner.tenant_id)
    assert await states(metadata, owner, [result.versions[0].ordinal]) == [VersionState.READY]
    assert (await metadata.queue.claim(again, "third")).verdict is Verdict.OBSOLETE


async def test_slow_worker_that_nobody_replaced_may_still_commit(metadata: Metadata, owner: Identity) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt")])
    [message] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(message)
    await asyncio.sleep(metadata.policy.lease_seconds + 0.1)
    assert (await metadata.finish(claim)).verdict is Verdict.COMMITTED


async def test_unknown_task_is_a_typed_error(metadata: Metadata, owner: Identity) -> None:
    message = WorkMessage(owner.tenant_id, "no-run", "no-run.0.parse", Stage.PARSE, Lane.BULK, 1)
    with pytest.raises(NotFoundError) as caught:
        await metadata.queue.claim(message, "w")
    assert caught.value.reason == "TASK_UNKNOWN"


async def test_failed_part_is_named_and_the_others_are_published(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(3)])
    bad = result.versions[1].ordinal
    [message] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(message)
    outcome = StageOutcome(
        failures=(PartFailure(bad, "DOCUMENT_ENCRYPTED", "it needs a password"),),
        patches=(VersionPatch(result.versions[0].ordinal, title="T", chunk_count=3, artefacts={"parsed": "k"}),),
    )
    await metadata.queue.complete(claim, outcome)
    await metadata.work_off(owner.tenant_id)
    record = await metadata.runs.get(owner, "kb", result.run_id)
    assert (record.run.state, record.run.succeeded_part_count, record.run.failed_part_count) == (
        RunState.SUCCEEDED, 2, 1,
    )  # fmt: skip
    [failed] = await metadata.runs.failed_versions(owner, "kb", result.run_id, 10)
    assert (failed.ordinal, failed.failed_stage, failed.error_reason) == (bad, "parse", "DOCUMENT_ENCRYPTED")
    assert await metadata.published(owner, "kb") == {version.ordinal for version in result.versions} - {bad}
    patched = (await metadata.documents.versions_by_ordinal(owner.tenant_id, [result.versions[0].ordinal]))[0]
    assert (patched.title, patched.chunk_count, patched.artefacts) == ("T", 3, {"parsed": "k"})
    assert await metadata.knowledge_bases.count(owner, ["kb"]) == {"kb": (3, 3)}


async def test_batch_whose_worker_died_is_split_and_the_poison_ends_alone(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(3)])
    poison = result.versions[2].ordinal
    deaths = 0
    for _ in range(200):
        for message in await metadata.due_messages(owner.tenant_id):
            answer = await metadata.queue.claim(message, "w")
            if answer.claim is None:
                continue
            if poison in answer.claim.parts and answer.claim.stage is Stage.PARSE:
                deaths += 1  # The worker dies: nobody answers.
                continue
            await metadata.finish(answer.claim)
        await metadata.sweeper.expire_leases(100)
        if (await metadata.runs.get(owner, "kb", result.run_id)).run.state.is_ended:
            break
        await asyncio.sleep(0.1)
    assert deaths == metadata.policy.max_attempts
    ordinals = [version.ordinal for version in result.versions]
    assert await states(metadata, owner, ordinals) == [VersionState.READY, VersionState.READY, VersionState.FAILED]
    [failed] = await metadata.runs.failed_versions(owner, "kb", result.run_id, 10)
    assert failed.error_reason == "WORKER_DIED"
    # What the batch may have written before it was split is known to a purge, whatever its tasks' age.
    async with metadata.database.system() as connection:
        await connection.execute("UPDATE corpusmesh.runs SET end_time = now() - interval '1 year'")
    await metadata.sweeper.prune()
    attempts = await metadata.purges.attempts(owner.tenant_id, [poison])
    assert {attempt.task_id for attempt in attempts} == {f"{result.run_id}.0.parse", f"{result.run_id}.0-2.parse"}
    async with metadata.database.tenant(owner.tenant_id) as connection:
        letters = await connection.fetch("SELECT subject, payload FROM corpusmesh.outbox WHERE subject LIKE 'dead.%'")
    assert [row["subject"] for row in letters] == [f"dead.parse.{owner.tenant_id}"]
    assert json.loads(letters[0]["payload"])["reason"] == "WORKER_DIED"
    # Replay from the failed stage.
    record, count = await metadata.runs.retry(owner, "kb", result.run_id)
    assert (record.run.state, count) == (RunState.RUNNING, 1)
    await metadata.work_off(owner.tenant_id)
    record = await metadata.runs.get(owner, "kb", result.run_id)
    assert (record.run.state, record.run.succeeded_part_count, record.run.failed_part_count) == (
        RunState.SUCCEEDED, 3, 0,
    )  # fmt: skip
    assert await metadata.published(owner, "kb") == set(ordinals)


async def test_outage_uses_up_no_attempt(metadata: Metadata, owner: Identity) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt")])
    for _ in range(metadata.policy.max_attempts + 2):
        [message] = await due(metadata, owner.tenant_id)
        claim = await metadata.claim(message)
        assert claim.attempt == 1
        away = TaskFailure(FailureKind.DEFERRED, "INDEX_AWAY", "the index does not answer")
        assert (await metadata.queue.fail(claim, away)).verdict is Verdict.REDISPATCHED


async def test_cancel_takes_back_what_was_published_and_shows_the_old_version(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "1"), upload("b.txt", "1")])
    await metadata.work_off(owner.tenant_id)
    before = await metadata.published(owner, "kb")
    runs = PostgresRunStore(metadata.database, WorkLimits(batch_part_count=1))
    other = Metadata(metadata.dsn, metadata.database)
    other.runs = runs
    second = await other.ingest(owner, "kb", [upload("a.txt", "2"), upload("c.txt", "2")])
    messages = await metadata.due_messages(owner.tenant_id)
    kept = messages.pop()
    for message in messages:
        await metadata.finish(await metadata.claim(message))
    for _ in range(6):
        for message in await metadata.due_messages(owner.tenant_id):
            await metadata.finish(await metadata.claim(message))
    assert await metadata.published(owner, "kb") != before
    running = await metadata.claim(kept)
    record = await metadata.runs.cancel(owner, "kb", second.run_id)
    assert record.run.state is RunState.CANCELLING
    assert await metadata.published(owner, "kb") == before
    assert (await metadata.queue.heartbeat(running)).verdict is Verdict.CANCELLED
    assert (await metadata.finish(running)).verdict is Verdict.CANCELLED
    [cleanup] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(cleanup)
    assert claim.stage is Stage.CLEANUP
    assert set(claim.parts) == {version.ordinal for version in second.versions}
    assert claim.payload == {"scope": "run"}
    await metadata.finish(claim)
    assert (await metadata.runs.get(owner, "kb", second.run_id)).run.state is RunState.CANCELLED
    [verify] = await due(metadata, owner.tenant_id)
    assert (await metadata.claim(verify)).stage is Stage.VERIFY
    # A later start works.
    again = await metadata.ingest(owner, "kb", [upload("a.txt", "2")])
    assert again.unchanged == (False,)
    await metadata.work_off(owner.tenant_id)
    assert await metadata.published(owner, "kb") == {first.versions[1].ordinal, again.versions[0].ordinal}


async def test_cancelled_run_stays_cancelled_whatever_comes_late(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    [message] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(message)
    await asyncio.gather(*(metadata.runs.cancel(owner, "kb", result.run_id) for _ in range(4)))
    await metadata.queue.complete(claim, StageOutcome())
    await metadata.work_off(owner.tenant_id)
    record = await metadata.runs.cancel(owner, "kb", result.run_id)
    assert record.run.state is RunState.CANCELLED
    assert (await metadata.queue.complete(claim, StageOutcome())).verdict is Verdict.FENCED
    with pytest.raises(FailedPreconditionError):
        await metadata.ingest(owner, "kb", [upload("b.txt")], run_id=result.run_id)


async def test_document_deleted_while_it_is_worked_on_is_never_published(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    [message] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(message)
    gone, kept = result.versions
    await metadata.documents.delete(owner, "kb", [gone.document_id], "", {})
    await metadata.finish(claim)
    seen: set[int] = set()
    for _ in range(6):
        for message in await metadata.due_messages(owner.tenant_id):
            answer = await metadata.queue.claim(message, "w")
            if answer.claim is not None:
                if answer.claim.run_id == result.run_id:
                    seen |= set(answer.claim.parts)
                await metadata.finish(answer.claim)
    assert seen == {kept.ordinal}
    assert await metadata.published(owner, "kb") == {kept.ordinal}


async def test_part_that_fails_at_the_index_has_its_records_removed(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    bad = result.versions[0].ordinal
    [message] = await metadata.work_off(owner.tenant_id, until=Stage.INDEX)
    claim = await metadata.claim(message)
    outcome = StageOutcome(failures=(PartFailure(bad, "RECORD_REFUSED", "the index refused a record"),))
    await metadata.queue.complete(claim, outcome)
    claims = [await metadata.claim(message) for message in await metadata.due_messages(owner.tenant_id)]
    by_stage = {claim.stage: claim for claim in claims}
    assert set(by_stage) == {Stage.PUBLISH, Stage.CLEANUP}
    assert (by_stage[Stage.CLEANUP].parts, by_stage[Stage.CLEANUP].payload) == ((bad,), {"scope": "records"})
    await metadata.finish(by_stage[Stage.PUBLISH])
    assert not (await metadata.runs.get(owner, "kb", result.run_id)).run.state.is_ended
    await metadata.finish(by_stage[Stage.CLEANUP])
    assert (await metadata.runs.get(owner, "kb", result.run_id)).run.state is RunState.SUCCEEDED
    # The second look does not touch a part that was brought back meanwhile.
    await metadata.runs.retry(owner, "kb", result.run_id)
    messages: list[WorkMessage] = []
    while not any(message.stage is Stage.VERIFY for message in messages):
        messages.extend(await due(metadata, owner.tenant_id))
    [verify] = [message for message in messages if message.stage is Stage.VERIFY]
    assert (await metadata.claim(verify)).parts == ()


async def test_hundred_concurrent_publishes_lose_no_document(metadata: Metadata, owner: Identity) -> None:
    results = await asyncio.gather(*(metadata.ingest(owner, "kb", [upload(f"{place}.txt")]) for place in range(30)))
    messages = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    claims = await asyncio.gather(*(metadata.claim(message) for message in messages))
    waiting = await metadata.snapshots.waiting_versions(owner.tenant_id, "kb", 100)
    assert len(waiting) == 30
    await asyncio.gather(*(metadata.finish(claim) for claim in claims))
    assert await metadata.published(owner, "kb") == {result.versions[0].ordinal for result in results}
    assert await metadata.snapshots.waiting_versions(owner.tenant_id, "kb", 100) == []


async def test_one_publish_takes_along_what_waits(metadata: Metadata, owner: Identity) -> None:
    results = [await metadata.ingest(owner, "kb", [upload(f"{place}.txt")]) for place in range(4)]
    messages = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    claims = [await metadata.claim(message) for message in messages]
    every = tuple(result.versions[0].ordinal for result in results)
    await metadata.queue.complete(claims[0], StageOutcome(publishable=every))
    assert await metadata.published(owner, "kb") == set(every)
    for claim in claims[1:]:
        await metadata.queue.complete(claim, StageOutcome(publishable=claim.parts))
    assert len((await metadata.snapshots.list(owner, "kb", 0, 10))[0]) == 1


async def test_readers_see_whole_snapshots_while_versions_are_replaced(metadata: Metadata, owner: Identity) -> None:
    names = [f"{place}.txt" for place in range(5)]
    generations: dict[int, int] = {}
    stop = asyncio.Event()

    async def read() -> list[set[int]]:
        seen = []
        while not stop.is_set():
            seen.append(await metadata.published(owner, "kb"))
        return seen

    readers = [asyncio.create_task(read()) for _ in range(4)]
    for generation in range(8):
        result = await metadata.ingest(owner, "kb", [upload(name, f"{name} {generation}") for name in names])
        generations |= {version.ordinal: generation for version in result.versions}
        await metadata.work_off(owner.tenant_id)
    stop.set()
    reads = [seen for reader in readers for seen in await reader]
    assert len(reads) > 20
    for seen in reads:
        assert len(seen) in (0, 5)
        assert len({generations[ordinal] for ordinal in seen}) <= 1, "a reader saw two generations at once"
    for reader in readers:
        order = [max((generations[ordinal] for ordinal in seen), default=-1) for seen in reader.result()]
        assert order == sorted(order)


async def test_held_run_leaves_its_versions_ready_until_they_are_published(metadata: Metadata, owner: Identity) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")], hold_publish=True)
    await metadata.work_off(owner.tenant_id)
    version = result.versions[0]
    assert (await metadata.runs.get(owner, "kb", result.run_id)).run.state is RunState.SUCCEEDED
    assert await states(metadata, owner, [version.ordinal]) == [VersionState.READY]
    assert await metadata.published(owner, "kb") == set()
    assert await metadata.snapshots.waiting_versions(owner.tenant_id, "kb", 10) == []
    await metadata.snapshots.publish_version(owner, "kb", version.document_id, 1)
    assert await metadata.published(owner, "kb") == {version.ordinal}


async def test_upload_that_stopped_is_ended_by_the_sweeper(metadata: Metadata, owner: Identity) -> None:
    runs = PostgresRunStore(metadata.database, WorkLimits(upload_idle_seconds=0.1))
    other = Metadata(metadata.dsn, metadata.database)
    other.runs = runs
    result = await other.ingest(owner, "kb", [upload("a.txt")], is_last=False)
    await metadata.work_off(owner.tenant_id)
    await asyncio.sleep(0.2)
    assert await metadata.sweeper.end_stale_runs(100) >= 1
    assert (await metadata.runs.get(owner, "kb", result.run_id)).run.state is RunState.SUCCEEDED


async def test_message_that_the_broker_lost_is_sent_again(metadata: Metadata, owner: Identity) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt")])
    [lost] = await metadata.due_messages(owner.tenant_id)
    await asyncio.sleep(0.3)
    subject = f"work.parse.bulk.{owner.tenant_id}"
    assert (await metadata.sweeper.count_open_tasks())[subject] == 1
    assert await metadata.sweeper.redispatch(subject, 10) == 1
    assert subject not in await metadata.sweeper.count_open_tasks()
    [again] = await metadata.due_messages(owner.tenant_id)
    assert (again.task_id, again.dispatch) == (lost.task_id, lost.dispatch + 1)
    claim = await metadata.claim(again)
    # Should the first one turn up after all, it is of no use and goes away.
    late = await metadata.queue.claim(lost, "other")
    assert (late.verdict, late.must_ack) == (Verdict.BUSY, True)
    await metadata.finish(claim)


# The outbox relay


class Recorder:
    def __init__(self) -> None:
        self.messages: list[OutboxMessage] = []
        self.refuse = 0

    async def publish(self, messages: Sequence[OutboxMessage]) -> Sequence[str | None]:
        if self.refuse:
            self.refuse -= 1
            return ["TIMEOUT"] * len(messages)
        self.messages.extend(messages)
        return [None] * len(messages)


async def _outbox_count(metadata: Metadata) -> int:
    async with metadata.database.system() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM corpusmesh.outbox"))


async def test_one_relay_leads_and_another_takes_over(server_dsn: str) -> None:
    async with fresh_metadata(server_dsn) as metadata:
        owner = await metadata.tenant()
        await metadata.knowledge_base(owner)
        settings = RelaySettings(poll_seconds=5.0, standby_seconds=0.1, retry_seconds=0.1)
        recorders = [Recorder(), Recorder()]
        relays = [OutboxRelay(metadata.database, recorder, settings) for recorder in recorders]
        tasks = [asyncio.create_task(relay.run()) for relay in relays]
        try:
            for _ in range(100):
                if sum(relay.is_leader for relay in relays) == 1:
                    break
                await asyncio.sleep(0.05)
            leader = next(place for place, relay in enumerate(relays) if relay.is_leader)
            await metadata.ingest(owner, "kb", [upload("a.txt")], headers={"traceparent": "00-t"})
            for _ in range(60):
                if any(message.subject.startswith("work.") for message in recorders[leader].messages):
                    break
                await asyncio.sleep(0.05)
            [work] = [message for message in recorders[leader].messages if message.subject.startswith("work.")]
            assert work.headers == {"traceparent": "00-t"}
            assert recorders[1 - leader].messages == []
            tasks[leader].cancel()
            for _ in range(100):
                if relays[1 - leader].is_leader:
                    break
                await asyncio.sleep(0.05)
            recorders[1 - leader].refuse = 1
            await metadata.ingest(owner, "kb", [upload("b.txt")])
            for _ in range(100):
                if recorders[1 - leader].messages:
                    break
                await asyncio.sleep(0.1)
            assert any(message.subject.startswith("work.") for message in recorders[1 - leader].messages)
            async with asyncio.timeout(60):
                while await _outbox_count(metadata):  # noqa: ASYNC110 - the database offers no event
                    await asyncio.sleep(0.1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
