"""Cost of communities on synthetic graphs: all of them, and one document more (`python bench/graph_communities.py`).

A graph of n entities has planted groups of some 50; each entity has ten relations, four of five within its group. One
document brings ten new entities, with relations to each other and to thirty that are there.
"""

import argparse
import resource
import time

import numpy as np

from corpusmesh_adapters.communities import LeidenFinder
from corpusmesh_core.graphs.communities import Grouping, WeightedGraph, update_communities

MAX_SIZE = 12


def planted(count: int, seed: int) -> WeightedGraph:
    rng = np.random.default_rng(seed)
    edge_count = count * 5
    source = rng.integers(0, count, edge_count)
    inside = rng.random(edge_count) < 0.8
    near = np.minimum(source // 50 * 50 + rng.integers(0, 50, edge_count), count - 1)
    target = np.where(inside, near, rng.integers(0, count, edge_count))
    return _graph(np.arange(1, count + 1, dtype=np.uint64) * 1000, source, target, rng)


def with_document(graph: WeightedGraph, seed: int) -> WeightedGraph:
    rng = np.random.default_rng(seed)
    count = len(graph.keys)
    new = np.arange(count, count + 10)
    # A document speaks of few subjects.
    known = np.minimum(rng.integers(0, count) + rng.integers(0, 200, 30), count - 1)
    source = np.concatenate([graph.sources, np.repeat(new, 4), rng.choice(known, 20)])
    target = np.concatenate([graph.targets, rng.choice(new, 20), rng.choice(known, 40)])
    keys = np.concatenate([graph.keys, (new + 1).astype(np.uint64) * 1000])
    return _graph(keys, source, target, rng)


def _graph(keys: np.ndarray, source: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> WeightedGraph:
    low, high = np.minimum(source, target), np.maximum(source, target)
    codes = np.unique(low[low != high].astype(np.int64) * len(keys) + high[low != high])
    low, high = (codes // len(keys)).astype(np.int32), (codes % len(keys)).astype(np.int32)
    return WeightedGraph(keys, low, high, (0.5 + rng.random(len(codes))).astype(np.float32))


def timed(graph: WeightedGraph, previous: Grouping | None) -> tuple[Grouping, float]:
    begin = time.process_time()
    grouping = update_communities(graph, previous, max_size=MAX_SIZE, finder=LeidenFinder())
    return grouping, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, nargs="+", default=[2_000, 10_000, 20_000, 100_000, 200_000])
    for count in parser.parse_args().entities:
        graph = planted(count, seed=1)
        grouping, full_seconds = timed(graph, None)
        update_seconds = []
        current, now = graph, grouping
        for document in range(3):
            current = with_document(current, seed=document)
            now, seconds = timed(current, now)
            update_seconds.append(seconds)
        before = {item.key for item in grouping.communities}
        fresh = sum(item.key not in before for item in now.communities)
        sizes = [len(item.members) for item in grouping.communities]
        levels = 1 + max(item.level for item in grouping.communities)
        print(
            f"{count:>8,} entities {len(graph.sources):>9,} relations: all {full_seconds:6.2f} s, one document more "
            f"{1000 * np.median(update_seconds):7.1f} ms, {len(sizes):,} communities in {levels} levels (coarsest "
            f"{sum(item.level == 0 for item in grouping.communities):,}), {fresh:,} new of {len(now.communities):,} "
            f"after three documents, peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
        )


if __name__ == "__main__":
    main()
