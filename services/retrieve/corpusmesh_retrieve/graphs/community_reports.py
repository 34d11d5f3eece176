"""Looks reports of communities up: by relevance, and those of the entities that most of a graph is about."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from corpusmesh_core.graph_search.community_reports import (
    ReportHit,
    finest,
    inside,
    likely,
    members_of,
    reports_of_members,
    roots_of,
    united,
)
from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graphs.keys import key_text
from corpusmesh_core.ports.index import MAX_WINDOW, Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, ScoreExplanation
from corpusmesh_core.records import Record
from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens
from corpusmesh_retrieve.graphs.frame import REPORT_KINDS, Ask, GraphFrame

NO_REPORTS: Final = "the graph has no reports of communities that you may see"
_WINDOW: Final = 64
"""Reports of each look-up."""
_CENTRAL: Final = 32
"""Entities of each graph whose reports take part whatever the question is: those with the strongest relations."""
STANDING_FOR: Final = 0.8
"""Share of a coarse report's score that a finer one must have to stand for it."""
_MADE: Final = LegScore(None, 0, 0.0, is_filled_in=False)


def hits_of(items: Sequence[RankedCandidate]) -> list[ReportHit]:
    """Take reports out of what was found.

    Args:
        items: What a look-up found.

    Returns:
        Its reports.
    """
    return [ReportHit(item.candidate.record, item.similarity) for item in items]


async def recall_reports(
    frame: GraphFrame, level: int, beside: Sequence[Ask] = ()
) -> tuple[tuple[ReportHit, ...], list[tuple[RankedCandidate, ...]]]:
    """Find the reports that may help, of a level and of all coarser ones, in one round trip to each space.

    Args:
        frame: The search.
        level: The finest level, from 0.
        beside: What else to look up by the same round trip.

    Returns:
        Reports, best first: those that are like the question, and those of what most of the graph is about, since a
        question about everything is like no report. Beside them what else was found.

    Raises:
        UnavailableError: If the index does not answer.
    """
    question, central = frame.outcome.question, _central_members(frame)
    asks = [
        Ask(question, REPORT_KINDS, _WINDOW, layers=layers, linking_to=linking_to)
        for layers in ((1,), _layers(1, level))[: 2 if level else 1]
        for linking_to in (None, central)
    ]
    found = await frame.ask([*asks, *beside])
    return united([hits_of(items) for items in found[: len(asks)]]), found[len(asks) :]


async def reports_below(frame: GraphFrame, chosen: Sequence[ReportHit], level: int) -> tuple[ReportHit, ...]:
    """Find finer reports below coarse ones, in one round trip to each space.

    Args:
        frame: The search.
        chosen: Coarse reports.
        level: The finest level.

    Returns:
        Finer reports of those communities alone, best first; none where there is no finer level.
    """
    if level < 1 or not chosen:
        return ()
    layers = _layers(2, level)
    question = frame.outcome.question
    asks = [
        Ask(question, REPORT_KINDS, _WINDOW, layers=layers),
        Ask(question, REPORT_KINDS, _WINDOW, layers=layers, linking_to=members_of(chosen, most=MAX_WINDOW)),
    ]
    names = {hit.record.record_id for hit in chosen}
    every = united([hits_of(items) for items in await frame.ask(asks)])
    found = await asyncio.to_thread(inside, every, chosen)
    return tuple(hit for hit in found if hit.record.record_id not in names)


async def reports_beside(frame: GraphFrame, entities: Sequence[Found], level: int) -> tuple[tuple[ReportHit, int], ...]:
    """Find the reports of the communities that entities stand in, in one round trip to each space.

    Args:
        frame: The search.
        entities: Entities.
        level: The finest level; an entity whose community was not divided as far has the finest there is.

    Returns:
        Reports with the number of their entities, those of most entities first.
    """
    keys: dict[str, list[str]] = {}
    for item in entities:
        graph = frame.graphs[item.graph]
        keys.setdefault(graph.knowledge_base_id, []).append(key_text(int(graph.view.entity_keys[item.place])))
    if not keys:
        return ()
    window = min(MAX_WINDOW, (level + 1) * len(entities))
    [found] = await frame.ask(
        [Ask(frame.outcome.question, REPORT_KINDS, window, linking_to=keys, layers=_layers(1, level))]
    )
    return reports_of_members(hits_of(found), [(name, key) for name, own in keys.items() for key in own])


def selected(hits: Sequence[ReportHit]) -> tuple[ReportHit, ...]:
    """Choose reports of a descent without a model: those near to the best, the finer ones for the coarser ones.

    Args:
        hits: Reports, best first.

    Returns:
        The chosen ones, best first.
    """
    roots = likely(roots_of(hits))
    return finest(inside(hits, roots), share=STANDING_FOR)


def cut_reports(reports: Sequence[Record], max_tokens: int) -> list[Record]:
    """Hold reports within a budget.

    Args:
        reports: Reports, best first.
        max_tokens: Most tokens of all, titles included.

    Returns:
        Those that fit; the first one that does not is cut, and the last.
    """
    taken: list[Record] = []
    left = max_tokens
    for record in reports:
        left -= estimate_tokens(record.title) + 1
        if left <= 0:
            break
        text = cut_to_tokens(record.text, left)
        taken.append(replace(record, text=text, token_count=estimate_tokens(text)))
        left -= estimate_tokens(text)
    return taken


def report_as_hit(report: Record, text: str, score: float) -> RankedCandidate:
    """Make a hit of what a report says about a question.

    Args:
        report: Its record.
        text: What it says; its citations lead to the chunks behind the report whose words it shares.
        score: How much it helps, 0 to 1.

    Returns:
        The hit.
    """
    record = replace(report, text=text, token_count=estimate_tokens(text))
    explanation = ScoreExplanation(
        lexical=_MADE,
        vector=_MADE,
        rank_feature=0.0,
        vector_weight=0.0,
        is_cross_script=False,
        similarity=score,
        order_score=score,
        dropped_because="",
    )
    return RankedCandidate(Candidate(record, ""), explanation)


def _layers(first: int, level: int) -> tuple[int, ...]:
    return tuple(range(first, level + 2))


def _central_members(frame: GraphFrame) -> Mapping[str, list[str]]:
    members: dict[str, list[str]] = {}
    for graph in frame.graphs:
        strengths = graph.view.adjacency_sums
        most = min(_CENTRAL, len(strengths))
        places = np.argpartition(-strengths, most - 1)[:most]
        members[graph.knowledge_base_id] = [key_text(int(graph.view.entity_keys[place])) for place in sorted(places)]
    return members
