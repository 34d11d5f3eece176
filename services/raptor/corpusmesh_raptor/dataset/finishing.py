"""The end of a build: what is left out of it, what it cost, and how far it is from a full one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.figures import drift, staleness, wants_full_build
from corpusmesh_core.trees.settings import TreeMethod, TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer, beneath, leaf_rows
from corpusmesh_core.trees.telling import TreeFigures
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.dataset.drafts import Draft
from corpusmesh_raptor.summarizing.calls import TREE_TIME_SPENT
from corpusmesh_runtime.model_calls import MODEL_UNREACHABLE


def leave_out(layer: SkeletonLayer, rows: Sequence[NDArray[np.int32]], gone: NDArray[np.bool_]) -> None:
    """Take their ordinals from nodes of versions that were deleted.

    Args:
        layer: The layer, changed in place.
        rows: Leaves beneath each of its nodes.
        gone: Whether each leaf's version was deleted.
    """
    for node, leaves in enumerate(rows):
        if gone[leaves].any():
            layer.ordinals[node] = 0


def finished(draft: Draft, old: Skeleton | None, gone: NDArray[np.bool_]) -> Skeleton:
    """Make of a draft the tree that is published.

    Args:
        draft: The draft, every layer of which is written.
        old: The tree before; None for none.
        gone: Whether each leaf's version was deleted: no node above it is published.

    Returns:
        The tree.
    """
    skeleton = draft.skeleton
    if gone.any():
        rows: Sequence[NDArray[np.int32]] = leaf_rows(skeleton)
        for layer in skeleton.layers:
            rows = beneath(rows, layer)
            leave_out(layer, rows, gone)
    if draft.is_full or old is None:
        return replace(skeleton, full_leaf_count=skeleton.leaf_count, changed_leaf_count=0)
    return replace(
        skeleton,
        full_leaf_count=old.full_leaf_count,
        changed_leaf_count=old.changed_leaf_count + draft.changed_count,
    )


def describe(skeleton: Skeleton, settings: TreeSettings, bill: TreeCost) -> TreeFigures:
    """Say what a tree is like.

    Args:
        skeleton: The tree.
        settings: How it was made.
        bill: What that cost.

    Returns:
        Its figures.
    """
    stale = staleness(added=skeleton.changed_leaf_count, changed=0, removed=0, leaf_count=skeleton.leaf_count)
    drifted = 0.0
    if settings.method is not TreeMethod.MIXTURE:
        drifted = drift(((layer.bounds[:-1].astype(np.int64), layer.cosines) for layer in skeleton.layers), settings)
    return TreeFigures(settings.method.value, stale, drifted, wants_full_build(stale, drifted), bill)


def binding(spent: TreeCost, settings: TreeSettings) -> TreeCost:
    """Say what of earlier slices binds the next one.

    Args:
        spent: What they have cost.
        settings: How the tree is made.

    Returns:
        The same; but that one of them had no time left for its language model is no reason for the next, which has time
        of its own; nor that calls of other trees were lost, since the service may answer by now.
    """
    reason = spent.stepped_down_reason
    is_by_others = reason == MODEL_UNREACHABLE and spent.failed_call_count < max(1, settings.max_errors)
    return replace(spent, stepped_down_reason="") if reason == TREE_TIME_SPENT or is_by_others else spent
