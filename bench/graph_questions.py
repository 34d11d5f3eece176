"""Asks the questions of an evaluation set with the graph and without it, of one mesh, in turn.

Part of `make eval`: the knowledge base of a set has a graph, made without a language model before the first question.
Each question is asked by the plans one after another, so that what else the machine does falls on all of them alike;
quality is told of all questions and of the halves by place (settings were chosen on the even ones), and the time
that a plan takes against another is told of pairs of the same question.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from corpusmesh_app.cli.evaluation import display_name
from corpusmesh_app.cli.evaluation_sets import CORPUS_FILE, QUERIES_FILE, Query, read_queries
from corpusmesh_app.cli.plans import parse_plan
from corpusmesh_app.local import ADMIN_KEY_FILE
from corpusmesh_app.settings import load_settings
from corpusmesh_client import CorpusMeshClient
from corpusmesh_core.evaluation import QueryOutcome, summarise_quality, unique_in_order

GRAPH_SETTINGS = {"graph": {"methods": ["ner"], "auto_update": False}}
"""Of every knowledge base here; builds are begun by hand, so that none runs while questions are asked."""
UNTITLED = "-untitled"
_SCORED_HITS = 40
_TIMED_HITS = 10
_TIMED_QUESTIONS = 150
_AT_ONCE = 4

Row = dict[str, Any]


@contextmanager
def without_titles(folder: Path) -> Iterator[Path]:
    """Give a set whose documents have no titles; their file names are the identifiers, which tell none."""
    with tempfile.TemporaryDirectory(prefix="corpusmesh-untitled-") as place:
        made = Path(place) / (folder.name + UNTITLED)
        made.mkdir()
        with (folder / CORPUS_FILE).open(encoding="utf-8") as lines, (made / CORPUS_FILE).open("w") as written:
            for entry in map(json.loads, lines):
                written.write(json.dumps({**entry, "title": ""}) + "\n")
        (made / QUERIES_FILE).write_bytes((folder / QUERIES_FILE).read_bytes())
        yield made


def ask(
    data: Path, knowledge_base: str, folder: Path, field: str, plans: Mapping[str, str], limit: int = 0
) -> dict[str, Row]:
    """Ask every question by every plan.

    Args:
        data: Data folder of the running mesh.
        knowledge_base: Identifier of the knowledge base.
        folder: Folder of the set.
        field: Field that holds the question.
        plans: Plans by name; times are added to those of the first.
        limit: Questions to ask; 0 for all.

    Returns:
        A row for each plan: those of `corpusmesh eval`, `even` and `odd` (recall@5, nDCG@10), and `added_p50`,
        `added_p95`: the difference of the percentiles from the first plan's, in milliseconds.
    """
    queries = read_queries(folder, question_field=field, limit=limit)
    return asyncio.run(_ask(data, f"knowledgeBases/{knowledge_base}", queries, plans))


async def _ask(data: Path, knowledge_base: str, queries: Sequence[Query], plans: Mapping[str, str]) -> dict[str, Row]:
    address = f"127.0.0.1:{load_settings(data / 'config.yaml').gateway.server.listen_port}"
    parsed = {name: parse_plan(text) for name, text in plans.items()}
    outcomes: dict[str, list[QueryOutcome]] = {name: [] for name in plans}
    times: dict[str, list[float]] = {name: [] for name in plans}
    gate = asyncio.Semaphore(_AT_ONCE)
    async with CorpusMeshClient(address, api_key=(data / ADMIN_KEY_FILE).read_text().strip()) as client:

        async def search(query: Query, name: str, hits: int) -> list[str]:
            found = await client.search([knowledge_base], query.question, plan=parsed[name], page_size=hits)
            return [hit.place.display_name for hit in found.hits]

        async def score(query: Query) -> dict[str, QueryOutcome]:
            async with gate:
                gold = frozenset(map(display_name, query.gold))
                return {
                    name: QueryOutcome(unique_in_order(await search(query, name, _SCORED_HITS)), gold) for name in plans
                }

        for found in await asyncio.gather(*map(score, queries)):
            for name, outcome in found.items():
                outcomes[name].append(outcome)
        step = max(1, len(queries) // _TIMED_QUESTIONS)
        for place, query in enumerate(queries[::step][:_TIMED_QUESTIONS]):
            names = list(plans)
            shift = place % len(names)
            for name in names[shift:] + names[:shift]:
                started = time.perf_counter()
                await search(query, name, _TIMED_HITS)
                times[name].append(1000 * (time.perf_counter() - started))
    return {name: _row(name, outcomes[name], times[name], next(iter(times.values()))) for name in plans}


def _row(name: str, outcomes: Sequence[QueryOutcome], times: Sequence[float], first_times: Sequence[float]) -> Row:
    quality = summarise_quality(outcomes)
    p50, p95 = np.percentile(times, (50, 95))
    first_p50, first_p95 = np.percentile(first_times, (50, 95))
    return {
        "plan": name,
        "query_count": quality.query_count,
        **{f"recall_at_{depth}": value for depth, value in quality.recall},
        "ndcg_at_10": quality.ndcg,
        "milliseconds_p50": float(p50),
        "milliseconds_p95": float(p95),
        "even": _half(outcomes[0::2]),
        "odd": _half(outcomes[1::2]),
        "added_p50": float(p50 - first_p50),
        "added_p95": float(p95 - first_p95),
    }


def _half(outcomes: Sequence[QueryOutcome]) -> tuple[float, float]:
    quality = summarise_quality(outcomes)
    return dict(quality.recall)[5], quality.ndcg
