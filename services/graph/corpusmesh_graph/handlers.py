"""The gRPC face of graphs."""

from typing import NoReturn

import grpc.aio

from corpusmesh.graph.v1.graph_service_pb2_grpc import GraphServiceServicer
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.stores import GraphStores, GraphTools


class GraphHandlers(GraphServiceServicer):
    """Plans, builds, describes and removes graphs."""

    def __init__(self, settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools) -> None:
        """Create the handlers.

        Args:
            settings: Bounds.
            stores: What graphs are read from.
            tools: What plans are made with.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools

    async def PlanGraph(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")

    async def BuildGraph(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")

    async def GetGraph(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")

    async def WatchGraph(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")

    async def CancelGraphBuild(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")

    async def DeleteGraph(self, request: object, context: grpc.aio.ServicerContext) -> NoReturn:  # type: ignore[override]
        """Not built yet."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")
