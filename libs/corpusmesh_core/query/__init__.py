"""What a caller can ask of retrieval."""

from corpusmesh_core.query.plan import RetrievalPlan, SearchMode
from corpusmesh_core.query.presets import PLAN_BY_PRESET
from corpusmesh_core.query.stages import (
    AssemblyPlan,
    CorrectionPlan,
    Diversity,
    Preset,
    RecallPlan,
    RerankMethod,
    RerankPlan,
    TreeMode,
    TreePlan,
    UnderstandingPlan,
)
from corpusmesh_core.query.variants import QueryVariant, VariantOrigin

__all__ = [
    "PLAN_BY_PRESET",
    "AssemblyPlan",
    "CorrectionPlan",
    "Diversity",
    "Preset",
    "QueryVariant",
    "RecallPlan",
    "RerankMethod",
    "RerankPlan",
    "RetrievalPlan",
    "SearchMode",
    "TreeMode",
    "TreePlan",
    "UnderstandingPlan",
    "VariantOrigin",
]
