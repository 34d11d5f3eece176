"""Answers: evidence under a budget, prompts that keep data apart, and the answer without a model."""

from corpusmesh_core.answering.evidence import Evidence, label_evidence, select_evidence
from corpusmesh_core.answering.extractive import (
    CandidateSentence,
    ExtractiveAnswer,
    ExtractiveSettings,
    candidate_sentences,
    closest_quotation,
    compose_answer,
)
from corpusmesh_core.answering.rendering import render_answer_messages
from corpusmesh_core.answering.support import Support, SupportCalibration, measure_support

__all__ = [
    "CandidateSentence",
    "Evidence",
    "ExtractiveAnswer",
    "ExtractiveSettings",
    "Support",
    "SupportCalibration",
    "candidate_sentences",
    "closest_quotation",
    "compose_answer",
    "label_evidence",
    "measure_support",
    "render_answer_messages",
    "select_evidence",
]
