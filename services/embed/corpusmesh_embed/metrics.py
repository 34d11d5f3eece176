"""Metrics of the embed service; queueing and computing are timed apart."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

QUEUE_DURATION_SECONDS = Histogram(
    "corpusmesh_embed_queue_duration_seconds",
    "How long a text waits for the model, by lane.",
    ("lane",),
    buckets=_SECONDS,
)
COMPUTE_DURATION_SECONDS = Histogram(
    "corpusmesh_embed_compute_duration_seconds", "How long the model computes one batch.", buckets=_SECONDS
)
BATCH_TEXTS = Histogram(
    "corpusmesh_embed_batch_texts", "Texts in a batch.", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
)
BATCH_TOKENS = Histogram(
    "corpusmesh_embed_batch_tokens",
    "Tokens in a batch, padding included.",
    buckets=(16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536),
)
TOKENS_TOTAL = Counter("corpusmesh_embed_tokens_total", "Tokens that the model read, padding apart.")
PADDING_TOKENS_TOTAL = Counter("corpusmesh_embed_padding_tokens_total", "Tokens computed in vain to fill batches.")
TEXTS_TOTAL = Counter(
    "corpusmesh_embed_texts_total",
    "Texts by lane and how they ended: embedded, dropped, failed, refused.",
    ("lane", "outcome"),
)
QUEUED_TEXTS = Gauge("corpusmesh_embed_queued_texts", "Texts that wait for the model, by lane.", ("lane",))
IN_FLIGHT_CALLS = Gauge("corpusmesh_embed_in_flight_calls", "Calls whose vectors are not ready yet.")
RERANKED_PASSAGES_TOTAL = Counter("corpusmesh_embed_reranked_passages_total", "Passages that the cross-encoder scored.")
RERANK_DURATION_SECONDS = Histogram(
    "corpusmesh_embed_rerank_duration_seconds",
    "How long a call to the cross-encoder takes, its time in the line included.",
    buckets=_SECONDS,
)
