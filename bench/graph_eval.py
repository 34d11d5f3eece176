"""Measure on the evaluation sets what graphs without a model add to the first search, with the product's own code.

    python bench/graph_eval.py EVAL_DIRECTORY VECTOR_DIRECTORY [--without-titles VECTOR_DIRECTORY] [SET ...]

The folders are those of `bench/fusion_study.py`, whose recall this uses; the vectors of `--without-titles` are of the
texts alone, and then no document has a title: what leads from one to another is only what the texts say. The graph is
extracted, packed and compiled as the product does it, and what the walk asks for is scored against the question as the
index would. Questions are halved by their places to show how much figures vary; settings were chosen looking at both.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import fusion_study
import numpy as np
from hop_study import TitleLeg, hop
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.evaluation.measures import ndcg_at, recall_at
from corpusmesh_core.graph_search.page_rank import MAX_ROUNDS, GraphOptions, GraphSearch
from corpusmesh_core.graphs.extraction import extract_entities
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import (
    RankedCandidate,
    RankingOptions,
    inverse_document_frequencies,
    merge_ranked,
    rank_candidates,
)
from corpusmesh_core.ranking.hops import HopOptions
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id
from corpusmesh_core.text import QueryTerms, analyze

SETTINGS = GraphSettings(methods=(GraphMethod.NER,))
METHODS: dict[str, GraphOptions] = {"graph": GraphOptions()}


class Shelf:
    """The passages of a set by the ids that their records have in the product."""

    def __init__(self, task: fusion_study.Task, texts: Sequence[tuple[str, str]]) -> None:
        self.task = task
        self.texts = texts
        self.record_ids = [chunk_record_id(Ordinal(row + 1), 0) for row in range(len(texts))]
        self.row_of = {record_id: row for row, record_id in enumerate(self.record_ids)}
        self.contents = [" ".join(title.fine + body.fine) for title, body in task.analyzed]

    def record(self, row: int) -> Record:
        title, text = self.texts[row]
        return Record(
            self.record_ids[row], RecordKind.CHUNK, "kb", Ordinal(row + 1), (Ordinal(row + 1),), text, title=title
        )

    def candidates(self, rows: Sequence[int], vector: NDArray[np.float32], first: Candidates) -> Candidates:
        """Score records as the index scores those that are given by id."""
        items = tuple(
            Candidate(
                self.record(row),
                self.contents[row],
                lexical_score=0.0,
                cosine=float(self.task.vectors[row] @ vector),
            )
            for row in rows
        )
        return replace(first, items=items)


def view_of(texts: Sequence[tuple[str, str]]) -> tuple[GraphView, float]:
    started = time.process_time()
    documents = [
        SegmentDocument(row + 1, 1_000_000 + row, extract_entities([GraphChunk(0, text, title)], SETTINGS))
        for row, (title, text) in enumerate(texts)
    ]
    seconds = time.process_time() - started
    segment = Segment.open(pack_segment(documents))
    visible = BitMap([*range(1, len(texts) + 1), *range(1_000_000, 1_000_000 + len(texts))])
    return compile_view([segment], visible), seconds


@dataclass(frozen=True)
class Asked:
    """A question with what the first search has found."""

    question: str
    vector: NDArray[np.float32]
    terms: QueryTerms
    first: Candidates
    ranked: tuple[RankedCandidate, ...]


def walk(shelf: Shelf, view: GraphView, asked: Asked, options: GraphOptions) -> tuple[RankedCandidate, ...]:
    terms, first, ranked = asked.terms, asked.first, asked.ranked
    weights = dict(
        zip(
            terms.fine,
            inverse_document_frequencies(terms.fine, first.document_frequencies, first.document_count).tolist(),
            strict=True,
        )
    )
    search = GraphSearch(asked.question, terms, weights, view, options)
    for _ in range(MAX_ROUNDS):
        rows = [shelf.row_of[record_id] for record_id in search.wanted(ranked)]
        if not rows:
            break
        further = rank_candidates(shelf.candidates(rows, asked.vector, first), terms, RankingOptions())
        ranked = merge_ranked(ranked, further)
    return search.ranked(ranked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets_folder", type=Path)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("names", nargs="*", default=["2wiki", "mh_small", "scifact", "popqa", "zh", "xling"])
    parser.add_argument("--without-titles", type=Path, help="vectors of the texts alone")
    arguments = parser.parse_args()
    vectors = arguments.without_titles or arguments.vectors
    for task in fusion_study.tasks(arguments.sets_folder, vectors, arguments.names):
        measure(task, arguments.sets_folder, has_titles=arguments.without_titles is None)


def measure(task: fusion_study.Task, sets_folder: Path, *, has_titles: bool) -> None:
    lines = (sets_folder / task.name.split()[0] / "corpus.jsonl").open(encoding="utf-8")
    by_id = {entry["id"]: (entry["title"] if has_titles else "", entry["text"]) for entry in map(json.loads, lines)}
    if not has_titles:
        task.analyzed = [(analyze(""), body) for _, body in task.analyzed]
    shelf = Shelf(task, [by_id[row_id] for row_id in task.ids])
    view, seconds = view_of(shelf.texts)
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    spent: dict[str, list[float]] = defaultdict(list)
    leg = TitleLeg([title.fine for title, _ in task.analyzed])
    records = dict(zip(shelf.record_ids, shelf.texts, strict=True))
    known = {row_id: shelf.record_ids[row] for row, row_id in enumerate(task.ids)}
    task.ids = shelf.record_ids
    for (terms, candidates, gold), (question, _), vector in zip(
        fusion_study.recall(task), task.questions, task.query_vectors, strict=True
    ):
        first = replace(
            candidates,
            items=tuple(
                replace(item, record=shelf.record(shelf.row_of[item.record.record_id])) for item in candidates.items
            ),
        )
        asked = Asked(question, vector, terms, first, rank_candidates(first, terms, RankingOptions()))
        orders: dict[str, Callable[[], tuple[RankedCandidate, ...]]] = {
            "first search": partial(rank_candidates, first, terms, RankingOptions()),
            "names followed": partial(hop, task, question, vector, terms, first, leg.search, records, HopOptions()),
        }
        for method, options in METHODS.items():
            orders[method] = partial(walk, shelf, view, asked, options)
        wanted = [known[gold_id] for gold_id in gold]
        for method, order in orders.items():
            started = time.perf_counter()
            top = [item.candidate.record.record_id for item in order() if item.is_kept][:10]
            spent[method].append(time.perf_counter() - started)
            figures[method].append((recall_at(top, wanted, 5), ndcg_at(top, wanted, 10)))
    graph = view.graph
    print(
        f"\n{task.name}: {len(task.ids)} passages, {len(task.questions)} questions; {len(view.entity_keys)} entities, "
        f"{len(view.relation_ends)} relations, {len(graph.mentions.values)} mentions, extracted in "
        f"{1000 * seconds / len(task.ids):.1f} ms of CPU a passage"
    )
    print(f"  {'recall@5 / nDCG@10':<22} {'all':>12} {'even':>12} {'odd':>12}    p50, p95 ms")
    for method, values in figures.items():
        parts = [np.mean(values[start::step], axis=0) for start, step in ((0, 1), (0, 2), (1, 2))]
        cells = " ".join(f"{100 * part[0]:5.1f} /{100 * part[1]:5.1f}" for part in parts)
        times = np.percentile(spent[method], (50, 95)) * 1000
        print(f"  {method:<22} {cells}    {times[0]:.1f}, {times[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
