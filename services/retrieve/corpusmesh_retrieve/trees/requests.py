"""What is asked of the index for the nodes of trees, in the round trip that asks for chunks; nothing without a tree."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, WordMatching
from corpusmesh_core.query import RetrievalPlan, TreeMode
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tree_search import on_scale_of_leaves
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.outcome import SpaceView

NODE_KINDS: Final = (RecordKind.TREE_NODE,)
_LAYERS_APART: Final = 11
"""Layers that are asked for one by one where a tree is followed from the top; those above come together. At the least
shrinking that the settings allow (a ratio of 0.5) eleven layers stand on 16,000 chunks."""
_MAX_LAYERS: Final = 64
_NODES_BESIDE: Final = 4
"""Nodes of a layer that are asked for, for each that is followed."""
_MIN_WINDOW: Final = 16
_COLLAPSED_WINDOW: Final = 16
"""Nodes taken from each leg: together more than may lead, see `corpusmesh_core.tree_search.collapsing`."""


def searches_trees(plan: RetrievalPlan) -> bool:
    """Tell whether a plan lets trees take part, where there are any.

    Args:
        plan: The plan.

    Returns:
        False where chunks do not compete: then there is nothing that a tree could lead to.
    """
    return plan.tree.mode is not TreeMode.OFF and RecordKind.CHUNK in plan.kinds


def node_requests(plan: RetrievalPlan, view: SpaceView, asked: RecallRequest) -> list[RecallRequest]:
    """Make the requests for nodes.

    Args:
        plan: The plan.
        view: Where to search.
        asked: The request of the question for chunks.

    Returns:
        Requests; none where the view has no tree, where the plan leaves trees out, or where its own kinds name nodes.
    """
    if not view.has_tree or not searches_trees(plan) or RecordKind.TREE_NODE in plan.kinds:
        return []
    # Windows of their own: nodes must not push chunks out of theirs, which would cost recall where no summary helps.
    nodes = replace(
        asked,
        visibility=build_filter(view.visibility, NODE_KINDS),
        matching=WordMatching(),
        other_script_window=0,
    )
    if plan.tree.mode is TreeMode.COLLAPSED:
        return [replace(nodes, window=min(asked.window, _COLLAPSED_WINDOW))]
    if plan.tree.mode is TreeMode.HIERARCHICAL:
        return [replace(nodes, layers=(1,), window=max(_MIN_WINDOW, _NODES_BESIDE * plan.tree.summaries))]
    window = max(_MIN_WINDOW, _NODES_BESIDE * plan.tree.nodes_per_layer)
    layers = [(layer,) for layer in range(1, _LAYERS_APART + 1)]
    return [
        replace(nodes, layers=own, window=window) for own in (*layers, tuple(range(_LAYERS_APART + 1, _MAX_LAYERS)))
    ]


def beside_chunks(found: Candidates, plan: RetrievalPlan) -> Candidates:
    """Let nodes that compete by the plan's own kinds be compared with the chunks that do.

    Args:
        found: What a text found.
        plan: The plan.

    Returns:
        The same, nodes on the scale of chunks where both compete.
    """
    if RecordKind.TREE_NODE not in plan.kinds or RecordKind.CHUNK not in plan.kinds:
        return found
    scaled = (on_scale_of_leaves(item) if item.record.kind is RecordKind.TREE_NODE else item for item in found.items)
    return replace(found, items=tuple(scaled))


def with_nodes(found: Candidates, nodes: Sequence[Candidates]) -> Candidates:
    """Let nodes take part among the candidates of a question.

    Args:
        found: What the question found.
        nodes: Nodes that it found.

    Returns:
        All of them; each has the rank that it would have if one leg had returned all.
    """
    known = {item.record.record_id for item in found.items}
    further: dict[str, Candidate] = {}
    for part in nodes:
        for item in part.items:
            if item.record.record_id not in known:
                further.setdefault(item.record.record_id, on_scale_of_leaves(item))
    items = [*found.items, *further.values()]
    lexical = _ranks([item.lexical_score if item.lexical_rank else None for item in items])
    vector = _ranks([item.cosine if item.vector_rank else None for item in items])
    return replace(
        found,
        items=tuple(
            replace(item, lexical_rank=by_words, vector_rank=by_vector)
            for item, by_words, by_vector in zip(items, lexical, vector, strict=True)
        ),
    )


def _ranks(scores: Sequence[float | None]) -> list[int]:
    """Rank scores from 1, the highest first; 0 where there is none."""
    ranks = [0] * len(scores)
    present = np.array([place for place, score in enumerate(scores) if score is not None], dtype=np.int64)
    values = np.array([score for score in scores if score is not None], dtype=np.float64)
    for rank, place in enumerate(present[np.argsort(-values, kind="stable")].tolist(), start=1):
        ranks[place] = rank
    return ranks
