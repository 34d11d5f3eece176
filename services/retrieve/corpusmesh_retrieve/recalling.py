"""Recalls candidates of a question and of its variants: their vectors, their terms, one round trip to each space."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.index import (
    MAX_TITLES,
    MAX_WINDOW,
    Candidates,
    RecallRequest,
    RecordIndex,
    Reference,
    WordMatching,
)
from corpusmesh_core.query import QueryVariant, SearchMode
from corpusmesh_core.ranking import (
    RankedCandidate,
    derived_kinds,
    in_order,
    links_to_fetch,
    rank_candidates,
)
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import QueryTerms, analyze_query, cut_to_bytes
from corpusmesh_core.tree_search import leaves_to_score, on_scale_of_leaves, with_cosines_of_leaves
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.ordering import rank_found, terms_of
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_retrieve.trees.requests import beside_chunks, node_requests, with_nodes
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

MAX_VARIANTS = 16
"""Most texts that one recall searches for, the question included."""
_MODEL_CHANGED = "EMBED_MODEL_CHANGED"
_FOREIGN_SPACE = "SPACE_WITHOUT_MODEL"
_REFRESH_SECONDS = 2.0
_EMBED_SHARE_OF_DEADLINE = 0.4
"""Of the caller's time; the rest is for the full-text search, which must not fail because the model is slow."""
_NO_TERMS = analyze_query("")
_VARIANT_WINDOW = 128
"""Candidates of each leg of a variant: 15 of them with a thousand each would be a quarter of a gigabyte."""
_DERIVED = -1
_NODES = -2
"""Place of the first request for nodes of trees; those of further layers stand before it."""
_TITLE_WINDOW = 24
"""Records that names lead to; more are no better on the evaluation sets (16 to 64 measured) and cost their content."""
_MAX_LED_TO = 48
"""Most chunks of one space that are read because derived records lead to them."""
_log = get_logger(__name__)
Vector = NDArray[np.float32]


class Recaller:
    """Recalls candidates."""

    def __init__(self, index: RecordIndex, embedder: Embedder) -> None:
        """Create it.

        Args:
            index: Recalls candidates.
            embedder: Embeds the variants.
        """
        self._index = index
        self._embedder = embedder

    async def embed(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]
    ) -> list[Vector | None]:
        """Embed variants, those of each role in one call.

        Args:
            call: The call.
            outcome: Gets the space of the vectors, and notes on why there are none.
            variants: The variants.

        Returns:
            A vector for each variant; None where there is none.
        """
        vectors: list[Vector | None] = [None] * len(variants)
        places = [place for place, variant in enumerate(variants) if variant.by_vector and variant.text.strip()]
        # Where nothing can be seen there is nothing to compare with, and that is no failure.
        is_something_visible = any(not view.visibility.is_empty for view in outcome.views)
        if is_something_visible and outcome.plan.runs_vector and places:
            for place, vector in (await self._embedded(call, outcome, variants, places)).items():
                vectors[place] = vector
        return vectors

    async def _embedded(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant], places: Sequence[int]
    ) -> dict[int, Vector]:
        is_alone = outcome.plan.mode is SearchMode.VECTOR
        spaces = {view.space_id for view in outcome.views}
        seconds = call.remaining_seconds()
        try:
            own, found = await self._in_own_space(variants, places, spaces, seconds=seconds, is_alone=is_alone)
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            if is_alone:
                raise
            _log.warning("vector leg left out", reason=error.reason)
            _tell(
                outcome,
                "the knowledge base was made with another embedding model, so this is a full-text search alone"
                if error.reason == _FOREIGN_SPACE
                else "the embedding model did not answer, so this is a full-text search alone",
            )
            return {}
        if len(spaces) > 1:
            _tell(outcome, "a knowledge base made with another embedding model was searched by its words alone")
        outcome.query_space_id = own
        return found

    async def _in_own_space(
        self,
        variants: Sequence[QueryVariant],
        places: Sequence[int],
        spaces: Collection[str],
        *,
        seconds: float,
        is_alone: bool,
    ) -> tuple[str, dict[int, Vector]]:
        """Embed into the model's space, which must be one of those that are searched."""
        for is_last in (False, True):
            if set(spaces) != {self._embedder.space.space_id}:
                await self._embedder.refresh(deadline_seconds=min(_REFRESH_SECONDS, seconds * _EMBED_SHARE_OF_DEADLINE))
            own = self._embedder.space.space_id
            if own not in spaces:
                break
            by_role = [
                [place for place in places if variants[place].is_passage is is_passage] for is_passage in (False, True)
            ]
            try:
                found = await asyncio.gather(
                    *(
                        self._embedder.embed(
                            [cut_to_bytes(variants[place].text, MAX_TEXT_BYTES) for place in group],
                            role=EmbedRole.PASSAGE if variants[group[0]].is_passage else EmbedRole.QUERY,
                            lane=EmbedLane.INTERACTIVE,
                            deadline_seconds=seconds if is_alone else seconds * _EMBED_SHARE_OF_DEADLINE,
                        )
                        for group in by_role
                        if group
                    )
                )
            except UnavailableError as error:
                if is_last or error.reason != _MODEL_CHANGED:
                    raise
                # The space is known anew: it may be another one than what is searched.
                continue
            ordered = [place for group in by_role for place in group]
            return own, dict(zip(ordered, (vector for result in found for vector in result.vectors), strict=True))
        raise UnavailableError(_FOREIGN_SPACE, "the model of this knowledge base is not loaded")

    async def recall(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        variants: Sequence[QueryVariant],
        vectors: Sequence[Vector | None],
    ) -> None:
        """Search for variants, all of them in one round trip to each space.

        Chunks that only derived records of the question lead to take a second one.

        Args:
            call: The call.
            outcome: Gets the vectors and the candidates behind those that it has, and the variants that it does not
                hold yet; all at once, so that several texts can be looked for at the same time.
            variants: The variants.
            vectors: What `embed` has made of them.
        """
        answers = await asyncio.gather(
            *(self._recall(call, outcome, view, list(zip(variants, vectors, strict=True))) for view in outcome.views)
        )
        found = [candidates for candidates, _ in answers]
        if variants is not outcome.variants:
            outcome.variants.extend(variants)
        outcome.variant_vectors.extend(vectors)
        outcome.found = [[*old, *new] for old, new in zip(outcome.found or [[]] * len(found), found, strict=True)]
        outcome.derived = outcome.derived or [derived for _, derived in answers]
        outcome.unreachable.extend(leg for own in found for part in own for leg in part.incomplete_legs)

    async def score(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        view: SpaceView,
        record_ids: Sequence[str],
        *,
        kinds: Sequence[RecordKind] | None = None,
        as_links: bool = False,
    ) -> Candidates:
        """Score records by the question as recalled ones are.

        Args:
            call: The call.
            outcome: A search whose question is embedded.
            view: Where they are.
            record_ids: Their ids; those that the request may not see, or of other kinds, are left out.
            kinds: Their kinds; None for the plan's.
            as_links: Whether to score the records that point at them instead, at most MAX_WINDOW.

        Returns:
            Candidates without ranks.
        """
        vector = outcome.query_vector if outcome.query_space_id == view.space_id else None
        request = _request(
            outcome, view, terms=outcome.terms, vector=vector, kinds=outcome.plan.kinds if kinds is None else kinds
        )
        named = tuple(dict.fromkeys(record_ids))[:MAX_WINDOW]
        request = (
            replace(request, linking_to=named, window=MAX_WINDOW) if as_links else replace(request, record_ids=named)
        )
        [found] = await self._index.search(
            call.identity.tenant_id, view.space_id, [request], timeout_seconds=call.remaining_seconds()
        )
        return found

    async def recall_more(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]
    ) -> tuple[RankedCandidate, ...]:
        """Embed further texts for the same question and search for them; see `Searcher.recall_more`.

        Args:
            call: The call.
            outcome: A search that has recalled; gets the variants, their vectors and candidates.
            variants: Texts to search for; of more than MAX_VARIANTS - 1, the first.

        Returns:
            What they found.
        """
        wanted = [variant for variant in variants if variant.text.strip()][: MAX_VARIANTS - 1]
        if not wanted:
            return ()
        vectors = await self.embed(call, outcome, wanted)
        await self.recall(call, outcome, wanted, vectors)
        further = {
            item.record.record_id
            for found in outcome.found
            for candidates in found[-len(wanted) :]
            for item in candidates.items
        }
        return tuple(item for item in await rank_found(outcome) if item.candidate.record.record_id in further)

    async def recall_titled(
        self, call: CallContext, outcome: SearchOutcome, titles: Sequence[tuple[str, ...]]
    ) -> tuple[RankedCandidate, ...]:
        """Search for records whose title or headings hold one of some names, in one round trip to each space.

        Args:
            call: The call.
            outcome: A search whose question is embedded; stays as it is.
            titles: Names as their fine terms; of more than MAX_TITLES, the first.

        Returns:
            What was found and the question itself had not found, scored against the question.
        """
        wanted = tuple(titles[:MAX_TITLES])
        places = [place for place, view in enumerate(outcome.views) if wanted and not view.visibility.is_empty]
        found = await asyncio.gather(*(self._titled(call, outcome, outcome.views[place], wanted) for place in places))
        options = outcome.plan.ranking_options()
        further: list[RankedCandidate] = []
        for place, part in zip(places, found, strict=True):
            first = outcome.found[place][0] if outcome.found else Candidates(())
            known = {item.record.record_id for item in first.items}
            new = tuple(item for item in part.items if item.record.record_id not in known)
            # Among those of the first search: across scripts a similarity is an estimate from the others.
            everything = replace(part, items=(*first.items, *new))
            ranked = rank_candidates(everything, outcome.terms, options, rank_features=outcome.rank_features)
            further += [item for item in ranked if item.candidate.record.record_id not in known]
        return in_order(further)

    async def _titled(
        self, call: CallContext, outcome: SearchOutcome, view: SpaceView, titles: tuple[tuple[str, ...], ...]
    ) -> Candidates:
        vector = outcome.query_vector if outcome.query_space_id == view.space_id else None
        request = _request(outcome, view, terms=outcome.terms, vector=vector, kinds=outcome.plan.kinds)
        [found] = await self._index.search(
            call.identity.tenant_id,
            view.space_id,
            [replace(request, titles=titles, window=min(_TITLE_WINDOW, request.window))],
            timeout_seconds=call.remaining_seconds(),
        )
        return found

    async def _recall(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        view: SpaceView,
        variants: Sequence[tuple[QueryVariant, Vector | None]],
    ) -> tuple[list[Candidates], Candidates]:
        """Search one space; returns the candidates of each variant, and what leads to further chunks."""
        plan = outcome.plan
        found = [Candidates(()) for _ in variants]
        if view.visibility.is_empty:
            return found, Candidates(())
        is_comparable = outcome.query_space_id == view.space_id
        question = outcome.query_vector if is_comparable else None
        reference = Reference(outcome.terms if plan.runs_lexical else _NO_TERMS, question)
        requests: dict[int, RecallRequest] = {}
        for place, (variant, vector) in enumerate(variants):
            terms = terms_of(outcome, variant) if variant.by_words else _NO_TERMS
            own = vector if is_comparable else None
            request = _request(outcome, view, terms=terms, vector=own, kinds=plan.kinds)
            is_question = variant is outcome.variants[0]
            if not request.terms.is_empty or own is not None:
                compared = replace(request, reference=reference, window=min(plan.window, _VARIANT_WINDOW))
                requests[place] = _respelt(request) if is_question else compared
            if is_question and plan.recall.derived and (kinds := derived_kinds(plan.kinds)):
                leading = _request(outcome, view, terms=terms, vector=own, kinds=kinds)
                # A question or a statement is too short to hold a share of the terms.
                requests[_DERIVED] = replace(leading, matching=WordMatching())
            if is_question:
                requests.update(
                    (_NODES - number, part) for number, part in enumerate(node_requests(plan, view, request))
                )
        if not requests:
            return found, Candidates(())
        tenant_id, seconds = call.identity.tenant_id, call.remaining_seconds()
        answers = await self._index.search(tenant_id, view.space_id, list(requests.values()), timeout_seconds=seconds)
        by_place = dict(zip(requests, answers, strict=True))
        derived = by_place.pop(_DERIVED, Candidates(()))
        nodes = [by_place.pop(place) for place in sorted(by_place) if place <= _NODES]
        for place, candidates in by_place.items():
            found[place] = beside_chunks(candidates, plan)
            if candidates.spellings:
                present = outcome.terms.alternatives
                further = tuple(item for item in candidates.spellings if item not in present)
                outcome.terms = replace(outcome.terms, alternatives=(*present, *further))
        if nodes:
            found[0] = with_nodes(found[0], nodes)
        if missing := _led_to(outcome, found, derived, nodes):
            led_to = await self.score(call, outcome, view, missing)
            found[0] = replace(found[0], items=(*found[0].items, *led_to.items))
        if nodes:
            found[0] = replace(found[0], items=with_cosines_of_leaves(found[0].items))
        return found, derived


def _request(
    outcome: SearchOutcome, view: SpaceView, *, terms: QueryTerms, vector: Vector | None, kinds: Sequence[RecordKind]
) -> RecallRequest:
    plan = outcome.plan
    return RecallRequest(
        terms=terms if plan.runs_lexical else _NO_TERMS,
        query_vector=vector,
        visibility=build_filter(view.visibility, kinds),
        knowledge_base_ids=view.knowledge_base_ids,
        window=plan.window,
        other_script_window=max(1, plan.window // 4) if plan.include_other_script else 0,
        matching=WordMatching(plan.recall.minimum_match, plan.recall.proximity, gates_vectors=plan.recall.lexical_gate),
    )


def _led_to(
    outcome: SearchOutcome, found: Sequence[Candidates], derived: Candidates, nodes: Sequence[Candidates]
) -> tuple[str, ...]:
    """Name the chunks that only derived records and nodes of trees have found."""
    known = {item.record.record_id for candidates in found for item in candidates.items}
    options = outcome.plan.ranking_options()
    wanted: list[str] = []
    if derived.items:
        ranked = rank_candidates(derived, outcome.terms, options)
        wanted += links_to_fetch(ranked, known, max_count=min(_MAX_LED_TO, outcome.plan.window))
    if any(part.items for part in nodes):
        united = replace(nodes[0], items=tuple(on_scale_of_leaves(item) for part in nodes for item in part.items))
        wanted += leaves_to_score(rank_candidates(united, outcome.terms, options), known)
    return tuple(dict.fromkeys(wanted))


def _respelt(request: RecallRequest) -> RecallRequest:
    return replace(request, matching=replace(request.matching, corrects_spelling=True))


def _tell(outcome: SearchOutcome, note: str) -> None:
    """Say once that the vector leg is missing."""
    outcome.unreachable.append("vector")
    if note not in outcome.notes:
        outcome.notes.append(note)
