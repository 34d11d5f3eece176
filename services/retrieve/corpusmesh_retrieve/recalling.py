"""Recalls candidates of a question and of its variants: their vectors, their terms, one round trip to each space."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.index import Candidates, RecallRequest, RecordIndex, Reference, WordMatching
from corpusmesh_core.query import QueryVariant, SearchMode
from corpusmesh_core.ranking import RankedCandidate, VariantCandidates, rank_variants
from corpusmesh_core.text import QueryTerms, analyze_query
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

MAX_VARIANTS = 16
"""Most texts that one recall searches for, the question included."""
_FOREIGN_SPACE = "SPACE_WITHOUT_MODEL"
_REFRESH_SECONDS = 2.0
_EMBED_SHARE_OF_DEADLINE = 0.4
"""Of the caller's time; the rest is for the full-text search, which must not fail because the model is slow."""
_NO_TERMS = analyze_query("")
_log = get_logger(__name__)
_Vector = NDArray[np.float32]


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

    async def embed(self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]) -> None:
        """Embed variants, those of each role in one call.

        Args:
            call: The call.
            outcome: Gets their vectors behind those that it has, None for those that have none; the first vector of
                all is the question's.
            variants: The variants.
        """
        vectors: list[_Vector | None] = [None] * len(variants)
        places = [place for place, variant in enumerate(variants) if variant.by_vector and variant.text.strip()]
        # Without a view there is nothing to compare with: nobody read a knowledge base, and that is no failure.
        if outcome.views and outcome.plan.runs_vector and places:
            for place, vector in (await self._embedded(call, outcome, variants, places)).items():
                vectors[place] = vector
        if not outcome.variant_vectors:
            outcome.query_vector = vectors[0] if vectors else None
        outcome.variant_vectors.extend(vectors)

    async def _embedded(
        self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant], places: Sequence[int]
    ) -> dict[int, _Vector]:
        is_alone = outcome.plan.mode is SearchMode.VECTOR
        spaces = {view.space_id for view in outcome.views}
        seconds = call.remaining_seconds()
        try:
            if spaces != {self._embedder.space.space_id}:
                await self._embedder.refresh(deadline_seconds=min(_REFRESH_SECONDS, seconds * _EMBED_SHARE_OF_DEADLINE))
            own = self._embedder.space.space_id
            if own not in spaces:
                raise UnavailableError(_FOREIGN_SPACE, "the model of this knowledge base is not loaded")
            by_role = [
                [place for place in places if variants[place].is_passage is is_passage] for is_passage in (False, True)
            ]
            found = await asyncio.gather(
                *(
                    self._embedder.embed(
                        [variants[place].text for place in group],
                        role=EmbedRole.PASSAGE if variants[group[0]].is_passage else EmbedRole.QUERY,
                        lane=EmbedLane.INTERACTIVE,
                        deadline_seconds=seconds if is_alone else seconds * _EMBED_SHARE_OF_DEADLINE,
                    )
                    for group in by_role
                    if group
                )
            )
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
        ordered = [place for group in by_role for place in group]
        return dict(zip(ordered, (vector for result in found for vector in result.vectors), strict=True))

    async def recall(self, call: CallContext, outcome: SearchOutcome, variants: Sequence[QueryVariant]) -> None:
        """Search for variants that `embed` has embedded, all of them in one round trip to each space.

        Args:
            call: The call.
            outcome: Gets the variants, unless it holds them already, and their candidates.
            variants: The last ones that were embedded.
        """
        first = len(outcome.variant_vectors) - len(variants)
        found = await asyncio.gather(
            *(self._recall(call, outcome, view, variants, outcome.variant_vectors[first:]) for view in outcome.views)
        )
        outcome.found = [[*(outcome.found[place] if outcome.found else []), *own] for place, own in enumerate(found)]
        outcome.unreachable.extend(leg for own in found for candidates in own for leg in candidates.incomplete_legs)

    async def _recall(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        view: SpaceView,
        variants: Sequence[QueryVariant],
        vectors: Sequence[_Vector | None],
    ) -> list[Candidates]:
        found = [Candidates(()) for _ in variants]
        if view.visibility.is_empty:
            return found
        plan = outcome.plan
        is_comparable = outcome.query_space_id == view.space_id
        filter_ = build_filter(view.visibility, plan.kinds)
        question = outcome.terms if plan.runs_lexical else _NO_TERMS
        reference = Reference(question, outcome.query_vector if is_comparable else None)
        requests: dict[int, RecallRequest] = {}
        for place, (variant, vector) in enumerate(zip(variants, vectors, strict=True)):
            terms = terms_of(outcome, variant) if plan.runs_lexical and variant.by_words else _NO_TERMS
            own = vector if is_comparable else None
            if terms.is_empty and own is None:
                continue
            requests[place] = RecallRequest(
                terms=terms,
                query_vector=own,
                visibility=filter_,
                knowledge_base_ids=view.knowledge_base_ids,
                window=plan.window,
                other_script_window=max(1, plan.window // 4) if plan.include_other_script else 0,
                reference=None if variant is outcome.variants[0] else reference,
                matching=WordMatching(
                    plan.recall.minimum_match, plan.recall.proximity, gates_vectors=plan.recall.lexical_gate
                ),
            )
        if requests:
            answers = await self._index.search(
                call.identity.tenant_id,
                view.space_id,
                list(requests.values()),
                timeout_seconds=call.remaining_seconds(),
            )
            for place, candidates in zip(requests, answers, strict=True):
                found[place] = candidates
        return found


def rank_found(outcome: SearchOutcome) -> tuple[RankedCandidate, ...]:
    """Put everything in order that was found so far.

    Args:
        outcome: The state of the search.

    Returns:
        All candidates, see `SearchOutcome.ranked`.
    """
    options = outcome.plan.ranking_options()
    ranked: list[RankedCandidate] = []
    for found in outcome.found:
        parts = [
            VariantCandidates(candidates, terms_of(outcome, variant), variant.weight)
            for variant, candidates in zip(outcome.variants, found, strict=True)
        ]
        ranked += rank_variants(parts[0], parts[1:], options, rank_features=outcome.rank_features)
    if len(outcome.found) < 2:
        return tuple(ranked)
    # Spaces cannot be compared by cosine alone; similarity is absolute, so it joins them.
    return tuple(sorted(ranked, key=lambda item: (not item.is_kept, -item.similarity)))


def terms_of(outcome: SearchOutcome, variant: QueryVariant) -> QueryTerms:
    """Give the terms of a variant.

    Args:
        outcome: The state of the search.
        variant: One of its variants.

    Returns:
        The question's terms, with emphasis and alternatives, for the question itself.
    """
    return outcome.terms if variant is outcome.variants[0] else analyze_query(variant.text)


def _tell(outcome: SearchOutcome, note: str) -> None:
    """Say once that the vector leg is missing."""
    outcome.unreachable.append("vector")
    if note not in outcome.notes:
        outcome.notes.append(note)
