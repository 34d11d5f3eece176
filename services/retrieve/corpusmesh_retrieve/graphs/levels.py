"""LightRAG's modes: entities by particular words, relations by general ones, both, both with passages, passages alone.

References:
    Guo et al.: LightRAG, 2024; seed `001_a712496f9ddeda4f.txt`; ADR-0014.
"""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.assembly.ordering import kept_of
from corpusmesh_core.graph_search.keywords import GraphKeywords
from corpusmesh_core.graph_search.levels import Found, distinct, ends_of, relations_beside
from corpusmesh_core.graph_search.merging import in_turn
from corpusmesh_core.graph_search.picking import pick_by_cosine, pick_by_weight
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.query import ChunkPick, GraphMode
from corpusmesh_retrieve.graphs.frame import ENTITY_KINDS, RELATION_KINDS, Ask, GraphFrame
from corpusmesh_retrieve.graphs.passages import Passages, bounded, cosines_of, put_first, put_in_turn
from corpusmesh_retrieve.graphs.telling import (
    add_tables,
    entity_lines,
    fitting,
    passages_of,
    relation_lines,
    tell_entities,
    tell_records,
    tell_relations,
)
from corpusmesh_retrieve.graphs.words import joined
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted

_RECORDS_PER_ITEM: Final = 1.5
"""Records that are asked for, for each entity or relation that is wanted: several documents may speak of one."""
_MAX_POOL: Final = 80
"""Passages that the question is compared with."""
_BY_LOW: Final = frozenset({GraphMode.LOCAL, GraphMode.HYBRID, GraphMode.MIX})
_BY_HIGH: Final = frozenset({GraphMode.GLOBAL, GraphMode.HYBRID, GraphMode.MIX})


class Levels:
    """LOCAL, GLOBAL, HYBRID and MIX."""

    def __init__(self, passages: Passages) -> None:
        """Create it.

        Args:
            passages: Scores passages.
        """
        self._passages = passages

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search.

        Returns:
            What was done.
        """
        plan = frame.outcome.plan.graph
        words = frame.outcome.graph_keywords or GraphKeywords()
        low, high = _texts(frame, words)
        if not low and not high:
            frame.note("the question has no words to look up in a graph; it was searched by its passages alone")
            return StageResult(StageState.SKIPPED, detail="there are no keywords")
        window = min(200, round(_RECORDS_PER_ITEM * plan.top_k))
        by_low, by_high = await frame.ask([Ask(low, ENTITY_KINDS, window), Ask(high, RELATION_KINDS, window)])
        named = frame.named(words.low) if low else ()
        entities = distinct((*named, *frame.entities_in(by_low)))[: plan.top_k]
        relations = frame.relations_in(by_high)[: plan.top_k]
        beside = relations_beside(frame.views, entities, plan.top_k)
        ends = ends_of(frame.views, relations)[: plan.top_k]
        # Relations that are like the question and beside an entity of it have the score of both looks: the first.
        all_entities = in_turn([entities, ends], _identity)
        all_relations = in_turn([beside, relations], _identity)
        if not all_entities and not all_relations:
            frame.note("the graph holds nothing that fits the question; it was searched by its passages alone")
            return StageResult(StageState.SKIPPED, detail="nothing of the graph fits")
        await frame.read(all_entities, all_relations)
        return await self._settle(frame, all_entities, all_relations)

    async def _settle(self, frame: GraphFrame, entities: Sequence[Found], relations: Sequence[Found]) -> StageResult:
        """Hold entities and relations within their budgets, and choose the passages behind them."""
        outcome, plan = frame.outcome, frame.outcome.plan.graph
        entity_rows = fitting(entity_lines(frame, entities), min(plan.max_entity_tokens, plan.max_total_tokens))
        left = plan.max_total_tokens - sum(line.token_count for line in entity_rows)
        relation_rows = fitting(relation_lines(frame, relations), min(plan.max_relation_tokens, left))
        kept_entities = [line.found for line in entity_rows]
        kept_relations = [line.found for line in relation_rows]
        add_tables(frame, entity_rows, relation_rows, max_tokens=plan.max_total_tokens)
        tell_entities(frame, entities, {item.identity for item in kept_entities})
        tell_relations(frame, relations, {item.identity for item in kept_relations})
        picked = await self._pick(frame, kept_entities, kept_relations)
        count = put_in_turn(outcome, picked) if plan.mode is GraphMode.MIX else put_first(outcome, picked)
        spent = sum(item.candidate.record.token_count for item in outcome.graph_tables)
        bound_passages(outcome, max_tokens=max(0, plan.max_total_tokens - spent))
        tell_picked(frame, picked)
        return StageResult(
            detail=f"{counted(len(kept_relations), 'relation')}, entities: {len(kept_entities)};"
            f" {counted(count, 'passage')} behind them"
        )

    async def _pick(self, frame: GraphFrame, entities: Sequence[Found], relations: Sequence[Found]) -> tuple[str, ...]:
        plan = frame.outcome.plan.graph
        groups = passages_of(frame, entities, relations)
        if plan.chunk_pick is ChunkPick.WEIGHT:
            picked = pick_by_weight(groups, plan.chunk_top_k)
            await self._passages.score(frame.call, frame.outcome, frame.graphs, picked)
            return picked
        pool = pick_by_weight(groups, _MAX_POOL)
        await self._passages.score(frame.call, frame.outcome, frame.graphs, pool)
        cosines = cosines_of(frame.outcome)
        return pick_by_cosine([name for name in pool if name in cosines], cosines, plan.chunk_top_k)


def naive(outcome: SearchOutcome) -> StageResult:
    """Order passages by their vectors alone (NAIVE).

    Args:
        outcome: The search; gets the order.

    Returns:
        What was done.
    """
    compared = [item for item in kept_of(outcome.ranked) if item.candidate.cosine is not None]
    if not compared:
        note = "there are no vectors to compare, so the order is that of the search without a graph"
        outcome.notes.append(note)
        return StageResult(StageState.SKIPPED, detail="no passage has a vector that can be compared")
    compared.sort(key=lambda item: -(item.candidate.cosine or 0.0))
    put_first(outcome, [item.candidate.record.record_id for item in compared])
    bound_passages(outcome, max_tokens=outcome.plan.graph.max_total_tokens)
    return StageResult(detail=f"{counted(len(compared), 'passage')} by vectors alone")


def bound_passages(outcome: SearchOutcome, *, max_tokens: int) -> None:
    """Hold hits within what a mode returns; never fewer than a page may show.

    Args:
        outcome: The search.
        max_tokens: Most tokens of all hits.
    """
    plan = outcome.plan
    bounded(outcome, most=max(plan.graph.chunk_top_k, plan.page_size), max_tokens=max_tokens)


def tell_picked(frame: GraphFrame, picked: Sequence[str]) -> None:
    """Note passages that were put first in the path.

    Args:
        frame: The search.
        picked: Ids of chunks in their order.
    """
    hits = {item.candidate.record.record_id: item for item in frame.outcome.kept}
    found = [(hits[name].candidate.record, hits[name].similarity) for name in picked if name in hits]
    tell_records(frame, found, StepReason.NEIGHBOUR)


def _texts(frame: GraphFrame, words: GraphKeywords) -> tuple[str, str]:
    """Say what entities and relations are looked up by; where a mode's own level has no words, by the other's."""
    mode = frame.outcome.plan.graph.mode
    low = joined(words.low) if mode in _BY_LOW else ""
    high = joined(words.high) if mode in _BY_HIGH else ""
    if low or high or words.is_empty:
        return low, high
    frame.note("the question has no keywords of the level that this mode looks up, so the other level was looked up")
    return joined(words.low), joined(words.high)


def _identity(item: Found) -> tuple[int, int]:
    return item.identity
