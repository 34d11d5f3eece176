"""Metrics of summaries."""

from typing import Final

from prometheus_client import Counter

SUMMARY_CALLS_TOTAL: Final = Counter(
    "corpusmesh_raptor_summary_calls_total",
    "Calls to the language model for summaries of nodes, by how they ended: answered, unusable, unfaithful, lost,"
    " refused, misconfigured. What do trees cost, and fail on?",
    ("outcome",),
)
SUMMARIES_TOTAL: Final = Counter(
    "corpusmesh_raptor_summaries_total",
    "Summaries of nodes by who wrote them (llm, lite) and why a language model did not although it was asked for; empty"
    " where it did, or was not. How much of the trees is made without the model that was asked for?",
    ("method", "fallback"),
)
