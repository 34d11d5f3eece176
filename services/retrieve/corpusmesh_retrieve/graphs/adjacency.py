"""The mode ADJACENCY: relations some hops around what the question names, chosen, and led back to passages.

References:
    Seed `003_67b62910d2d3a085.txt` (1-190); ADR-0014.
"""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.graph_search.adjacency import (
    MAX_CANDIDATES,
    MAX_CHOSEN,
    MAX_SHOWN,
    expand,
    in_chosen_order,
    passages_in_order,
    read_chosen,
)
from corpusmesh_core.graph_search.keywords import GraphKeywords
from corpusmesh_core.graph_search.levels import Found, distinct
from corpusmesh_core.graph_search.reading import passages_of_relation, relation_record
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.ports.reranking import MAX_PASSAGE_BYTES, PassageReranker
from corpusmesh_core.prompts.graph_search_relations_v1 import GRAPH_SEARCH_RELATIONS_V1
from corpusmesh_core.query import RelationRerank
from corpusmesh_core.text import cut_to_bytes
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.graphs.frame import ENTITY_KINDS, RELATION_KINDS, Ask, GraphFrame
from corpusmesh_retrieve.graphs.levels import tell_picked
from corpusmesh_retrieve.graphs.passages import Passages, put_first
from corpusmesh_retrieve.graphs.telling import (
    PASSAGES_OF_ONE,
    ends_named,
    relation_statement,
    tell_entities,
    tell_relations,
)
from corpusmesh_retrieve.outcome import StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_PER_NAME: Final = 3
"""Entities that are taken for a name that the graph does not have as it is written (seed)."""
_COMPARED: Final = 128
"""Relations that come back where words alone compare them with the question: those that share most with it."""
_MAX_SHOWN_CHARACTERS: Final = 400
_SHARE_OF_DEADLINE: Final = 0.4
_log = get_logger(__name__)


class Adjacency:
    """ADJACENCY."""

    def __init__(self, passages: Passages, reranker: PassageReranker) -> None:
        """Create it.

        Args:
            passages: Scores passages.
            reranker: The cross-encoder.
        """
        self._passages = passages
        self._reranker = reranker

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search.

        Returns:
            What was done.
        """
        outcome, plan = frame.outcome, frame.outcome.plan.graph
        words = outcome.graph_keywords or GraphKeywords()
        named = frame.named(words.low)
        # The two paths in one round trip: names to entities, the question to relations.
        unknown = [] if named else list(words.low)
        asks = [Ask(name, ENTITY_KINDS, _PER_NAME) for name in unknown]
        *by_name, by_question = await frame.ask([*asks, Ask(outcome.question, RELATION_KINDS, plan.top_k)])
        like = [item for items in by_name for item in frame.entities_in(items)[:_PER_NAME]]
        entities = distinct((*named, *like))
        seeds = frame.relations_in(by_question)[: plan.top_k]
        candidates, evicted = await self._compared(frame, entities, seeds)
        if not candidates:
            frame.note("no relation of the graph is near to the question; it was searched by its passages alone")
            return StageResult(StageState.SKIPPED, detail="no relation is near to the question")
        order, by_model, how = await self._order(frame, candidates)
        ordered = [candidates[place] for place in order]
        chosen = ordered[: MAX_CHOSEN if by_model or plan.chunk_top_k > MAX_CHOSEN else plan.chunk_top_k]
        groups = [passages_of_relation(frame.views[item.graph], item.place, PASSAGES_OF_ONE) for item in ordered]
        picked = passages_in_order(groups, plan.chunk_top_k)
        await self._passages.score(frame.call, outcome, frame.graphs, picked)
        count = put_first(outcome, picked)
        tell_entities(frame, entities, {item.identity for item in entities})
        tell_relations(frame, ordered[:MAX_SHOWN], {item.identity for item in chosen})
        tell_picked(frame, picked)
        gone = f", {evicted} evicted" if evicted else ""
        return StageResult(
            by_model=by_model,
            detail=f"{counted(len(candidates), 'relation')} near to the question{gone}, {how};"
            f" {counted(count, 'passage')} behind them",
        )

    async def _compared(
        self, frame: GraphFrame, entities: Sequence[Found], seeds: Sequence[Found]
    ) -> tuple[list[Found], int]:
        """Expand what was found, and compare all of it with the question; best first, and how many were evicted."""
        outcome = frame.outcome
        hops: dict[tuple[int, int], int] = {}
        given: dict[str, list[str]] = {}
        known = {item.identity for item in seeds}
        near = frame.near
        evicted = 0
        for number, graph in enumerate(frame.graphs):
            expansion = expand(
                graph.view,
                [item.place for item in entities if item.graph == number],
                [item.place for item in seeds if item.graph == number],
                outcome.plan.graph.hops,
                most=MAX_CANDIDATES // len(frame.graphs),
            )
            evicted += expansion.reached_count - len(expansion.relations)
            for relation, hop in zip(expansion.relations.tolist(), expansion.hops.tolist(), strict=True):
                hops[number, relation] = hop
                if (number, relation) not in known:
                    given.setdefault(graph.knowledge_base_id, []).append(relation_record(graph.view, relation, near))
        further: tuple[Found, ...] = ()
        if given:
            has_vectors = any(graph.has_vectors_of(RELATION_KINDS[0]) for graph in frame.graphs)
            count = None if has_vectors else _COMPARED
            [items] = await frame.ask([Ask(outcome.question, RELATION_KINDS, 1, given=given, given_count=count)])
            further = frame.relations_in(items)
        compared = [
            Found(
                item.graph,
                item.place,
                item.score,
                StepReason.SIMILAR if item.identity in known else StepReason.NEIGHBOUR,
                hops.get(item.identity, 0),
            )
            for item in distinct((*seeds, *further))
        ]
        return sorted(compared, key=lambda item: (-item.score, item.hop)), evicted

    async def _order(self, frame: GraphFrame, candidates: Sequence[Found]) -> tuple[list[int], bool, str]:
        """Choose relations as the plan says; the order, whether a language model made it, and how."""
        rerank = frame.outcome.plan.graph.relation_rerank
        shown = candidates[:MAX_SHOWN]
        if rerank is RelationRerank.MODEL:
            return await self._by_model(frame, shown, len(candidates))
        if rerank is RelationRerank.CROSS_ENCODER:
            return await self._by_cross_encoder(frame, shown, len(candidates))
        return list(range(len(candidates))), False, "by similarity"

    async def _by_model(self, frame: GraphFrame, shown: Sequence[Found], count: int) -> tuple[list[int], bool, str]:
        lines = [f"[{number}] {_told(frame, item)}" for number, item in enumerate(shown, 1)]
        made = await frame.outcome.request.session.make(
            frame.call,
            GRAPH_SEARCH_RELATIONS_V1,
            [question_block(frame.outcome.question), DataBlock("relations", "\n".join(lines))],
            read=lambda answer: read_chosen(answer, len(shown)),
            otherwise=tuple[int, ...],
            parameters={"count": str(MAX_CHOSEN)},
        )
        how = f"{len(made.value)} chosen by the language model" if made.by_model else f"by similarity: {made.why_not}"
        return in_chosen_order(count, made.value), made.by_model, how

    async def _by_cross_encoder(
        self, frame: GraphFrame, shown: Sequence[Found], count: int
    ) -> tuple[list[int], bool, str]:
        call, question = frame.call, frame.outcome.question
        if self._reranker.rerank_model is None:
            frame.note("no cross-encoder is configured, so relations are in the order of similarity")
            return list(range(count)), False, "by similarity"
        try:
            scores = await self._reranker.rerank(
                cut_to_bytes(question, MAX_PASSAGE_BYTES),
                [cut_to_bytes(_told(frame, item), MAX_PASSAGE_BYTES) for item in shown],
                deadline_seconds=_seconds(call),
            )
        except CorpusMeshError as error:
            call.remaining_seconds()
            _log.warning("reranking of relations left out", reason=error.reason)
            frame.note("the cross-encoder did not answer, so relations are in the order of similarity")
            return list(range(count)), False, "by similarity"
        best = sorted(range(len(shown)), key=lambda place: -float(scores[place]))
        return in_chosen_order(count, best), False, f"{len(shown)} by the cross-encoder"


def _told(frame: GraphFrame, relation: Found) -> str:
    """Write a relation in one line, as a model reads it."""
    names = " \u2013 ".join(ends_named(frame, relation))
    statement = " ".join(relation_statement(frame, relation).split())
    return f"{names}: {statement}"[:_MAX_SHOWN_CHARACTERS] if statement else names


def _seconds(call: CallContext) -> float:
    return call.remaining_seconds() * _SHARE_OF_DEADLINE
