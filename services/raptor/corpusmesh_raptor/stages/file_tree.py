"""Stage tree: trees of single documents, from their chunks and vectors, as one more artefact of their versions."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from corpusmesh_core.artefacts import TREE, FileTree, pack_trees, stage_artefact_key, title_of, unpack_trees
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.aligning import align
from corpusmesh_core.trees.figures import staleness, wants_full_build
from corpusmesh_core.trees.keys import tree_fingerprint
from corpusmesh_core.trees.regrouping import OldLayer
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.grouping import EarlierGroups, Grouper
from corpusmesh_raptor.growing import GrowingTools, KnownNode, grow
from corpusmesh_raptor.leaves import LeafSet, read_leaves
from corpusmesh_raptor.metrics import count_nodes
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.artefact_access import find_artefacts
from corpusmesh_runtime.earlier_versions import earlier_versions
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.text_vectors import TextVectors
from corpusmesh_runtime.worker import TaskContext

_TREES_AT_ONCE: Final = 8


class FileTreeStage:
    """Grows the trees of a batch of versions; their records are written with those of the chunks, by stage index."""

    def __init__(
        self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools, summarizer: Summarizer
    ) -> None:
        """Create the stage.

        Args:
            settings: Bounds.
            stores: Versions, artefacts and the embed service.
            tools: What clusters softly.
            summarizer: Makes summaries.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools
        self._summarizer = summarizer

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Grow the trees of a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key for every version that has a tree; none where the knowledge base wants no trees any more.

        Raises:
            FailedPreconditionError: ARTEFACT_GONE if what an earlier stage made is gone; SPACE_WITHOUT_MODEL if the
                embed service runs another model than that of the knowledge base.
            UnavailableError: If the embed service does not answer: the stage is tried again.
        """
        claim = context.claim
        identity = service_identity("raptor", tenant_id=claim.tenant_id)
        knowledge_base = await self._stores.knowledge_bases.get(identity, claim.knowledge_base_id)
        settings = TreeSettings.of(knowledge_base.config)
        if settings.scope is not TreeScope.FILE:
            return StageOutcome()
        versions = await self._stores.documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        leaves = await read_leaves(self._stores.objects, versions, timeout_seconds=context.remaining_seconds())
        earlier = await self._earlier_trees(context, versions)
        embedder = TextVectors(self._stores.embedder, knowledge_base.space_id)
        gate = asyncio.Semaphore(_TREES_AT_ONCE)

        async def make(version: VersionRow) -> FileTree:
            async with gate:
                return await self._grow(
                    context, version, leaves[version.ordinal], settings, embedder, earlier.get(version.ordinal)
                )

        async with asyncio.TaskGroup() as group:
            growing = {int(version.ordinal): group.create_task(make(version)) for version in versions}
        trees = {ordinal: task.result() for ordinal, task in growing.items() if task.result().node_count}
        if not trees:
            return StageOutcome()
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        content = await asyncio.to_thread(pack_trees, trees)
        await self._stores.objects.put(key, content, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        return StageOutcome(patches=tuple(VersionPatch(ordinal=ordinal, artefacts={TREE: key}) for ordinal in trees))

    async def _grow(
        self,
        context: TaskContext,
        version: VersionRow,
        leaves: LeafSet,
        settings: TreeSettings,
        embedder: TextVectors,
        before: FileTree | None,
    ) -> FileTree:
        claim = context.claim
        cost = TreeCost()
        session = self._summarizer.open(tenant_id=claim.tenant_id, run_id=claim.run_id, settings=settings, cost=cost)
        kept = await asyncio.to_thread(kept_of, before, leaves, settings)
        tree = await grow(
            leaves.leaves,
            leaves.vectors,
            Grouper(
                settings,
                self._tools.clusterer,
                max_mixture_nodes=self._settings.max_mixture_leaf_count,
                earlier=kept.groups,
            ),
            GrowingTools(
                session=session,
                embedder=embedder,
                cost=cost,
                remaining_seconds=context.remaining_seconds,
                title=title_of(version),
            ),
            kept.nodes,
        )
        count_nodes(TreeScope.FILE, cost)
        return FileTree(
            tree=tree,
            positions=leaves.positions,
            leaf_keys=tuple(leaf.key for leaf in leaves.leaves),
            fingerprint=tree_fingerprint(settings),
            changed_count=kept.changed_count,
        )

    async def _earlier_trees(self, context: TaskContext, versions: Sequence[VersionRow]) -> dict[int, FileTree]:
        """Read the trees of the versions that these were made from, or follow, by the ordinal of these."""
        identity = service_identity("raptor", tenant_id=context.claim.tenant_id)
        earlier = await earlier_versions(self._stores.documents, identity, versions)
        found = await find_artefacts(
            self._stores.objects,
            list({row.ordinal: row for row in earlier.values()}.values()),
            TREE,
            unpack_trees,
            timeout_seconds=context.remaining_seconds(),
        )
        return {ordinal: found[row.ordinal] for ordinal, row in earlier.items() if row.ordinal in found}


@dataclass(frozen=True, slots=True)
class Kept:
    """What the next tree takes over from the one before.

    Attributes:
        nodes: Its nodes by content key.
        groups: Its groups; None where they are drawn anew.
        changed_count: Leaves changed since they were last drawn anew.
    """

    nodes: Mapping[bytes, KnownNode] = field(default_factory=dict)
    groups: EarlierGroups | None = None
    changed_count: int = 0


def kept_of(before: FileTree | None, leaves: LeafSet, settings: TreeSettings) -> Kept:
    """Decide what of a tree before holds for a version's leaves.

    Its nodes hold wherever their content keys occur again. Its boundaries hold too where it was made by the same
    settings and few leaves were changed since they were drawn; drawn anew, the percentile of the threshold would move
    with any change, and boundaries with it that no change is near.

    Args:
        before: The tree before; None for none.
        leaves: The leaves.
        settings: How the tree is made.

    Returns:
        What is taken over.
    """
    if before is None:
        return Kept()
    nodes = {
        node.key: KnownNode(node.summary, vector)
        for layer, vectors in zip(before.tree.layers, before.tree.vectors, strict=True)
        for node, vector in zip(layer, vectors, strict=True)
    }
    if before.fingerprint != tree_fingerprint(settings):
        return Kept(nodes)
    alignment = align(before.leaf_keys, [leaf.key for leaf in leaves.leaves])
    changed_count = before.changed_count + alignment.changed_count
    stale = staleness(added=0, changed=changed_count, removed=0, leaf_count=len(leaves.leaves))
    if wants_full_build(stale, 0.0):
        return Kept(nodes)
    clusters = tuple(tuple(np.array(node.children, dtype=np.int32) for node in layer) for layer in before.tree.layers)
    groups = EarlierGroups(alignment.origins, tuple(_old_layers(before)), clusters)
    return Kept(nodes, groups if before.tree.layers else None, changed_count)


def _old_layers(before: FileTree) -> Iterator[OldLayer]:
    child_count = len(before.positions)
    for nodes, threshold in zip(before.tree.layers, before.tree.thresholds, strict=True):
        yield OldLayer(np.array([node.children[0] for node in nodes], dtype=np.int64), child_count, threshold)
        child_count = len(nodes)
