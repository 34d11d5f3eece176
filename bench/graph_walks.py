"""Measures the compact graph: packing, masking, compiling, PageRank and walks, beside a plain power iteration of scipy.

    .venv/bin/python bench/graph_walks.py                  # 6,000 and 60,000 passages
    .venv/bin/python bench/graph_walks.py --scale large    # 1e6 nodes and 1e7 edges

Processor time of one thread (set OMP_NUM_THREADS=1), so that other work on the machine counts little.
Graphs are synthetic: names by a power law, as names in texts are.
"""

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import FrozenBitMap
from scipy import sparse

from corpusmesh_core.graphs.columns import offsets_of
from corpusmesh_core.graphs.compiled import compiled_parts, open_compiled
from corpusmesh_core.graphs.ranks import page_rank
from corpusmesh_core.graphs.segments import Segment, merge_segments
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.graphs.walking import personalized_page_rank


@dataclass(frozen=True)
class Scale:
    """How large a synthetic graph is."""

    name: str
    documents: int
    passages_per_document: int
    entities: int
    mentions_per_passage: int
    relations_per_passage: int


SCALES = {
    "small": Scale("6k passages", 1_000, 6, 15_000, 8, 8),
    "middle": Scale("60k passages", 10_000, 6, 120_000, 8, 8),
    "large": Scale("1e6 nodes, 1e7 edges", 100_000, 3, 780_000, 12, 36),
}


def synthetic(scale: Scale, seed: int = 7) -> Segment:
    """Make a segment of documents that name entities by a power law."""
    rng = np.random.default_rng(seed)
    passages = scale.documents * scale.passages_per_document
    rank = np.minimum(rng.pareto(0.8, (passages, scale.mentions_per_passage)) * 50, 1e12).astype(np.int64)
    # Half of the names are rare ones.
    spread = rng.integers(0, scale.entities, rank.shape)
    is_common = (rank < scale.entities) & (rng.random(rank.shape) < 0.5)
    entity = np.where(is_common, rank, spread)
    passage = np.repeat(np.arange(passages), scale.mentions_per_passage)
    document = passage // scale.passages_per_document
    position = passage % scale.passages_per_document
    keys = np.sort(rng.integers(1, 2**63, scale.entities, dtype=np.uint64))
    # Fragments: one for each document and entity; mentions ascending within.
    codes = np.unique((document * scale.entities + entity.ravel()) * 64 + position)
    fragments, first = np.unique(codes // 64, return_index=True)
    fragment_of = np.searchsorted(fragments, (document * scale.entities + entity.ravel()))
    by_passage = fragment_of.reshape(passages, -1)
    left = rng.integers(0, scale.mentions_per_passage, (passages, scale.relations_per_passage))
    right = rng.integers(0, scale.mentions_per_passage, (passages, scale.relations_per_passage))
    source = np.take_along_axis(by_passage, left, 1).ravel()
    target = np.take_along_axis(by_passage, right, 1).ravel()
    where = np.repeat(np.arange(passages) % scale.passages_per_document, scale.relations_per_passage)
    is_kept = source != target
    low, high = np.minimum(source, target)[is_kept], np.maximum(source, target)[is_kept]
    relation_codes = np.unique((low * len(fragments) + high) * 64 + where[is_kept])
    relations, relation_first = np.unique(relation_codes // 64, return_index=True)
    relation_document = (fragments[relations // len(fragments)] // scale.entities).astype(np.int64)
    names = [f"name {number}".encode() for number in range(scale.entities)]
    count = len(fragments)
    return Segment(
        document_version=np.arange(scale.documents, dtype=np.uint32) * 2,
        document_publisher=np.arange(scale.documents, dtype=np.uint32) * 2 + 1,
        document_entities=offsets_of(np.bincount(fragments // scale.entities, minlength=scale.documents)),
        document_relations=offsets_of(np.bincount(relation_document, minlength=scale.documents)),
        entity_key=keys[fragments % scale.entities],
        entity_name=(fragments % scale.entities).astype(np.uint32),
        entity_type=np.zeros(count, np.uint32),
        entity_confidence=np.ones(count, np.float32),
        entity_methods=np.ones(count, np.uint8),
        entity_aliases=np.zeros(count + 1, np.int64),
        alias_key=np.zeros(0, np.uint64),
        alias_name=np.zeros(0, np.uint32),
        entity_mentions=np.append(first, len(codes)).astype(np.int64),
        mention_position=(codes % 64).astype(np.uint32),
        mention_weight=np.ones(len(codes), np.float32),
        relation_source=(relations // count).astype(np.uint32),
        relation_target=(relations % count).astype(np.uint32),
        relation_weight=np.ones(len(relations), np.float32),
        relation_confidence=np.ones(len(relations), np.float32),
        relation_methods=np.ones(len(relations), np.uint8),
        relation_mentions=np.append(relation_first, len(relation_codes)).astype(np.int64),
        relation_mention_position=(relation_codes % 64).astype(np.uint32),
        relation_mention_weight=np.ones(len(relation_codes), np.float32),
        string_offsets=offsets_of(np.array(list(map(len, names)))),
        string_bytes=np.frombuffer(b"".join(names), np.uint8),
    )


def timed(label: str, work: Callable[[], Any], repeat: int = 1) -> Any:
    """Print what work takes, the best of some times."""
    best, value = float("inf"), None
    for _ in range(repeat):
        started = time.thread_time()
        value = work()
        best = min(best, time.thread_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {label:<52}{best * 1e3:>12.1f} ms   peak {peak:,.0f} MiB")
    return value


def queries(view: GraphView, count: int, seed: int = 11) -> list[tuple[dict[int, float], dict[int, float]]]:
    """Make seeds as questions give them: some names, and the best passages with little weight."""
    rng = np.random.default_rng(seed)
    n, p = view.mentions.shape
    return [
        (
            {int(place): 1.0 for place in rng.choice(n, 3, replace=False)},
            {int(place): 0.05 / 20 for place in rng.choice(p, 20, replace=False)},
        )
        for _ in range(count)
    ]


def walk_times(view: GraphView, repeat: int) -> None:
    """Print quantiles of walks, and the same by a plain power iteration."""
    asked = queries(view, repeat)
    personalized_page_rank(view, *asked[0])
    seconds = []
    for entities, passages in asked:
        started = time.thread_time()
        personalized_page_rank(view, entities, passages)
        seconds.append(time.thread_time() - started)
    quantiles = np.quantile(seconds, [0.5, 0.95]) * 1e3
    print(f"  {'personalised PageRank, p50 and p95':<52}{quantiles[0]:>12.1f} ms {quantiles[1]:>10.1f} ms")
    n, _ = view.mentions.shape
    whole = sparse.block_array([[view.adjacency, view.mentions], [view.passage_mentions, None]], format="csr")
    degree = np.maximum(np.asarray(whole.sum(axis=0)).ravel(), 1e-9)
    transition = (whole @ sparse.diags_array(1 / degree)).tocsr().astype(np.float64)

    def plain() -> Any:
        entities, passages = asked[0]
        start = np.zeros(whole.shape[0])
        for place, weight in entities.items():
            start[place] += weight
        for place, weight in passages.items():
            start[n + place] += weight
        start /= start.sum()
        rank = start
        for _ in range(100):
            after = 0.5 * (transition @ rank) + 0.5 * start
            change = np.abs(after - rank).sum()
            rank = after
            if change < 1e-6:
                break
        return rank

    exact = timed("plain scipy power iteration, float64, 1e-6", plain, 3)
    found = personalized_page_rank(view, *asked[0])
    mine = np.concatenate([found.entities, found.passages])
    top = np.argsort(-exact[n:])[:20]
    same = len(set(top) & set(np.argsort(-mine[n:])[:20]))
    print(f"  L1 distance {np.abs(mine - exact).sum():.2e}; {same} of the best 20 passages are the same")


def measure(scale: Scale) -> None:
    """Measure one scale."""
    print(scale.name)
    segment = synthetic(scale)
    visible, half = FrozenBitMap(range(2 * scale.documents)), FrozenBitMap(range(scale.documents))
    print(f"  segment of {segment.nbytes / 2**20:,.1f} MiB")
    packed = timed("pack (merge of one)", lambda: merge_segments([segment], None))
    opened = timed("open and check", lambda: Segment.open(packed))
    timed("mask", lambda: opened.shows(visible))
    view = timed("compile", lambda: compile_view([opened], visible), 3 if scale.documents < 5_000 else 1)
    n, p = view.mentions.shape
    edges = view.mentions.nnz + len(view.relation_ends)
    print(f"  {n:,} entities, {p:,} passages, {edges:,} edges, {view.graph.nbytes / 2**20:,.0f} MiB compiled")
    timed("compile, half of the documents visible", lambda: compile_view([opened], half))
    compiled = timed("pack compiled", lambda: b"".join(compiled_parts(view.graph)))
    timed("open compiled and check", lambda: open_compiled(compiled))
    timed("open compiled", lambda: open_compiled(compiled))
    timed("PageRank of all entities", lambda: page_rank(view.adjacency))
    walk_times(view, 30)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=[*SCALES, "default"], default="default")
    chosen = parser.parse_args().scale
    for name in ("small", "middle") if chosen == "default" else (chosen,):
        measure(SCALES[name])


if __name__ == "__main__":
    main()
