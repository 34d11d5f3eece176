"""How good a ranking is: measures over ranked identifiers and their gold sets."""

from corpusmesh_core.evaluation.measures import (
    QueryOutcome,
    RetrievalQuality,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    summarise_quality,
    unique_in_order,
)

__all__ = [
    "QueryOutcome",
    "RetrievalQuality",
    "ndcg_at",
    "recall_at",
    "reciprocal_rank",
    "summarise_quality",
    "unique_in_order",
]
