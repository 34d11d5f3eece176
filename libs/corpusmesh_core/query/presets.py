"""Presets: named plans, fixed by what each stage was measured to add (docs/evaluation.md)."""

from collections.abc import Mapping
from typing import Final

from corpusmesh_core.query.plan import RetrievalPlan
from corpusmesh_core.query.stages import (
    AssemblyPlan,
    CorrectionPlan,
    Preset,
    RecallPlan,
    RerankMethod,
    RerankPlan,
    UnderstandingPlan,
)

PLAN_BY_PRESET: Final[Mapping[Preset, RetrievalPlan]] = {
    Preset.FAST: RetrievalPlan(),
    Preset.BALANCED: RetrievalPlan(
        recall=RecallPlan(derived=True, tags=True),
        assembly=AssemblyPlan(parents=True, collapse_duplicates=True, hops=1),
    ),
    Preset.THOROUGH: RetrievalPlan(
        understanding=UnderstandingPlan(
            cross_language=True,
            keywords=True,
            step_back=True,
            decompose=True,
            hyde=True,
            memory=True,
            metadata_filter=True,
        ),
        recall=RecallPlan(derived=True, tags=True, proximity=True),
        rerank=RerankPlan(method=RerankMethod.CROSS_ENCODER),
        # No diversity: duplicates are collapsed anyway, and MMR costs 2.4 points of recall@5 on mh_small.
        assembly=AssemblyPlan(toc=True, parents=True, segments=True, collapse_duplicates=True, hops=2),
        correction=CorrectionPlan(check_sufficiency=True, correct=True, reflect=True),
    ),
}
"""The plan of every preset."""
