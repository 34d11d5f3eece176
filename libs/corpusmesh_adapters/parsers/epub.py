"""EPUB 2 and 3: the spine's pages by the HTML walker, the table of contents as the outline."""

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from lxml import etree
from selectolax.lexbor import LexborNode

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.html_blocks import HtmlWalker, declared_encoding
from corpusmesh_adapters.parsers.html_tree import parse_html_tree
from corpusmesh_adapters.parsers.packages import open_package, read_member, xml_root
from corpusmesh_core.documents import OutlineEntry, ParsedDocument
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_DISGUISES = frozenset(["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"])
_PAGE_TYPES = frozenset(["application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"])
_MAX_OUTLINE_DEPTH = 20
_NCX = "application/x-dtbncx+xml"
_META = {"title": "title", "creator": "author", "language": "language", "publisher": "publisher", "date": "created"}


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry of the manifest."""

    name: str
    media_type: str
    properties: str


def parse_epub(source: Source) -> ParsedDocument:
    """Read a book.

    Args:
        source: The document.

    Returns:
        The blocks of its pages in the order of the spine; the outline from its navigation.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    with open_package(source.content, source.limits) as package:
        names = set(package.namelist())
        if _ENCRYPTION in names and not _only_fonts(xml_root(read_member(package, _ENCRYPTION))):
            raise encrypted("by digital rights management", password_helps=False)
        root_name = _root_name(package)
        root = xml_root(read_member(package, root_name), allow_document_type=True)
        items = _manifest(root, posixpath.dirname(root_name))
        builder = DocumentBuilder(Format.EPUB, source.limits, keep_pictures=source.options.keep_pictures)
        pages = [items[key] for key in _spine(root) if key in items and items[key].media_type in _PAGE_TYPES]
        if len(pages) > source.limits.max_pages:
            raise over_limit("max_pages", source.limits.max_pages, f"it has {len(pages)} pages in its spine")
        missing = 0
        for page in pages:
            try:
                content = read_member(package, page.name)
            except DocumentError:
                missing += 1
                continue
            _add_page(builder, content, source, package, page.name)
        if missing:
            builder.warn(f"{missing} pages of the book are missing or damaged.")
        outline = list(_outline(package, items, source.limits))
    metadata = _metadata(root)
    return builder.build(
        title=metadata.pop("title", ""),
        outline=outline,
        metadata=metadata,
        empty_detail=f"its {len(pages)} pages hold pictures at most",
    )


def _add_page(builder: DocumentBuilder, content: bytes, source: Source, package: zipfile.ZipFile, name: str) -> None:
    text = decode(content, declared_encoding(content)).text
    folder = posixpath.dirname(name)

    def find_picture(address: str) -> bytes:
        try:
            return read_member(package, _resolved(folder, address))
        except DocumentError:
            return b""

    HtmlWalker(builder, source, find_picture=find_picture).walk_tree(parse_html_tree(text, source.limits))
    # A page of a book starts a section of its own only where it says so by a heading: the path goes on.


def _only_fonts(root: etree._Element) -> bool:
    methods = {str(node.get("Algorithm", "")) for node in root.iter() if _local(node) == "EncryptionMethod"}
    return methods <= _FONT_DISGUISES


def _root_name(package: zipfile.ZipFile) -> str:
    root = xml_root(read_member(package, _CONTAINER))
    for node in root.iter():
        if _local(node) == "rootfile" and node.get("full-path"):
            return str(node.get("full-path"))
    raise corrupt("its container names no package file")


def _manifest(root: etree._Element, folder: str) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for node in root.iter():
        if _local(node) == "item":
            name = _resolved(folder, str(node.get("href", "")))
            items[str(node.get("id", ""))] = _Item(
                name, str(node.get("media-type", "")), f" {node.get('properties', '')} "
            )
    return items


def _spine(root: etree._Element) -> Iterator[str]:
    for node in root.iter():
        # Parts that are not linear (answers, notes) are read too: they hold text.
        if _local(node) == "itemref":
            yield str(node.get("idref", ""))


def _metadata(root: etree._Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in root.iter():
        key = _META.get(_local(node))
        if key and (node.text or "").strip() and node.tag != key:
            found.setdefault(key, one_line(node.text or ""))
    return found


def _outline(package: zipfile.ZipFile, items: dict[str, _Item], limits: ParseLimits) -> Iterator[OutlineEntry]:
    navigation = next((item for item in items.values() if " nav " in item.properties), None)
    contents = next((item for item in items.values() if item.media_type == _NCX), None)
    try:
        if navigation is not None:
            yield from _from_navigation(read_member(package, navigation.name), limits)
        elif contents is not None:
            points = xml_root(read_member(package, contents.name), allow_document_type=True)
            yield from _from_points(points)
    except DocumentError:
        return


def _from_navigation(content: bytes, limits: ParseLimits) -> Iterator[OutlineEntry]:
    tree = parse_html_tree(decode(content).text, limits)
    for section in tree.css("nav"):
        if section.attributes.get("epub:type", "toc") == "toc":
            for entry in section.css("li > a, li > span"):
                title = one_line(entry.text(deep=True))
                if title:
                    yield OutlineEntry(title, _list_depth(entry), 0)
            return


def _list_depth(node: LexborNode) -> int:
    depth, above = 0, node.parent
    while above is not None and above.tag != "nav" and depth < _MAX_OUTLINE_DEPTH:
        depth += above.tag in ("ol", "ul")
        above = above.parent
    return max(depth, 1)


def _from_points(root: etree._Element) -> Iterator[OutlineEntry]:
    for node in root.iter():
        if _local(node) == "navPoint":
            label = next((one_line(each.text or "") for each in node.iter() if _local(each) == "text"), "")
            level = sum(_local(above) == "navPoint" for above in node.iterancestors()) + 1
            if label:
                yield OutlineEntry(label, level, 0)


def _resolved(folder: str, address: str) -> str:
    # A member's name, never a path of this machine.
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))


def _local(node: etree._Element) -> str:
    return str(node.tag).rpartition("}")[2]
