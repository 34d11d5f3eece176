"""gRPC handlers: they connect wire messages to stores, and decide nothing themselves."""

from corpusmesh_graph.handlers.graphs import GraphHandlers

__all__ = ["GraphHandlers"]
