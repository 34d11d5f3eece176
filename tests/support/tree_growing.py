"""What trees are grown with in tests: a session that writes down what it was asked, leaves with places in space."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.records import Ordinal, chunk_record_id
from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.values import Cluster, Leaf, Summary, TreeCost, Vectors
from corpusmesh_raptor.growing import GrowingTools
from corpusmesh_runtime.text_vectors import TextVectors
from tests.support.ingest_stages import CountingEmbedder


@dataclass
class CountingSession:
    """Joins the beginnings of the children, and counts."""

    method: SummaryMethod = SummaryMethod.LITE
    fingerprint: bytes = b"f" * 16
    fallbacks: dict[str, str] = field(default_factory=dict)
    calls: list[list[Cluster]] = field(default_factory=list)
    hook: Any = None

    @property
    def asked(self) -> list[Cluster]:
        """Every cluster so far."""
        return [cluster for call in self.calls for cluster in call]

    async def summarize(self, clusters: Sequence[Cluster], *, timeout_seconds: float) -> list[Summary]:
        self.calls.append(list(clusters))
        await asyncio.sleep(0)
        if self.hook is not None:
            await self.hook()
        return [self._of(cluster) for cluster in clusters]

    def _of(self, cluster: Cluster) -> Summary:
        text = " ".join(child.text.split()[0] for child in cluster.children)
        fallback = next((why for word, why in self.fallbacks.items() if word in text), "")
        method = SummaryMethod.LITE if fallback else self.method
        return Summary(text, len(text.split()), method, "stub/1" if method is SummaryMethod.LLM else "", fallback)


def grown_with(session: CountingSession, embedder: CountingEmbedder | None = None, **fields: Any) -> GrowingTools:
    stand_in = embedder or CountingEmbedder()
    return GrowingTools(
        session=session,
        embedder=TextVectors(stand_in, CountingEmbedder.space.space_id),  # type: ignore[arg-type]
        cost=TreeCost(),
        remaining_seconds=lambda: 60.0,
        **fields,
    )


def make_leaves(texts: Sequence[str], *, source: int = 1, headings: Sequence[str] = ()) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(
            record_id=chunk_record_id(Ordinal(source), place),
            key=text.encode().ljust(16, b".")[:16],
            text=text,
            token_count=len(text.split()),
            source=Ordinal(source),
            title="Rivers",
            heading_path=(headings[place],) if headings else (),
        )
        for place, text in enumerate(texts)
    )


def walk(count: int, dimension: int = 16, *, seed: int = 0) -> Vectors:
    """Vectors that wander: neighbours are alike, those far apart are not."""
    steps = np.random.default_rng(seed).normal(size=(count, dimension))
    path = np.cumsum(steps, axis=0) + 1e-3
    unit: Vectors = (path / np.linalg.norm(path, axis=1, keepdims=True)).astype(np.float32)
    return unit


class OverlappingClusterer:
    """Pairs of neighbours that share one member."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.seeds: list[int] = []

    async def cluster(self, vectors: Any, *, seed: int, timeout_seconds: float) -> tuple[NDArray[np.int32], ...]:
        self.seeds.append(seed)
        if self.error is not None:
            raise self.error
        return tuple(
            np.array([place, min(place + 1, len(vectors) - 1), min(place + 2, len(vectors) - 1)], dtype=np.int32)
            for place in range(0, len(vectors), 2)
        )
