"""Stage tree: trees of single documents, from their chunks and vectors, as one more artefact of their versions."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from corpusmesh_core.artefacts import TREE, FileTree, pack_trees, stage_artefact_key, title_of, unpack_trees
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.trees.keys import tree_fingerprint
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.growing import GrowingTools, KnownNode, grow
from corpusmesh_raptor.leaves import LeafSet, read_leaves
from corpusmesh_raptor.metrics import count_nodes
from corpusmesh_raptor.node_vectors import NodeEmbedder
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.artefact_access import find_artefacts
from corpusmesh_runtime.earlier_versions import earlier_versions
from corpusmesh_runtime.identity import service_identity
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
        embedder = NodeEmbedder(self._stores.embedder, knowledge_base.space_id)
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
        embedder: NodeEmbedder,
        before: FileTree | None,
    ) -> FileTree:
        claim = context.claim
        cost = TreeCost()
        session = self._summarizer.open(tenant_id=claim.tenant_id, run_id=claim.run_id, settings=settings, cost=cost)
        tree = await grow(
            leaves.leaves,
            leaves.vectors,
            settings,
            GrowingTools(
                session=session,
                embedder=embedder,
                cost=cost,
                remaining_seconds=context.remaining_seconds,
                clusterer=self._tools.clusterer,
                max_mixture_nodes=self._settings.max_mixture_leaf_count,
                title=title_of(version),
            ),
            known_nodes(before),
        )
        count_nodes(TreeScope.FILE, cost)
        return FileTree(
            tree=tree,
            positions=leaves.positions,
            leaf_keys=tuple(leaf.key for leaf in leaves.leaves),
            fingerprint=tree_fingerprint(settings),
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


def known_nodes(before: FileTree | None) -> Mapping[bytes, KnownNode]:
    """Give the nodes of a tree by their content keys.

    Args:
        before: The tree; None for none.

    Returns:
        Text and vector of each node.
    """
    if before is None:
        return {}
    return {
        node.key: KnownNode(node.summary, vector)
        for nodes, vectors in zip(before.tree.layers, before.tree.vectors, strict=True)
        for node, vector in zip(nodes, vectors, strict=True)
    }
