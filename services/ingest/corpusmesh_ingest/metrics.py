"""Metrics of the ingest stages."""

from prometheus_client import Counter

EMBEDDED_TEXTS_TOTAL = Counter(
    "corpusmesh_ingest_embedded_texts_total",
    "Texts that were given a vector, by where it came from: the model, or a version that held the same text.",
    ("origin",),
)
