"""The stage publish with a gate: what is measured decides what becomes visible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from corpusmesh_core.errors import InternalError, NotFoundError, UnavailableError
from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.transitions import SKIP_PUBLISH_GATE
from corpusmesh_core.orchestration.values import Dispatch, Lane, Policy, Run, RunKind, RunState, Stage
from corpusmesh_core.ports.golden_sets import CandidateMeasures
from corpusmesh_core.ports.work import Claim, StageOutcome
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.stages.publish import PublishStage
from corpusmesh_runtime.worker import TaskContext
from tests.support.ingest_stages import MemoryMetadata, version

GATE = {"publish_gate": {"golden_set": "g", "measure": "mrr", "minimum": 0.8, "max_drop": 0.02}}


@dataclass
class CannedJudge:
    """Says what it was told to say, and remembers what it was asked."""

    answer: CandidateMeasures | Exception
    asked: list[tuple[str, bytes, bool]] = field(default_factory=list)

    async def measure(
        self,
        tenant_id: str,
        knowledge_base_id: str,
        golden_set_id: str,
        ordinals: bytes,
        *,
        compare_current: bool,
        timeout_seconds: float,
    ) -> CandidateMeasures:
        self.asked.append((golden_set_id, ordinals, compare_current))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class Snapshots:
    waiting: Sequence[VersionRow] = ()

    async def waiting_versions(self, tenant_id: str, knowledge_base_id: str, limit: int) -> Sequence[VersionRow]:
        return self.waiting

    async def plan_candidate(self, tenant_id: str, knowledge_base_id: str, ordinals: Sequence[int]) -> bytes:
        return bytes(ordinals)


class FullIndex:
    """Holds one record of each version."""

    async def refresh(self, *_: object, **__: object) -> None:
        return None

    async def count(self, tenant_id: str, space_id: str, selection: Any, *, timeout_seconds: float) -> int:
        return len(selection.publishers)


def shelf_with(config: Mapping[str, object], *, record_count: int = 1) -> MemoryMetadata:
    shelf = MemoryMetadata(config=config)
    shelf.add(version(1, record_count=record_count), version(2, record_count=1))
    return shelf


def measured(candidate: float, *common: float) -> CandidateMeasures:
    in_common: list[Mapping[str, float] | None] = [{"mrr": value} for value in common] or [None, None]
    return CandidateMeasures({"mrr": candidate}, 25, in_common[0], in_common[1])


async def publish(
    judge: CannedJudge,
    config: Mapping[str, object] = GATE,
    *,
    payload: Mapping[str, str] | None = None,
    waiting: Sequence[int] = (),
) -> StageOutcome:
    shelf = shelf_with(config)
    snapshots = Snapshots([version(ordinal, record_count=1) for ordinal in waiting])
    stage = PublishStage(cast(Any, shelf), cast(Any, shelf), cast(Any, snapshots), cast(Any, FullIndex()), judge)
    claim = Claim("acme", "kb", "run", "run.0.publish", Stage.PUBLISH, Lane.BULK, (1, 2), 1, 1, 30.0, payload or {})
    return await stage(TaskContext(claim, 60.0))


async def test_without_a_gate_nobody_is_asked_and_others_that_wait_are_published_too() -> None:
    judge = CannedJudge(measured(0.0))
    assert (await publish(judge, {}, waiting=[3])).publishable == (1, 2, 3)
    assert judge.asked == []


async def test_what_is_good_enough_is_published_and_nothing_else() -> None:
    judge = CannedJudge(measured(0.8, 0.79, 0.80))
    outcome = await publish(judge, waiting=[3])
    assert (outcome.publishable, outcome.failures) == ((1, 2), ())
    assert judge.asked == [("g", bytes([1, 2]), True)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (measured(0.79), "would be 0.7900 on 25 questions, less than 0.8000"),
        (measured(0.9, 0.85, 0.9), "would fall from 0.9000 to 0.8500, more than 0.0200"),
        (NotFoundError("GOLDEN_SET_NOT_FOUND", "no golden set 'g'"), "cannot be asked: no golden set 'g'"),
    ],
)
async def test_what_falls_short_fails_with_the_numbers_and_is_not_published(answer: Any, words: str) -> None:
    outcome = await publish(CannedJudge(answer))
    assert outcome.publishable == ()
    assert [failure.ordinal for failure in outcome.failures] == [1, 2]
    assert {failure.reason for failure in outcome.failures} == {"PUBLISH_GATE_FAILED"}
    assert words in outcome.failures[0].message


async def test_nothing_is_published_while_nobody_measures() -> None:
    with pytest.raises(UnavailableError):
        await publish(CannedJudge(UnavailableError("X", "away")))


async def test_a_retry_may_leave_the_gate_alone() -> None:
    judge = CannedJudge(measured(0.0))
    outcome = await publish(judge, payload={SKIP_PUBLISH_GATE: "editor"})
    assert outcome.publishable == (1, 2)
    assert judge.asked == []


async def test_incomplete_records_are_found_before_anybody_is_asked() -> None:
    judge = CannedJudge(measured(1.0))
    shelf = shelf_with(GATE, record_count=2)
    stage = PublishStage(cast(Any, shelf), cast(Any, shelf), cast(Any, Snapshots()), cast(Any, FullIndex()), judge)
    claim = Claim("acme", "kb", "run", "run.0.publish", Stage.PUBLISH, Lane.BULK, (1, 2), 1, 1, 30.0)
    with pytest.raises(InternalError):
        await stage(TaskContext(claim, 60.0))
    assert judge.asked == []


def test_what_a_retry_says_of_the_gate_goes_with_its_parts_to_the_last_stage() -> None:
    run = Run("run", RunKind.INGEST, RunState.FAILED, Lane.BULK, part_count=1, failed_part_count=1)
    decision = machine.retry(run, [(Stage.EMBED, (1,), 3)], payload={SKIP_PUBLISH_GATE: "editor"})
    stages = []
    while True:
        (task,) = [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]
        stages.append(task.stage)
        assert task.payload == {SKIP_PUBLISH_GATE: "editor"}
        if task.stage is Stage.PUBLISH:
            break
        claimed = machine.claim(decision.run, task, dispatch=1, worker="w", now_seconds=1.0, policy=Policy())
        assert claimed.task is not None
        decision = machine.complete(
            claimed.run, claimed.task, epoch=claimed.task.epoch, failures=(), now_seconds=1.0, policy=Policy()
        )
    assert stages == [Stage.EMBED, Stage.TREE, Stage.INDEX, Stage.PUBLISH]
