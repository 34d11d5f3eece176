"""Metrics of what graphs ask a language model."""

from typing import Final

from prometheus_client import Counter

GRAPH_MODEL_CALLS_TOTAL: Final = Counter(
    "corpusmesh_graph_model_calls_total",
    "Calls to the language model for graphs, by what for (extract, glean, describe, confirm, report) and how they"
    " ended: answered, unusable, unfaithful, lost, refused, misconfigured. What do graphs cost, and fail on?",
    ("task", "outcome"),
)
