"""The gRPC face of graphs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh.graph.v1.graph_service_pb2_grpc import GraphServiceServicer
from corpusmesh_core.errors import OverloadedError
from corpusmesh_core.ports.work import EventFeed
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers.building import GraphBuilder
from corpusmesh_graph.handlers.communities import CommunityReader
from corpusmesh_graph.handlers.describing import GraphCounter, GraphDescriber
from corpusmesh_graph.handlers.entities import EntityReader
from corpusmesh_graph.handlers.exporting import GraphExporter
from corpusmesh_graph.handlers.pairs import PairReader
from corpusmesh_graph.handlers.relations import RelationReader
from corpusmesh_graph.handlers.saying import SayingReader
from corpusmesh_graph.names import graph_of
from corpusmesh_graph.scenes import SceneReader
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.build_views import BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots
from corpusmesh_runtime.watching import watch_changes

_ENDED = frozenset({pb.Graph.STATE_EMPTY, pb.Graph.STATE_READY})


class GraphHandlers(GraphServiceServicer):
    """Plans, builds, describes and removes graphs."""

    def __init__(
        self,
        settings: GraphServiceSettings,
        stores: GraphStores,
        events: EventFeed,
        viewer: BuildViewer,
        scenes: SceneReader,
        builder: GraphBuilder,
    ) -> None:
        """Create the handlers.

        Args:
            settings: Bounds.
            stores: What graphs are read from.
            events: Tells that builds have moved.
            viewer: What callers may see.
            scenes: What of graphs they see.
            builder: Plans and begins builds.
        """
        self._stores = stores
        self._events = events
        self._watches = TenantSlots(settings.max_concurrent_watches, busy=_busy)
        self._exports = TenantSlots(settings.max_concurrent_exports, busy=_exports_busy)
        self._describer = GraphDescriber(viewer, GraphCounter(scenes, stores.index))
        self._builder = builder
        sayings = SayingReader(scenes, stores.index)
        self._entities = EntityReader(scenes, sayings, stores.documents, stores.index)
        self._relations = RelationReader(scenes, sayings)
        self._exporter = GraphExporter(scenes, sayings)
        self._communities = CommunityReader(scenes, stores.index)
        self._pairs = PairReader(scenes, stores.builds, stores.objects)

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

    async def ListEntities(self, request: pb.ListEntitiesRequest, context: Any) -> pb.ListEntitiesResponse:
        """See the contract."""
        return await self._entities.page(request)

    async def GetEntity(self, request: pb.GetEntityRequest, context: Any) -> pb.GetEntityResponse:
        """See the contract."""
        return await self._entities.read(request)

    async def ListRelations(self, request: pb.ListRelationsRequest, context: Any) -> pb.ListRelationsResponse:
        """See the contract."""
        return await self._relations.page(request)

    async def GetRelation(self, request: pb.GetRelationRequest, context: Any) -> pb.GetRelationResponse:
        """See the contract."""
        return await self._relations.read(request)

    async def GetNeighbourhood(self, request: pb.GetNeighbourhoodRequest, context: Any) -> pb.GetNeighbourhoodResponse:
        """See the contract."""
        return await self._entities.around(request)

    async def ExportGraph(self, request: pb.ExportGraphRequest, context: Any) -> AsyncIterator[pb.ExportGraphResponse]:
        """See the contract."""
        with self._exports.taken(require_call().identity.tenant_id):
            parts = self._exporter.stream(request)
            async with contextlib.aclosing(parts):
                async for part in parts:
                    yield part

    async def ListCommunities(self, request: pb.ListCommunitiesRequest, context: Any) -> pb.ListCommunitiesResponse:
        """See the contract."""
        return await self._communities.page(request)

    async def GetCommunity(self, request: pb.GetCommunityRequest, context: Any) -> pb.GetCommunityResponse:
        """See the contract."""
        return await self._communities.read(request)

    async def ListResolvedPairs(
        self, request: pb.ListResolvedPairsRequest, context: Any
    ) -> pb.ListResolvedPairsResponse:
        """See the contract."""
        return await self._pairs.page(request)

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})


def _busy() -> OverloadedError:
    return OverloadedError(
        "GRAPH_WATCHES_BUSY", "too many builds are watched; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )


def _exports_busy() -> OverloadedError:
    return OverloadedError(
        "GRAPH_EXPORTS_BUSY", "too many graphs are exported; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )
