"""The web connector against a real server: what it asks for, what it takes, what removes a page and what never does."""

import gzip
import ipaddress
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from corpusmesh_adapters.connectors import ConnectorSettings, SettingsConnectorRegistry, WebSettings
from corpusmesh_core.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
)
from corpusmesh_core.sources import (
    FailedItem,
    ItemState,
    KnownItem,
    ListingEnd,
    ListingEvent,
    RemovedItem,
    SourceItem,
    WebPlace,
)
from tests.support.local_site import LocalSite, Page, local_site

SETTINGS = WebSettings(
    allowed_networks=(ipaddress.ip_network("127.0.0.0/8"),),
    min_delay_seconds=0.0,
    max_delay_seconds=0.05,
    request_timeout_seconds=5.0,
)


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with local_site() as made:
        yield made


async def listing(
    site: LocalSite,
    known: Mapping[str, KnownItem] | None = None,
    *,
    path: str = "/",
    settings: WebSettings = SETTINGS,
    **values: object,
) -> list[ListingEvent]:
    place = WebPlace(site.url(path), **values)  # type: ignore[arg-type]
    registry = SettingsConnectorRegistry(ConnectorSettings(web=settings))
    async with registry.connect("tenant", place) as connector:
        return [event async for event in connector.list("", known or {}, timeout_seconds=30)]


def remember(events: list[ListingEvent]) -> dict[str, KnownItem]:
    """What a sync keeps of a listing."""
    return {
        event.key: KnownItem(event.key, event.etag, "", "doc", ItemState.ACTIVE, memo=event.memo)
        for event in events
        if isinstance(event, SourceItem)
    }


def paths(
    site: LocalSite,
    events: list[ListingEvent],
    kind: type[SourceItem] | type[RemovedItem] | type[FailedItem] = SourceItem,
) -> list[str]:
    return [event.key.removeprefix(site.url("")) for event in events if isinstance(event, kind)]


async def test_crawl_follows_links_of_its_own_site_to_its_depth(site: LocalSite) -> None:
    site.put("/", "start", links=("/a", "https://other.example/x", "/a#part"))
    site.put("/a", "one", links=("/b", "/"))
    site.put("/b", "two", links=("/c",))
    site.put("/c", "three")
    events = await listing(site, max_depth=2)
    assert paths(site, events) == ["/", "/a", "/b"]
    assert events[-1] == ListingEnd(is_complete=False)
    assert site.paths() == ["/robots.txt", "/", "/", "/a", "/b"]


async def test_bounds_on_pages_and_bytes_cut_the_crawl_without_removing_anything(site: LocalSite) -> None:
    site.put("/", "start", links=("/a", "/b", "/c"))
    for name in "abc":
        site.put(f"/{name}", name)
    known = {site.url(path): KnownItem(site.url(path), "1", "", "doc", ItemState.ACTIVE) for path in ("/x", "/y")}
    events = await listing(site, known, max_pages=2)
    assert paths(site, events) == ["/", "/a"]
    assert paths(site, events, RemovedItem) == []
    cut = await listing(site, known, max_bytes=1)
    assert paths(site, cut) == []


async def test_robots_rules_are_obeyed_before_anything_is_asked_for(site: LocalSite) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /private\nCrawl-delay: 3600\n", media_type="text/plain")
    site.put("/", "start", links=("/private/a", "/open"))
    site.put("/open", "open")
    site.put("/private/a", "secret")
    events = await listing(site)
    assert paths(site, events) == ["/", "/open"]
    assert "/private/a" not in site.paths()
    known = {site.url("/private/a"): KnownItem(site.url("/private/a"), "1", "", "doc", ItemState.ACTIVE)}
    assert paths(site, await listing(site, known), RemovedItem) == ["/private/a"]


async def test_site_whose_rules_cannot_be_read_is_left_alone(site: LocalSite) -> None:
    site.put("/", "start")
    site.pages["/robots.txt"] = Page(status=503)
    with pytest.raises(UnavailableError) as caught:
        await listing(site)
    assert caught.value.reason == "SOURCE_ROBOTS_UNAVAILABLE"
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n")
    with pytest.raises(UnavailableError) as forbidden:
        await listing(site)
    assert forbidden.value.reason == "SOURCE_ROBOTS_FORBID"
    assert "/" not in site.paths()


async def test_unchanged_pages_are_not_fetched_again_and_their_links_are_still_followed(site: LocalSite) -> None:
    site.put("/", "start", links=("/a",))
    site.put("/a", "one", links=("/b",))
    site.put("/b", "two")
    first = await listing(site)
    site.requests.clear()
    site.put("/b", "two, changed")
    second = await listing(site, remember(first))
    conditions = {path: headers.get("if-none-match", "") for path, headers in site.requests[2:]}
    assert all(conditions[path] for path in ("/", "/a", "/b"))
    before, after = remember(first), remember(second)
    assert list(before) == list(after)
    changed = [key for key in before if before[key].etag != after[key].etag]
    assert changed == [site.url("/b")]


async def test_page_without_validators_is_compared_by_its_content(site: LocalSite) -> None:
    site.pages["/"] = Page(b"<p>hello</p>")
    first = await listing(site)
    second = await listing(site, remember(first))
    assert remember(first) == remember(second)


async def test_gone_pages_are_removed_and_failing_ones_never(site: LocalSite) -> None:
    site.put("/", "start", links=("/gone", "/lost", "/broken", "/forbidden", "/busy"))
    for name in ("gone", "lost", "broken", "forbidden", "busy"):
        site.put(f"/{name}", name)
    known = remember(await listing(site))
    for name, status in (("gone", 404), ("lost", 410), ("broken", 500), ("forbidden", 403), ("busy", 429)):
        site.pages[f"/{name}"] = Page(status=status)
    events = await listing(site, known)
    assert paths(site, events, RemovedItem) == ["/gone", "/lost"]
    assert paths(site, events, FailedItem) == ["/broken", "/forbidden", "/busy"]
    assert site.paths().count("/broken") == 1 + SETTINGS.max_attempts


async def test_page_that_no_link_leads_to_any_more_is_asked_for_before_it_goes(site: LocalSite) -> None:
    site.put("/", "start", links=("/a", "/b"))
    site.put("/a", "one")
    site.put("/b", "two")
    known = remember(await listing(site))
    site.put("/", "start again")
    del site.pages["/b"]
    events = await listing(site, known)
    assert paths(site, events) == ["/", "/a"]
    assert paths(site, events, RemovedItem) == ["/b"]


async def test_site_that_is_down_raises_and_removes_nothing(site: LocalSite) -> None:
    site.pages["/"] = Page(status=500)
    with pytest.raises(UnavailableError):
        await listing(site)
    site.delay_seconds = 5.0
    with pytest.raises(DeadlineExceededError):
        await listing(site, settings=replace(SETTINGS, request_timeout_seconds=0.2, max_attempts=2))


async def test_pages_say_that_they_must_not_be_kept_or_are_another_one(site: LocalSite) -> None:
    site.put("/", "start", links=("/hidden", "/header", "/copy"))
    site.put("/hidden", "x", head='<meta name="robots" content="noindex">', links=("/from-hidden",))
    site.put("/header", "x", robots="noindex")
    site.put("/copy", "x", head='<link rel="canonical" href="/original">')
    site.put("/original", "x")
    site.put("/from-hidden", "x")
    events = await listing(site)
    assert paths(site, events) == ["/", "/from-hidden", "/original"]
    known = {
        site.url(path): KnownItem(site.url(path), "1", "", "doc", ItemState.ACTIVE) for path in ("/hidden", "/copy")
    }
    assert sorted(paths(site, await listing(site, known), RemovedItem)) == ["/copy", "/hidden"]


async def test_redirects_stay_on_the_site_and_a_move_for_good_removes_the_old_address(site: LocalSite) -> None:
    site.put("/", "start", links=("/old", "/login", "/away"))
    for name in ("old", "login", "away"):
        site.put(f"/{name}", name)
    known = remember(await listing(site))
    site.put("/new", "moved")
    site.put("/form", "log in")
    site.pages["/old"] = Page(status=301, headers={"Location": "/new"})
    site.pages["/login"] = Page(status=302, headers={"Location": "/form"})
    site.pages["/away"] = Page(status=301, headers={"Location": "http://127.0.0.1:1/x"})
    events = await listing(site, known)
    assert paths(site, events, RemovedItem) == ["/old"]
    assert "/new" in paths(site, events)
    assert paths(site, events, FailedItem) == ["/login", "/away"]


async def test_private_addresses_are_refused_at_the_start_and_at_each_redirect(site: LocalSite) -> None:
    site.put("/", "start")
    with pytest.raises(PermissionDeniedError) as caught:
        await listing(site, settings=replace(SETTINGS, allowed_networks=()))
    assert caught.value.reason == "URL_ADDRESS_FORBIDDEN"
    assert site.requests == []
    site.pages["/"] = Page(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
    with pytest.raises(PermissionDeniedError):
        await listing(site)


async def test_sitemap_names_the_pages_and_spares_those_that_have_not_changed(site: LocalSite) -> None:
    def sitemap(*entries: tuple[str, str]) -> bytes:
        lines = "".join(f"<url><loc>{site.url(path)}</loc><lastmod>{at}</lastmod></url>" for path, at in entries)
        return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{lines}</urlset>'.encode()

    site.put("/a", "one", links=("/not-in-the-sitemap",))
    site.put("/b", "two")
    site.put("/not-in-the-sitemap", "x")
    index = f"<sitemapindex><sitemap><loc>{site.url('/part.xml.gz')}</loc></sitemap></sitemapindex>".encode()
    site.pages["/sitemap.xml"] = Page(index, media_type="application/xml")
    site.pages["/part.xml.gz"] = Page(gzip.compress(sitemap(("/a", "2026-01-01"), ("/b", "2026-01-01"))))
    first = await listing(site, path="/sitemap.xml")
    assert paths(site, first) == ["/a", "/b"]
    site.requests.clear()
    site.put("/b", "two, changed")
    site.pages["/part.xml.gz"] = Page(gzip.compress(sitemap(("/a", "2026-01-01"), ("/b", "2026-02-02"))))
    second = await listing(site, remember(first), path="/sitemap.xml")
    assert paths(site, second) == ["/a", "/b"]
    assert site.paths() == ["/robots.txt", "/sitemap.xml", "/part.xml.gz", "/b"]


async def test_broken_sitemap_is_an_error_and_not_an_empty_site(site: LocalSite) -> None:
    site.pages["/sitemap.xml"] = Page(b"<urlset><url><loc>http://", media_type="application/xml")
    with pytest.raises(UnavailableError) as caught:
        await listing(site, path="/sitemap.xml")
    assert caught.value.reason == "SOURCE_SITEMAP_INVALID"


async def test_crawl_that_goes_on_passes_by_what_this_sync_has_looked_at(site: LocalSite) -> None:
    site.put("/", "start", links=("/a",))
    site.put("/a", "one", links=("/b",))
    site.put("/b", "two")
    known = {key: replace(item, is_current=True) for key, item in remember(await listing(site)).items()}
    del known[site.url("/b")]
    site.requests.clear()
    events = await listing(site, known)
    assert paths(site, events) == ["/", "/a", "/b"]
    assert site.paths() == ["/robots.txt", "/", "/b"], "the first page tells whether it is a sitemap"
    assert paths(site, await listing(site, known, max_pages=2)) == ["/", "/a"]


async def test_content_is_that_of_the_page_listed_last(site: LocalSite) -> None:
    site.put("/", "start", links=("/a",))
    site.pages["/a"] = Page(b"%PDF-1.4 bytes", media_type="application/pdf")
    bodies = {}
    registry = SettingsConnectorRegistry(ConnectorSettings(web=SETTINGS))
    async with registry.connect("tenant", WebPlace(site.url())) as connector:
        items = []
        async for event in connector.list("", {}, timeout_seconds=30):
            if isinstance(event, SourceItem):
                items.append(event)
                bodies[event.display_name] = b"".join(
                    [piece async for piece in connector.open(event, timeout_seconds=5)]
                )
        # One that is not at hand any more is fetched again.
        again = b"".join([piece async for piece in connector.open(items[0], timeout_seconds=5)])
    assert bodies["a.pdf"] == b"%PDF-1.4 bytes"
    assert b"start" in again


async def test_styles_and_pictures_are_not_documents(site: LocalSite) -> None:
    site.put("/", "start", links=("/style.css", "/x.png", "/data.pdf"))
    site.pages["/style.css"] = Page(b"a{}", media_type="text/css")
    site.pages["/x.png"] = Page(b"\x89PNG", media_type="image/png")
    site.pages["/data.pdf"] = Page(b"%PDF-1.4", media_type="application/pdf")
    assert paths(site, await listing(site)) == ["/", "/data.pdf"]


async def test_path_prefix_keeps_the_crawl_in_its_part(site: LocalSite) -> None:
    site.put("/docs/", "start", links=("/docs/a", "/blog/b"))
    site.put("/docs/a", "one")
    site.put("/blog/b", "two")
    assert paths(site, await listing(site, path="/docs/", path_prefix="/docs/")) == ["/docs/", "/docs/a"]
    assert "/blog/b" not in site.paths()


async def test_redirect_into_what_the_rules_forbid_is_not_followed(site: LocalSite) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /private\n", media_type="text/plain")
    site.put("/", "start", links=("/open",))
    site.pages["/open"] = Page(status=302, headers={"Location": "/private/a"})
    site.put("/private/a", "secret")
    events = await listing(site)
    assert paths(site, events) == ["/"]
    assert paths(site, events, FailedItem) == ["/open"]
    assert "/private/a" not in site.paths()


@pytest.mark.parametrize("packing", ["zstd", "br", "gzip, gzip", "ZSTD"])
async def test_page_in_a_packing_that_has_no_bound_fails_before_it_is_unpacked(site: LocalSite, packing: str) -> None:
    # 49 KB of zstd unpacked to 4.6 GiB of memory before the first byte was counted.
    site.put("/", "start", links=("/bomb", "/small"))
    site.pages["/bomb"] = Page(b"\x28\xb5\x2f\xfd", headers={"Content-Encoding": packing})
    site.put("/small", "one")
    events = await listing(site)
    assert paths(site, events) == ["/", "/small"]
    [failed] = [event for event in events if isinstance(event, FailedItem)]
    assert failed.reason == "URL_PACKING_REFUSED"
    assert {headers["accept-encoding"] for _, headers in site.requests} == {"gzip"}


async def test_larger_page_than_the_bound_fails_alone(site: LocalSite) -> None:
    site.put("/", "start", links=("/large", "/small"))
    site.pages["/large"] = Page(b"x" * 100_000, media_type="text/plain")
    site.put("/small", "one")
    events = await listing(site, settings=replace(SETTINGS, max_page_bytes=50_000))
    assert paths(site, events) == ["/", "/small"]
    [failed] = [event for event in events if isinstance(event, FailedItem)]
    assert failed.reason == "URL_TOO_LARGE"


async def test_source_that_asks_for_more_than_the_configuration_allows_is_refused(site: LocalSite) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await listing(site, max_pages=SETTINGS.max_pages + 1)
    assert caught.value.reason == "SOURCE_LIMIT_TOO_LARGE"


async def test_circle_of_redirects_ends(site: LocalSite) -> None:
    site.put("/", "start", links=("/loop",))
    site.pages["/loop"] = Page(status=302, headers={"Location": "/loop"})
    events = await listing(site)
    [failed] = [event for event in events if isinstance(event, FailedItem)]
    assert failed.reason == "URL_REDIRECTS"
