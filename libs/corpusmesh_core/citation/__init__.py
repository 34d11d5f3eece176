"""Citations: labels drawn per request, markers validated while the answer streams, places put in afterwards."""

from corpusmesh_core.citation.answer_filter import AnswerFilter, FilterOutcome, filter_answer
from corpusmesh_core.citation.labels import MAX_LABEL_COUNT, defuse_markers, draw_labels
from corpusmesh_core.citation.placement import MAX_CITATIONS_PER_SENTENCE, CitableText, place_citations
from corpusmesh_core.citation.sentences import SentenceSpan, split_sentences

__all__ = [
    "MAX_CITATIONS_PER_SENTENCE",
    "MAX_LABEL_COUNT",
    "AnswerFilter",
    "CitableText",
    "FilterOutcome",
    "SentenceSpan",
    "defuse_markers",
    "draw_labels",
    "filter_answer",
    "place_citations",
    "split_sentences",
]
