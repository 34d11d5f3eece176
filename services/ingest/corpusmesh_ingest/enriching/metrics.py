"""Metrics of enrichment by a language model."""

from typing import Final

from prometheus_client import Counter

ENRICH_CALLS_TOTAL: Final = Counter(
    "corpusmesh_ingest_enrich_calls_total",
    "Calls to the language model for enrichment, by task and by how they ended: what does it cost, and fail on?",
    ["task", "outcome"],
)
ENRICH_ITEMS_TOTAL: Final = Counter(
    "corpusmesh_ingest_enrich_items_total",
    "Chunks, passages and documents that the language model was wanted for, by task and by what came of it: answered,"
    " kept (answered before), unusable or unreachable. How much is made without the model that was asked for?",
    ["task", "outcome"],
)
