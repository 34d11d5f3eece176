"""Sitemaps: XML or plain text, packed or not, and their indices."""

import zlib
from dataclasses import dataclass
from xml.parsers import expat

MAX_SITEMAP_BYTES = 50 * 1024 * 1024
"""Longest sitemap, unpacked (sitemaps.org protocol)."""
MAX_SITEMAP_PAGES = 50_000
_GZIP = b"\x1f\x8b"
_MAX_TEXT_CHARACTERS = 4096
_HEAD_BYTES = 4096


class SitemapError(ValueError):
    """A sitemap that cannot be read."""


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """One line of a sitemap.

    Attributes:
        url: Page, or nested sitemap.
        changed: What the site says of its last change, as it stands; "" for nothing.
    """

    url: str
    changed: str = ""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What a sitemap holds.

    Attributes:
        pages: Pages, in its order.
        nested: Sitemaps that an index names.
    """

    pages: tuple[SitemapEntry, ...] = ()
    nested: tuple[SitemapEntry, ...] = ()


def unpack(content: bytes) -> bytes:
    """Unpack a sitemap, where it is packed.

    Args:
        content: What the server gave.

    Returns:
        Its text.

    Raises:
        SitemapError: If it is cut off or too long.
    """
    if not content.startswith(_GZIP):
        return content
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(content, MAX_SITEMAP_BYTES + 1)
    except zlib.error as error:
        raise SitemapError("it cannot be unpacked") from error
    if len(text) > MAX_SITEMAP_BYTES:
        raise SitemapError(f"it is longer than {MAX_SITEMAP_BYTES} bytes")
    if not stream.eof:
        raise SitemapError("it is cut off")
    return text


def is_sitemap(content: bytes) -> bool:
    """Tell whether content is a sitemap in XML.

    Args:
        content: Beginning of the content, unpacked.

    Returns:
        True if its root looks like one.
    """
    head = content[:_HEAD_BYTES]
    return b"<urlset" in head or b"<sitemapindex" in head


def parse_sitemap(content: bytes) -> Sitemap:
    """Read a sitemap in XML.

    Args:
        content: Its text, unpacked.

    Returns:
        What it holds, at most 50,000 lines.

    Raises:
        SitemapError: If it is no XML, or declares entities.
    """
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise SitemapError("it is no well-formed XML") from error
    return Sitemap(tuple(reader.pages), tuple(reader.nested))


def _refuse_entity(*_: object) -> None:
    raise SitemapError("it declares entities")


class _Reader:
    def __init__(self) -> None:
        self.pages: list[SitemapEntry] = []
        self.nested: list[SitemapEntry] = []
        self._field = ""
        self._values: dict[str, str] = {}

    def start(self, name: str, _: object) -> None:
        local = name.rsplit(" ", 1)[-1]
        if local in ("url", "sitemap"):
            self._values = {}
        # Extensions for images and videos have a `loc` of their own, in namespaces such as `…/sitemap-image/1.1`.
        is_own = "sitemap-" not in name.rpartition(" ")[0]
        self._field = local if local in ("loc", "lastmod") and is_own else ""

    def text(self, data: str) -> None:
        if self._field:
            self._values[self._field] = (self._values.get(self._field, "") + data)[:_MAX_TEXT_CHARACTERS]

    def end(self, name: str) -> None:
        local = name.rsplit(" ", 1)[-1]
        self._field = ""
        url = self._values.get("loc", "").strip()
        if local not in ("url", "sitemap") or not url:
            return
        entries = self.pages if local == "url" else self.nested
        if len(entries) < MAX_SITEMAP_PAGES:
            entries.append(SitemapEntry(url, self._values.get("lastmod", "").strip()[:64]))
        self._values = {}
