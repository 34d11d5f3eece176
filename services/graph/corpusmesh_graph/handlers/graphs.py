"""The gRPC face of graphs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh.graph.v1.graph_service_pb2_grpc import GraphServiceServicer
from corpusmesh_core.errors import OverloadedError
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers.building import GraphBuilder
from corpusmesh_graph.handlers.describing import GraphCounter, GraphDescriber
from corpusmesh_graph.names import graph_of
from corpusmesh_graph.stores import GraphStores, GraphTools
from corpusmesh_runtime.build_views import BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots
from corpusmesh_runtime.watching import watch_changes

_ENDED = frozenset({pb.Graph.STATE_EMPTY, pb.Graph.STATE_READY})


class GraphHandlers(GraphServiceServicer):
    """Plans, builds, describes and removes graphs."""

    def __init__(self, settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools) -> None:
        """Create the handlers.

        Args:
            settings: Bounds.
            stores: What graphs are read from.
            tools: What plans are made with.
        """
        self._stores = stores
        self._events = tools.events
        self._watches = TenantSlots(settings.max_concurrent_watches, busy=_busy)
        viewer = BuildViewer(stores.snapshots, stores.builds)
        self._describer = GraphDescriber(viewer, GraphCounter(stores.index))
        self._builder = GraphBuilder(settings, stores, tools, viewer)

    async def PlanGraph(self, request: pb.PlanGraphRequest, context: Any) -> pb.PlanGraphResponse:
        """See the contract."""
        return await self._builder.plan(request)

    async def BuildGraph(self, request: pb.BuildGraphRequest, context: Any) -> pb.BuildGraphResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.name)

        async def act() -> pb.BuildGraphResponse:
            run = await self._builder.build(knowledge_base_id, full=request.full, request_id=request.request_id)
            await self._audit("graph.build", request.name)
            return pb.BuildGraphResponse(run=run, graph=await self._describer.describe(knowledge_base_id))

        return await once(
            self._stores.idempotency, "BuildGraph", request.request_id, request, pb.BuildGraphResponse, act
        )

    async def GetGraph(self, request: pb.GetGraphRequest, context: Any) -> pb.Graph:
        """See the contract."""
        return await self._describer.describe(graph_of(request.name))

    async def WatchGraph(self, request: pb.WatchGraphRequest, context: Any) -> AsyncIterator[pb.WatchGraphResponse]:
        """See the contract."""
        identity = require_call().identity
        watched = self._describer.watched(graph_of(request.name))
        with self._watches.taken(identity.tenant_id):
            run_id = await watched.run_id()
            states = watch_changes(
                self._events,
                f"events.run.{identity.tenant_id}.{run_id}",
                watched.read,
                mark_of=lambda graph: graph.SerializeToString(deterministic=True),
                has_ended=lambda graph: graph.state in _ENDED,
            )
            sequence = 0
            async with contextlib.aclosing(states):
                async for graph in states:
                    sequence += 1
                    yield pb.WatchGraphResponse(graph=graph, sequence=sequence)

    async def CancelGraphBuild(self, request: pb.CancelGraphBuildRequest, context: Any) -> pb.CancelGraphBuildResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.name)

        async def act() -> pb.CancelGraphBuildResponse:
            await self._stores.builds.cancel(require_call().identity, knowledge_base_id)
            await self._audit("graph.cancel", request.name)
            return pb.CancelGraphBuildResponse(graph=await self._describer.describe(knowledge_base_id))

        return await once(
            self._stores.idempotency, "CancelGraphBuild", request.request_id, request, pb.CancelGraphBuildResponse, act
        )

    async def DeleteGraph(self, request: pb.DeleteGraphRequest, context: Any) -> pb.DeleteGraphResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.name)

        async def act() -> pb.DeleteGraphResponse:
            row = await self._stores.builds.delete(
                require_call().identity, knowledge_base_id, request_id=request.request_id
            )
            await self._audit("graph.delete", request.name)
            return pb.DeleteGraphResponse(run=f"knowledgeBases/{knowledge_base_id}/runs/{row.run_id}")

        return await once(
            self._stores.idempotency, "DeleteGraph", request.request_id, request, pb.DeleteGraphResponse, act
        )

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})


def _busy() -> OverloadedError:
    return OverloadedError(
        "GRAPH_WATCHES_BUSY", "too many builds are watched; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )
