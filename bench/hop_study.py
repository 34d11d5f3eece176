"""Measure on the evaluation sets what following names adds to the first search, with the product's own ranking code.

    python bench/hop_study.py EVAL_DIRECTORY VECTOR_DIRECTORY [SET ...]

The folders are those of `bench/fusion_study.py`, whose recall this uses. The search for titles is that of the index: a
record is found if its title holds one of the names as a phrase, the best 24 by BM25 over titles. Settings are fixed on
these development halves; the table goes into docs/evaluation.md.
"""

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import fusion_study
import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.evaluation.measures import ndcg_at, recall_at
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import (
    Fusion,
    RankedCandidate,
    RankingOptions,
    inverse_document_frequencies,
    merge_ranked,
    rank_candidates,
)
from corpusmesh_core.ranking.hops import HopOptions, follow_names, names_to_search, naming_texts
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import QueryTerms

_WINDOW = 24
METHODS: dict[str, HopOptions] = {
    "names": HopOptions(),
    "… gain 0.3": HopOptions(gain=0.3),
    "… gain 0.5": HopOptions(gain=0.5),
    "… decay 0.8": HopOptions(decay=0.8),
    "… no sentences": HopOptions(sentence_share=0.0),
    "… sentences 0.8": HopOptions(sentence_share=0.8),
}


class TitleLeg:
    """The index's search for titles that hold a name."""

    def __init__(self, titles: Sequence[tuple[str, ...]]) -> None:
        self._titles = titles
        self._scores = fusion_study.Bm25(titles)
        self._rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row, title in enumerate(titles):
            parts = {title[first:last] for first in range(len(title)) for last in range(first + 1, len(title) + 1)}
            for part in parts:
                if len(part) <= 10:
                    self._rows[part].append(row)

    def search(self, names: Sequence[tuple[str, ...]]) -> list[int]:
        best: Counter[int] = Counter()
        for name in names:
            rows = self._rows.get(name, [])
            if rows:
                scores = self._scores.score(name)
                for row in rows:
                    best[row] = max(best[row], scores[row])
        return [row for row, _ in best.most_common(_WINDOW)]


def with_records(candidates: Candidates, records: dict[str, tuple[str, str]]) -> Candidates:
    """Give the candidates of the fusion study their titles and texts."""
    return replace(
        candidates,
        items=tuple(replace(item, record=make_record(item.record.record_id, records)) for item in candidates.items),
    )


def make_record(record_id: str, records: dict[str, tuple[str, str]]) -> Record:
    title, text = records[record_id]
    return Record(record_id, RecordKind.CHUNK, "kb", Ordinal(0), (Ordinal(0),), text, title=title)


def ordered(
    candidates: Candidates, terms: QueryTerms, score: Callable[[Candidate], float]
) -> tuple[RankedCandidate, ...]:
    """Order by one leg alone."""
    ranked = rank_candidates(candidates, terms, RankingOptions())
    return tuple(sorted(ranked, key=lambda item: -score(item.candidate)))


def hop(
    task: fusion_study.Task,
    question: str,
    vector: NDArray[np.float32],
    terms: QueryTerms,
    first: Candidates,
    search: Callable[[Sequence[tuple[str, ...]]], list[int]],
    records: dict[str, tuple[str, str]],
    options: HopOptions,
) -> tuple[RankedCandidate, ...]:
    ranked = rank_candidates(first, terms, RankingOptions())
    texts = naming_texts(question, ranked, options=options)
    rows = search(names_to_search(texts))
    items = tuple(
        Candidate(
            make_record(task.ids[row], records),
            " ".join(task.analyzed[row][0].fine + task.analyzed[row][1].fine),
            lexical_score=0.0,
            cosine=float(task.vectors[row] @ vector),
        )
        for row in rows
    )
    weights = dict(
        zip(
            terms.fine,
            inverse_document_frequencies(terms.fine, first.document_frequencies, first.document_count).tolist(),
            strict=True,
        )
    )
    further = rank_candidates(replace(first, items=items), terms, RankingOptions())
    return follow_names(texts, merge_ranked(ranked, further), terms, weights, options=options)


def main() -> None:
    eval_directory, vector_directory = Path(sys.argv[1]), Path(sys.argv[2])
    names = sys.argv[3:] or ["2wiki", "mh_small", "scifact", "popqa", "zh", "xling"]
    for task in fusion_study.tasks(eval_directory, vector_directory, names):
        folder = task.name.split()[0]
        lines = (eval_directory / folder / "corpus.jsonl").open(encoding="utf-8")
        records = {entry["id"]: (entry["title"], entry["text"]) for entry in map(json.loads, lines)}
        leg = TitleLeg([title.fine for title, _ in task.analyzed])
        figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
        seconds: dict[str, list[float]] = defaultdict(list)
        for (terms, candidates, gold), (question, _), vector in zip(
            fusion_study.recall(task), task.questions, task.query_vectors, strict=True
        ):
            first = with_records(candidates, records)
            orders = {
                "full text": ordered(first, terms, lambda item: item.lexical_score or 0.0),
                "vectors": ordered(first, terms, lambda item: item.cosine or 0.0),
                "RRF": rank_candidates(first, terms, RankingOptions(Fusion.RECIPROCAL_RANK)),
                "first search": rank_candidates(first, terms, RankingOptions()),
            }
            for method, options in METHODS.items():
                started = time.perf_counter()
                orders[method] = hop(task, question, vector, terms, first, leg.search, records, options)
                seconds[method].append(time.perf_counter() - started)
            for method, ranked in orders.items():
                top = [item.candidate.record.record_id for item in ranked if item.is_kept][:10]
                figures[method].append((recall_at(top, gold, 5), ndcg_at(top, gold, 10)))
        print(f"\n{task.name}: {len(task.ids)} passages, {len(task.questions)} questions (recall@5, nDCG@10)")
        for method, values in figures.items():
            means = np.mean(values, axis=0)
            cost = f"{1000 * np.median(seconds[method]):5.1f} ms" if seconds[method] else ""
            print(f"  {method:<18} {100 * means[0]:5.1f} {100 * means[1]:5.1f} {cost}", flush=True)


if __name__ == "__main__":
    main()
