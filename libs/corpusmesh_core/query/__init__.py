"""What a caller can ask of retrieval."""

from corpusmesh_core.query.plan import RetrievalPlan, SearchMode
from corpusmesh_core.query.presets import PLAN_BY_PRESET
from corpusmesh_core.query.stages import (
    AssemblyPlan,
    ChunkPick,
    CorrectionPlan,
    Diversity,
    GraphMode,
    GraphPlan,
    Preset,
    RecallPlan,
    RelationRerank,
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
    "ChunkPick",
    "CorrectionPlan",
    "Diversity",
    "GraphMode",
    "GraphPlan",
    "Preset",
    "QueryVariant",
    "RecallPlan",
    "RelationRerank",
    "RerankMethod",
    "RerankPlan",
    "RetrievalPlan",
    "SearchMode",
    "TreeMode",
    "TreePlan",
    "UnderstandingPlan",
    "VariantOrigin",
]
