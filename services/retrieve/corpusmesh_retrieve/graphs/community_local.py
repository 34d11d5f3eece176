"""The mode COMMUNITY_LOCAL: entities of a question with relations, reports of their communities, and passages.

References:
    Microsoft GraphRAG's local search: seed `003_67b62910d2d3a085.txt` (630-760); ADR-0014.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.graph_search.community_local import (
    MAX_ENTITIES,
    OVERSAMPLING,
    relations_around,
    token_shares,
)
from corpusmesh_core.graph_search.community_reports import ReportHit
from corpusmesh_core.graph_search.levels import Found, distinct
from corpusmesh_core.graph_search.picking import pick_by_cosine, pick_by_weight
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.extraction import names_in
from corpusmesh_core.query import ChunkPick
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.graphs.community_reports import NO_REPORTS, cut_reports, reports_beside
from corpusmesh_retrieve.graphs.frame import ENTITY_KINDS, Ask, GraphFrame
from corpusmesh_retrieve.graphs.levels import bound_passages, tell_picked
from corpusmesh_retrieve.graphs.passages import Passages, cosines_of, put_first
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
from corpusmesh_retrieve.outcome import StageState
from corpusmesh_retrieve.stages import StageResult, counted

NOTHING_FITS: Final = "the graph holds nothing that fits the question; it was searched by its passages alone"
_RECORDS_PER_ENTITY: Final = 2
"""Records that are asked for, for each entity that is wanted: several documents may speak of one."""
_MAX_POOL: Final = 160
"""Passages that the question is compared with."""


@dataclass(frozen=True, slots=True)
class Around:
    """What of graphs a question is about.

    Attributes:
        entities: Entities, best first.
        relations: Relations of these, best first.
    """

    entities: tuple[Found, ...] = ()
    relations: tuple[Found, ...] = ()


class CommunityLocal:
    """COMMUNITY_LOCAL."""

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
        most = min(MAX_ENTITIES, plan.top_k)
        asks = [Ask(frame.outcome.question, ENTITY_KINDS, OVERSAMPLING * _RECORDS_PER_ENTITY * most)]
        [found] = await frame.ask(asks)
        around = around_of(frame, named_in(frame, frame.outcome.question), found, most=most)
        if not around.entities:
            frame.note(NOTHING_FITS)
            return StageResult(StageState.SKIPPED, detail="nothing of the graph fits")
        reports = await reports_beside(frame, around.entities, plan.community_level)
        if not reports:
            frame.note(NO_REPORTS)
        await frame.read(around.entities, around.relations)
        told = tell_around(frame, around, [hit for hit, _ in reports])
        texts, _, _ = token_shares(plan.max_total_tokens)
        picked = await self._pick(frame, around)
        count = put_first(frame.outcome, picked)
        bound_passages(frame.outcome, max_tokens=texts)
        tell_picked(frame, picked)
        return StageResult(detail=f"{told}; {counted(count, 'passage')} behind them")

    async def _pick(self, frame: GraphFrame, around: Around) -> tuple[str, ...]:
        plan = frame.outcome.plan.graph
        groups = passages_of(frame, around.entities, around.relations)
        is_by_weight = plan.chunk_pick is ChunkPick.WEIGHT
        pool = pick_by_weight(groups, plan.chunk_top_k if is_by_weight else _MAX_POOL)
        await self._passages.score(frame.call, frame.outcome, frame.graphs, pool)
        if is_by_weight:
            return pool
        cosines = cosines_of(frame.outcome)
        return pick_by_cosine([name for name in pool if name in cosines], cosines, plan.chunk_top_k)


def named_in(frame: GraphFrame, text: str) -> tuple[Found, ...]:
    """Find the entities that a text names; no round trip.

    Args:
        frame: The search.
        text: A question.

    Returns:
        Entities: those of particular words that came with the question first, then longer names first.
    """
    given = frame.outcome.plan.graph.low_level_keywords if text == frame.outcome.question else ()
    return distinct(frame.named((*given, *names_in(text))))


def around_of(
    frame: GraphFrame, named: Sequence[Found], similar: Sequence[RankedCandidate], *, most: int, hop: int = 0
) -> Around:
    """Take the entities that a question is about, with their relations.

    Args:
        frame: The search.
        named: Entities that it names.
        similar: Records of entities that are like it, best first.
        most: Most entities.
        hop: Hops from the question of the search itself.

    Returns:
        Entities: those that are named first; relations around them.
    """
    like = [item for item in frame.entities_in(similar) if item.score > 0.0]
    entities = tuple(replace(item, hop=hop) for item in distinct((*named, *like))[:most])
    return Around(entities, relations_around(frame.views, entities))


def tell_around(frame: GraphFrame, around: Around, reports: Sequence[ReportHit]) -> str:
    """Make tables of entities, relations and reports within their budgets, and note all of it in the path.

    Args:
        frame: The search; it has read the records.
        around: Entities and relations, best first.
        reports: Reports, best first.

    Returns:
        What was told, for people.
    """
    plan = frame.outcome.plan.graph
    _, report_room, row_room = token_shares(plan.max_total_tokens)
    entity_rows = fitting(entity_lines(frame, around.entities), min(plan.max_entity_tokens, row_room))
    left = row_room - sum(line.token_count for line in entity_rows)
    relation_rows = fitting(relation_lines(frame, around.relations), min(plan.max_relation_tokens, left))
    told = cut_reports([hit.record for hit in reports], report_room)
    bases = {frame.graphs[line.found.graph].knowledge_base_id for line in (*entity_rows, *relation_rows)}
    told = [record for record in told if record.knowledge_base_id in bases]
    add_tables(frame, entity_rows, relation_rows, told, max_tokens=report_room + row_room)
    tell_entities(frame, around.entities, {line.found.identity for line in entity_rows})
    tell_relations(frame, around.relations, {line.found.identity for line in relation_rows})
    tell_reports(frame, reports, {record.record_id for record in told})
    return f"{counted(len(relation_rows), 'relation')}, entities: {len(entity_rows)}, {counted(len(told), 'report')}"


def tell_reports(frame: GraphFrame, reports: Sequence[ReportHit], kept: Collection[str]) -> None:
    """Note reports in the path.

    Args:
        frame: The search; its outcome gets the steps.
        reports: Reports that were looked at, best first.
        kept: Ids of those that became evidence.
    """
    own: Mapping[bool, list[ReportHit]] = {True: [], False: []}
    for hit in reports:
        own[hit.record.record_id in kept].append(hit)
    for is_kept, hits in own.items():
        items = [(hit.record, hit.score) for hit in hits]
        tell_records(frame, items, StepReason.REPORT, is_kept=is_kept)
