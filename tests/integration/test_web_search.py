"""The web as a source over real connections: what is sent, what is read, and what is refused."""

import asyncio
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.web_search import FetchedWebPages, SearxngSearch, TavilySearch, WebPageSettings
from corpusmesh_app.backends import web_source
from corpusmesh_app.settings import MeshSettings
from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    OverloadedError,
    PermissionDeniedError,
    UnavailableError,
)
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.web_search import WebSearch
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze
from corpusmesh_retrieve.web import WebBounds, WebSource
from corpusmesh_runtime.context import CallContext
from tests.support.local_site import LocalSite, Page, local_site

LOOPBACK = ipaddress.ip_address("127.0.0.1")


@dataclass
class Engine:
    """A search engine: gives one answer, and remembers what it was asked."""

    answer: Any = None
    status: int = 200
    delay_seconds: float = 0.0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append((lines[0], headers, body))
        await asyncio.sleep(self.delay_seconds)
        content = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        more = "Location: http://127.0.0.1:1/\r\n" if self.status == 302 else ""
        writer.write(f"HTTP/1.1 {self.status} X\r\n{more}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()

    def finds(self, *urls: str, **fields: str) -> None:
        self.answer = {"results": [{"url": url, "title": f"Page {n}", **fields} for n, url in enumerate(urls)]}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine({"results": []})
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        server.close()


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with local_site() as running:
        yield running


class WordEmbedder:
    """Vectors made of words, so that texts with words in common are near each other."""

    space = EmbeddingSpace("words", 64, True, "f")
    max_input_tokens = 512

    async def refresh(self, *, deadline_seconds: float) -> None:
        return

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for term in analyze(text).fine:
                vectors[row, sum(term.encode()) % 64] += 1.0
        return EmbedResult(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), 0)

    async def count_tokens(self, texts: Sequence[str], *, deadline_seconds: float) -> list[int]:
        return [len(text.split()) for text in texts]


async def resolve(host: str, port: int) -> list[str]:
    return {"site.example": ["127.0.0.1"], "inside.example": ["127.0.0.2"]}.get(host, [])


def on_site(site: LocalSite, path: str) -> str:
    return f"http://site.example:{site.port}{path}"


@asynccontextmanager
async def web(engine: WebSearch, settings: WebPageSettings | None = None) -> AsyncIterator[WebSource]:
    pages = FetchedWebPages(
        settings or WebPageSettings(), ParserPool(process_count=1), resolve=resolve, public=lambda a: a == LOOPBACK
    )
    source = WebSource(engine, pages, WordEmbedder(), WebBounds(page_timeout_seconds=20.0))
    try:
        yield source
    finally:
        await source.close()


def call(seconds: float = 60.0) -> CallContext:
    return CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "request-1", time.monotonic() + seconds)


def query_of(request_line: str) -> str:
    return parse_qs(urlsplit(request_line.split()[1]).query)["q"][0]


async def test_pages_are_read_ranked_and_cited_by_their_address(engine: Engine, site: LocalSite) -> None:
    site.put("/a", "The harbour bridge was opened in 1932 after eight years of work.")
    site.put("/b", "A recipe for soup with leek and potato.")
    site.pages["/menu"] = Page(b"<script>alert('bridge')</script><nav>bridge bridge</nav><p>Nothing else.</p>")
    engine.finds(
        on_site(site, "/b"), on_site(site, "/a"), on_site(site, "/menu"), "ftp://site.example/x", "javascript:1"
    )
    async with web(SearxngSearch(engine.url)) as source:
        found = await source.search(call(), "When was the harbour bridge opened?", max_results=3)
    best = found[0].candidate.record
    assert (best.kind, best.attributes["url"]) == (RecordKind.WEB_PAGE, on_site(site, "/a"))
    assert "1932" in best.text
    assert (best.knowledge_base_id, best.document_id, best.sources, int(best.publisher)) == ("", "", (), 0)
    assert found[0].candidate.cosine is not None
    assert found[0].similarity > found[-1].similarity
    assert not any("alert" in item.candidate.record.text for item in found)
    assert query_of(engine.requests[0][0]) == "When was the harbour bridge opened"
    assert "format=json" in engine.requests[0][0]


async def test_words_that_the_user_did_not_write_are_sent_nowhere(engine: Engine, site: LocalSite) -> None:
    async with web(SearxngSearch(engine.url)) as source:
        await source.search(call(), "salary of Maria Quill 84000", max_results=3, asked="What is a usual salary?")
        await source.search(call(), "Maria Quill", max_results=3, asked="What is a usual salary?")
    assert [query_of(line) for line, _, _ in engine.requests] == ["salary"]


async def test_the_engines_own_commands_are_defused(engine: Engine) -> None:
    await SearxngSearch(engine.url).search("!!google :de !images harbour ?", 3, 5.0)
    assert query_of(engine.requests[0][0]) == "google de images harbour"


async def test_addresses_that_are_not_public_are_not_connected_to(engine: Engine, site: LocalSite) -> None:
    site.put("/secret", "The harbour bridge password is swordfish.")
    site.pages["/hop"] = Page(b"", 302, headers={"Location": f"http://inside.example:{site.port}/secret"})
    engine.finds(
        f"http://inside.example:{site.port}/secret",
        on_site(site, "/hop"),
        "http://169.254.169.254/latest/meta-data",
        f"http://user:pw@site.example:{site.port}/secret",
        content="what the engine shows of the bridge",
    )
    async with web(SearxngSearch(engine.url)) as source:
        found = await source.search(call(), "harbour bridge password", max_results=5)
    assert site.paths() == ["/hop"]
    assert {item.candidate.record.text for item in found} == {"what the engine shows of the bridge"}


async def test_without_injected_rules_loopback_is_refused(site: LocalSite) -> None:
    pages = FetchedWebPages(WebPageSettings(), ParserPool(process_count=1))
    with pytest.raises(PermissionDeniedError):
        await pages.read(site.url("/"), timeout_seconds=5.0)
    await pages.close()
    assert site.requests == []


async def test_pages_that_are_too_large_slow_or_no_text_stand_for_their_snippet(
    engine: Engine, site: LocalSite
) -> None:
    site.pages["/large"] = Page(b"<p>" + b"x" * 200_000)
    site.pages["/picture"] = Page(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    site.pages["/broken"] = Page(b"%PDF-1.4 nothing", media_type="application/pdf")
    urls = [on_site(site, path) for path in ("/large", "/picture", "/broken", "/gone")]
    engine.finds(*urls, content="the harbour as the engine shows it")
    async with web(SearxngSearch(engine.url), WebPageSettings(max_page_bytes=100_000)) as source:
        found = await source.search(call(), "harbour", max_results=5)
    assert sorted(item.candidate.record.attributes["url"] for item in found) == sorted(urls)
    assert all(item.candidate.record.text.startswith("the harbour as") for item in found)


@pytest.mark.parametrize(
    ("status", "answer", "error", "reason"),
    [
        (200, b"<html>no JSON</html>", UnavailableError, "WEB_SEARCH_UNAVAILABLE"),
        (200, {"results": "none"}, UnavailableError, "WEB_SEARCH_UNAVAILABLE"),
        (200, b"[" * 100_000, UnavailableError, "WEB_SEARCH_UNAVAILABLE"),
        (302, b"", UnavailableError, "WEB_SEARCH_REFUSED"),
        (403, b"key tvly-secret refused", UnavailableError, "WEB_SEARCH_REFUSED"),
        (429, b"", OverloadedError, "WEB_SEARCH_BUSY"),
        (503, b"", UnavailableError, "WEB_SEARCH_UNAVAILABLE"),
    ],
)
async def test_an_engine_that_fails_says_so_in_the_words_of_the_mesh(
    engine: Engine, status: int, answer: Any, error: type[CorpusMeshError], reason: str
) -> None:
    engine.status, engine.answer = status, answer
    with pytest.raises(error) as caught:
        await SearxngSearch(engine.url).search("harbour", 3, 5.0)
    assert caught.value.reason == reason
    assert "secret" not in str(caught.value)
    assert len(engine.requests) == 1


async def test_an_engine_that_is_slow_or_not_there(engine: Engine) -> None:
    engine.delay_seconds = 30.0
    with pytest.raises(DeadlineExceededError):
        await SearxngSearch(engine.url).search("harbour", 3, 0.2)
    with pytest.raises(UnavailableError):
        await SearxngSearch("http://127.0.0.1:1").search("harbour", 3, 5.0)


async def test_results_that_are_none_are_left_out(engine: Engine) -> None:
    engine.answer = {
        "results": [{"url": 3}, "x", {"url": "http://a.example/", "title": 4}, {"url": "http://a.example/"}]
    }
    results = await SearxngSearch(engine.url).search("harbour", 3, 5.0)
    assert [(result.url, result.title) for result in results] == [("http://a.example/", "")]


async def test_tavily_is_asked_with_a_key_that_may_change(engine: Engine, site: LocalSite, tmp_path: Path) -> None:
    key = tmp_path / "key"
    engine.finds(on_site(site, "/x"), content="short", raw_content="The harbour bridge opened in 1932.\nMore of it.")
    search = TavilySearch(engine.url, key)
    with pytest.raises(UnavailableError):
        await search.search("harbour", 3, 5.0)
    for secret in ("tvly-one", "tvly-two"):
        key.write_text(secret + "\n")
        async with web(search) as source:
            found = await source.search(call(), "harbour bridge", max_results=3)
            search = TavilySearch(engine.url, key)
        assert "1932" in found[0].candidate.record.text
    assert [headers["authorization"] for _, headers, _ in engine.requests] == ["Bearer tvly-one", "Bearer tvly-two"]
    assert json.loads(engine.requests[0][2])["query"] == "harbour bridge"
    assert site.requests == [], "the service gave the page's text"


async def test_the_web_is_off_unless_configured(engine: Engine, tmp_path: Path) -> None:
    assert web_source(MeshSettings(), WordEmbedder()) is None
    for wrong in (
        {"provider": "searxng"},
        {"provider": "tavily"},
        {"provider": "tavily", "api_key_file": tmp_path / "no"},
    ):
        with pytest.raises(FailedPreconditionError):
            web_source(MeshSettings.model_validate({"web_search": wrong}), WordEmbedder())
    settings = MeshSettings.model_validate({"web_search": {"provider": "searxng", "url": engine.url}})
    source = web_source(settings, WordEmbedder())
    assert source is not None
    engine.finds(f"http://127.0.0.1:{engine.port}/", content="the harbour as the engine shows it")
    found = await source.search(call(), "harbour", max_results=3)
    await source.close()
    assert len(engine.requests) == 1, "a result on a private address is not read"
    assert found[0].candidate.record.text.startswith("the harbour")
