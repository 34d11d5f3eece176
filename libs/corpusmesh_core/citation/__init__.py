"""Citations: labels drawn per request, markers validated while the answer streams, every sentence checked."""

from corpusmesh_core.citation.answer_filter import AnswerFilter, FilterOutcome, filter_answer
from corpusmesh_core.citation.checking import (
    MAX_CITATIONS_PER_SENTENCE,
    CheckedSentence,
    CheckSettings,
    CitableText,
    EvidenceChecker,
    EvidenceVectors,
    Statement,
    is_statement,
    plain_statement,
)
from corpusmesh_core.citation.labels import MAX_LABEL_COUNT, defuse_markers, draw_labels
from corpusmesh_core.citation.leaf_support import MAX_PLACES, supporting_leaves
from corpusmesh_core.citation.placement import check_answer, cited_labels, place_citations
from corpusmesh_core.citation.sentence_gate import SentenceGate, split_segments
from corpusmesh_core.citation.sentences import SentenceSpan, split_sentences

__all__ = [
    "MAX_CITATIONS_PER_SENTENCE",
    "MAX_LABEL_COUNT",
    "MAX_PLACES",
    "AnswerFilter",
    "CheckSettings",
    "CheckedSentence",
    "CitableText",
    "EvidenceChecker",
    "EvidenceVectors",
    "FilterOutcome",
    "SentenceGate",
    "SentenceSpan",
    "Statement",
    "check_answer",
    "cited_labels",
    "defuse_markers",
    "draw_labels",
    "filter_answer",
    "is_statement",
    "place_citations",
    "plain_statement",
    "split_segments",
    "split_sentences",
    "supporting_leaves",
]
