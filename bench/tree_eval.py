"""Measures what trees of summaries add to retrieval, through a whole mesh: `make eval-trees`.

    python bench/tree_eval.py [--data .corpusmesh-eval] [--only drcd,real] [--scopes file,dataset] [--questions 150]
                              [--report docs/evaluation.md]

Documents and questions are made by `tree_sets.py` from the evaluation sets and real documents. Each set is ingested
into one knowledge base for each scope (a second run finds it there), with one chunk for each passage; real documents
as they are. Every question is asked by the preset `balanced` with trees off, collapsed, traversed and hierarchical, and
the hits are taken in order, while they fit, up to the same budget of tokens. Counted apart: *passages*, gold passages
whose own text is in the evidence, against as many as the budget has room for; *text*, the share of their sentences that
the evidence holds, be it in a passage or quoted by a summary; *facts*, the answers of the sets that it holds; nDCG@10
of the passages. Then the sets of questions with one gold passage, as they are in `eval_all.py`, with a tree over all
passages on and off.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tree_sets
from eval_all import asked_of, measure, run
from numpy.typing import NDArray
from tree_sets import LongDocument, Question, TreeSet

from corpusmesh.retrieve.v1.retrieval_service_pb2 import SearchHit
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_app.cli.plans import parse_plan
from corpusmesh_app.local import ADMIN_KEY_FILE
from corpusmesh_app.settings import load_settings
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.evaluation.measures import ndcg_at
from corpusmesh_core.ports.embedding import EmbedRole

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- measured by make eval-trees: begin -->", "<!-- measured by make eval-trees: end -->"
BUDGETS = (1_000, 2_000, 4_000)
MODES = ("off", "collapsed", "traversal", "hierarchical")
SCOPES = ("file", "dataset")
PREFIX = "tree"
"""Of the identifiers of knowledge bases."""
SINGLE = ("scifact", "popqa", "zh", "xling")
MAX_LOSS_POINTS = 0.5
_MARK = "¶"
_HITS = 60
_AT_ONCE = 2
_MISSES = 5
_HELD = 0.9
"""Share of a passage's text from which it counts as held."""
_MOSTLY = 0.5
"""Share of it from which a hit counts as that passage where hits are ordered."""


@dataclass(frozen=True)
class Score:
    """Of one question at one budget."""

    passages: float
    text: float
    facts: float | None
    ndcg: float


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


def sentences_of(text: str) -> list[str]:
    """Sentences as they are compared; the shortest say too little to tell passages apart."""
    parts = [plain(text[span.start : span.end]) for span in split_sentences(text)]
    return [part for part in parts if len(part) >= 12] or [plain(text)]


class Judge:
    """Compares hits with the gold of a question."""

    def __init__(self, made: TreeSet) -> None:
        texts = {passage.passage_id: passage.text for document in made.documents for passage in document.passages}
        self._sentences = {key: sentences_of(text) for key, text in texts.items()}
        self._tokens: dict[str, int] = {}

    def score(self, question: Question, hits: Sequence[SearchHit], budget: int) -> Score:
        taken, room, misses = [], budget, 0
        for hit in hits:
            if hit.token_count <= room:
                taken.append(hit)
                room -= hit.token_count
            else:
                misses += 1
                if misses == _MISSES:
                    break
        texts = [plain(hit.text) for hit in taken]
        own = " | ".join(text for text, hit in zip(texts, taken, strict=True) if not hit.layer)
        said = " | ".join(texts)
        gold = [self._sentences[key] for key in question.gold]
        # What the budget has room for at most, by the characters of a token in these hits.
        characters = budget * sum(map(len, texts)) / max(1, sum(hit.token_count for hit in taken))
        sizes = sorted(sum(map(len, sentences)) for sentences in gold)
        possible = max(1, int(np.searchsorted(np.cumsum(sizes), characters, side="right")))
        held = sum(_share(sentences, own) >= _HELD for sentences in gold)
        facts = [plain(fact) for fact in question.facts if plain(fact)]
        return Score(
            min(1.0, held / possible),
            min(1.0, sum(_share(s, said) * sum(map(len, s)) for s in gold) / max(1, min(sum(sizes), characters))),
            sum(fact in said for fact in facts) / len(facts) if facts else None,
            self._ndcg(gold, [text if not hit.layer else "" for text, hit in zip(texts, taken, strict=True)]),
        )

    def _ndcg(self, gold: Sequence[Sequence[str]], texts: Sequence[str]) -> float:
        order: list[str] = []
        for place, text in enumerate(texts[:10]):
            found = [
                str(number) for number, s in enumerate(gold) if str(number) not in order and _share(s, text) >= 0.5
            ]
            order.append(found[0] if found else f"other {place}")
        return ndcg_at(order, [str(number) for number in range(len(gold))], 10)


def _share(sentences: Sequence[str], text: str) -> float:
    size = sum(map(len, sentences))
    return sum(len(sentence) for sentence in sentences if sentence in text) / max(1, size)


def items_of(made: TreeSet) -> Iterator[UploadItem]:
    for document in made.documents:
        yield _item_of(document)


def _item_of(document: LongDocument) -> UploadItem:
    if document.path:
        return UploadItem(document.path.name, document.path)
    text = f"{_MARK}\n".join(passage.text for passage in document.passages)
    return UploadItem(f"{document.document_id}.txt", text.encode(), title=document.title)


async def knowledge_base_of(client: CorpusMeshClient, made: TreeSet, scope: str) -> tuple[str, float]:
    """Find or make the knowledge base of a set with trees of one scope; seconds that ingest and build took."""
    name = f"{PREFIX}-{scope}-{made.name}".replace("_", "-")
    chunking = {} if any(d.path for d in made.documents) else {"exact_delimiters": [_MARK], "max_tokens": 510}
    try:
        return (await client.knowledge_bases.get(f"knowledgeBases/{name}")).name, 0.0
    except NotFoundError:
        pass
    settings = settings_from_plain(
        {
            "chunking": {"template": "general", "settings": chunking},
            "tree": {"scope": scope, "auto_update": False},
        }
    )
    settings.display_name = name
    base = await client.knowledge_bases.create(settings, knowledge_base_id=name)
    started = time.perf_counter()
    upload = await client.upload(base.name, list(items_of(made)), interactive=False)
    run = await client.runs.wait(upload.run)
    if run.failed_count:
        sys.exit(f"{name}: {run.failed_count} documents failed")
    if scope == "dataset":
        await build(client, base.name)
    return base.name, time.perf_counter() - started


async def build(client: CorpusMeshClient, knowledge_base: str) -> None:
    answer = await client.trees.build(knowledge_base, full=True)
    if answer.run:
        run = await client.runs.wait(answer.run)
        if run.failed_count:
            sys.exit(f"the tree of {knowledge_base} failed")


def plan_of(mode: str) -> str:
    return json.dumps({"preset": "PRESET_BALANCED", "tree": {"mode": f"MODE_{mode.upper()}"}})


async def ask(client: CorpusMeshClient, base: str, questions: Sequence[str], mode: str) -> list[list[SearchHit]]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(text: str) -> list[SearchHit]:
        async with gate:
            return list((await client.search([base], text, plan=parse_plan(plan_of(mode)), page_size=_HITS)).hits)

    return list(await asyncio.gather(*(one(text) for text in questions)))


async def measure_set(
    client: CorpusMeshClient, made: TreeSet, scope: str, figures: dict[str, dict[str, object]]
) -> None:
    base, seconds = await knowledge_base_of(client, made, scope)
    judge = Judge(made)
    for mode in MODES if scope == "file" else MODES[:3]:
        started = time.perf_counter()
        found = await ask(client, base, [question.text for question in made.questions], mode)
        spent = 1000 * (time.perf_counter() - started) / len(found)
        rows = [
            [judge.score(question, hits, budget) for budget in BUDGETS]
            for question, hits in zip(made.questions, found, strict=True)
        ]
        figures[f"{made.name}|{scope}|{mode}"] = {
            "questions": len(found),
            "cells": [_cell([row[place] for row in rows]) for place in range(len(BUDGETS))],
            "milliseconds": spent,
            "seconds": seconds,
        }
        print(line(f"{made.name}|{scope}|{mode}", figures), flush=True)


def _cell(scores: Sequence[Score]) -> dict[str, float | None]:
    facts = [score.facts for score in scores if score.facts is not None]
    return {
        "passages": 100 * float(np.mean([score.passages for score in scores])),
        "text": 100 * float(np.mean([score.text for score in scores])),
        "facts": 100 * float(np.mean(facts)) if facts else None,
        "ndcg": 100 * float(np.mean([score.ndcg for score in scores])),
    }


HEAD = (
    "| set | questions | trees | mode | "
    + " | ".join(f"{budget:,}: passages / text / facts" for budget in BUDGETS)
    + " | nDCG@10 |"
)


def line(key: str, figures: Mapping[str, Mapping[str, object]]) -> str:
    name, scope, mode = key.split("|")
    row = figures[key]
    cells = []
    for cell in row["cells"]:  # type: ignore[attr-defined]
        facts = "–" if cell["facts"] is None else f"{cell['facts']:.1f}"
        cells.append(f"{cell['passages']:.1f} / {cell['text']:.1f} / {facts}")
    ndcg = row["cells"][1]["ndcg"]  # type: ignore[index]
    return f"| {name} | {row['questions']} | {scope} | {mode} | " + " | ".join(cells) + f" | {ndcg:.1f} |"


async def measure_long(arguments: argparse.Namespace, address: str, key: str) -> dict[str, dict[str, object]]:
    figures: dict[str, dict[str, object]] = {}
    async with CorpusMeshClient(address, api_key=key) as client:
        for made in tree_sets.tree_sets(arguments.only or tree_sets.SETS, lambda name: vectors_of(arguments, name)):
            made = replace(made, questions=made.questions[: arguments.questions])
            for scope in arguments.scopes:
                await measure_set(client, made, scope, figures)
    return figures


def vectors_of(arguments: argparse.Namespace, name: str) -> NDArray[np.float32]:
    """Vectors by which passages are put into documents: kept beside the mesh's data, made where they are missing."""
    path = arguments.vectors / f"{name}.passages.npy"
    if not path.exists():
        model = OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME))
        texts = [
            f"{entry['title']}\n{entry['text']}"
            for entry in tree_sets.lines_of(tree_sets.SHARED / "eval" / name / "corpus.jsonl")
        ]
        found = [model.encode(texts[at : at + 64], role=EmbedRole.PASSAGE).vectors for at in range(0, len(texts), 64)]
        arguments.vectors.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(found))
    return np.load(path)


SINGLE_PLANS = {
    f"{preset}, trees {mode}": json.dumps(
        {
            "preset": f"PRESET_{preset.upper()}",
            "tree": {"mode": f"MODE_{mode.upper()}"},
            "graph": {"mode": "MODE_OFF"},
        }
    )
    for preset in ("balanced",)
    for mode in ("off", "collapsed")
}


async def measure_single(
    arguments: argparse.Namespace, address: str, key: str
) -> dict[str, dict[str, dict[str, object]]]:
    """Questions with one gold passage, one document a passage: a tree over all of them on and off."""
    figures: dict[str, dict[str, dict[str, object]]] = {}
    for name in arguments.single:
        folder = tree_sets.SHARED / "eval" / name
        base = f"knowledgeBases/{name.replace('_', '-')}"
        run("eval", str(folder), "--kb", name.replace("_", "-"), "--plan", "off=fast", "--limit", "1",
            "--question-field", asked_of(folder)[0].field, "--data", str(arguments.data))  # fmt: skip
        async with CorpusMeshClient(address, api_key=key) as client:
            await set_scope(client, base, "dataset")
            await build(client, base)
        for asked in asked_of(folder):
            figures[asked.name] = measure(asked, SINGLE_PLANS, arguments.data, limit=arguments.questions)
            print(single_line(asked.name, figures), flush=True)
        async with CorpusMeshClient(address, api_key=key) as client:
            # As `make eval` finds it: its plans take trees where there are some.
            deleted = await client.trees.delete(f"{base}/trees/dataset")
            await client.runs.wait(deleted)
            await set_scope(client, base, "off")
    return figures


async def set_scope(client: CorpusMeshClient, base: str, scope: str) -> None:
    changed = settings_from_plain({"tree": {"scope": scope, "auto_update": False}})
    changed.name = base
    await client.knowledge_bases.update(changed, paths=("tree_settings",))


SINGLE_HEAD = "| set | questions | recall@5 off | on | nDCG@10 off | on | p50 ms off | on |"


def single_line(name: str, figures: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    off, on = figures[name].values()
    cells = [f"{100 * row[column]:.1f}" for column in ("recall_at_5", "ndcg_at_10") for row in (off, on)]  # type: ignore[operator]
    times = [f"{row['milliseconds_p50']:.0f}" for row in (off, on)]
    return f"| {name} | {off['query_count']} | " + " | ".join([*cells, *times]) + " |"


def missed(
    figures: Mapping[str, Mapping[str, object]], single: Mapping[str, Mapping[str, Mapping[str, object]]]
) -> Iterator[str]:
    """Check the bars: trees gain on whole documents at every budget on average, and lose nothing on single places."""
    for place, budget in enumerate(BUDGETS):
        gains = [
            row["cells"][place]["passages"] - figures[key.replace("|collapsed", "|off")]["cells"][place]["passages"]  # type: ignore[index]
            for key, row in figures.items()
            if key.endswith("|collapsed")
        ]
        if gains and float(np.mean(gains)) <= 0:
            yield f"trees do not gain at {budget:,} tokens: {np.mean(gains):.1f} points of passages on average"
    for name, rows in single.items():
        off, on = rows.values()
        for column in ("recall_at_5", "ndcg_at_10"):
            loss = 100 * (off[column] - on[column])  # type: ignore[operator]
            if loss > MAX_LOSS_POINTS:
                yield f"{name}: trees lose {loss:.1f} points of {column}"


def write_report(path: Path, lines: Sequence[str]) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    before, found, rest = text.partition(BEGIN)
    _, ends, behind = rest.partition(END)
    if not found or not ends:
        sys.exit(f"{path} holds no place for the tables: {BEGIN} … {END}")
    path.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{behind}"]), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: tuple(filter(None, text.split(",")))  # noqa: E731
    parser.add_argument("--data", type=Path, default=ROOT / ".corpusmesh-eval")
    parser.add_argument("--vectors", type=Path, help="folder of <set>.passages.npy; made there where they are missing")
    parser.add_argument("--only", type=names, default=(), help="names of sets, joined by commas")
    parser.add_argument("--scopes", type=names, default=SCOPES)
    parser.add_argument("--single", type=names, default=SINGLE, help="sets with one gold passage; '' for none")
    parser.add_argument("--questions", type=int, default=150, help="most questions of a set")
    parser.add_argument("--report", type=Path, help="also write the tables between the markers of this file")
    arguments = parser.parse_args()
    arguments.vectors = arguments.vectors or arguments.data / "vectors"
    if not (tree_sets.SHARED / "eval").is_dir():
        print(f"no evaluation sets at {tree_sets.SHARED}: nothing was measured")
        return 0
    run("up", "--detach", "--data", str(arguments.data))
    try:
        settings = load_settings(arguments.data / "config.yaml")
        address = f"127.0.0.1:{settings.gateway.server.listen_port}"
        key = (arguments.data / ADMIN_KEY_FILE).read_text().strip()
        figures = asyncio.run(measure_long(arguments, address, key))
        single = asyncio.run(measure_single(arguments, address, key))
    finally:
        run("down", "--data", str(arguments.data), check=False)
    failures = list(missed(figures, single))
    lines = ["", HEAD, "|" + "---|" * (HEAD.count("|") - 1), *(line(key, figures) for key in figures), ""]
    if single:
        lines += [SINGLE_HEAD, "|" + "---|" * (SINGLE_HEAD.count("|") - 1)]
        lines += [*(single_line(name, single) for name in single), ""]
    lines += ["Bars that are missed: " + ("; ".join(failures) if failures else "none") + ".", ""]
    print("\n".join(lines))
    if arguments.report:
        write_report(arguments.report, lines)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
