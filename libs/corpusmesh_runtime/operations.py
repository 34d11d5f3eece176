"""The inner HTTP port of a process: /livez, /readyz and /metrics."""

from collections.abc import Callable, Mapping

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from corpusmesh_runtime.http import HttpServer


def operations_server(*, host: str, port: int, readiness: Callable[[], Mapping[str, bool]]) -> HttpServer:
    """Make the operations server.

    Args:
        host: Address to listen on.
        port: Port; 0 takes a free one.
        readiness: Tells which parts are ready.

    Returns:
        A server that is not started yet.
    """

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        parts = dict(readiness())
        ready = all(parts.values())
        return JSONResponse({"ready": ready, "parts": parts}, status_code=200 if ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)])
    config = uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, lifespan="off")
    return HttpServer(config)
