"""The mode DRIFT: from reports to follow-up questions, and from what these find to further ones; then all in turn.

A round of questions is one look-up, however many they are; there are at most ROUNDS of them, and at most MAX_CALLS
calls of a language model. A round that there is no time for is left out.

References:
    Whiting et al.: Introducing DRIFT Search, Microsoft Research, 2024; seed `003_67b62910d2d3a085.txt`; ADR-0014.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.graph_search.community_local import MAX_ENTITIES, OVERSAMPLING, token_shares
from corpusmesh_core.graph_search.community_reports import ReportHit, texts_within
from corpusmesh_core.graph_search.drift import (
    MAX_ASKED,
    ROUNDS,
    Primer,
    ends_beyond,
    key_entities,
    primer_reader,
    questions_by_rule,
)
from corpusmesh_core.graph_search.keywords import keywords_by_rule
from corpusmesh_core.graph_search.levels import Found
from corpusmesh_core.graph_search.merging import in_turn
from corpusmesh_core.graph_search.picking import pick_by_cosine, pick_by_weight
from corpusmesh_core.graph_search.reading import named_entities
from corpusmesh_core.graph_search.steps import MAX_STEPS, GraphStep, StepKind, StepReason
from corpusmesh_core.graphs.extraction import names_in
from corpusmesh_core.prompts.graph_search_follow_up_v1 import GRAPH_SEARCH_FOLLOW_UP_V1
from corpusmesh_core.prompts.graph_search_primer_v1 import GRAPH_SEARCH_PRIMER_V1
from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.records import RecordKind
from corpusmesh_core.token_estimate import cut_to_tokens
from corpusmesh_retrieve.asking import MAX_ATTEMPTS, question_block
from corpusmesh_retrieve.graphs.community_local import (
    NOTHING_FITS,
    Around,
    around_of,
    named_in,
    tell_around,
)
from corpusmesh_retrieve.graphs.community_reports import NO_REPORTS, recall_reports, selected
from corpusmesh_retrieve.graphs.frame import ENTITY_KINDS, Ask, GraphFrame
from corpusmesh_retrieve.graphs.levels import bound_passages
from corpusmesh_retrieve.graphs.passages import Passages, cosines_of, put_first
from corpusmesh_retrieve.graphs.telling import passages_of
from corpusmesh_retrieve.ordering import rank_found
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.logging import get_logger

MAX_CALLS: Final = 3
MAX_PRIMER_TOKENS: Final = 6_000
"""Tokens of reports that a search begins with."""
MAX_PASSAGE_TOKENS: Final = 6_000
"""Tokens of passages that the questions of the next round are made of."""
_MAX_REPORT_TOKENS: Final = 900
_MAX_REPORTS: Final = 8
_ENTITIES_OF_REPORT: Final = 3
_ENTITIES_OF_FOLLOW_UP: Final = 5
_PASSAGES_SHOWN: Final = 2
_MAX_POOL: Final = 80
"""Passages behind what the question itself is about that are compared with it."""
_WEIGHT: Final = 0.8
"""Of a follow-up question against the question itself."""
_TIME_FOR_ROUND: Final = 0.35
"""Share of the time at the start that must be left for a further round."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Led:
    """Passages that one text led to.

    Attributes:
        hop: Rounds from the question of the search itself.
        plain: Those that a search for it found, best first; for the question itself all that it led to.
        behind: Those behind the entities and relations that it is about, best first.
    """

    hop: int
    plain: tuple[str, ...]
    behind: tuple[str, ...]

    @property
    def in_order(self) -> tuple[str, ...]:
        """All of them, in turn."""
        return in_turn([self.plain, self.behind], str)


@dataclass(slots=True)
class _Trail:
    """What a search has looked at so far.

    Attributes:
        asked: Questions that were searched, the search's own first.
        arounds: What of graphs each text was about.
        passages: Passages that each text led to.
        reports: Reports that the search began with, best first.
        answer: The first answer; "" without one.
        round_count: Rounds that were made.
        by_model: Whether a language model made questions.
        why_not: Why one did not, where it did not.
    """

    asked: list[str]
    arounds: list[Around] = field(default_factory=list)
    passages: list[_Led] = field(default_factory=list)
    reports: tuple[ReportHit, ...] = ()
    answer: str = ""
    round_count: int = 0
    by_model: bool = False
    why_not: str = ""

    @property
    def merged(self) -> tuple[str, ...]:
        """Merge passages in turn: every second one is of the question itself, however many follow-up questions are."""
        hops = dict.fromkeys(led.hop for led in self.passages)
        own, *rounds = [in_turn([led.in_order for led in self.passages if led.hop == hop], str) for hop in hops]
        return in_turn([own, in_turn(rounds, str)], str)


class Drift:
    """DRIFT."""

    def __init__(self, passages: Passages, recaller: Recaller) -> None:
        """Create it.

        Args:
            passages: Scores passages.
            recaller: Searches for follow-up questions.
        """
        self._passages = passages
        self._recaller = recaller

    async def run(self, frame: GraphFrame) -> StageResult:
        """Search.

        Args:
            frame: The search.

        Returns:
            What was done.
        """
        outcome = frame.outcome
        seconds, calls = frame.call.remaining_seconds(), outcome.request.session.call_count
        trail = _Trail([outcome.question])
        await self._begin(frame, trail)
        if not trail.reports and not trail.arounds[0].entities:
            frame.note(NOTHING_FITS)
            return StageResult(StageState.SKIPPED, detail="nothing of the graph fits")
        questions = await self._primer(frame, trail)
        for number in range(1, ROUNDS + 1):
            if not questions and not (number == 1 and trail.answer):
                break
            if frame.call.remaining_seconds() < _TIME_FOR_ROUND * seconds:
                frame.note("there was no time left for all rounds of follow-up questions")
                break
            if not await self._search(frame, trail, questions, number):
                break
            if number < ROUNDS:
                spent = outcome.request.session.call_count - calls
                questions = await self._further(frame, trail, questions, attempts=MAX_CALLS - spent)
        return await self._settle(frame, trail)

    async def _begin(self, frame: GraphFrame, trail: _Trail) -> None:
        """Look up reports, and what of graphs the question itself is about."""
        question, plan = frame.outcome.question, frame.outcome.plan.graph
        most = min(MAX_ENTITIES, plan.top_k)
        entities = Ask(question, ENTITY_KINDS, 2 * OVERSAMPLING * most)
        found, [similar] = await recall_reports(frame, plan.community_level, beside=[entities])
        trail.reports = (await asyncio.to_thread(selected, found))[:_MAX_REPORTS]
        if not trail.reports:
            frame.note(NO_REPORTS)
        around = around_of(frame, named_in(frame, question), similar, most=most)
        trail.arounds.append(around)
        plain, behind = _chunks(frame.outcome), self._behind(frame, around, _MAX_POOL)
        # Compared now: what is like a follow-up question is not yet like the question.
        await self._passages.score(frame.call, frame.outcome, frame.graphs, behind)
        cosines = cosines_of(frame.outcome)
        behind = pick_by_cosine([name for name in behind if name in cosines], cosines, len(behind))
        trail.passages.append(_Led(0, tuple(dict.fromkeys((*behind, *plain))), ()))

    async def _primer(self, frame: GraphFrame, trail: _Trail) -> tuple[str, ...]:
        """Make the questions of the first round of the reports."""
        by_rule = partial(self._of_reports, frame, trail)
        if not trail.reports:
            return by_rule().questions
        read = texts_within(trail.reports, max_tokens=MAX_PRIMER_TOKENS, max_each=_MAX_REPORT_TOKENS, most=_MAX_REPORTS)
        most = _most(frame)
        made = await frame.outcome.request.session.make(
            frame.call,
            GRAPH_SEARCH_PRIMER_V1,
            [
                question_block(frame.outcome.question),
                *(DataBlock(f"report {number}", text) for number, (_, text) in enumerate(read, 1)),
            ],
            read=primer_reader(trail.asked, most),
            otherwise=by_rule,
            parameters={"count": str(most)},
            attempts=MAX_ATTEMPTS,
        )
        trail.answer, trail.by_model, trail.why_not = made.value.answer, made.by_model, made.why_not
        return made.value.questions

    async def _further(
        self, frame: GraphFrame, trail: _Trail, questions: Sequence[str], *, attempts: int
    ) -> tuple[str, ...]:
        """Make the questions of the next round of what the last one has found."""
        by_rule = partial(self._of_relations, frame, trail)
        if attempts < 1 or not questions:
            return by_rule().questions
        most = _most(frame)
        made = await frame.outcome.request.session.make(
            frame.call,
            GRAPH_SEARCH_FOLLOW_UP_V1,
            [question_block(frame.outcome.question), *self._searched(frame, trail, questions)],
            read=primer_reader(trail.asked, most),
            otherwise=by_rule,
            parameters={"count": str(most)},
            attempts=min(attempts, MAX_ATTEMPTS),
        )
        trail.by_model = trail.by_model or made.by_model
        trail.why_not = trail.why_not or made.why_not
        return made.value.questions

    def _searched(self, frame: GraphFrame, trail: _Trail, questions: Sequence[str]) -> list[DataBlock]:
        texts = {item.candidate.record.record_id: item.candidate.record.text for item in frame.outcome.kept}
        each = MAX_PASSAGE_TOKENS // (_PASSAGES_SHOWN * len(questions))
        blocks: list[DataBlock] = []
        for number, (question, led) in enumerate(zip(questions, trail.passages[-len(questions) :], strict=True), 1):
            shown = [cut_to_tokens(texts[name], each) for name in led.in_order if name in texts][:_PASSAGES_SHOWN]
            blocks.append(DataBlock(f"question {number}", question))
            blocks += [DataBlock(f"passage for question {number}", text) for text in shown]
        return blocks

    def _of_reports(self, frame: GraphFrame, trail: _Trail) -> Primer:
        """Ask of the entities that the reports are about, and of neighbours of what the question names."""
        known = {item.identity for item in trail.arounds[0].entities if item.reason is StepReason.NAMED}
        names: list[list[str]] = []
        for number, graph in enumerate(frame.graphs):
            groups = [
                hit.record.links for hit in trail.reports if hit.record.knowledge_base_id == graph.knowledge_base_id
            ]
            own = [place for at, place in known if at == number]
            chosen = key_entities(graph.view, groups, own, of_one=_ENTITIES_OF_REPORT)
            names.append([graph.view.name(place) for place in chosen])
        return self._by_rule(frame, trail, in_turn([self._beyond(frame, trail), in_turn(names, str)], str.casefold))

    def _of_relations(self, frame: GraphFrame, trail: _Trail) -> Primer:
        """Ask what is asked of the entities that relations lead to and that were not looked at."""
        return self._by_rule(frame, trail, self._beyond(frame, trail))

    def _beyond(self, frame: GraphFrame, trail: _Trail) -> list[str]:
        known = {item.identity for around in trail.arounds for item in around.entities}
        relations = in_turn([around.relations for around in trail.arounds], _identity)
        beyond = ends_beyond(frame.views, relations, known)
        return [frame.views[graph].name(place) for graph, place in beyond]

    def _by_rule(self, frame: GraphFrame, trail: _Trail, names: Sequence[str]) -> Primer:
        question = frame.outcome.question
        rows = names_in(question)
        named = [name for view in frame.views for name in named_entities(view, rows).values()]
        words = keywords_by_rule(question, named)
        return Primer("", questions_by_rule(names, words.high or words.low, trail.asked, _most(frame)))

    async def _search(self, frame: GraphFrame, trail: _Trail, questions: Sequence[str], number: int) -> bool:
        """Search for the questions of one round; whether the index answered."""
        variants = [QueryVariant(text, VariantOrigin.HOP, _WEIGHT) for text in questions]
        if number == 1 and trail.answer:
            first = QueryVariant(trail.answer, VariantOrigin.HYPOTHETICAL, _WEIGHT, is_passage=True, by_words=False)
            variants = [first, *variants]
        try:
            found = await self._recalled(frame, variants)
            named = [named_in(frame, variant.text) for variant in variants]
            unknown = [variant.text for variant, own in zip(variants, named, strict=True) if not own]
            asks = [Ask(text, ENTITY_KINDS, OVERSAMPLING * _ENTITIES_OF_FOLLOW_UP) for text in unknown]
            similar = dict(zip(unknown, await frame.ask(asks), strict=True)) if asks else {}
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            frame.call.remaining_seconds()
            _log.warning("round of follow-up questions left out", reason=error.reason)
            frame.note("a round of follow-up questions was left out, since the index did not answer")
            return False
        for variant, own, plain in zip(variants, named, found, strict=True):
            around = around_of(frame, own, similar.get(variant.text, ()), most=_ENTITIES_OF_FOLLOW_UP, hop=number)
            trail.arounds.append(around)
            most = frame.outcome.plan.graph.chunk_top_k
            trail.passages.append(_Led(number, plain[:most], self._behind(frame, around, most)))
        trail.asked += questions
        trail.round_count = number
        return True

    async def _recalled(self, frame: GraphFrame, variants: Sequence[QueryVariant]) -> list[tuple[str, ...]]:
        """Search passages for texts; for each the chunks that it found, best first."""
        call, outcome = frame.call, frame.outcome
        vectors = await self._recaller.embed(call, outcome, variants)
        outcome.probe_vectors.update(
            {variant.text: vector for variant, vector in zip(variants, vectors, strict=True) if vector is not None}
        )
        await self._recaller.recall(call, outcome, variants, vectors)
        outcome.ranked = await rank_found(outcome)
        chunks = _chunks(outcome)
        found: list[tuple[str, ...]] = []
        for place in range(-len(variants), 0):
            own = {item.record.record_id for parts in outcome.found for item in parts[place].items}
            found.append(tuple(name for name in chunks if name in own))
        return found

    def _behind(self, frame: GraphFrame, around: Around, most: int) -> tuple[str, ...]:
        return pick_by_weight(passages_of(frame, around.entities, around.relations), most)

    async def _settle(self, frame: GraphFrame, trail: _Trail) -> StageResult:
        """Merge what the questions have found, in turn."""
        outcome, plan = frame.outcome, frame.outcome.plan.graph
        around = Around(
            in_turn([part.entities for part in trail.arounds], _identity)[: plan.top_k],
            in_turn([part.relations for part in trail.arounds], _identity)[: plan.top_k],
        )
        await frame.read(around.entities, around.relations)
        told = tell_around(frame, around, trail.reports)
        picked = trail.merged[: plan.chunk_top_k]
        await self._passages.score(frame.call, outcome, frame.graphs, picked)
        count = put_first(outcome, picked)
        bound_passages(outcome, max_tokens=token_shares(plan.max_total_tokens)[0])
        self._tell_passages(frame, trail, picked)
        questions = counted(len(trail.asked) - 1, "follow-up question")
        how = "" if trail.by_model else f" by rule: {trail.why_not}" if trail.why_not else " by rule"
        return StageResult(
            by_model=trail.by_model,
            detail=f"{questions} in {counted(trail.round_count, 'round')}{how}; {told};"
            f" {counted(count, 'passage')} put first",
        )

    def _tell_passages(self, frame: GraphFrame, trail: _Trail, picked: Sequence[str]) -> None:
        hops: dict[str, int] = {}
        for led in trail.passages:
            for name in (*led.behind, *led.plain):
                hops.setdefault(name, led.hop)
        hits = {item.candidate.record.record_id: item.similarity for item in frame.outcome.kept}
        steps = [
            GraphStep(StepKind.CHUNK, name, "", StepReason.NEIGHBOUR, hits[name], hops[name])
            for name in picked
            if name in hits
        ]
        room = max(0, MAX_STEPS - len(frame.outcome.graph_path))
        frame.outcome.graph_path.extend(steps[:room])


def _most(frame: GraphFrame) -> int:
    # One place is for the first answer.
    return min(frame.outcome.plan.graph.follow_ups, MAX_ASKED - 1)


def _chunks(outcome: SearchOutcome) -> list[str]:
    """Name the passages among the hits, best first."""
    records = (item.candidate.record for item in outcome.kept)
    return [record.record_id for record in records if record.kind is RecordKind.CHUNK]


def _identity(item: Found) -> tuple[int, int]:
    return item.identity
