"""How far a run is, as it is shown: a stage that has nothing to do is no stage of it."""

from collections.abc import Mapping

import pytest

from corpusmesh_core.orchestration import machine
from corpusmesh_core.orchestration.values import (
    Advance,
    Dispatch,
    Lane,
    PartFailure,
    Policy,
    Run,
    RunKind,
    RunState,
    Stage,
    Task,
    TaskState,
)
from corpusmesh_ingest.handlers.runs import stage_progress


def shown(passed: Mapping[Stage, int], skipped: Mapping[Stage, int], *, parts: int = 4) -> dict[str, tuple[int, int]]:
    run = Run("run", RunKind.INGEST, RunState.RUNNING, Lane.BULK, part_count=parts, passed=passed, skipped=skipped)
    return {entry.stage: (entry.done_count, entry.open_count) for entry in stage_progress(run)}


BEFORE = {Stage.PARSE: 4, Stage.CHUNK: 4, Stage.ENRICH: 4}


@pytest.mark.parametrize(
    ("passed", "skipped", "expected"),
    [
        ({}, {}, {"embed": (0, 4)}),
        # Two of four are embedded and need no tree.
        ({Stage.EMBED: 2, Stage.TREE: 2}, {Stage.TREE: 2}, {"embed": (2, 2), "index": (0, 2)}),
        ({Stage.EMBED: 2}, {}, {"embed": (2, 2), "tree": (0, 2)}),
        ({Stage.EMBED: 4, Stage.TREE: 3}, {}, {"embed": (4, 0), "tree": (3, 1), "index": (0, 3)}),
        # Trees were switched on in the middle of the run.
        (
            {Stage.EMBED: 4, Stage.TREE: 3, Stage.INDEX: 1},
            {Stage.TREE: 2},
            {"embed": (4, 0), "tree": (1, 1), "index": (1, 2), "publish": (0, 1)},
        ),
    ],
)
def test_stages_are_shown_from_their_first_part_on(
    passed: dict[Stage, int], skipped: dict[Stage, int], expected: dict[str, tuple[int, int]]
) -> None:
    found = shown(BEFORE | passed, skipped)
    assert found == {"parse": (4, 0), "chunk": (4, 0), "enrich": (4, 0), **expected}


def test_a_run_without_parts_shows_no_stage() -> None:
    assert shown({}, {}, parts=0) == {}


def test_parts_that_skip_a_stage_count_as_passed_and_are_told_apart() -> None:
    policy = Policy()
    run = machine.extend(Run("r", RunKind.INGEST, RunState.PENDING, Lane.BULK), [(1, 2, 3)]).run
    task = Task("r.0.embed", "r", "0", Stage.EMBED, Lane.BULK, TaskState.PENDING, (1, 2, 3))
    claimed = machine.claim(run, task, dispatch=1, worker="w", now_seconds=0.0, policy=policy)
    assert claimed.task is not None
    decision = machine.complete(
        claimed.run,
        claimed.task,
        epoch=1,
        failures=[PartFailure(2, "X", "x")],
        now_seconds=0.0,
        policy=policy,
        advance=Advance(skips=frozenset({Stage.TREE})),
    )
    assert decision.run.passed == {Stage.EMBED: 2, Stage.TREE: 2}
    assert decision.run.skipped == {Stage.TREE: 2}
    [following] = [effect.task for effect in decision.effects if isinstance(effect, Dispatch)]
    assert (following.stage, following.parts) == (Stage.INDEX, (1, 3))
