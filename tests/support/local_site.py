"""A small web site on this machine whose pages a test may change, and that remembers what it was asked."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Page:
    """What a path answers."""

    body: bytes = b""
    status: int = 200
    media_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class LocalSite:
    """Pages by path; any other path answers 404."""

    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0
    delay_seconds: float = 0.0

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, text: str, *, links: tuple[str, ...] = (), head: str = "", robots: str = "") -> None:
        """Set a page with a text and links, and perhaps X-Robots-Tag; its ETag changes with its content."""
        anchors = "".join(f'<p><a href="{link}">see also</a></p>' for link in links)
        body = f"<html><head><title>{path}</title>{head}</head><body><p>{text}</p>{anchors}</body></html>".encode()
        named = {"X-Robots-Tag": robots} if robots else {}
        self.pages[path] = Page(body, headers={"ETag": f'"{hashlib.sha256(body).hexdigest()[:16]}"', **named})

    def paths(self) -> list[str]:
        """Paths that were asked for, in order."""
        return [path for path, _ in self.requests]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = lines[0].split()[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.requests.append((path, headers))
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        page = self.pages.get(path, Page(b"nothing here", 404))
        status, body = page.status, page.body
        if status == 200 and headers.get("if-none-match") and headers["if-none-match"] == page.headers.get("ETag"):
            status, body = 304, b""
        extra = "".join(f"{name}: {value}\r\n" for name, value in page.headers.items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {page.media_type}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def local_site() -> AsyncIterator[LocalSite]:
    """Serve a site on a free port of the loopback address."""
    site = LocalSite()
    server = await asyncio.start_server(site.answer, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
