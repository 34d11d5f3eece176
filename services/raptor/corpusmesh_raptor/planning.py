"""What a tree would cost, from the chunks themselves.

Their vectors are grouped as a build groups them, their tokens are counted as a build sends them; no model is called.
Memory is bounded by `plan_max_leaves`: of more chunks, whole documents are taken evenly over all, and what they cost is
projected. Work is done in threads, and the caller's deadline bounds every read.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from corpusmesh_core.artefacts.names import TREE
from corpusmesh_core.artefacts.trees import FileTree, unpack_trees
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.cost import plan_tree
from corpusmesh_core.trees.figures import is_update
from corpusmesh_core.trees.keys import tree_fingerprint
from corpusmesh_core.trees.seriation import seriate
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeScope, TreeSettings
from corpusmesh_core.trees.skeleton import Skeleton, version_leaves
from corpusmesh_core.trees.telling import figures_of
from corpusmesh_core.trees.update_plan import NewLeaves, plan_update
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.leaves import LeafSet, read_leaves
from corpusmesh_raptor.skeletons import read_skeleton
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.artefact_access import find_artefacts
from corpusmesh_runtime.build_plans import projection_factor, read_groups, read_seconds, sample_of
from corpusmesh_runtime.context import require_call

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
        sampled_document_count: Documents of those that are made or changed whose chunks were read, and all others.
    """

    cost: TreeCost
    document_count: int
    sampled_document_count: int


class TreePlanner:
    """Plans trees."""

    def __init__(
        self,
        settings: RaptorSettings,
        objects: ObjectStore,
        documents: DocumentStore,
        summarizer: Summarizer,
        *,
        has_model: bool,
    ) -> None:
        """Create it.

        Args:
            settings: Bounds, and how fast work goes where no bill tells.
            objects: Holds the chunks, their vectors and the shapes of trees.
            documents: Tells which versions are of one document.
            summarizer: Tells what decides the text of a summary.
            has_model: Whether a language model is configured.
        """
        self._has_model = has_model
        self._settings = settings
        self._objects = objects
        self._documents = documents
        self._summarizer = summarizer

    async def plan(
        self,
        versions: Sequence[VersionRow],
        settings: TreeSettings,
        *,
        space_id: str,
        build: BuildRow | None,
        full: bool,
    ) -> Plan:
        """Plan a tree over versions, or one for each of them.

        Args:
            versions: Versions to plan for, by ordinal.
            settings: How trees are made.
            space_id: Embedding space of the knowledge base.
            build: The tree of the knowledge base as it is: what of it stays, and how fast its last build went. None
                where there is none, or where the caller may not see all of it.
            full: Whether the whole is built anew rather than what has changed.

        Returns:
            The plan.

        Raises:
            DeadlineExceededError: If the caller's time is over.
            FailedPreconditionError: ARTEFACT_GONE if what was made of a version is not there any more.
        """
        session = self._summarizer.open(tenant_id="", run_id="", settings=settings, cost=TreeCost())
        is_asked = settings.summaries is SummaryMethod.LLM
        counted = settings
        if is_asked and not self._has_model:
            tokens = settings.effective_summary_tokens
            counted = replace(settings, summaries=SummaryMethod.LITE, summary_tokens=tokens)
        if settings.scope is TreeScope.FILE:
            plan = await self._of_files(versions, counted, session.fingerprint)
        else:
            plan = await self._of_dataset(versions, counted, settings, session.fingerprint, space_id, build, full)
        if is_asked and not self._has_model:
            plan.cost.stepped_down_reason = "MODEL_NOT_CONFIGURED"
        plan.cost.duration_seconds = self._seconds(plan.cost, build)
        return plan

    async def _of_files(self, versions: Sequence[VersionRow], settings: TreeSettings, fingerprint: bytes) -> Plan:
        sample = sample_of(versions, self._settings.plan_max_leaves)
        cost = TreeCost()
        for group in read_groups(sample):
            before = await self._trees_before(group)
            for version, leaves in (await self._read(group)).items():
                known = _keys_of(before[version]) if version in before else ()
                _add(cost, await _plan(leaves, settings, fingerprint, known))
        return _plan_of(cost, sample, versions, settings)

    async def _of_dataset(
        self,
        versions: Sequence[VersionRow],
        counted: TreeSettings,
        settings: TreeSettings,
        fingerprint: bytes,
        space_id: str,
        build: BuildRow | None,
        full: bool,
    ) -> Plan:
        old = await self._skeleton(build, space_id)
        if old is not None and old.fingerprint != fingerprint:
            old = None
        if old is not None and not full and _can_update(old, settings):
            found = await self._of_update(versions, counted, old)
            if found is not None:
                return found
        sample = sample_of(versions, self._settings.plan_max_leaves)
        read: list[LeafSet] = []
        for group in read_groups(sample):
            read += [_without_texts(leaves) for leaves in (await self._read(group)).values()]
        known = frozenset(bytes(key) for layer in old.layers for key in layer.keys) if old is not None else frozenset()
        joined = await asyncio.to_thread(_side_by_side, read)
        return _plan_of(await _plan(joined, counted, fingerprint, known), sample, versions, counted)

    async def _of_update(self, versions: Sequence[VersionRow], settings: TreeSettings, old: Skeleton) -> Plan | None:
        """Plan an update; None where so much has changed, or so much would have to be read, that it is none."""
        before = frozenset(old.versions.tolist())
        now = {int(version.ordinal): version for version in versions}
        added = [version for ordinal, version in now.items() if ordinal not in before]
        if sum(version.chunk_count for version in added) > self._settings.plan_max_leaves:
            return None
        read: dict[int, LeafSet] = {}
        for group in read_groups(added):
            read |= {version: _without_texts(leaves) for version, leaves in (await self._read(group)).items()}
        gone = await self._documents.versions_by_ordinal(require_call().identity.tenant_id, sorted(before - now.keys()))
        former = {version.document_id: int(version.ordinal) for version in gone}
        replaced = {
            int(version.ordinal): former[version.document_id] for version in added if version.document_id in former
        }
        new = {version: _new_leaves(version, leaves) for version, leaves in read.items()}
        cost, changed = await asyncio.to_thread(
            plan_update, old, [version for version in now if version in before], new, replaced, settings
        )
        stays = is_update(old.changed_leaf_count + changed, cost.leaf_count)
        return Plan(cost, len(versions), len(versions)) if stays else None

    async def _read(self, versions: Sequence[VersionRow]) -> Mapping[int, LeafSet]:
        return await read_leaves(self._objects, versions, timeout_seconds=read_seconds())

    async def _trees_before(self, versions: Sequence[VersionRow]) -> Mapping[int, FileTree]:
        return await find_artefacts(self._objects, versions, TREE, unpack_trees, timeout_seconds=read_seconds())

    async def _skeleton(self, build: BuildRow | None, space_id: str) -> Skeleton | None:
        if build is None:
            return None
        try:
            old = await read_skeleton(self._objects, build, timeout_seconds=read_seconds())
        except NotFoundError:
            return None
        return old if old is not None and old.layers and old.space_id == space_id else None

    def _seconds(self, cost: TreeCost, build: BuildRow | None) -> float:
        bill = figures_of(build.figures).bill if build is not None else TreeCost()
        expected, before = self._expected_seconds(cost), self._expected_seconds(bill)
        if bill.duration_seconds > 0 and before > 0:
            # What a build of the same knowledge base took says more than any default; one odd build does not rule.
            expected *= min(20.0, max(0.05, bill.duration_seconds / before))
        return expected

    def _expected_seconds(self, cost: TreeCost) -> float:
        rates = self._settings
        model_seconds = cost.input_token_count / rates.plan_read_tokens_per_second
        model_seconds += cost.output_token_count / rates.plan_written_tokens_per_second
        return (
            # What is looked at, and what is made and written.
            cost.leaf_count * rates.plan_milliseconds_per_leaf / 1000.0
            + cost.extractive_node_count * rates.plan_milliseconds_per_node / 1000.0
            + cost.embedded_token_count / rates.plan_embedded_tokens_per_second
            + model_seconds / rates.model_calls_in_flight
        )


async def _plan(leaves: LeafSet, settings: TreeSettings, fingerprint: bytes, known: Collection[bytes]) -> TreeCost:
    return await asyncio.to_thread(
        plan_tree, leaves.leaves, leaves.vectors, settings, fingerprint=fingerprint, known=known
    )


def _can_update(old: Skeleton, settings: TreeSettings) -> bool:
    return old.grouping == tree_fingerprint(settings).hex() and settings.method is not TreeMethod.MIXTURE


def _new_leaves(version: int, leaves: LeafSet) -> NewLeaves:
    tokens = np.array([leaf.token_count for leaf in leaves.leaves], dtype=np.int64)
    return NewLeaves(version_leaves(version, leaves.leaves), tokens, leaves.vectors)


def _keys_of(made: FileTree) -> Collection[bytes]:
    return frozenset(node.key for layer in made.tree.layers for node in layer)


def _side_by_side(read: Sequence[LeafSet]) -> LeafSet:
    """Put documents that are alike side by side, as a full build does."""
    entries = [entry for entry in read if len(entry.leaves)]
    if not entries:
        return LeafSet((), np.zeros((0, 1), np.float32))
    means = np.stack([entry.vectors.mean(axis=0) for entry in entries])
    ordered = [entries[place] for place in seriate(means).tolist()]
    return LeafSet(
        tuple(leaf for entry in ordered for leaf in entry.leaves),
        np.concatenate([entry.vectors for entry in ordered]),
    )


def _plan_of(
    cost: TreeCost, sample: Sequence[VersionRow], versions: Sequence[VersionRow], settings: TreeSettings
) -> Plan:
    if len(sample) < len(versions):
        cost = _projected(cost, projection_factor(sample, versions), settings)
    return Plan(cost, len(versions), len(sample))


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


def _without_texts(leaves: LeafSet) -> LeafSet:
    return replace(leaves, leaves=tuple(replace(leaf, text="") for leaf in leaves.leaves))
