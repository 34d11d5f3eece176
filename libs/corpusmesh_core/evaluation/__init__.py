"""How good retrieval and answers are: golden questions, measures, comparisons, the gate of a publish."""

from corpusmesh_core.evaluation.answers import AnswerOutcome, AnswerQuality, summarise_answers
from corpusmesh_core.evaluation.comparison import PairedComparison, compare_paired
from corpusmesh_core.evaluation.gate import GateMeasure, GateVerdict, PublishGate, judge_gate
from corpusmesh_core.evaluation.judging import FoundText, GoldItem, holds, judge_hits
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
    "AnswerOutcome",
    "AnswerQuality",
    "FoundText",
    "GateMeasure",
    "GateVerdict",
    "GoldItem",
    "PairedComparison",
    "PublishGate",
    "QueryOutcome",
    "RetrievalQuality",
    "compare_paired",
    "holds",
    "judge_gate",
    "judge_hits",
    "ndcg_at",
    "recall_at",
    "reciprocal_rank",
    "summarise_answers",
    "summarise_quality",
    "unique_in_order",
]
