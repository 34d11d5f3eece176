"""Answers: evidence under a budget, prompts that keep data apart, and the answer without a model."""

from corpusmesh_core.answering.evidence import Evidence, label_evidence, select_evidence
from corpusmesh_core.answering.extractive import (
    CandidateSentence,
    ExtractiveAnswer,
    ExtractiveSettings,
    candidate_sentences,
    compose_answer,
)
from corpusmesh_core.answering.rendering import render_answer_messages

__all__ = [
    "CandidateSentence",
    "Evidence",
    "ExtractiveAnswer",
    "ExtractiveSettings",
    "candidate_sentences",
    "compose_answer",
    "label_evidence",
    "render_answer_messages",
    "select_evidence",
]
