"""Metrics of the runtime; labels come from closed sets, never from identifiers."""

from prometheus_client import Counter, Gauge, Histogram

RPC_DURATION_SECONDS = Histogram(
    "corpusmesh_rpc_duration_seconds",
    "How long calls take, by method and outcome.",
    ("method", "code"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
RPC_IN_FLIGHT = Gauge("corpusmesh_rpc_in_flight", "Calls being handled now, by method.", ("method",))
RPC_DENIED_TOTAL = Counter(
    "corpusmesh_rpc_denied_total", "Calls refused before their handler ran, by reason.", ("reason",)
)
STAGE_DURATION_SECONDS = Histogram(
    "corpusmesh_stage_duration_seconds",
    "How long a stage of a request or a run takes, by service and stage.",
    ("service", "stage"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
