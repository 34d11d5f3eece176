"""Metrics of syncs."""

from typing import Final

from prometheus_client import Counter

SOURCE_ITEMS_TOTAL: Final = Counter(
    "corpusmesh_ingest_source_items_total",
    "Documents of sources by what a sync did with them: which kind of source changes much, or fails?",
    ["kind", "change"],
)
