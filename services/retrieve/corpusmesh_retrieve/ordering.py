"""Puts everything that a search has found in order: question and variants, derived records, spaces."""

import asyncio
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.query import QueryVariant, VariantOrigin
from corpusmesh_core.ranking import (
    RankedCandidate,
    VariantCandidates,
    VectorScale,
    lift_by_derived,
    rank_candidates,
    rank_variants,
    trust_in,
)
from corpusmesh_core.text import QueryTerms, Script, analyze_query, script_of
from corpusmesh_retrieve.outcome import SearchOutcome

_LED_AWAY = frozenset({VariantOrigin.HOP, VariantOrigin.PART})
"""Origins whose texts are about something else than the question by design: names that it does not know yet."""
Vector = NDArray[np.float32]


async def rank_found(outcome: SearchOutcome) -> tuple[RankedCandidate, ...]:
    """Put everything in order that was found so far.

    Args:
        outcome: The state of the search; what comes to it meanwhile is not looked at.

    Returns:
        All candidates, see `SearchOutcome.ranked`.
    """
    now = replace(
        outcome,
        variants=list(outcome.variants),
        variant_vectors=list(outcome.variant_vectors),
        found=[list(found) for found in outcome.found],
        rank_features=dict(outcome.rank_features),
    )
    # Some milliseconds for a question alone, a tenth of a second for ten variants: not on the event loop.
    return await asyncio.to_thread(_ranked, now)


def _ranked(outcome: SearchOutcome) -> tuple[RankedCandidate, ...]:
    options = outcome.plan.ranking_options()
    known = [
        (terms, variant.weight, 1.0 if variant.origin in _LED_AWAY else _trust(outcome, terms, vector, options.scale))
        for variant, vector in zip(outcome.variants, outcome.variant_vectors, strict=True)
        for terms in [terms_of(outcome, variant)]
    ]
    ranked: list[RankedCandidate] = []
    for found, derived in zip(outcome.found, outcome.derived, strict=True):
        parts = [
            VariantCandidates(candidates, terms, weight, trust)
            for (terms, weight, trust), candidates in zip(known, found, strict=True)
        ]
        own = rank_variants(parts[0], parts[1:], options, rank_features=outcome.rank_features)
        if derived.items:
            own = lift_by_derived(own, rank_candidates(derived, outcome.terms, options), options)
        ranked += own
    if len(outcome.found) < 2:
        return tuple(ranked)
    # Spaces cannot be compared by cosine alone; similarity is absolute, so it joins them.
    return tuple(sorted(ranked, key=lambda item: (not item.is_kept, -item.similarity)))


def _trust(outcome: SearchOutcome, terms: QueryTerms, vector: Vector | None, scale: VectorScale) -> float:
    if vector is None or outcome.query_vector is None:
        return 1.0
    scripts = {script_of(terms.fine), script_of(outcome.terms.fine)}
    is_cross_script = scripts == {Script.SPACED, Script.UNSPACED}
    return trust_in(float(vector @ outcome.query_vector), is_cross_script=is_cross_script, scale=scale)


def terms_of(outcome: SearchOutcome, variant: QueryVariant) -> QueryTerms:
    """Give the terms of a variant.

    Args:
        outcome: The state of the search.
        variant: One of its variants.

    Returns:
        The question's terms, with emphasis and alternatives, for the question itself.
    """
    return outcome.terms if variant is outcome.variants[0] else analyze_query(variant.text)
