"""Compare ways to fuse full text and vectors on the evaluation sets, with the product's own ranking code.

    python bench/fusion_study.py EVAL_DIRECTORY VECTOR_DIRECTORY [SET ...]

EVAL_DIRECTORY holds one folder per set with `corpus.jsonl` and `queries.jsonl`; VECTOR_DIRECTORY holds
`<set>.passages.npy` and `<set>.queries.npy` (for `xling` `xling.queries_en.npy` and `xling.queries_zh.npy`), unit norm,
rows in the order of the files. BM25 is that of the index: same terms, fields, weights, k1 and b, in exact arithmetic.
Settings are fixed on these development halves; the table goes into docs/adr/0006-fusion.md.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.evaluation.measures import ndcg_at, recall_at
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import Fusion, RankingOptions, VectorScale, rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import AnalyzedText, QueryTerms, analyze, analyze_query, script_of

_K1, _B = 0.9, 0.4
_FIELDS = (("fine", 1.0), ("coarse", 0.5), ("title", 0.2))
_WINDOW = 64
_OTHER_SCRIPT_WINDOW = 16
_DEPTH = 10

METHODS: dict[str, RankingOptions] = {
    "rrf": RankingOptions(Fusion.RECIPROCAL_RANK),
    "min-max": RankingOptions(Fusion.MIN_MAX),
    "z-score": RankingOptions(Fusion.Z_SCORE),
    "seed": RankingOptions(Fusion.TERM_COVERAGE),
    "adaptive": RankingOptions(),
    "… one weight 0.5": RankingOptions(vector_weight=0.5),
    "… one weight 0.7": RankingOptions(vector_weight=0.7),
    "… one weight 0.8": RankingOptions(vector_weight=0.8),
    "… gain 0.06": RankingOptions(scale=VectorScale(cross_script_gain=0.06)),
    "… no gain": RankingOptions(scale=VectorScale(cross_script_gain=0.0)),
    "… with pairs": RankingOptions(bigram_share=0.1),
}


class Bm25:
    """Lucene's BM25 over lists of terms."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        lengths = np.array([len(document) for document in documents], dtype=np.float64)
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, document in enumerate(documents):
            for term, count in Counter(document).items():
                postings[term].append((number, count))
        self.count = len(documents)
        self.frequencies = {term: len(entries) for term, entries in postings.items()}
        norm = _K1 * (1 - _B + _B * lengths / max(1.0, float(lengths.mean())))
        self._scores: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for term, entries in postings.items():
            numbers = np.array([number for number, _ in entries])
            counts = np.array([count for _, count in entries], dtype=np.float64)
            weight = np.log1p((self.count - len(entries) + 0.5) / (len(entries) + 0.5))
            self._scores[term] = (numbers, weight * counts / (counts + norm[numbers]))

    def score(self, terms: Sequence[str]) -> NDArray[np.float64]:
        total = np.zeros(self.count)
        for term in terms:
            if term in self._scores:
                numbers, scores = self._scores[term]
                total[numbers] += scores
        return total


@dataclass
class Task:
    name: str
    ids: list[str]
    analyzed: list[tuple[AnalyzedText, AnalyzedText]]
    vectors: NDArray[np.float32]
    questions: list[tuple[str, list[str]]]
    query_vectors: NDArray[np.float32]


def joined(first: Task, second: Task) -> Iterator[Task]:
    """Put two sets of different languages into one index, and ask the questions of each: nothing should get worse."""
    for asked, other in ((first, second), (second, first)):
        yield Task(
            f"{asked.name} among {other.name}",
            asked.ids + other.ids,
            asked.analyzed + other.analyzed,
            np.concatenate([asked.vectors, other.vectors]),
            asked.questions,
            asked.query_vectors,
        )


def with_joined(singles: Iterable[Task]) -> Iterator[Task]:
    seen: dict[str, Task] = {}
    for task in singles:
        yield task
        seen[task.name] = task
    if {"zh", "2wiki"} <= seen.keys():
        yield from joined(seen["zh"], seen["2wiki"])


def tasks(eval_directory: Path, vector_directory: Path, names: Sequence[str]) -> Iterator[Task]:
    for name in names:
        if not (vector_directory / f"{name}.passages.npy").exists():
            print(f"{name}: no vectors, left out")
            continue
        folder = eval_directory / name
        corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
        queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
        analyzed = [(analyze(entry["title"]), analyze(entry["text"])) for entry in corpus]
        vectors = np.load(vector_directory / f"{name}.passages.npy")
        ids = [entry["id"] for entry in corpus]
        if name != "xling":
            questions = [(query["question"], query["gold_ids"]) for query in queries]
            yield Task(name, ids, analyzed, vectors, questions, np.load(vector_directory / f"{name}.queries.npy"))
            continue
        for asked in ("en", "zh"):
            query_vectors = np.load(vector_directory / f"xling.queries_{asked}.npy")
            for read in ("en", "zh", ""):
                rows = [row for row, entry_id in enumerate(ids) if entry_id.startswith(read)]
                yield Task(
                    f"xling {asked}→{read or 'both'}",
                    [ids[row] for row in rows],
                    [analyzed[row] for row in rows],
                    vectors[rows],
                    [
                        (query[f"question_{asked}"], [gold for gold in query["gold_ids"] if gold.startswith(read)])
                        for query in queries
                    ],
                    query_vectors,
                )


def recall(task: Task) -> Iterator[tuple[QueryTerms, Candidates, list[str]]]:
    """Recall candidates as the index does: two legs, and one over the other script."""
    fields = {
        "fine": Bm25([title.fine + body.fine for title, body in task.analyzed]),
        "coarse": Bm25([title.coarse + body.coarse for title, body in task.analyzed]),
        "title": Bm25([title.fine for title, _ in task.analyzed]),
    }
    contents = [" ".join(title.fine + body.fine) for title, body in task.analyzed]
    scripts = np.array([script_of(body.fine or title.fine).value for title, body in task.analyzed])
    for (question, gold), vector in zip(task.questions, task.query_vectors, strict=True):
        terms = analyze_query(question)
        lexical = np.zeros(len(task.ids))
        for field, weight in _FIELDS:
            lexical += weight * fields[field].score(terms.coarse if field == "coarse" else terms.fine)
        cosines = (task.vectors @ vector).astype(np.float64)
        by_words = [row for row in np.argsort(-lexical, kind="stable")[:_WINDOW].tolist() if lexical[row] > 0]
        order = np.argsort(-cosines, kind="stable")
        by_vector = order[:_WINDOW].tolist()
        opposite = {"spaced": "unspaced", "unspaced": "spaced"}.get(script_of(terms.fine).value)
        other = order[scripts[order] == opposite][:_OTHER_SCRIPT_WINDOW].tolist()
        items = tuple(
            Candidate(
                Record(task.ids[row], RecordKind.CHUNK, "kb", Ordinal(0), (Ordinal(0),), ""),
                contents[row],
                script=str(scripts[row]),
                lexical_score=float(lexical[row]),
                lexical_rank=by_words.index(row) + 1 if row in by_words else 0,
                cosine=float(cosines[row]),
                vector_rank=by_vector.index(row) + 1 if row in by_vector else 0,
            )
            for row in dict.fromkeys(by_words + by_vector + other)
        )
        known = {term: fields["fine"].frequencies.get(term, 0) for term in terms.fine}
        yield terms, Candidates(items, fields["fine"].count, known), gold


def main() -> None:
    eval_directory, vector_directory = Path(sys.argv[1]), Path(sys.argv[2])
    names = sys.argv[3:] or ["2wiki", "mh_small", "scifact", "popqa", "zh", "xling"]
    for task in with_joined(tasks(eval_directory, vector_directory, names)):
        figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for terms, candidates, gold in recall(task):
            items = candidates.items
            orders = {
                "BM25": [i.record.record_id for i in sorted(items, key=lambda item: -(item.lexical_score or 0.0))],
                "vector": [i.record.record_id for i in sorted(items, key=lambda item: -(item.cosine or 0.0))],
            }
            for method, options in METHODS.items():
                ranked = rank_candidates(candidates, terms, options)
                orders[method] = [item.candidate.record.record_id for item in ranked if item.is_kept]
            for method, order in orders.items():
                top = order[:_DEPTH]
                figures[method].append((recall_at(top, gold, 5), ndcg_at(top, gold, _DEPTH)))
        print(f"\n{task.name}: {len(task.ids)} passages, {len(task.questions)} questions (recall@5, nDCG@10)")
        best = np.max([np.mean(figures[leg], axis=0) for leg in ("BM25", "vector")], axis=0)
        for method, values in figures.items():
            means = np.mean(values, axis=0)
            verdict = "" if method in ("BM25", "vector") else ("ok" if (means >= best - 1e-9).all() else "below a leg")
            print(f"  {method:<18} {100 * means[0]:5.1f} {100 * means[1]:5.1f}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
