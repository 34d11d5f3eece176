"""What lite summaries cost, beside embedding the chunks that they stand on; and how near they come to them.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python bench/tree_summaries.py [--chunks 1000] [--embedded 64]

One thread. Chunks are passages of the evaluation sets: as they are (short), and put together to about 400 tokens. For
each: processor time of embedding them with the packaged model (a sample, by tokens), of clustering a whole tree, of its
extracts and its vectors, each for one leaf and as a share of the embedding; and the cosine of the extracts of the first
layer with the mean of their children, by the same model, against that of sentences drawn by chance.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, model_directory
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.extractive import extract
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Child, Vectors
from corpusmesh_core.trees.vectors import node_vector

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).resolve().parents[2] / "shared"))
SETTINGS = TreeSettings()
CHUNK_TOKENS = 400
_Made = TypeVar("_Made")


def timed(work: Callable[[], _Made]) -> tuple[_Made, float]:
    """Do something; tell its processor time in seconds."""
    began = time.process_time()
    made = work()
    return made, time.process_time() - began


def passages_of(name: str) -> list[str]:
    """Read the passages of a set, those of one subject side by side."""
    with (SHARED / "eval" / name / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [str(row["text"]) for row in rows]


def joined(texts: Sequence[str], counts: Sequence[int], tokens: int) -> list[str]:
    """Put passages together to chunks of about so many tokens."""
    chunks: list[str] = []
    own: list[str] = []
    size = 0
    for text, count in zip(texts, counts, strict=True):
        if own and size + count > tokens:
            chunks.append("\n".join(own))
            own, size = [], 0
        own.append(text)
        size += count
    return [*chunks, "\n".join(own)]


class Bench:
    """Measures one set of chunks."""

    def __init__(self, model: OnnxEmbeddingBackend, embedded_count: int) -> None:
        self._model = model
        self._embedded_count = embedded_count

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed in batches of texts of about the same length, as the embed service does."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        vectors = np.zeros((len(texts), self._model.space.dimension), np.float32)
        for start in range(0, len(order), 4):
            places = order[start : start + 4]
            vectors[places] = self._model.encode([texts[place] for place in places], role=EmbedRole.PASSAGE).vectors
        return vectors

    def measure(self, name: str, texts: Sequence[str]) -> None:
        """Grow the lite tree of chunks and print what it costs."""
        counts = self._model.count_tokens(texts)
        sample = list(range(0, len(texts), max(1, len(texts) // self._embedded_count)))[: self._embedded_count]
        sampled, seconds = timed(lambda: self.embed([texts[place] for place in sample]))
        embedding = seconds * sum(counts) / sum(counts[place] for place in sample)
        vectors = self._stand_in(len(texts), sampled)
        children = [Child(text, count) for text, count in zip(texts, counts, strict=True)]
        clustering = extracting = blending = 0.0
        node_count = 0
        while True:
            grouping, seconds = timed(partial(group_layer, vectors, SETTINGS))
            clustering += seconds
            if grouping is None:
                break
            own = [tuple(children[place] for place in cluster) for cluster in grouping.clusters]
            parts = [vectors[cluster] for cluster in grouping.clusters]
            made, seconds = timed(partial(self._extract_all, own, parts))
            extracting += seconds
            blends, seconds = timed(partial(_blend_all, own, parts))
            blending += seconds
            children, vectors = made, np.stack(blends)
            node_count += len(made)
        total = clustering + extracting + blending
        print(f"\n{name}: {len(texts):,} chunks, {sum(counts) / len(texts):.0f} tokens each, {node_count} nodes")
        print(f"  embedding the chunks {1e3 * embedding / len(texts):8.2f} ms a chunk")
        for part, seconds in (("clustering", clustering), ("extracts", extracting), ("vectors", blending)):
            print(f"  {part:20} {1e3 * seconds / len(texts):8.3f} ms a chunk {seconds / embedding:8.2%}")
        print(
            f"  {'whole lite tree':20} {1e3 * total / len(texts):8.3f} ms a chunk {total / embedding:8.2%} (bar 25 %)"
        )

    def compare(self, texts: Sequence[str]) -> None:
        """Tell how near extracts come to the mean of their children, and sentences by chance."""
        vectors = self.embed(texts)
        counts = self._model.count_tokens(texts)
        grouping = group_layer(vectors, SETTINGS)
        assert grouping is not None
        rng = np.random.default_rng(0)
        extracts: list[str] = []
        by_chance: list[str] = []
        for cluster in grouping.clusters:
            own = tuple(Child(texts[place], counts[place]) for place in cluster)
            made = self._extract(own, vectors[cluster])
            extracts.append(made.text)
            spans = [child.text[span.start : span.end] for child in own for span in split_sentences(child.text)]
            drawn: list[str] = []
            room = made.token_count
            for place in rng.permutation(len(spans)):
                size = self._model.count_tokens([spans[place]])[0]
                if size <= room:
                    drawn.append(spans[place])
                    room -= size
            by_chance.append(" ".join(drawn) or spans[0])
        means = np.stack([vectors[cluster].mean(axis=0) for cluster in grouping.clusters])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        for name, made_texts in (("extracts", extracts), ("by chance", by_chance)):
            cosine = (self.embed(made_texts) * means).sum(axis=1).mean()
            print(f"  cosine with the children's mean, {name:10} {cosine:.4f}")

    def _stand_in(self, count: int, sampled: Vectors) -> Vectors:
        """Repeat a sample's vectors with a little noise: what is measured here does not depend on their values."""
        rng = np.random.default_rng(0)
        vectors = sampled[np.arange(count) % len(sampled)]
        vectors = vectors + rng.normal(scale=0.02, size=vectors.shape).astype(np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def _extract_all(self, own: Sequence[tuple[Child, ...]], parts: Sequence[Vectors]) -> list[Child]:
        return [self._extract(*pair) for pair in zip(own, parts, strict=True)]

    def _extract(self, children: tuple[Child, ...], vectors: Vectors) -> Child:
        made = extract(children, vectors, self._model, max_tokens=SETTINGS.effective_summary_tokens)
        return Child(made.text, made.token_count, sum(child.leaf_count for child in children))


def _blend_all(own: Sequence[tuple[Child, ...]], parts: Sequence[Vectors]) -> list[Vectors]:
    return [node_vector(*pair) for pair in zip(own, parts, strict=True)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1000, help="chunks of each tree")
    parser.add_argument("--embedded", type=int, default=64, help="chunks that are embedded, for the rate")
    options = parser.parse_args()
    model = OnnxEmbeddingBackend(model_directory(DEFAULT_MODEL_NAME), thread_count=1)
    bench = Bench(model, options.embedded)
    for name in ("2wiki", "zh"):
        texts = passages_of(name)[: 4 * options.chunks]
        bench.measure(f"{name}, as they are", texts[: options.chunks])
        long = joined(texts, model.count_tokens(texts), CHUNK_TOKENS)[: options.chunks]
        bench.measure(f"{name}, put together", long)
        bench.compare(texts[: 2 * options.embedded])


if __name__ == "__main__":
    main()
