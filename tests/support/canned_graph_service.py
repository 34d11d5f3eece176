"""Graphs of the canned gateway: the service's own handlers over a harbour in memory, called as one editor."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from corpusmesh.graph.v1.graph_input_service_pb2_grpc import add_GraphInputServiceServicer_to_server
from corpusmesh.graph.v1.graph_service_pb2_grpc import add_GraphServiceServicer_to_server
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.canned_graphs import GraphMesh

_STREAMS = frozenset({"WatchGraph", "ExportGraph"})


class _AsEditor:
    """Calls handlers in the name of an editor, and turns their errors into statuses."""

    def __init__(self, handlers: Any, enter: Callable[[Any, str], None], abort: Any) -> None:
        self._handlers, self._enter, self._abort = handlers, enter, abort

    def __getattr__(self, name: str) -> Any:
        handler = getattr(self._handlers, name)

        async def unary(request: Any, context: Any) -> Any:
            try:
                self._enter(context, name)
                current_call.set(_call())
                return await handler(request, context)
            except CorpusMeshError as error:
                await self._abort(context, error)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                self._enter(context, name)
                current_call.set(_call())
                async for piece in handler(request, context):
                    yield piece
            except CorpusMeshError as error:
                await self._abort(context, error)

        return stream if name in _STREAMS else unary


def serve_graphs(server: Any, graphs: GraphMesh, enter: Callable[[Any, str], None], abort: Any) -> None:
    """Serve graphs.

    Args:
        server: The server, before it is started.
        graphs: What there is.
        enter: Checks the key of a call, and fails where it was told to.
        abort: Ends a call with an error.
    """
    doors = graphs.doors()
    add_GraphServiceServicer_to_server(_AsEditor(doors.graphs, enter, abort), server)  # type: ignore[arg-type]
    add_GraphInputServiceServicer_to_server(_AsEditor(doors.inputs, enter, abort), server)  # type: ignore[arg-type]


def _call() -> CallContext:
    return CallContext(Identity("acme", "ann", Role.EDITOR, Scope.WRITE), "request-1", time.monotonic() + 60)
