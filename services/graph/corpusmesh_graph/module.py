"""The graph service as one unit that a process starts and stops, and the stages of its worker."""

from collections.abc import Mapping
from typing import Final

import grpc.aio

from corpusmesh.graph.v1 import graph_input_service_pb2, graph_service_pb2
from corpusmesh.graph.v1.graph_input_service_pb2_grpc import add_GraphInputServiceServicer_to_server
from corpusmesh.graph.v1.graph_service_pb2_grpc import add_GraphServiceServicer_to_server
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.communities import CommunityFinder
from corpusmesh_graph.building.shelf import SegmentShelf
from corpusmesh_graph.building.tools import BuildTools
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers import make_handlers
from corpusmesh_graph.models import GraphModels
from corpusmesh_graph.stages.build_graph import BuildGraphStage
from corpusmesh_graph.stages.sweep_graph import FoundKeeper
from corpusmesh_graph.stores import GraphReads, GraphStores, GraphTools
from corpusmesh_runtime.build_sweeping import SweepStage
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.service import GuardedService
from corpusmesh_runtime.worker import StageHandler

GRAPH_SERVICE_NAMES: Final = tuple(
    service.full_name
    for contract in (graph_service_pb2, graph_input_service_pb2)
    for service in contract.DESCRIPTOR.services_by_name.values()
)


class GraphService(GuardedService):
    """The gRPC server of the graph service; an asynchronous context manager."""

    def __init__(
        self,
        settings: GraphServiceSettings,
        stores: GraphStores,
        tools: GraphTools,
        reads: GraphReads,
        signer: IdentitySigner,
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            stores: What it stands on.
            tools: What it works with.
            reads: What it reads with besides.
            signer: Verifies who calls.
        """
        self._handlers = make_handlers(settings, stores, tools, reads)
        super().__init__(
            "graph",
            settings.server,
            service_names=GRAPH_SERVICE_NAMES,
            register=self._register,
            knowledge_bases=stores.knowledge_bases,
            signer=signer,
        )

    def _register(self, server: grpc.aio.Server) -> None:
        add_GraphServiceServicer_to_server(self._handlers.graphs, server)
        add_GraphInputServiceServicer_to_server(self._handlers.inputs, server)


def graph_stages(
    settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools, finder: CommunityFinder
) -> Mapping[Stage, StageHandler]:
    """Make the handlers of every stage that the graph worker does.

    Args:
        settings: The service's settings.
        stores: What the stages stand on.
        tools: What they work with.
        finder: Finds communities.

    Returns:
        A handler for every stage.
    """
    build_tools = BuildTools(
        models=GraphModels(tools.chat, stores.cache, stores.usage, tools.counter, settings),
        shelf=SegmentShelf(stores.objects, max_bytes=settings.segment_cache_bytes),
        communities=finder,
    )
    return {
        Stage.BUILD_GRAPH: BuildGraphStage(settings, stores, build_tools),
        Stage.SWEEP_GRAPH: SweepStage(stores.builds, stores.objects, stores.index, FoundKeeper(stores.builds)),
    }
