"""The runtime's HTTP server and operations port over real connections."""

import asyncio
import socket

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_runtime import metrics  # noqa: F401 - registers them
from corpusmesh_runtime.http import HttpServer
from corpusmesh_runtime.operations import operations_server


def server_of(app: Starlette, port: int = 0) -> HttpServer:
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, access_log=False, lifespan="off")
    return HttpServer(config)


async def test_answers_are_not_held_back_by_nagles_algorithm() -> None:
    server = server_of(Starlette(routes=[Route("/", lambda _: PlainTextResponse("ok"))]))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    (connection,) = server._server.server_state.connections
    accepted = connection.transport.get_extra_info("socket")  # type: ignore[union-attr]
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()
    await server.stop()


async def test_stop_lets_a_running_request_end_and_frees_the_port() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await release.wait()
        return PlainTextResponse("done")

    server = server_of(Starlette(routes=[Route("/", slow)]))
    await server.start()
    async with httpx.AsyncClient() as client, asyncio.timeout(20):
        running = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/"))
        await begun.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.2)
        assert not stopping.done()
        release.set()
        assert (await running).text == "done"
        await stopping
    again = server_of(Starlette(), server.port)
    await again.start()
    with pytest.raises(FailedPreconditionError) as caught:
        await server_of(Starlette(), server.port).start()
    assert caught.value.reason == "PORT_UNAVAILABLE"
    await again.stop()


async def test_operations_port_tells_which_part_is_not_ready_and_gives_metrics() -> None:
    parts = {"database": True, "index": False}
    server = operations_server(host="127.0.0.1", port=0, readiness=lambda: parts)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        assert (await client.get("/livez")).text == "ok\n"
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"ready": False, "parts": parts})
        parts["index"] = True
        assert (await client.get("/readyz")).status_code == 200
        assert "corpusmesh_rpc_in_flight" in (await client.get("/metrics")).text
    await server.stop()
