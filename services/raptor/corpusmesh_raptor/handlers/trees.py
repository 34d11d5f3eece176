"""The gRPC face of trees."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh.raptor.v1.tree_service_pb2_grpc import TreeServiceServicer
from corpusmesh_core.errors import OverloadedError
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.convert import leaf_to_wire, node_to_wire
from corpusmesh_raptor.handlers.building import TreeBuilder
from corpusmesh_raptor.handlers.describing import TreeDescriber
from corpusmesh_raptor.handlers.listing import NodeLister
from corpusmesh_raptor.handlers.nodes import NodeReader
from corpusmesh_raptor.names import dataset_tree_of, node_of, tree_of
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_runtime.build_views import BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.page_tokens import within_page
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots
from corpusmesh_runtime.watching import watch_changes

_ENDED = frozenset({pb.Tree.STATE_EMPTY, pb.Tree.STATE_READY})


class TreeHandlers(TreeServiceServicer):
    """Plans, builds, describes and removes trees."""

    def __init__(self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools) -> None:
        """Create the handlers.

        Args:
            settings: Bounds.
            stores: What trees are read from.
            tools: What plans are made with.
        """
        self._stores = stores
        self._watches = TenantSlots(settings.max_concurrent_watches, busy=_busy)
        self._events = tools.events
        self._viewer = BuildViewer(stores.snapshots, stores.trees)
        self._nodes = NodeReader(stores.index)
        self._lister = NodeLister(self._nodes, self._viewer, stores.objects)
        self._describer = TreeDescriber(self._viewer, self._nodes, stores.documents, stores.objects)
        self._builder = TreeBuilder(settings, stores, tools, self._viewer)

    async def PlanTree(self, request: pb.PlanTreeRequest, context: Any) -> pb.PlanTreeResponse:
        """See the contract."""
        return await self._builder.plan(request)

    async def BuildTree(self, request: pb.BuildTreeRequest, context: Any) -> pb.BuildTreeResponse:
        """See the contract."""

        async def act() -> pb.BuildTreeResponse:
            started = await self._builder.build(request)
            if started.run:
                await self._audit("tree.build", request.parent)
            response = pb.BuildTreeResponse(run=started.run, document_count=started.document_count)
            if started.tree is not None:
                response.tree.CopyFrom(await self._describer.describe(started.tree))
            return response

        return await once(self._stores.idempotency, "BuildTree", request.request_id, request, pb.BuildTreeResponse, act)

    async def GetTree(self, request: pb.GetTreeRequest, context: Any) -> pb.Tree:
        """See the contract."""
        return await self._describer.describe(tree_of(request.name))

    async def WatchTree(self, request: pb.WatchTreeRequest, context: Any) -> AsyncIterator[pb.WatchTreeResponse]:
        """See the contract."""
        name = dataset_tree_of(request.name)
        identity = require_call().identity
        watched = self._describer.watched(name)
        with self._watches.taken(identity.tenant_id):
            run_id = await watched.run_id()
            states = watch_changes(
                self._events,
                f"events.run.{identity.tenant_id}.{run_id}",
                watched.read,
                mark_of=lambda tree: tree.SerializeToString(deterministic=True),
                has_ended=lambda tree: tree.state in _ENDED,
            )
            sequence = 0
            async with contextlib.aclosing(states):
                async for tree in states:
                    sequence += 1
                    yield pb.WatchTreeResponse(tree=tree, sequence=sequence)

    async def CancelTreeBuild(self, request: pb.CancelTreeBuildRequest, context: Any) -> pb.CancelTreeBuildResponse:
        """See the contract."""
        name = dataset_tree_of(request.name)

        async def act() -> pb.CancelTreeBuildResponse:
            await self._stores.trees.cancel(require_call().identity, name.knowledge_base_id)
            await self._audit("tree.cancel", request.name)
            return pb.CancelTreeBuildResponse(tree=await self._describer.describe(name))

        return await once(
            self._stores.idempotency, "CancelTreeBuild", request.request_id, request, pb.CancelTreeBuildResponse, act
        )

    async def DeleteTree(self, request: pb.DeleteTreeRequest, context: Any) -> pb.DeleteTreeResponse:
        """See the contract."""
        name = dataset_tree_of(request.name)

        async def act() -> pb.DeleteTreeResponse:
            row = await self._stores.trees.delete(
                require_call().identity, name.knowledge_base_id, request_id=request.request_id
            )
            await self._audit("tree.delete", request.name)
            return pb.DeleteTreeResponse(run=f"knowledgeBases/{name.knowledge_base_id}/runs/{row.run_id}")

        return await once(
            self._stores.idempotency, "DeleteTree", request.request_id, request, pb.DeleteTreeResponse, act
        )

    async def ListTreeNodes(self, request: pb.ListTreeNodesRequest, context: Any) -> pb.ListTreeNodesResponse:
        """See the contract."""
        name = tree_of(request.parent, field="parent")
        await self._describer.require_document(name)
        return await self._lister.page(name, request)

    async def GetTreeNode(self, request: pb.GetTreeNodeRequest, context: Any) -> pb.GetTreeNodeResponse:
        """See the contract."""
        name, record_id = node_of(request.name)
        await self._describer.require_document(name)
        found = await self._nodes.read(await self._viewer.look(name.knowledge_base_id), name, record_id)
        return pb.GetTreeNodeResponse(
            node=node_to_wire(found.node, name),
            children=within_page(node_to_wire(child, name) for child in found.children),
            leaves=within_page(leaf_to_wire(leaf) for leaf in found.leaves),
        )

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})


def _busy() -> OverloadedError:
    return OverloadedError(
        "TREE_WATCHES_BUSY", "too many builds are watched; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )
