"""The mode KNOWLEDGE: what a graph knows of a question as one table with a report, put before all passages.

The table's citations lead to the chunks behind its lines, which the seed's system lacks.

References:
    RAGFlow KGSearch: seed `000_3271a9def2ed8e29.txt` (3.3); ADR-0014.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from corpusmesh_core.graph_search.community_reports import weight_of
from corpusmesh_core.graph_search.keywords import MAX_NAMED, GraphKeywords
from corpusmesh_core.graph_search.knowledge import (
    MAX_ENTITIES,
    MAX_RELATIONS,
    MAX_REPORTS,
    MAX_STARTS,
    MAX_TOKENS,
    WayScore,
    entities_of_types,
    ranked_entities,
    ranked_relations,
    scores_by_ways,
)
from corpusmesh_core.graph_search.levels import Found, distinct
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.keys import key_text
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_retrieve.graphs.frame import ENTITY_KINDS, RELATION_KINDS, REPORT_KINDS, Ask, GraphFrame
from corpusmesh_retrieve.graphs.telling import (
    add_tables,
    entity_lines,
    fitting,
    relation_lines,
    tell_entities,
    tell_records,
    tell_relations,
)
from corpusmesh_retrieve.outcome import StageState
from corpusmesh_retrieve.stages import StageResult, counted

_CANDIDATES: Final = 56
"""Entities of the question, and relations that are like it, that are looked at (seed)."""
_REPORT_WINDOW: Final = 32
_LOOKED_AT: Final = 24
"""Entities and relations that the path tells of."""


class Knowledge:
    """KNOWLEDGE."""

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search.

        Returns:
            What was done.
        """
        outcome, views = frame.outcome, frame.views
        words = outcome.graph_keywords or GraphKeywords()
        names = words.low[:MAX_NAMED]
        window = max(4, _CANDIDATES // max(1, len(names)))
        asks = [Ask(name, ENTITY_KINDS, window) for name in names]
        *by_name, by_question = await frame.ask([*asks, Ask(outcome.question, RELATION_KINDS, _CANDIDATES)])
        entities = distinct((*frame.named(names), *_best(frame, by_name)))[:_CANDIDATES]
        if not entities:
            entities = self._of_types(frame, words.types)
        similar = {item.identity: item.score for item in frame.relations_in(by_question)}
        ways = [_ways(frame, number, entities) for number in range(len(views))]
        top_entities = ranked_entities(views, entities, words.types, _LOOKED_AT)
        top_relations = ranked_relations(views, similar, ways, words.types, _LOOKED_AT)
        if not top_entities and not top_relations:
            frame.note("the graph holds nothing that fits the question, so nothing was put before its passages")
            return StageResult(StageState.SKIPPED, detail="nothing of the graph fits")
        reports = await self._reports(frame, top_entities[:MAX_ENTITIES])
        await frame.read(top_entities[:MAX_ENTITIES], top_relations[:MAX_RELATIONS])
        return self._settle(frame, top_entities, top_relations, reports)

    def _settle(
        self,
        frame: GraphFrame,
        entities: Sequence[Found],
        relations: Sequence[Found],
        reports: Sequence[RankedCandidate],
    ) -> StageResult:
        plan = frame.outcome.plan.graph
        entity_rows = fitting(entity_lines(frame, entities[:MAX_ENTITIES]), plan.max_entity_tokens)
        relation_rows = fitting(relation_lines(frame, relations[:MAX_RELATIONS]), plan.max_relation_tokens)
        told = [item.candidate.record for item in reports]
        add_tables(frame, entity_rows, relation_rows, told, max_tokens=min(MAX_TOKENS, plan.max_total_tokens))
        tell_entities(frame, entities, {line.found.identity for line in entity_rows})
        tell_relations(frame, relations, {line.found.identity for line in relation_rows})
        tell_records(frame, [(item.candidate.record, item.similarity) for item in reports], StepReason.REPORT)
        return StageResult(
            detail=f"{counted(len(relation_rows), 'relation')}, entities: {len(entity_rows)},"
            f" {counted(len(reports), 'report')} in {counted(len(frame.outcome.graph_tables), 'table')}"
        )

    def _of_types(self, frame: GraphFrame, types: Sequence[str]) -> tuple[Found, ...]:
        """Take entities of the answer's types where the question names none."""
        return tuple(
            item
            for number, view in enumerate(frame.views)
            for item in entities_of_types(view, number, types, MAX_STARTS)
        )

    async def _reports(self, frame: GraphFrame, entities: Sequence[Found]) -> list[RankedCandidate]:
        """Find the report of the community that holds most of the entities, the weightiest of those."""
        keys: dict[str, list[str]] = {}
        for item in entities:
            graph = frame.graphs[item.graph]
            keys.setdefault(graph.knowledge_base_id, []).append(key_text(int(graph.view.entity_keys[item.place])))
        if not keys:
            return []
        ask = Ask(frame.outcome.question, REPORT_KINDS, _REPORT_WINDOW, linking_to=keys)
        [found] = await frame.ask([ask])

        def worth(item: RankedCandidate) -> tuple[int, float, float]:
            record = item.candidate.record
            held = len(set(record.links) & set(keys.get(record.knowledge_base_id, ())))
            return held, item.similarity, weight_of(record)

        return sorted(found, key=worth, reverse=True)[:MAX_REPORTS]


def _best(frame: GraphFrame, by_name: Sequence[Sequence[RankedCandidate]]) -> tuple[Found, ...]:
    """Take the entities that are like one of the names, each with its highest similarity, best first."""
    found = [item for items in by_name for item in frame.entities_in(items)]
    return distinct(sorted((item for item in found if item.score > 0.0), key=lambda item: -item.score))


def _ways(frame: GraphFrame, number: int, entities: Sequence[Found]) -> Mapping[int, WayScore]:
    starts = [(item.place, item.score) for item in entities if item.graph == number]
    return scores_by_ways(frame.views[number], starts, frame.outcome.plan.graph.hops)
