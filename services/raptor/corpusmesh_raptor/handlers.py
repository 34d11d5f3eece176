"""The gRPC face of trees."""

from corpusmesh.raptor.v1.tree_service_pb2_grpc import TreeServiceServicer
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.stores import RaptorStores, RaptorTools


class TreeHandlers(TreeServiceServicer):
    """Plans, builds, describes and removes trees."""

    def __init__(self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools) -> None:
        """Create the handlers.

        Args:
            settings: Bounds.
            stores: What trees are read from.
            tools: What plans are made with.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools
