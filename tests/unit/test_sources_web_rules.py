"""What a web site tells robots: robots.txt, sitemaps, and pages."""

import gzip

import httpx
import pytest

from corpusmesh_adapters.connectors.web.pages import normal_url, read_page
from corpusmesh_adapters.connectors.web.sitemap import (
    MAX_SITEMAP_BYTES,
    SitemapEntry,
    SitemapError,
    is_sitemap,
    parse_sitemap,
    unpack,
)
from corpusmesh_core.sources.robots import parse_robots

ROBOTS = """
# comment
User-agent: other
Disallow: /

User-Agent: *
User-agent: nobody
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Disallow: /a*b*c$
Disallow: /caf%C3%A9
Crawl-delay: 2.5
Sitemap: https://example.org/sitemap.xml
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", True),
        ("/private", False),
        ("/private/x", False),
        ("/private/open/x", True),
        ("/x.pdf", False),
        ("/x.pdf?y", True),
        ("/axbxc", False),
        ("/axbxcx", True),
        ("/abcbc", False),
        ("/ac", True),
        ("/café", False),
        ("/caf%C3%A9/menu", False),
        ("/robots.txt", True),
    ],
)
def test_longest_rule_of_a_robots_file_decides(path: str, expected: bool) -> None:
    assert parse_robots(ROBOTS, "corpusmesh").allows(path) is expected


def test_group_that_names_the_robot_stands_alone() -> None:
    rules = parse_robots("User-agent: *\nDisallow: /\n\nUser-agent: CorpusMesh/1.0\nDisallow: /x\n", "corpusmesh")
    assert rules.allows("/y")
    assert not rules.allows("/x")


def test_robots_file_tells_its_delay() -> None:
    assert parse_robots(ROBOTS, "corpusmesh").delay_seconds == 2.5
    assert parse_robots("User-agent: *\nCrawl-delay: soon\n", "corpusmesh").delay_seconds == 0.0


@pytest.mark.parametrize("text", ["", "Disallow: /", "User-agent: *\nDisallow:\n", "\ufeffUser-agent: *\nAllow: /"])
def test_robots_file_without_a_rule_for_us_allows_all(text: str) -> None:
    assert parse_robots(text, "corpusmesh").allows("/x")


def test_equally_long_rules_allow() -> None:
    assert parse_robots("User-agent: *\nDisallow: /page\nAllow: /page\n", "corpusmesh").allows("/page")


def test_rules_with_many_stars_end_soon() -> None:
    pattern = "/" + "a*" * 500 + "b$"
    rules = parse_robots(f"User-agent: *\nDisallow: {pattern}\n", "corpusmesh")
    assert rules.allows("/" + "a" * 1500)


SITEMAP = b"""<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc> https://example.org/a </loc><lastmod>2026-01-01</lastmod>
    <image:image><image:loc>https://example.org/a.png</image:loc></image:image></url>
  <url><loc>https://example.org/b?x=1&amp;y=2</loc></url>
  <url></url>
</urlset>"""


def test_sitemap_gives_pages_and_their_last_change() -> None:
    assert parse_sitemap(SITEMAP).pages == (
        SitemapEntry("https://example.org/a", "2026-01-01"),
        SitemapEntry("https://example.org/b?x=1&y=2"),
    )
    assert is_sitemap(SITEMAP)
    assert not is_sitemap(b"<html><body>urlset</body></html>")


def test_sitemap_index_names_nested_ones() -> None:
    index = b"<sitemapindex><sitemap><loc>https://example.org/1.xml.gz</loc></sitemap></sitemapindex>"
    assert parse_sitemap(index).nested == (SitemapEntry("https://example.org/1.xml.gz"),)


def test_packed_sitemap_is_unpacked_within_bounds() -> None:
    assert unpack(gzip.compress(SITEMAP)) == SITEMAP
    assert unpack(SITEMAP) == SITEMAP
    with pytest.raises(SitemapError, match="longer"):
        unpack(gzip.compress(b"x" * (MAX_SITEMAP_BYTES + 1)))
    with pytest.raises(SitemapError, match="cut off"):
        unpack(gzip.compress(SITEMAP * 100)[:-20])
    with pytest.raises(SitemapError):
        unpack(b"\x1f\x8bgarbage")


def test_sitemap_with_entities_or_broken_xml_is_refused() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
    with pytest.raises(SitemapError, match="entities"):
        parse_sitemap(bomb)
    with pytest.raises(SitemapError, match="well-formed"):
        parse_sitemap(b"<urlset><url>")


PAGE = b"""<html><head><base href="/docs/"><link rel="canonical" href="one">
<meta name="robots" content="max-image-preview:large"></head><body>
<a href="two#part">2</a><a href="two">again</a><a href="/three?x=1">3</a><a rel="nofollow ugc" href="four">4</a>
<a href="https://other.example/">other</a><a href="mailto:x@example.org">mail</a><a href="http://[">broken</a>
<a href="//example.org:8443/five">other port</a><a href="javascript:alert(1)">script</a></body></html>"""
URL = httpx.URL("https://example.org/docs/start")


def test_page_gives_links_of_its_own_site_and_its_canonical_address() -> None:
    signs = read_page(PAGE, URL, "")
    assert signs.links == ("https://example.org/docs/two", "https://example.org/three?x=1")
    assert (signs.canonical, signs.is_indexed) == ("https://example.org/docs/one", True)


@pytest.mark.parametrize(
    ("meta", "header", "is_indexed", "has_links"),
    [
        ("noindex", "", False, True),
        ("nofollow", "", True, False),
        ("none", "", False, False),
        ("", "noindex, nofollow", False, False),
        ("", "otherbot: noindex", True, True),
        ("", "corpusmesh: noindex", False, True),
        ("NoIndex , follow", "", False, True),
    ],
)
def test_page_and_header_forbid_to_keep_or_to_follow(meta: str, header: str, is_indexed: bool, has_links: bool) -> None:
    page = f'<html><head><meta name="ROBOTS" content="{meta}"></head><body><a href="/x">x</a></body></html>'
    signs = read_page(page.encode(), URL, header)
    assert (signs.is_indexed, bool(signs.links)) == (is_indexed, has_links)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Example.org:443/a/../b#c", "https://example.org/b"),
        ("http://example.org", "http://example.org/"),
        ("ftp://example.org/x", ""),
        ("https://user:secret@example.org/", ""),
        ("not a url", ""),
    ],
)
def test_urls_are_written_in_one_way(url: str, expected: str) -> None:
    assert normal_url(url) == expected
