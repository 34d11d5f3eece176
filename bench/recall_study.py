"""Compare ways to use variants of a question, derived records and corrected words, with the product's own ranking code.

    python bench/recall_study.py EVAL_DIRECTORY VECTOR_DIRECTORY MODEL_DIRECTORY {variants,derived,typos}

The directories are those of `fusion_study.py`; MODEL_DIRECTORY holds the embedding model, for texts that the stored
vectors do not cover. Tables go into docs/adr/0006-fusion.md and the modules that hold the numbers.
"""

import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fusion_study import _FIELDS, _OTHER_SCRIPT_WINDOW, _WINDOW, Bm25, Task, tasks
from numpy.typing import NDArray

from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.propositions import extract_propositions
from corpusmesh_core.enrichment.questions import rule_questions
from corpusmesh_core.evaluation.measures import ndcg_at, recall_at
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, VariantCandidates, lift_by_derived, rank_candidates
from corpusmesh_core.ranking.derived import PENALTY_BY_KIND
from corpusmesh_core.ranking.variants import _united
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import Alternative, QueryTerms, analyze, analyze_query, is_stop_word, script_of

OPTIONS = RankingOptions()
Vector = NDArray[np.float32]


class Space:
    """One set in memory, searched as the index searches it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.fields = {
            "fine": Bm25([title.fine + body.fine for title, body in task.analyzed]),
            "coarse": Bm25([title.coarse + body.coarse for title, body in task.analyzed]),
            "title": Bm25([title.fine for title, _ in task.analyzed]),
        }
        self.contents = [" ".join(title.fine + body.fine) for title, body in task.analyzed]
        self.scripts = np.array([script_of(body.fine or title.fine).value for title, body in task.analyzed])
        self.frequencies = self.fields["fine"].frequencies
        self.records = [Record(name, RecordKind.CHUNK, "kb", Ordinal(0), (Ordinal(0),), "") for name in task.ids]

    def lexical(self, terms: QueryTerms) -> NDArray[np.float64]:
        total = np.zeros(len(self.records))
        for field, weight in _FIELDS:
            total += weight * self.fields[field].score(terms.coarse if field == "coarse" else terms.fine)
        for alternative in terms.alternatives:
            total += alternative.weight * self.fields["fine"].score(alternative.phrase)
        return total

    def find(self, terms: QueryTerms, vector: Vector, asked: tuple[QueryTerms, Vector] | None = None) -> Candidates:
        lexical, cosines = self.lexical(terms), (self.task.vectors @ vector).astype(np.float64)
        reference = (self.lexical(asked[0]), (self.task.vectors @ asked[1]).astype(np.float64)) if asked else None
        by_words = [row for row in np.argsort(-lexical, kind="stable")[:_WINDOW].tolist() if lexical[row] > 0]
        order = np.argsort(-cosines, kind="stable")
        opposite = {"spaced": "unspaced", "unspaced": "spaced"}.get(script_of(terms.fine).value)
        other = order[self.scripts[order] == opposite][:_OTHER_SCRIPT_WINDOW].tolist()
        items = tuple(
            Candidate(
                self.records[row],
                self.contents[row],
                script=str(self.scripts[row]),
                lexical_score=float(lexical[row]),
                cosine=float(cosines[row]),
                reference_lexical_score=float(reference[0][row]) if reference else None,
                reference_cosine=float(reference[1][row]) if reference else None,
            )
            for row in dict.fromkeys(by_words + order[:_WINDOW].tolist() + other)
        )
        known = {term: self.frequencies.get(term, 0) for term in terms.fine}
        return Candidates(items, len(self.records), known, has_vector_leg=True)


class Figures:
    """Means of recall@5, recall@10 and nDCG@10 by method."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[float, float, float]]] = defaultdict(list)

    def add(self, method: str, order: Sequence[str], gold: Sequence[str]) -> None:
        self._values[method].append(
            (recall_at(order[:10], gold, 5), recall_at(order[:10], gold, 10), ndcg_at(order[:10], gold, 10))
        )

    def show(self, title: str) -> None:
        print(f"\n{title} (recall@5, recall@10, nDCG@10)")
        for method, values in self._values.items():
            print(f"  {method:<34}" + " ".join(f"{100 * value:5.1f}" for value in np.mean(values, axis=0)), flush=True)


def ids(ranked: Sequence[RankedCandidate]) -> list[str]:
    return [item.candidate.record.record_id for item in ranked]


Rule = Callable[[float, float, float], float]
"""From the question's similarity, the weighted one of the best variant, and the best direct hit to the similarity."""

RULES: dict[str, Rule] = {
    "max": lambda own, other, _: max(own, other),
    "max, behind the best direct hit": lambda own, other, best: max(own, min(other, best - 1e-3)),
    "half the gain": lambda own, other, _: own + max(0.0, other - own) / 2,
    "noisy or": lambda own, other, _: 1 - (1 - own) * (1 - other / 2),
    "sum": lambda own, other, _: own + other,
}


def similarities(found: VariantCandidates) -> dict[str, float]:
    ranked = rank_candidates(found.candidates, found.terms, OPTIONS)
    return {item.candidate.record.record_id: item.similarity for item in ranked}


def by_rule(own: dict[str, float], others: Sequence[dict[str, float]], weight: float, rule: Rule) -> list[str]:
    best = max(own.values())
    scored = {
        name: rule(score, weight * max((other.get(name, 0.0) for other in others), default=0.0), best)
        for name, score in own.items()
    }
    return sorted(scored, key=lambda name: -scored[name])


@dataclass
class Variants:
    """What is searched beside each question."""

    name: str
    texts: list[list[str]]
    vectors: list[list[Vector]]


def variants_of(task: Task, folder: Path, vectors: Path, backend: OnnxEmbeddingBackend) -> Iterator[Variants]:
    count = len(task.questions)
    order = list(range(count))
    random.Random(1).shuffle(order)
    others = [order[(order.index(row) + 1) % count] for row in range(count)]
    yield Variants(
        "another question", [[task.questions[row][0]] for row in others], [[task.query_vectors[row]] for row in others]
    )
    name = task.name.split(" ")[0]
    entries = [json.loads(line) for line in (folder / name / "queries.jsonl").open(encoding="utf-8")]
    if name == "xling":
        language = "zh" if " en" in task.name else "en"
        stored = np.load(vectors / f"xling.queries_{language}.npy")
        texts = [[entry[f"question_{language}"]] for entry in entries]
        yield Variants("translation", texts, [[row] for row in stored])
    if entries[0].get("triples"):
        parts = [[" ".join(triple[:2]) for triple in entry["triples"]] for entry in entries]
        flat = backend.encode([text for texts in parts for text in texts], role=EmbedRole.QUERY).vectors
        following = iter(flat)
        yield Variants("parts, all known", parts, [[next(following) for _ in texts] for texts in parts])
        firsts = [texts[:1] for texts in parts]
        flat = backend.encode([texts[0] for texts in firsts], role=EmbedRole.QUERY).vectors
        yield Variants("first part", firsts, [[row] for row in flat])


def study_variants(folder: Path, vectors: Path, backend: OnnxEmbeddingBackend) -> None:
    for task in tasks(folder, vectors, ["2wiki", "xling"]):
        if "→" in task.name and not task.name.endswith("both") and task.name != "xling en→en":
            continue
        space = Space(task)
        for variants in variants_of(task, folder, vectors, backend):
            figures = Figures()
            for (text, gold), vector, texts, others in zip(
                task.questions, task.query_vectors, variants.texts, variants.vectors, strict=True
            ):
                terms = analyze_query(text)
                question = VariantCandidates(space.find(terms, vector), terms)
                figures.add("the question alone", ids(rank_candidates(question.candidates, terms, OPTIONS)), gold)
                found = [
                    VariantCandidates(space.find(analyze_query(other), row, (terms, vector)), analyze_query(other))
                    for other, row in zip(texts, others, strict=True)
                ]
                own = similarities(VariantCandidates(_united(question.candidates, found), terms))
                other = [similarities(part) for part in found]
                for weight in (0.5, 0.8, 0.9, 1.0):
                    for rule_name, rule in RULES.items():
                        figures.add(f"{rule_name}, {weight}", by_rule(own, other, weight, rule), gold)
            figures.show(f"{task.name}, {variants.name}")


def _chunk(row: int, title: str, text: str) -> Chunk:
    return Chunk(position=row, text=text, heading_path=(title,), page=0, boxes=(), token_count=0)


def study_derived(folder: Path, vectors: Path, backend: OnnxEmbeddingBackend) -> None:
    for task in tasks(folder, vectors, ["xling", "mh_small"]):
        if task.name in ("xling en→zh", "xling zh→en"):
            continue
        space = Space(task)
        name = task.name.split(" ")[0]
        corpus = [json.loads(line) for line in (folder / name / "corpus.jsonl").open(encoding="utf-8")]
        entry_by_id = {entry["id"]: entry for entry in corpus}
        chunks = [_chunk(row, entry_by_id[key]["title"], entry_by_id[key]["text"]) for row, key in enumerate(task.ids)]
        made = {
            RecordKind.PROPOSITION: [extract_propositions(chunk) for chunk in chunks],
            RecordKind.QUESTION: rule_questions(chunks, count=3),
        }
        figures = Figures()
        spaces = {kind: _derived_space(task, kind, texts, backend) for kind, texts in made.items()}
        for (text, gold), vector in zip(task.questions, task.query_vectors, strict=True):
            terms = analyze_query(text)
            ranked = rank_candidates(space.find(terms, vector), terms, OPTIONS)
            figures.add("chunks alone", ids(ranked), gold)
            for kind, (derived, links) in spaces.items():
                found = derived.find(terms, vector)
                found = replace(
                    found,
                    items=tuple(
                        replace(item, record=replace(item.record, kind=kind, links=(links[item.record.record_id],)))
                        for item in found.items
                    ),
                )
                for penalty in (0.0, 0.04, 0.08, 0.12, 0.16):
                    lifted = rank_candidates(found, terms, OPTIONS)
                    PENALTY_BY_KIND[kind] = penalty  # type: ignore[index] # a study turns what is fixed elsewhere
                    figures.add(
                        f"{kind.value}s, penalty {penalty}", ids(lift_by_derived(ranked, lifted, OPTIONS)), gold
                    )
        figures.show(
            f"{task.name}, {sum(map(len, made[RecordKind.PROPOSITION])) / len(chunks):.1f} statements a passage"
        )


def _derived_space(
    task: Task, kind: RecordKind, texts: Sequence[Sequence[str]], backend: OnnxEmbeddingBackend
) -> tuple[Space, dict[str, str]]:
    flat = [(row, text) for row, own in enumerate(texts) for text in own]
    titles = ["\n".join([" ".join(task.analyzed[row][0].coarse)]) for row, _ in flat]
    vectors = np.concatenate(
        [
            backend.encode(
                [f"{title}\n{text}" for title, (_, text) in zip(titles[at : at + 64], flat[at : at + 64], strict=True)],
                role=EmbedRole.PASSAGE,
            ).vectors
            for at in range(0, len(flat), 64)
        ]
    )
    names = [f"{kind.value}-{number}" for number in range(len(flat))]
    analyzed = [(task.analyzed[row][0], analyze(text)) for row, text in flat]
    made = Task(task.name, names, analyzed, vectors, task.questions, task.query_vectors)
    return Space(made), {name: task.ids[row] for name, (row, _) in zip(names, flat, strict=True)}


def with_typos(text: str, dice: random.Random) -> str:
    """Spoil about every third telling word by one edit, never its first letter."""
    words = text.split(" ")
    for place, word in enumerate(words):
        if len(word) < 5 or not word.isascii() or is_stop_word(word.lower()) or dice.random() > 0.35:
            continue
        at = dice.randrange(1, len(word) - 1)
        letter = dice.choice("aeinorst")
        words[place] = dice.choice(
            [
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at:],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            ]
        )
    return " ".join(words)


def distance_at_most(first: str, second: str, most: int) -> bool:
    """Compare by edits (insert, delete, replace, swap neighbours)."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        older, before, row = before, row, [i]
        for j, b in enumerate(second, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return False
    return row[-1] <= most


def spellings(terms: QueryTerms, frequencies: dict[str, int], weight: float, *, most: int = 3) -> QueryTerms:
    found: list[Alternative] = []
    for term in terms.fine:
        if term in frequencies or len(term) < 4 or not term.isascii() or not term.isalpha():
            continue
        near = [
            word
            for word in frequencies
            if word[0] == term[0] and abs(len(word) - len(term)) <= 1 and distance_at_most(term, word, 1)
        ]
        found += [Alternative((term,), (word,), weight) for word in sorted(near, key=lambda w: -frequencies[w])[:most]]
    return replace(terms, alternatives=tuple(found))


def study_typos(folder: Path, vectors: Path, backend: OnnxEmbeddingBackend) -> None:
    for task in tasks(folder, vectors, ["mh_small", "2wiki"]):
        space = Space(task)
        dice = random.Random(3)
        asked = task.questions[:200]
        spoiled = [with_typos(text, dice) for text, _ in asked]
        rows = backend.encode(spoiled, role=EmbedRole.QUERY).vectors
        figures = Figures()
        for (text, gold), vector, wrong, row in zip(asked, task.query_vectors, spoiled, rows, strict=False):
            right = analyze_query(text)
            figures.add("as it was", ids(rank_candidates(space.find(right, vector), right, OPTIONS)), gold)
            terms = analyze_query(wrong)
            spoilt = space.find(terms, row)
            figures.add(
                "typos, words alone",
                [i.record.record_id for i in sorted(spoilt.items, key=lambda i: -(i.lexical_score or 0.0))],
                gold,
            )
            figures.add(
                "typos, vector alone",
                [i.record.record_id for i in sorted(spoilt.items, key=lambda i: -(i.cosine or 0.0))],
                gold,
            )
            figures.add("typos", ids(rank_candidates(spoilt, terms, OPTIONS)), gold)
            for weight in (0.5, 0.7, 0.9):
                better = spellings(terms, space.frequencies, weight)
                found = space.find(better, row)
                figures.add(
                    f"typos, spellings at {weight}, words alone",
                    [i.record.record_id for i in sorted(found.items, key=lambda i: -(i.lexical_score or 0.0))],
                    gold,
                )
                figures.add(f"typos, spellings at {weight}", ids(rank_candidates(found, better, OPTIONS)), gold)
        figures.show(f"{task.name}, typos")


def main() -> None:
    folder, vectors, model = (Path(argument) for argument in sys.argv[1:4])
    backend = OnnxEmbeddingBackend(model, thread_count=1)
    {"variants": study_variants, "derived": study_derived, "typos": study_typos}[sys.argv[4]](folder, vectors, backend)


if __name__ == "__main__":
    main()
