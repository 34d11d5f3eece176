"""A web site as a source: its sitemap, or a crawl of one host, obeying robots.txt and what pages say to robots.

Only 404, 410, a page that forbids to be kept and one that moved for good remove a document; an error never does. Each
page is asked for on the condition that it has changed; of one that has not, the links that it had are followed.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import httpx

from corpusmesh_adapters.connectors.settings import WebSettings
from corpusmesh_adapters.connectors.web.addresses import (
    REDIRECTS,
    Allow,
    Resolver,
    display_name,
    is_public,
    resolve_by_system,
)
from corpusmesh_adapters.connectors.web.client import WebAnswer, WebClient, open_web_client
from corpusmesh_adapters.connectors.web.memos import conditions, failed_page, page_item, read_memo, write_memo
from corpusmesh_adapters.connectors.web.pages import (
    HTML_MEDIA_TYPES,
    MAX_SCANNED_BYTES,
    PageSigns,
    header_forbids_index,
    normal_url,
    read_page,
    same_origin,
)
from corpusmesh_adapters.connectors.web.sitemap import (
    MAX_SITEMAP_BYTES,
    MAX_SITEMAP_PAGES,
    Sitemap,
    SitemapEntry,
    SitemapError,
    is_sitemap,
    parse_sitemap,
    unpack,
)
from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError, NotFoundError, UnavailableError
from corpusmesh_core.ports.sources import ConnectorCapabilities
from corpusmesh_core.sources import (
    MAX_KEY_BYTES,
    KnownItem,
    ListingEnd,
    ListingEvent,
    RemovedItem,
    SourceItem,
    WebPlace,
)
from corpusmesh_core.sources.robots import MAX_ROBOTS_BYTES, RobotRules, parse_robots

_ROBOT = "corpusmesh"
_PIECE_BYTES = 1 << 20
_MAX_NESTED_SITEMAPS = 1000
_SKIPPED_MEDIA = ("image/", "audio/", "video/", "font/")
_SKIPPED_MEDIA_TYPES = frozenset({"text/css", "text/javascript", "application/javascript", "application/json"})
WEB_CAPABILITIES = ConnectorCapabilities(
    is_incremental=False, reports_removals=True, maps_access=False, concurrent_open_count=1, resumes_listing=True
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    url: str
    depth: int
    changed: str = ""


@dataclass(slots=True)
class _Crawl:
    """One listing under way."""

    origin: httpx.URL
    robots: RobotRules
    known: Mapping[str, KnownItem]
    deadline: float
    max_depth: int
    path_prefix: str
    queue: deque[_Wanted] = field(default_factory=deque)
    queued: set[str] = field(default_factory=set)
    page_count: int = 0
    is_cut: bool = False

    def want(self, url: str, depth: int, changed: str = "") -> None:
        """Queue a page once, if it is one of those that are wanted."""
        if not url or url in self.queued or len(url.encode()) > MAX_KEY_BYTES:
            return
        if not httpx.URL(url).path.startswith(self.path_prefix):
            return
        self.queued.add(url)
        self.queue.append(_Wanted(url, depth, changed))


class SiteConnector:
    """`Connector` for a site; an item must be read before the listing goes on."""

    def __init__(self, place: WebPlace, settings: WebSettings, client: WebClient) -> None:
        """Create the connector.

        Args:
            place: What to read.
            settings: Bounds.
            client: Requests.
        """
        self._place = place
        self._settings = settings
        self._client = client
        self._body: tuple[str, IO[bytes]] | None = None

    @property
    def capabilities(self) -> ConnectorCapabilities:
        """See `Connector`."""
        return WEB_CAPABILITIES

    def close(self) -> None:
        """Let go of the page at hand."""
        if self._body is not None:
            self._body[1].close()
        self._body = None

    async def list(
        self, cursor: str, known: Mapping[str, KnownItem], *, timeout_seconds: float
    ) -> AsyncIterator[ListingEvent]:
        """List the site; see `Connector`.

        Args:
            cursor: Not used: what has changed is told by each page's own validators.
            known: What is known of its pages.
            timeout_seconds: Bound of the whole listing.

        Yields:
            Pages as they are found; the listing names what has gone and never counts as complete.
        """
        del cursor
        crawl = await self._begin(known, time.monotonic() + timeout_seconds)
        while crawl.queue and not crawl.is_cut:
            async for event in self._visit(crawl, crawl.queue.popleft()):
                yield event
        # What was not found on the way may have lost its last link, or may have gone.
        for url in [url for url, item in known.items() if item.document_id and url not in crawl.queued]:
            if crawl.is_cut:
                break
            crawl.queued.add(url)
            async for event in self._visit(crawl, _Wanted(url, crawl.max_depth)):
                yield event
        yield ListingEnd(is_complete=False)

    async def open(self, item: SourceItem, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        """Read a page; see `Connector`.

        Args:
            item: The page yielded last.
            timeout_seconds: Bound of the whole reading.

        Yields:
            Pieces.

        Raises:
            NotFoundError: If it has gone meanwhile.
        """
        async with asyncio.timeout(timeout_seconds):
            if self._body is None or self._body[0] != item.key:
                answer = await self._client.get(item.key, max_bytes=self._settings.max_page_bytes)
                self._keep(item.key, answer)
                if answer.status_code != httpx.codes.OK:
                    raise NotFoundError("SOURCE_PAGE_GONE", f"{item.key} answers {answer.status_code}", url=item.key)
            assert self._body is not None
            body = self._body[1]
            body.seek(0)
            while piece := await asyncio.to_thread(body.read, _PIECE_BYTES):
                yield piece

    async def _begin(self, known: Mapping[str, KnownItem], deadline: float) -> _Crawl:
        start = normal_url(self._place.url)
        robots = await self._robots(httpx.URL(start))
        self._require_allowed(robots, httpx.URL(start))
        answer = await self._client.get(start, max_bytes=max(MAX_SITEMAP_BYTES, MAX_SCANNED_BYTES))
        with answer.body:
            if answer.status_code != httpx.codes.OK:
                raise UnavailableError(
                    "SOURCE_SITE_UNAVAILABLE",
                    f"{start} answers {answer.status_code}; nothing was changed",
                    url=start,
                    status_code=answer.status_code,
                )
            if not same_origin(answer.url, httpx.URL(start)):
                robots = await self._robots(answer.url)
                self._require_allowed(robots, answer.url)
            content = await asyncio.to_thread(answer.body.read)
        self._client.slow_down(robots.delay_seconds)
        self._client.allows = robots.allows
        crawl = _Crawl(answer.url, robots, known, deadline, self._place.max_depth, self._place.path_prefix)
        try:
            text = unpack(content)
            if is_sitemap(text):
                crawl.max_depth = 0
                await self._read_sitemaps(crawl, text)
                return crawl
        except SitemapError as error:
            raise UnavailableError(
                "SOURCE_SITEMAP_INVALID", f"the sitemap {start} cannot be read: {error}", url=start
            ) from error
        # Wherever it lies: it is where the links are.
        first = normal_url(str(answer.url))
        crawl.queued.add(first)
        crawl.queue.append(_Wanted(first, 0))
        return crawl

    async def _robots(self, url: httpx.URL) -> RobotRules:
        """Read the rules of a site; none where it has no file, an error where it cannot be asked (RFC 9309)."""
        address = str(url.copy_with(raw_path=b"/robots.txt", fragment=None))
        answer = await self._client.get(address, max_bytes=self._settings.max_page_bytes)
        with answer.body:
            if answer.status_code >= 500:
                raise UnavailableError(
                    "SOURCE_ROBOTS_UNAVAILABLE",
                    f"{address} answers {answer.status_code}: the site's rules are not known, so it is left alone",
                    url=address,
                    status_code=answer.status_code,
                )
            if answer.status_code != httpx.codes.OK:
                return RobotRules()
            text = answer.body.read(MAX_ROBOTS_BYTES).decode("utf-8", "replace")
        return parse_robots(text, _ROBOT)

    @staticmethod
    def _require_allowed(robots: RobotRules, url: httpx.URL) -> None:
        if not robots.allows(url.raw_path.decode("ascii", "replace")):
            raise UnavailableError(
                "SOURCE_ROBOTS_FORBID", f"robots.txt forbids to read {url}; nothing was changed", url=url
            )

    async def _read_sitemaps(self, crawl: _Crawl, text: bytes) -> None:
        """Queue the pages of a sitemap, and of those that an index names on the same site."""
        root = await asyncio.to_thread(parse_sitemap, text)
        self._want_pages(crawl, root.pages)
        for entry in root.nested[:_MAX_NESTED_SITEMAPS]:
            url = normal_url(entry.url)
            if not url or not same_origin(httpx.URL(url), crawl.origin) or len(crawl.queue) >= MAX_SITEMAP_PAGES:
                continue
            answer = await self._client.get(url, origin=crawl.origin, max_bytes=MAX_SITEMAP_BYTES)
            with answer.body:
                if answer.status_code != httpx.codes.OK:
                    raise UnavailableError(
                        "SOURCE_SITE_UNAVAILABLE",
                        f"{url} answers {answer.status_code}; nothing was changed",
                        url=url,
                        status_code=answer.status_code,
                    )
                content = await asyncio.to_thread(answer.body.read)
            self._want_pages(crawl, (await asyncio.to_thread(_parse_packed, content)).pages)

    def _want_pages(self, crawl: _Crawl, entries: tuple[SitemapEntry, ...]) -> None:
        for entry in entries:
            url = normal_url(entry.url)
            if url and same_origin(httpx.URL(url), crawl.origin):
                crawl.want(url, 0, entry.changed)

    async def _visit(self, crawl: _Crawl, wanted: _Wanted) -> AsyncIterator[ListingEvent]:
        known = crawl.known.get(wanted.url)
        memo = read_memo(known)
        parsed = httpx.URL(wanted.url)
        if not crawl.robots.allows(parsed.raw_path.decode("ascii", "replace")):
            if known is not None:
                yield RemovedItem(wanted.url)
            return
        is_same = bool(wanted.changed) and wanted.changed == memo.get("changed")
        if known is not None and known.etag and (known.is_current or is_same):
            # What an earlier task of this sync has fetched counts as if this one had.
            crawl.page_count += known.is_current
            yield self._unchanged(crawl, wanted, known, memo)
            return
        if self._is_over(crawl):
            return
        crawl.page_count += 1
        try:
            answer = await self._client.get(
                wanted.url,
                origin=crawl.origin,
                headers=conditions(known, memo),
                max_bytes=self._settings.max_page_bytes,
            )
        except CorpusMeshError as error:
            yield failed_page(wanted.url, error.reason, error.message)
            return
        self._keep(wanted.url, answer)
        if answer.status_code == httpx.codes.NOT_MODIFIED and known is not None:
            yield self._unchanged(crawl, wanted, known, memo)
        elif answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            if known is not None:
                yield RemovedItem(wanted.url)
        elif answer.status_code != httpx.codes.OK:
            what = "leads elsewhere" if answer.status_code in REDIRECTS else f"answers {answer.status_code}"
            yield failed_page(wanted.url, "SOURCE_PAGE_UNAVAILABLE", f"the page {what}; what is known of it stays")
        else:
            async for event in self._take(crawl, wanted, known, answer):
                yield event

    def _is_over(self, crawl: _Crawl) -> bool:
        place = self._place
        if time.monotonic() > crawl.deadline:
            raise DeadlineExceededError("SOURCE_LISTING_TIMEOUT", "the site could not be read in time")
        crawl.is_cut = crawl.page_count >= place.max_pages or self._client.received_bytes >= place.max_bytes
        return crawl.is_cut

    def _unchanged(self, crawl: _Crawl, wanted: _Wanted, known: KnownItem, memo: dict[str, Any]) -> SourceItem:
        self._follow(crawl, wanted, memo.get("links", ()))
        if wanted.changed:
            memo = {**memo, "changed": wanted.changed}
        return SourceItem(
            key=wanted.url,
            display_name=str(memo.get("name", "")) or display_name(httpx.URL(wanted.url), ""),
            etag=known.etag,
            source_uri=wanted.url,
            memo=write_memo(memo),
        )

    def _follow(self, crawl: _Crawl, wanted: _Wanted, links: Any) -> None:
        if wanted.depth < crawl.max_depth:
            for link in links:
                crawl.want(normal_url(str(link), crawl.origin), wanted.depth + 1)

    async def _take(
        self, crawl: _Crawl, wanted: _Wanted, known: KnownItem | None, answer: WebAnswer
    ) -> AsyncIterator[ListingEvent]:
        url = normal_url(str(answer.url))
        if url != wanted.url:
            if known is not None and answer.is_moved_for_good:
                yield RemovedItem(wanted.url)
            elif known is not None:
                yield failed_page(wanted.url, "SOURCE_PAGE_UNAVAILABLE", "the page leads elsewhere for now")
            if url in crawl.queued:
                return
            crawl.queued.add(url)
            self._keep(url, answer)
            known = crawl.known.get(url)
            wanted = _Wanted(url, wanted.depth, "")
        signs = PageSigns(is_indexed=not header_forbids_index(answer.headers.get("x-robots-tag", "")))
        if answer.media_type in HTML_MEDIA_TYPES:
            content = await asyncio.to_thread(answer.body.read, MAX_SCANNED_BYTES)
            signs = await asyncio.to_thread(read_page, content, answer.url, answer.headers.get("x-robots-tag", ""))
            self._follow(crawl, wanted, signs.links)
        is_elsewhere = bool(signs.canonical) and signs.canonical != url
        is_elsewhere = is_elsewhere and same_origin(httpx.URL(signs.canonical), crawl.origin)
        if is_elsewhere:
            crawl.want(signs.canonical, wanted.depth)
        if not signs.is_indexed or is_elsewhere or not self._is_document(url, answer.media_type):
            if known is not None:
                yield RemovedItem(url)
            return
        yield page_item(wanted.url, answer, signs.links, crawl.origin, wanted.changed)

    def _is_document(self, url: str, media_type: str) -> bool:
        if media_type.startswith(_SKIPPED_MEDIA) or media_type in _SKIPPED_MEDIA_TYPES:
            return False
        return httpx.URL(url).path.startswith(self._place.path_prefix)

    def _keep(self, key: str, answer: WebAnswer) -> None:
        if self._body is not None and self._body[1] is not answer.body:
            self._body[1].close()
        self._body = (key, answer.body)


def _parse_packed(content: bytes) -> Sitemap:
    return parse_sitemap(unpack(content))


@asynccontextmanager
async def open_site(
    place: WebPlace,
    settings: WebSettings,
    *,
    resolve: Resolver = resolve_by_system,
    public: Allow = is_public,
) -> AsyncIterator[SiteConnector]:
    """Open a site.

    Args:
        place: What to read.
        settings: Pace and bounds.
        resolve: Gives all addresses of a host.
        public: Tells whether an address is public.

    Yields:
        The connector.
    """
    async with open_web_client(settings, resolve, public) as client:
        connector = SiteConnector(place, settings, client)
        try:
            yield connector
        finally:
            connector.close()
