"""What a web page says to robots: links, canonical address, and what it forbids."""

from dataclasses import dataclass

import httpx
from selectolax.lexbor import LexborHTMLParser

MAX_SCANNED_BYTES = 4 * 1024 * 1024
MAX_LINKS = 300
HTML_MEDIA_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_AGENTS = ("robots", "corpusmesh")


@dataclass(frozen=True, slots=True)
class PageSigns:
    """What a page says to robots.

    Attributes:
        links: Pages that it links to, without those it tells robots not to follow; normalised, each once.
        canonical: Address that the page says it has; "" where it says nothing.
        is_indexed: Whether it may be kept.
    """

    links: tuple[str, ...] = ()
    canonical: str = ""
    is_indexed: bool = True


def normal_url(url: str, base: httpx.URL | None = None) -> str:
    """Write a URL in one way.

    Args:
        url: The URL, also a relative one.
        base: What it is relative to.

    Returns:
        The URL without fragment and default port; "" if it is none of http or https.
    """
    try:
        parsed = base.join(url.strip()) if base is not None else httpx.URL(url.strip())
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return ""
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        return ""
    return str(parsed.copy_with(fragment=None, path=parsed.path or "/"))


def same_origin(first: httpx.URL, second: httpx.URL) -> bool:
    """Tell whether two URLs have scheme, host and port in common."""
    return (first.scheme, first.raw_host, first.port) == (second.scheme, second.raw_host, second.port)


def read_page(content: bytes, url: httpx.URL, robots_header: str) -> PageSigns:
    """Read a page.

    Args:
        content: Its HTML; only the first 4 MiB are looked at.
        url: Where it was found.
        robots_header: Its header X-Robots-Tag.

    Returns:
        What it says.
    """
    tree = LexborHTMLParser(content[:MAX_SCANNED_BYTES])
    orders = _orders(robots_header)
    for node in tree.css("meta[name]"):
        if (node.attributes.get("name") or "").lower() in _AGENTS:
            orders |= _orders(node.attributes.get("content") or "")
    base_node = tree.css_first("base[href]")
    base_text = normal_url(base_node.attributes.get("href") or "", url) if base_node is not None else ""
    base = httpx.URL(base_text) if base_text else url
    canonical = ""
    for node in tree.css("link[rel][href]"):
        if "canonical" in (node.attributes.get("rel") or "").lower().split():
            canonical = normal_url(node.attributes.get("href") or "", base)
            break
    links: dict[str, None] = {}
    if not orders & {"nofollow", "none"}:
        for node in tree.css("a[href]"):
            if "nofollow" in (node.attributes.get("rel") or "").lower().split():
                continue
            target = normal_url(node.attributes.get("href") or "", base)
            if target and same_origin(httpx.URL(target), url):
                links.setdefault(target)
            if len(links) >= MAX_LINKS:
                break
    return PageSigns(tuple(links), canonical, is_indexed=not orders & {"noindex", "none"})


def header_forbids_index(robots_header: str) -> bool:
    """Tell whether the header X-Robots-Tag forbids to keep a document."""
    return bool(_orders(robots_header) & {"noindex", "none"})


def _orders(text: str) -> set[str]:
    orders: set[str] = set()
    for part in text.lower().split(","):
        agent, separator, rest = part.partition(":")
        if not separator:
            orders.add(part.strip())
        elif agent.strip() in _AGENTS:
            orders.add(rest.strip())
    return orders
