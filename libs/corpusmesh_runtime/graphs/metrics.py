"""Metrics of graphs that are read."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

GRAPH_VIEWS_TOTAL: Final = Counter(
    "corpusmesh_graph_views_total",
    "Views of graphs that were asked for, by where they came from: memory, file or compiled. Is the cache large"
    " enough?",
    ["source"],
)
GRAPH_COMPILE_SECONDS: Final = Histogram(
    "corpusmesh_graph_compile_seconds",
    "How long it takes to compile the view of a graph. Do searches wait for graphs?",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
GRAPH_VIEW_BYTES: Final = Gauge(
    "corpusmesh_graph_view_bytes", "Bytes of views of graphs that are kept in memory. What do graphs cost?"
)
GRAPH_FILE_BYTES: Final = Gauge(
    "corpusmesh_graph_file_bytes", "Bytes of files of graphs that are kept on disk. What do graphs cost?"
)
GRAPH_FETCHED_BYTES_TOTAL: Final = Counter(
    "corpusmesh_graph_fetched_bytes_total",
    "Bytes of graphs that were read from the object store. Are they read again and again?",
)
