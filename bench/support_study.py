"""How well the calibrated confidence tells answerable from unanswerable questions, on the product's own ranking.

    python bench/support_study.py EVAL_DIRECTORY VECTOR_DIRECTORY [SET ...]

Each question is judged twice: by its twelve best passages (where a gold one is among them), and by the twelve best
without the gold. Directories are as for `fusion_study.py`, which this stands on. Figures go into the docstring of
`corpusmesh_core.answering.support`; with `--fit` new weights are printed, fitted with classes and sets weighed alike.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fusion_study import recall, tasks
from numpy.typing import NDArray

from corpusmesh_core.answering import Evidence, Support, measure_support
from corpusmesh_core.answering.support import DEFAULT_CALIBRATION
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, rank_candidates
from corpusmesh_core.text import Script, analyze, script_of

_EVIDENCE_COUNT = 12
_QUESTIONS_PER_SET = 200
_SEED = 7
_STEPS, _RIDGE = 200, 0.3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One question beside one choice of evidence."""

    name: str
    kind: str
    is_answerable: bool
    support: Support
    margin: float


def cases(eval_directory: Path, vector_directory: Path, names: Sequence[str]) -> Iterator[Case]:
    dice = np.random.default_rng(_SEED)
    for task in tasks(eval_directory, vector_directory, names):
        if task.name.endswith("both"):
            continue
        folder = eval_directory / task.name.partition(" ")[0]
        with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
            passages = {entry["id"]: entry for entry in map(json.loads, lines)}
        chosen = set(dice.permutation(len(task.questions))[:_QUESTIONS_PER_SET].tolist())
        for number, (terms, candidates, gold) in enumerate(recall(task)):
            if number not in chosen:
                continue
            ranked = rank_candidates(candidates, terms, RankingOptions())
            question = task.questions[number][0]
            best = ranked[:_EVIDENCE_COUNT]
            if any(item.candidate.record.record_id in gold for item in best):
                yield case(task.name, question, best, passages, is_answerable=True)
            # The same passage in the other language answers too.
            numbers = {entry.partition("-")[2] for entry in gold} if task.name.startswith("xling") else set()
            others = [
                item
                for item in ranked
                if item.candidate.record.record_id not in gold
                and item.candidate.record.record_id.partition("-")[2] not in numbers
            ]
            yield case(task.name, question, others[:_EVIDENCE_COUNT], passages, is_answerable=False)


def case(
    name: str,
    question: str,
    ranked: Sequence[RankedCandidate],
    passages: dict[str, dict[str, str]],
    *,
    is_answerable: bool,
) -> Case:
    evidence = [
        Evidence(
            item.candidate.record.record_id,
            passages[item.candidate.record.record_id]["text"],
            passages[item.candidate.record.record_id]["title"],
            100,
            cosine=item.candidate.cosine,
        )
        for item in ranked
    ]
    support = measure_support(question, evidence)
    cosines = np.array([piece.cosine for piece in evidence])
    asked = script_of(analyze(question).fine)
    told = script_of(analyze(evidence[support.best or 0].text).fine)
    kind = "across" if {asked, told} == {Script.SPACED, Script.UNSPACED} else asked.value
    return Case(name, kind, is_answerable, support, float(cosines.max() - np.median(cosines)))


def area_under_curve(scores: Floats, labels: NDArray[np.bool_]) -> float:
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positive = int(labels.sum())
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive)))


def show(title: str, found: Sequence[Case]) -> None:
    scores = np.array([entry.support.confidence for entry in found])
    labels = np.array([entry.is_answerable for entry in found])
    answered = scores >= DEFAULT_CALIBRATION.min_confidence
    right = 0.5 * (answered[labels].mean() + (~answered[~labels]).mean())
    print(
        f"{title:<12} {len(found):5d} cases  AUC {area_under_curve(scores, labels):.3f}  right {100 * right:.1f} %"
        f"  answered: with gold {100 * answered[labels].mean():.1f} %, without {100 * answered[~labels].mean():.1f} %",
        flush=True,
    )


def fit(found: Sequence[Case]) -> Floats:
    """Fit intercept, coverage, cosine and margin by Newton's method with a small ridge."""
    signals = np.array([(one.support.covered, one.support.cosine or 0.0, one.margin) for one in found])
    labels = np.array([one.is_answerable for one in found], dtype=np.float64)
    groups = [(one.name, one.is_answerable) for one in found]
    weights = np.array([len(found) / groups.count(group) for group in groups])
    weights /= weights.mean()
    middle, spread = signals.mean(axis=0), signals.std(axis=0)
    design = np.column_stack([np.ones(len(found)), (signals - middle) / spread])
    values = np.zeros(design.shape[1])
    ridge = _RIDGE * np.eye(len(values))
    for _ in range(_STEPS):
        predicted = 1.0 / (1.0 + np.exp(-design @ values))
        gradient = design.T @ (weights * (predicted - labels)) + ridge @ values
        curvature = (design * (weights * predicted * (1.0 - predicted))[:, None]).T @ design + ridge
        values = values - np.linalg.solve(curvature, gradient)
    slopes = values[1:] / spread
    return np.concatenate([[values[0] - slopes @ middle], slopes])


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--fit"]
    names = arguments[2:] or ["2wiki", "mh_small", "scifact", "popqa", "zh", "xling"]
    found = list(cases(Path(arguments[0]), Path(arguments[1]), names))
    for name in dict.fromkeys(entry.name for entry in found):
        show(name, [entry for entry in found if entry.name == name])
    for kind in dict.fromkeys(entry.kind for entry in found):
        own = [entry for entry in found if entry.kind == kind]
        show(kind, own)
        if "--fit" in sys.argv:
            print("  intercept, coverage, cosine, margin:", np.round(fit(own), 2).tolist())
    show("all", found)


if __name__ == "__main__":
    main()
