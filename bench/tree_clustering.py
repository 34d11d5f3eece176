"""What it costs to cut layers of trees into clusters, beside a plain pass over the matrix and UMAP with a mixture.

    OMP_NUM_THREADS=1 .venv/bin/python bench/tree_clustering.py [--sizes 1000,10000,100000] [--vectors FILE.npy]
        [--no-mixture]

One thread, as threads that wait for one another would count as processor time.
For each number of leaves: processor time of one layer and of a whole tree (centroids stand in for the vectors of
summaries), as a multiple of one pass over the matrix and of the naive way (every pair in a loop, percentile of a list);
the most memory beyond the matrix, as a share of it; sizes of the layers, and nodes for each leaf. The vectors are made:
topics that last for some chunks, in documents; `--vectors` takes others, shape (n, dimension), and repeats them.
"""

import argparse
import itertools
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from corpusmesh_core.trees.clustering import Grouping, centroids, group_layer
from corpusmesh_core.trees.seriation import seriate
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Vectors

DIMENSION = 384
MIXTURE_SIZE = 300
SETTINGS = TreeSettings()


def made_vectors(count: int) -> Vectors:
    """Unit vectors of chunks: documents about a subject, whose topics last for four chunks or so."""
    rng = np.random.default_rng(count)
    documents = np.cumsum(rng.random(count) < 1 / 25)
    topics = np.cumsum(rng.random(count) < 1 / 4)
    vectors = rng.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors += 2 * rng.normal(size=(documents[-1] + 1, DIMENSION)).astype(np.float32)[documents]
    vectors += rng.normal(size=(topics[-1] + 1, DIMENSION)).astype(np.float32)[topics]
    vectors += 4 * rng.normal(size=DIMENSION).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def grow(vectors: Vectors) -> list[Grouping]:
    layers = []
    while (grouping := group_layer(vectors, SETTINGS)) is not None:
        layers.append(grouping)
        vectors = centroids(vectors, grouping)
    return layers


def plain_pass(vectors: Vectors) -> float:
    """Read every value once, which no clustering does with less."""
    return float(np.einsum("ij,ij->", vectors, vectors))


def naive(vectors: Vectors) -> list[int]:
    """The clusters of the percentile from a loop over the pairs; no cap, no bound, and lone nodes stay alone."""
    cosines = []
    for left, right in itertools.pairwise(vectors):
        cosines.append(float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right))))
    threshold = np.percentile(cosines, 100 * SETTINGS.clustering_threshold)
    labels = [0]
    for cosine in cosines:
        labels.append(labels[-1] + (cosine < threshold))
    return labels


def cpu_seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """The best of some runs: others use the machine too."""
    best = float("inf")
    for _repeat in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def report(vectors: Vectors) -> None:
    count = len(vectors)
    group_layer(vectors[:100], SETTINGS)
    baseline = cpu_seconds(lambda: plain_pass(vectors))
    layer = cpu_seconds(lambda: group_layer(vectors, SETTINGS))
    tree = cpu_seconds(lambda: grow(vectors), repeats=3)
    slow = cpu_seconds(lambda: naive(vectors), repeats=1)
    ordering = cpu_seconds(lambda: seriate(vectors), repeats=1)
    layer_peak, tree_peak = peak_bytes(lambda: group_layer(vectors, SETTINGS)), peak_bytes(lambda: grow(vectors))
    sizes = [len(each.clusters) for each in grow(vectors)]
    print(f"{count:,} leaves of {vectors.shape[1]} values, {vectors.nbytes / 2**20:,.0f} MiB")
    print(f"  a plain pass {baseline * 1e3:.1f} ms")
    print(
        f"  one layer {layer * 1e3:.1f} ms: {layer / baseline:.1f} plain passes,"
        f" {slow / layer:,.0f} times as fast as naive; memory {layer_peak / vectors.nbytes:.3f} of the matrix"
    )
    print(
        f"  whole tree {tree * 1e3:.1f} ms: {tree / baseline:.1f} plain passes, {tree / count * 1e6:.1f} us a leaf;"
        f" memory {tree_peak / vectors.nbytes:.3f} of the matrix"
    )
    print(f"  layers {sizes}, {sum(sizes) / count:.3f} nodes a leaf")
    print(f"  an order in which neighbours are alike {ordering:.2f} s", flush=True)


def report_mixture(vectors: Vectors) -> None:
    from corpusmesh_adapters.clustering.mixture import soft_clusters

    cold = cpu_seconds(lambda: soft_clusters(vectors[:60], 0), repeats=1)
    found = soft_clusters(vectors, 0)
    warm = cpu_seconds(lambda: soft_clusters(vectors, 0), repeats=1)
    layer = cpu_seconds(lambda: group_layer(vectors, SETTINGS))
    print(f"UMAP and mixture, {len(vectors)} leaves: {warm:.2f} s for one layer of {len(found)} clusters,")
    print(f"  {warm / layer:,.0f} times the watershed; the first layer of a process {cold:.1f} s more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--vectors")
    parser.add_argument("--no-mixture", action="store_true")
    arguments = parser.parse_args()
    given = None if arguments.vectors is None else np.load(arguments.vectors)

    def of(count: int) -> Vectors:
        return made_vectors(count) if given is None else np.resize(given, (count, given.shape[1]))

    for size in arguments.sizes.split(","):
        report(of(int(size)))
    if not arguments.no_mixture:
        report_mixture(of(MIXTURE_SIZE))


if __name__ == "__main__":
    main()
