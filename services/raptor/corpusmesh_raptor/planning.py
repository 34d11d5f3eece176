"""What a tree would cost, from the chunks themselves.

Their vectors are grouped as a build groups them, their tokens are counted as a build sends them; no model is called.
The vector of a lite node is the mean of its children's, so that a plan of a lite tree groups every layer as the build
does; where a language model writes, the layers above the first are near it. Memory is bounded by `plan_max_leaves`:
above that, whole documents are taken evenly over all, and what they cost is projected.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.sections import group_leaves
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeScope, TreeSettings
from corpusmesh_core.trees.values import Leaf, TreeCost, Vectors
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.leaves import LeafSet, read_leaves
from corpusmesh_runtime.context import require_call

_READ_VERSIONS: Final = 64
_READ_SECONDS: Final = 30.0
_PROMPT_TOKENS: Final = 220
_BY_DOCUMENT: Final = frozenset({TreeMethod.PAGE, TreeMethod.SECTION})
_PROJECTED: Final = tuple(
    entry.name
    for entry in fields(TreeCost)
    if entry.name not in ("layer_node_counts", "duration_seconds", "stepped_down_reason")
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tree would cost.

    Attributes:
        cost: The cost.
        document_count: Documents that it covers.
        sampled_document_count: Documents whose chunks were read.
    """

    cost: TreeCost
    document_count: int
    sampled_document_count: int


@dataclass(frozen=True, slots=True)
class _Ground:
    """A layer to be grouped: vectors, tokens and leaves of each of its nodes."""

    vectors: Vectors
    token_counts: NDArray[np.int64]
    leaf_counts: NDArray[np.int64]


class TreePlanner:
    """Plans trees."""

    def __init__(self, settings: RaptorSettings, objects: ObjectStore) -> None:
        """Create it.

        Args:
            settings: Bounds, and how fast work goes where no bill tells.
            objects: Holds the chunks and their vectors.
        """
        self._settings = settings
        self._objects = objects

    async def plan(self, versions: Sequence[VersionRow], settings: TreeSettings, *, bill: TreeCost) -> Plan:
        """Plan a tree of everything anew, or one for each document.

        Args:
            versions: Versions to plan for, by ordinal.
            settings: How trees are made.
            bill: What a build of this knowledge base has cost before, which tells how fast it goes.

        Returns:
            The plan.

        Raises:
            DeadlineExceededError: If the caller's time is over.
            FailedPreconditionError: ARTEFACT_GONE if what was made of a version is not there any more.
        """
        sample = _sample(versions, self._settings.plan_max_leaves)
        is_of_files = settings.scope is TreeScope.FILE
        cost = TreeCost()
        read: list[LeafSet] = []
        for group in _groups(sample):
            seconds = min(_READ_SECONDS, require_call().remaining_seconds())
            found = (await read_leaves(self._objects, group, timeout_seconds=seconds)).values()
            if is_of_files:
                for leaves in found:
                    _add(cost, await asyncio.to_thread(plan_tree, leaves.leaves, leaves.vectors, settings))
            else:
                read += [_without_texts(leaves) for leaves in found]
        if not is_of_files:
            leaves_of_all = tuple(leaf for one in read for leaf in one.leaves)
            vectors = np.concatenate([one.vectors for one in read]) if read else np.zeros((0, 1), np.float32)
            cost = await asyncio.to_thread(plan_tree, leaves_of_all, vectors, settings)
        if len(sample) < len(versions):
            cost = _projected(cost, _share(sample, versions), settings)
        cost.duration_seconds = self._seconds(cost, bill)
        return Plan(cost, len(versions), len(sample))

    def _seconds(self, cost: TreeCost, bill: TreeCost) -> float:
        expected = self._expected_seconds(cost)
        before = self._expected_seconds(bill)
        if bill.duration_seconds > 0 and before > 0:
            # What a build of the same knowledge base took says more than any default; one odd build does not rule.
            expected *= min(20.0, max(0.05, bill.duration_seconds / before))
        return expected

    def _expected_seconds(self, cost: TreeCost) -> float:
        rates = self._settings
        model_tokens = cost.input_token_count / rates.plan_read_tokens_per_second
        model_tokens += cost.output_token_count / rates.plan_written_tokens_per_second
        return (
            cost.leaf_count * rates.plan_milliseconds_per_leaf / 1000.0
            + cost.embedded_token_count / rates.plan_embedded_tokens_per_second
            + model_tokens / rates.model_calls_in_flight
        )


def plan_tree(leaves: Sequence[Leaf], vectors: Vectors, settings: TreeSettings) -> TreeCost:
    """Plan one tree.

    Args:
        leaves: Its leaves, in order.
        vectors: Their vectors, shape (leaves, dimension).
        settings: How it is made.

    Returns:
        The cost, without time.
    """
    cost = TreeCost(leaf_count=len(leaves))
    ground = _Ground(
        vectors,
        np.array([leaf.token_count for leaf in leaves], dtype=np.int64),
        np.ones(len(leaves), dtype=np.int64),
    )
    while clusters := _group(leaves, ground, settings, is_first=not cost.layer_node_counts):
        cost.layer_node_counts.append(len(clusters))
        ground = _next_ground(ground, clusters, settings, cost)
    return cost


def _group(
    leaves: Sequence[Leaf], ground: _Ground, settings: TreeSettings, *, is_first: bool
) -> Sequence[NDArray[np.int32]]:
    if is_first and settings.method in _BY_DOCUMENT and len(leaves) > settings.small_layer_size:
        sections = group_leaves(leaves, settings.method, max_size=settings.max_cluster_size)
        return [np.array(section.places, dtype=np.int32) for section in sections]
    grouping = group_layer(ground.vectors, settings)
    return grouping.clusters if grouping is not None else ()


def _next_ground(
    ground: _Ground, clusters: Sequence[NDArray[np.int32]], settings: TreeSettings, cost: TreeCost
) -> _Ground:
    vectors = np.zeros((len(clusters), ground.vectors.shape[1]), dtype=np.float32)
    token_counts = np.zeros(len(clusters), dtype=np.int64)
    leaf_counts = np.zeros(len(clusters), dtype=np.int64)
    for row, places in enumerate(clusters):
        mean = ground.leaf_counts[places] @ ground.vectors[places]
        norm = float(np.linalg.norm(mean))
        vectors[row] = mean / norm if norm > 0 else ground.vectors[places[0]]
        leaf_counts[row] = ground.leaf_counts[places].sum()
        token_counts[row] = _plan_node(ground.token_counts[places], settings, cost)
    return _Ground(vectors, token_counts, leaf_counts)


def _plan_node(token_counts: NDArray[np.int64], settings: TreeSettings, cost: TreeCost) -> int:
    summary_tokens = min(int(token_counts.sum()), settings.effective_summary_tokens)
    if settings.summaries is not SummaryMethod.LLM:
        cost.extractive_node_count += 1
        return summary_tokens
    budget = (settings.context_tokens - settings.effective_summary_tokens) // len(token_counts)
    cost.model_node_count += 1
    cost.model_call_count += 1
    cost.input_token_count += _PROMPT_TOKENS + int(np.minimum(token_counts, budget).sum())
    cost.output_token_count += settings.effective_summary_tokens
    cost.embedded_text_count += 1
    cost.embedded_token_count += settings.effective_summary_tokens
    return settings.effective_summary_tokens


def _sample(versions: Sequence[VersionRow], max_leaves: int) -> Sequence[VersionRow]:
    """Take whole documents, evenly over all, whose chunks stay within a bound; at least one."""
    total = sum(version.chunk_count for version in versions)
    if total <= max_leaves or len(versions) <= 1:
        return versions
    taken: list[VersionRow] = []
    passed = count = 0
    for version in versions:
        # One is taken whenever the share taken lags behind the share passed; so the bound holds at every place.
        if (count + version.chunk_count) * total <= (passed + version.chunk_count) * max_leaves:
            taken.append(version)
            count += version.chunk_count
        passed += version.chunk_count
    return taken or [min(versions, key=lambda version: version.chunk_count)]


def _share(sample: Sequence[VersionRow], versions: Sequence[VersionRow]) -> float:
    taken = sum(version.chunk_count for version in sample)
    return sum(version.chunk_count for version in versions) / taken if taken else 1.0


def _projected(cost: TreeCost, factor: float, settings: TreeSettings) -> TreeCost:
    projected = TreeCost(**{name: round(getattr(cost, name) * factor) for name in _PROJECTED})
    counts = [round(count * factor) for count in cost.layer_node_counts]
    if settings.scope is not TreeScope.FILE and counts:
        _grow_top(counts, cost.layer_node_counts)
    projected.layer_node_counts = counts
    return projected


def _grow_top(counts: list[int], sampled: Sequence[int]) -> None:
    """Add the layers that a larger tree has above those of the sample, each as much smaller as the ones below."""
    ratio = (sampled[-1] / sampled[0]) ** (1 / (len(sampled) - 1)) if len(sampled) > 1 else 0.5
    while counts[-1] > 1:
        counts.append(max(1, round(counts[-1] * min(ratio, 0.9))) if counts[-1] > 2 else 1)


def _add(total: TreeCost, one: TreeCost) -> None:
    for name in _PROJECTED:
        setattr(total, name, getattr(total, name) + getattr(one, name))
    for place, count in enumerate(one.layer_node_counts):
        if place < len(total.layer_node_counts):
            total.layer_node_counts[place] += count
        else:
            total.layer_node_counts.append(count)


def _groups(versions: Sequence[VersionRow]) -> Iterator[Sequence[VersionRow]]:
    # Versions of one run share their artefacts; they stand together by their ordinals.
    for start in range(0, len(versions), _READ_VERSIONS):
        yield versions[start : start + _READ_VERSIONS]


def _without_texts(leaves: LeafSet) -> LeafSet:
    return LeafSet(tuple(replace(leaf, text="") for leaf in leaves.leaves), leaves.vectors)
