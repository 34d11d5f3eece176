"""Compare ways to make and to search trees of summaries, with the product's own clustering, summaries and scores.

    python bench/tree_study.py VECTOR_DIRECTORY {vectors,leading,order} [SET ...]

The documents and questions are those of `tree_sets.py`. VECTOR_DIRECTORY holds `<set>.passages.npy` of the evaluation
sets (see `fusion_study.py`); what else is embedded is kept in its folder `tree`. Evidence is filled in order up to a
budget of tokens, every way alike; a passage counts where its own text is in the evidence, the sentences of a summary
count for themselves, and the two are never mixed. Settings are fixed on these development sets; tables go into
docs/evaluation.md and docs/adr/0012.
"""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fusion_study import _FIELDS, Bm25
from numpy.typing import NDArray
from tree_forest import Embedder, Forest, Recipe, Stock, Vectors, grow, shape, stock_of
from tree_sets import SETS, Question, chain, tree_sets

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.evaluation.measures import ndcg_at
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankingOptions
from corpusmesh_core.ranking.scoring import similarities
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze, analyze_query, script_of

BUDGETS = (1_000, 2_000, 4_000)
_WINDOW = 64


class Searched:
    """What one question finds: similarities of leaves and nodes by number."""

    def __init__(self, leaf: dict[int, float], node: dict[int, float]) -> None:
        self.leaf = leaf
        self.node = node
        self.leaves = sorted(leaf, key=lambda row: -leaf[row])
        self.nodes = sorted(node, key=lambda row: -node[row])


class Space:
    """Leaves and nodes in memory, searched as the index searches them."""

    def __init__(self, stock: Stock, forest: Forest) -> None:
        self.stock, self.forest = stock, forest
        self.leaf_count = len(stock.leaves)
        texts = [leaf.text for leaf in stock.leaves] + [node.text for node in forest.nodes]
        analyzed = [analyze(text) for text in texts]
        self.fields = {
            "fine": Bm25([text.fine for text in analyzed]),
            "coarse": Bm25([text.coarse for text in analyzed]),
        }
        self.contents = [" ".join(text.fine) for text in analyzed]
        self.scripts = [script_of(text.fine).value for text in analyzed]
        self.vectors = np.concatenate([stock.vectors, forest.vectors]) if forest.nodes else stock.vectors
        self.records = [
            Record(str(row), RecordKind.CHUNK, "kb", Ordinal(0), (Ordinal(0),), "") for row in range(len(texts))
        ]

    def search(self, question: Question, vector: Vectors) -> Searched:
        terms = analyze_query(question.text)
        lexical = np.zeros(len(self.records))
        for name, weight in _FIELDS:
            if name in self.fields:
                lexical += weight * self.fields[name].score(terms.coarse if name == "coarse" else terms.fine)
        cosines = (self.vectors @ vector).astype(np.float64)
        split = self.leaf_count
        best = [*_best(lexical[:split], cosines[:split], 0), *_best(lexical[split:], cosines[split:], split)]
        wanted = dict.fromkeys(best)
        entered = sorted((row for row in wanted if row >= split), key=lambda row: -cosines[row])[:24]
        for row in entered:
            beneath = self.forest.nodes[row - split].leaves
            wanted.update(dict.fromkeys(beneath if len(beneath) <= 64 else ()))
        rows = list(wanted)
        items = tuple(
            Candidate(
                self.records[row],
                self.contents[row],
                script=self.scripts[row],
                lexical_score=float(lexical[row]),
                cosine=float(cosines[row]),
            )
            for row in rows
        )
        known = {term: self.fields["fine"].frequencies.get(term, 0) for term in terms.fine}
        scored = similarities(Candidates(items, len(self.records), known), terms, RankingOptions()).tolist()
        return Searched(
            {row: value for row, value in zip(rows, scored, strict=True) if row < split},
            {row - split: value for row, value in zip(rows, scored, strict=True) if row >= split},
        )


def _best(lexical: NDArray[np.float64], cosines: NDArray[np.float64], offset: int) -> list[int]:
    words = [row for row in np.argsort(-lexical, kind="stable")[:_WINDOW].tolist() if lexical[row] > 0]
    return [offset + row for row in dict.fromkeys(words + np.argsort(-cosines, kind="stable")[:_WINDOW].tolist())]


Piece = tuple[str, int]
"""("leaf", row) or ("node", number)."""
Way = Callable[[Searched, Forest], list[Piece]]


def off(found: Searched, _forest: Forest) -> list[Piece]:
    return [("leaf", row) for row in found.leaves]


def collapsed(penalty: float = 0.0, rule: str = "said") -> Way:
    """Summaries compete with passages.

    Rules of what a chosen piece makes superfluous: none; said (a summary all of whose sentences stand in chosen
    passages); half (… half of whose); either (also passages that a chosen summary quotes).
    """

    def order(found: Searched, forest: Forest) -> list[Piece]:
        scored = [(value, "leaf", row) for row, value in found.leaf.items()]
        scored += [(value - penalty, "node", row) for row, value in found.node.items()]
        pieces: list[Piece] = []
        leaves: set[int] = set()
        spoken: set[int] = set()
        for _, kind, row in sorted(scored, key=lambda item: (-item[0], item[1], item[2])):
            if kind == "leaf":
                if rule == "either" and row in spoken:
                    continue
                leaves.add(row)
            else:
                said = forest.nodes[row].said
                held = len(said & leaves)
                if (rule in ("said", "either") and held == len(said)) or (rule == "half" and 2 * held >= len(said)):
                    continue
                if rule == "any" and held:
                    continue
                spoken |= said
            pieces.append((kind, row))
        return pieces

    return order


def leading(penalty: float = 0.08, share: float = 0.5, layers: int = 1, mix: float = 0.0) -> Way:
    """Summaries lead to their passages: the best gains what the summary is above it, each further one a share of that.

    With `mix`, instead, the similarity of a passage is mixed with that of its best summary.
    """

    def order(found: Searched, forest: Forest) -> list[Piece]:
        best = dict(found.leaf)
        if mix:
            above: dict[int, float] = {}
            for number, value in found.node.items():
                if forest.nodes[number].layer <= layers:
                    for row in forest.nodes[number].leaves:
                        above[row] = max(above.get(row, 0.0), value)
            best = {row: (1 - mix) * own + mix * above.get(row, own - 0.1) for row, own in best.items()}
        else:
            for number in found.nodes:
                if forest.nodes[number].layer > layers:
                    continue
                score, left = found.node[number] - penalty, 1.0
                for row in sorted(forest.nodes[number].leaves, key=lambda row: -found.leaf.get(row, 0.0)):
                    own = found.leaf.get(row)
                    if own is None or score <= own:
                        continue
                    best[row] = max(best[row], own + left * (score - own))
                    left *= share
        return [("leaf", row) for row in sorted(best, key=lambda row: -best[row])]

    return order


def hierarchical(summaries: int = 3, chunks: int = 5, layer: int = 1) -> Way:
    """Enter the best summaries of a layer, take their best passages; then what is left, as without a tree."""

    def order(found: Searched, forest: Forest) -> list[Piece]:
        entered = [number for number in found.nodes if forest.nodes[number].layer == layer][:summaries]
        taken: dict[int, None] = {}
        for number in entered:
            known = [row for row in forest.nodes[number].leaves if row in found.leaf]
            taken.update(dict.fromkeys(sorted(known, key=lambda row: -found.leaf[row])[:chunks]))
        first = sorted(taken, key=lambda row: -found.leaf[row])
        return [("leaf", row) for row in dict.fromkeys([*first, *found.leaves])]

    return order


def traversal(space: Space, width: int = 5) -> Callable[[Searched, Forest, Vectors], list[Piece]]:
    """Follow the best nodes of each layer downwards by cosine; then what is left, as without a tree."""
    nodes = space.forest.nodes
    inner = {child for node in nodes if node.layer > 1 for child in node.children}
    roots = [number for number in range(len(nodes)) if number not in inner]

    def order(found: Searched, forest: Forest, vector: Vectors) -> list[Piece]:
        def nearness(number: int) -> float:
            return float(forest.vectors[number] @ vector)

        frontier = sorted(roots, key=nearness, reverse=True)[:width]
        ends: dict[int, None] = {}
        while frontier:
            following: list[int] = []
            for number in frontier:
                if nodes[number].layer == 1:
                    ends[number] = None
                else:
                    following += nodes[number].children
            frontier = sorted(following, key=nearness, reverse=True)[:width]
        rows = {row for number in list(ends)[: 2 * width] for row in nodes[number].leaves}
        first = sorted(rows, key=lambda row: -found.leaf.get(row, float(space.stock.vectors[row] @ vector) - 1))
        return [("leaf", row) for row in dict.fromkeys([*first, *found.leaves])]

    return order


@dataclass(frozen=True)
class Score:
    """Of one question at one budget: recall of passages, of their sentences, of facts; nDCG@10 of passages."""

    passages: float
    sentences: float
    facts: float | None
    ndcg: float


def fill(pieces: Sequence[Piece], stock: Stock, forest: Forest, budget: int) -> list[Piece]:
    """Take pieces in order while they fit; five that do not fit end it."""
    taken: list[Piece] = []
    misses = 0
    for kind, row in pieces:
        tokens = stock.leaves[row].tokens if kind == "leaf" else forest.nodes[row].tokens
        if tokens <= budget:
            taken.append((kind, row))
            budget -= tokens
        else:
            misses += 1
            if misses == 5:
                break
    return taken


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


class Judge:
    """Compares evidence with the gold of a question."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._sentences: dict[int, list[str]] = {}

    def sentences(self, row: int) -> list[str]:
        if row not in self._sentences:
            text = self._stock.leaves[row].text
            parts = [plain(text[span.start : span.end]) for span in split_sentences(text)]
            self._sentences[row] = [part for part in parts if len(part) >= 12]
        return self._sentences[row]

    def score(self, question: Question, pieces: Sequence[Piece], forest: Forest, budget: int) -> Score:
        stock = self._stock
        gold = [stock.rows[name] for name in question.gold if name in stock.rows]
        taken = fill(pieces, stock, forest, budget)
        leaves = {row for kind, row in taken if kind == "leaf"}
        possible, room = 0, budget
        for tokens in sorted(stock.leaves[row].tokens for row in gold):
            room -= tokens
            possible += room >= 0
        texts = [stock.leaves[row].text if kind == "leaf" else forest.nodes[row].text for kind, row in taken]
        said = plain("\n".join(text for text, (kind, _) in zip(texts, taken, strict=True) if kind == "node"))
        wanted = [(row, sentence) for row in gold for sentence in self.sentences(row)]
        size = sum(len(sentence) for _, sentence in wanted)
        held = sum(len(sentence) for row, sentence in wanted if row in leaves or sentence in said)
        whole = plain("\n".join(texts))
        facts = [plain(fact) for fact in question.facts if plain(fact)]
        order = [str(row) if kind == "leaf" else f"node {row}" for kind, row in taken]
        return Score(
            len(leaves & set(gold)) / max(1, possible),
            held / max(1, min(size, 4 * budget)),
            sum(fact in whole for fact in facts) / len(facts) if facts else None,
            ndcg_at(order, [str(row) for row in gold], 10),
        )


class Figures:
    """Means by way."""

    def __init__(self) -> None:
        self._scores: dict[str, list[list[Score]]] = defaultdict(list)

    def add(self, way: str, scores: list[Score]) -> None:
        self._scores[way].append(scores)

    def show(self, title: str) -> None:
        print(f"\n{title}\n  {'':<44}" + "  ".join(f"{budget:>6,}: psg  sent fact" for budget in BUDGETS) + "   nDCG")
        for way, values in self._scores.items():
            cells = []
            for place in range(len(BUDGETS)):
                scores = [row[place] for row in values]
                facts = [score.facts for score in scores if score.facts is not None]
                cells.append(
                    f"        {100 * np.mean([s.passages for s in scores]):5.1f} "
                    f"{100 * np.mean([s.sentences for s in scores]):5.1f} "
                    + (f"{100 * np.mean(facts):5.1f}" if facts else "    -")
                )
            ndcg = 100 * np.mean([row[1].ndcg for row in values])
            print(f"  {way:<42}" + " ".join(cells) + f"  {ndcg:5.1f}", flush=True)


def measure(stock: Stock, forest: Forest, ways: dict[str, Way], figures: Figures, prefix: str = "") -> None:
    space, judge = Space(stock, forest), Judge(stock)
    walk = traversal(space)
    for question, vector in zip(stock.made.questions, stock.question_vectors, strict=True):
        found = space.search(question, vector)
        for name, way in ways.items():
            pieces = walk(found, forest, vector) if name == "traversal" else way(found, forest)
            figures.add(prefix + name, [judge.score(question, pieces, forest, budget) for budget in BUDGETS])


def study_vectors(stock: Stock) -> None:
    figures = Figures()
    for vectors in ("mean", "flat mean", "embedded"):
        forest = grow(stock, Recipe(vectors=vectors))
        ways: dict[str, Way] = {"off": off} if vectors == "mean" else {}
        for penalty in (0.0, 0.08, 0.16):
            ways[f"collapsed -{penalty}"] = collapsed(penalty)
            ways[f"leading -{penalty}"] = leading(penalty)
        ways["mix 0.3"] = leading(mix=0.3)
        ways["hierarchical"] = hierarchical()
        ways["traversal"] = off
        measure(stock, forest, ways, figures, f"{vectors}: ")
    figures.show(f"{stock.made.name}: {shape(forest, len(stock.leaves))}")


def study_leading(stock: Stock) -> None:
    for whole in (False, True):
        figures = Figures()
        forest = grow(stock, Recipe(vectors="flat mean", whole=whole))
        ways: dict[str, Way] = {"off": off}
        for rule in ("none", "said", "half", "any", "either"):
            ways[f"collapsed, {rule}"] = collapsed(0.0, rule)
        ways["collapsed -0.04, any"] = collapsed(0.04, "any")
        for penalty in (0.0, 0.04):
            for share in (0.5, 0.75, 1.0):
                ways[f"leading -{penalty} share {share}"] = leading(penalty, share)
        for mix in (0.2, 0.3, 0.4, 0.5):
            for layers in (1, 2, 9):
                ways[f"mix {mix}, {layers} layers"] = leading(mix=mix, layers=layers)
        for summaries in (3, 5):
            for chunks in (3, 5):
                ways[f"hierarchical {summaries} x {chunks}"] = hierarchical(summaries, chunks)
        ways["traversal"] = off
        measure(stock, forest, ways, figures)
        figures.show(f"{stock.made.name} {'whole' if whole else 'files'}: {shape(forest, len(stock.leaves))}")


def chained(vectors: Vectors, rows: Sequence[int]) -> list[int]:
    return [rows[place] for place in chain(vectors[list(rows)])]


def shuffled(_vectors: Vectors, rows: Sequence[int]) -> list[int]:
    return [rows[place] for place in np.random.default_rng(5).permutation(len(rows))]


ORDERS: dict[str, Callable[[Vectors, Sequence[int]], list[int]] | None] = {
    "given": None,
    "chained": chained,
    "shuffled": shuffled,
}


def study_order(stock: Stock) -> None:
    """Trees over all: as documents came, in an order in which neighbours are alike, in no order."""
    figures = Figures()
    for name, order in ORDERS.items():
        ways: dict[str, Way] = {"off": off} if name == "given" else {}
        ways |= {f"mix {mix}": leading(mix=mix, layers=2) for mix in (0.2, 0.3, 0.4)}
        ways["lift"] = leading(0.04)
        ways["collapsed, any"] = collapsed(0.0, "any")
        ways["hierarchical"] = hierarchical()
        ways["traversal"] = off
        measure(stock, grow(stock, Recipe(vectors="flat mean", whole=True, order=order)), ways, figures, f"{name}: ")
    figures.show(f"{stock.made.name}")


STUDIES = {"vectors": study_vectors, "leading": study_leading, "order": study_order}


def main() -> None:
    folder = Path(sys.argv[1])
    embedder = Embedder(Path(os.environ.get("TREE_CACHE", folder / "tree")))
    for made in tree_sets(sys.argv[3:] or SETS, lambda name: np.load(folder / f"{name}.passages.npy")):
        made = replace(made, questions=made.questions[: int(os.environ.get("TREE_QUESTIONS", "999"))])
        STUDIES[sys.argv[2]](stock_of(made, folder, embedder))


if __name__ == "__main__":
    main()
