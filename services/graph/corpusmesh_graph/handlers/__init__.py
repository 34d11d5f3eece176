"""gRPC handlers: they connect wire messages to stores, and decide nothing themselves."""

from dataclasses import dataclass

from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers.building import GraphBuilder
from corpusmesh_graph.handlers.graphs import GraphHandlers
from corpusmesh_graph.handlers.inputs import GraphInputHandlers
from corpusmesh_graph.scenes import SceneReader
from corpusmesh_graph.stores import GraphReads, GraphStores, GraphTools
from corpusmesh_runtime.build_views import BuildViewer

__all__ = ["GraphHandlers", "GraphInputHandlers", "Handlers", "make_handlers"]


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of all gRPC services of graphs.

    Attributes:
        graphs: Builds, and what is read of graphs.
        inputs: What people give for them.
    """

    graphs: GraphHandlers
    inputs: GraphInputHandlers


def make_handlers(
    settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools, reads: GraphReads
) -> Handlers:
    """Make the handlers.

    Args:
        settings: Bounds.
        stores: What graphs are read from.
        tools: What plans are made with.
        reads: What the server reads with besides.

    Returns:
        The handlers, which share what they read with.
    """
    viewer = BuildViewer(stores.snapshots, stores.builds)
    scenes = SceneReader(viewer, reads.views, stores.index)
    builder = GraphBuilder(settings, stores, tools, viewer)
    return Handlers(
        graphs=GraphHandlers(settings, stores, tools.events, viewer, scenes, builder),
        inputs=GraphInputHandlers(stores, reads.purges, scenes, builder),
    )
