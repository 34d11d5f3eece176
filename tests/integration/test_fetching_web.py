"""Fetching over real connections: what is connected to, what redirects may do, and the bounds."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corpusmesh_app.fetching import FetchLimits, fetch
from corpusmesh_core.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

LOOPBACK = ipaddress.ip_address("127.0.0.1")


class Web:
    """A web server that answers by path and remembers what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        path = head.split()[1]
        body, status, extra = b"hello", "200 OK", "content-type: text/html; charset=utf-8\r\n"
        if path == "/loop":
            status, extra = "302 Found", "location: /loop\r\n"
        elif path == "/inside":
            status, extra = "302 Found", f"location: http://inside.example:{self.port}/secret\r\n"
        elif path == "/moved":
            status, extra = "301 Moved", "location: /page/report\r\n"
        elif path == "/gone":
            status = "404 Not Found"
        elif path == "/slow":
            await asyncio.sleep(20)
        elif path == "/large":
            body = b"x" * 100_000
        writer.write(f"HTTP/1.1 {status}\r\n{extra}content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    site = Web()
    server = await asyncio.start_server(site.answer, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


async def resolve(host: str, port: int) -> list[str]:
    return {"site.example": ["127.0.0.1"], "inside.example": ["127.0.0.2"]}.get(host, [])


def allow(address: object) -> bool:
    return address == LOOPBACK


async def get(web: Web, path: str, folder: Path, limits: FetchLimits | None = None) -> tuple[str, str, bytes]:
    url = f"http://site.example:{web.port}{path}"
    got = await fetch(url, folder, resolve=resolve, allow=allow, limits=limits)
    return got.display_name, got.final_url, got.path.read_bytes()


async def test_connection_is_made_to_the_checked_address_under_the_name_of_the_host(web: Web, tmp_path: Path) -> None:
    name, _, body = await get(web, "/moved", tmp_path)
    assert (name, body) == ("report.html", b"hello")
    assert all(f"host: site.example:{web.port}" in head.lower() for head in web.requests)
    assert len(web.requests) == 2


async def test_redirect_to_the_inside_is_refused_before_it_is_followed(web: Web, tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError):
        await get(web, "/inside", tmp_path)
    assert not any("secret" in head for head in web.requests)


async def test_redirects_end(web: Web, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await get(web, "/loop", tmp_path)
    assert caught.value.reason == "URL_REDIRECTS"
    assert len(web.requests) == 6


async def test_size_and_time_are_bounded(web: Web, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await get(web, "/large", tmp_path, FetchLimits(max_bytes=50_000))
    assert caught.value.reason == "URL_TOO_LARGE"
    with pytest.raises(DeadlineExceededError):
        await get(web, "/slow", tmp_path, FetchLimits(timeout_seconds=0.3))


async def test_status_and_broken_connections_are_told(web: Web, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        await get(web, "/gone", tmp_path)
    with pytest.raises(UnavailableError):
        await fetch("http://site.example:1/x", tmp_path, resolve=resolve, allow=allow)


async def test_host_without_a_name_in_its_path_gives_the_host_as_name(web: Web, tmp_path: Path) -> None:
    assert (await get(web, "/", tmp_path))[0] == "site.example.html"
