"""gRPC handlers: they connect wire messages to stores, and decide nothing themselves."""

from corpusmesh_raptor.handlers.trees import TreeHandlers

__all__ = ["TreeHandlers"]
