"""The difference between two runs of one search."""

from corpusmesh_core.evaluation.replaying import (
    DifferenceKind,
    GoneReason,
    HitDifference,
    RankedHit,
    compare_runs,
)


def run(*hits: tuple[str, float]) -> list[RankedHit]:
    return [RankedHit(*hit) for hit in hits]


def test_the_same_run_differs_in_nothing() -> None:
    hits = run(("a", 0.9), ("b", 0.5))
    assert compare_runs(hits, hits) == []
    assert compare_runs(hits, run(("a", 0.90001), ("b", 0.5))) == []


def test_every_kind_of_difference_is_told_in_order() -> None:
    before = run(("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.6), ("e", 0.5))
    now = run(("a", 0.91), ("c", 0.7), ("n", 0.65))
    assert compare_runs(before, now, hidden={"b"}, candidates={"e": 0.1, "a": 0.91}) == [
        HitDifference("a", DifferenceKind.RESCORED, 1, 1, 0.9, 0.91),
        HitDifference("c", DifferenceKind.MOVED, 3, 2, 0.7, 0.7),
        HitDifference("n", DifferenceKind.NEW, 0, 3, 0.0, 0.65),
        HitDifference("b", DifferenceKind.GONE, 2, 0, 0.8, 0.0, GoneReason.HIDDEN),
        HitDifference("d", DifferenceKind.GONE, 4, 0, 0.6, 0.0, GoneReason.NO_CANDIDATE),
        HitDifference("e", DifferenceKind.GONE, 5, 0, 0.5, 0.1, GoneReason.RANKED_LOWER),
    ]
