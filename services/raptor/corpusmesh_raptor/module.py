"""The raptor service as one unit that a process starts and stops, and the stages of its worker."""

from collections.abc import Mapping
from typing import Final

import grpc.aio

from corpusmesh.raptor.v1 import tree_service_pb2
from corpusmesh.raptor.v1.tree_service_pb2_grpc import add_TreeServiceServicer_to_server
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.handlers import TreeHandlers
from corpusmesh_raptor.stages.build_tree import BuildTreeStage
from corpusmesh_raptor.stages.file_tree import FileTreeStage
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.build_sweeping import SweepStage
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.service import GuardedService
from corpusmesh_runtime.worker import StageHandler

RAPTOR_SERVICE_NAMES: Final = tuple(
    service.full_name for service in tree_service_pb2.DESCRIPTOR.services_by_name.values()
)


class RaptorService(GuardedService):
    """The gRPC server of the raptor service; an asynchronous context manager."""

    def __init__(
        self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools, signer: IdentitySigner
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            stores: What it stands on.
            tools: What it works with.
            signer: Verifies who calls.
        """
        self._trees = TreeHandlers(settings, stores, tools)
        super().__init__(
            "raptor",
            settings.server,
            service_names=RAPTOR_SERVICE_NAMES,
            register=self._register,
            knowledge_bases=stores.knowledge_bases,
            signer=signer,
        )

    def _register(self, server: grpc.aio.Server) -> None:
        add_TreeServiceServicer_to_server(self._trees, server)


def raptor_stages(settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools) -> Mapping[Stage, StageHandler]:
    """Make the handlers of every stage that the raptor worker does.

    Args:
        settings: The service's settings.
        stores: What the stages stand on.
        tools: What they work with.

    Returns:
        A handler for every stage.
    """
    summarizer = Summarizer(tools.chat, stores.cache, stores.usage, tools.counter, settings)
    return {
        Stage.TREE: FileTreeStage(settings, stores, tools, summarizer),
        Stage.BUILD_TREE: BuildTreeStage(settings, stores, tools, summarizer),
        Stage.SWEEP_TREE: SweepStage(stores.trees, stores.objects, stores.index),
    }
