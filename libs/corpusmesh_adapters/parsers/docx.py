"""DOCX by mammoth (to HTML, then the HTML walker), completed from the package's XML."""

import io
import re
import zipfile
from collections.abc import Iterator

import mammoth
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.html_blocks import TITLE_CLASS, HtmlWalker
from corpusmesh_adapters.parsers.packages import open_package, read_member, refuse_entities
from corpusmesh_core.documents import BlockKind, ParsedDocument

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATH_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_CORE_FIELDS = {
    "{http://purl.org/dc/elements/1.1/}title": "title",
    "{http://purl.org/dc/elements/1.1/}creator": "author",
    "{http://purl.org/dc/elements/1.1/}subject": "subject",
    "{http://purl.org/dc/terms/}created": "created",
    "{http://purl.org/dc/terms/}modified": "modified",
}
_DOCUMENT = "word/document.xml"
_SPACE = re.compile(r"\s+")
_MAX_HEADING_LEVEL = 6


def parse_docx(source: Source) -> ParsedDocument:
    """Read a Word document.

    Args:
        source: The document.

    Returns:
        Headings by style or outline level, paragraphs, lists, tables, notes and text boxes in order; running heads
        and feet once at the end. The format has no pages.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    with open_package(source.content, source.limits) as package:
        refuse_entities(package)
        names = set(package.namelist())
        converted = mammoth.convert_to_html(
            io.BytesIO(source.content),
            style_map=_style_map(package, names),
            convert_image=mammoth.images.img_element(_no_image),
        )
        builder = DocumentBuilder(Format.DOCX, source.limits)
        walker = HtmlWalker(builder, source.limits)
        walker.walk_tree(LexborHTMLParser(converted.value))
        if _DOCUMENT in names:
            _add_missed(builder, _xml(package, _DOCUMENT))
        _add_running_text(builder, package, names)
        metadata = _core_properties(package, names)
        embedded = sorted(name for name in names if name.startswith("word/embeddings/"))
    if embedded:
        builder.warn(f"{len(embedded)} embedded files were not read.")
        metadata["embedded_file_count"] = str(len(embedded))
    title = metadata.pop("title", "") or builder.first_text(BlockKind.TITLE)
    return builder.build(title=title, metadata=metadata, empty_detail="it has pictures at most")


def _no_image(_image: object) -> dict[str, str]:
    # Pictures would travel through the HTML as data addresses; mammoth adds the alternative text by itself.
    return {}


def _xml(package: zipfile.ZipFile, name: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=True)
    root = etree.fromstring(read_member(package, name), parser)
    return root if root is not None else etree.Element("empty")


def _style_map(package: zipfile.ZipFile, names: set[str]) -> str:
    lines = [f"p[style-name='Title'] => p.{TITLE_CLASS}:fresh"]
    if "word/styles.xml" not in names:
        return lines[0]
    styles = {
        style.get(f"{_W}styleId", ""): style
        for style in _xml(package, "word/styles.xml").iter(f"{_W}style")
        if style.get(f"{_W}type") == "paragraph"
    }
    for style_id, style in styles.items():
        name = _value(style.find(f"{_W}name"))
        level = _outline_level(styles, style_id)
        if name and level is not None and name != "Title":
            escaped = name.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(f"p[style-name='{escaped}'] => h{min(level + 1, _MAX_HEADING_LEVEL)}:fresh")
    return "\n".join(lines)


def _outline_level(styles: dict[str, etree._Element], style_id: str) -> int | None:
    # A style inherits its outline level, so a company's own "Chapter" style based on "heading 1" is a heading too.
    for _ in range(16):
        style = styles.get(style_id)
        if style is None:
            return None
        level = _value(style.find(f"{_W}pPr/{_W}outlineLvl"))
        if level.isdecimal():
            return int(level) if int(level) < 9 else None
        style_id = _value(style.find(f"{_W}basedOn"))
    return None


def _value(element: etree._Element | None) -> str:
    return "" if element is None else str(element.get(f"{_W}val", ""))


def _paragraphs(root: etree._Element) -> Iterator[str]:
    for paragraph in root.iter(f"{_W}p"):
        parts = (node.text or "" for node in paragraph.iter(f"{_W}t", _MATH_TEXT))
        text = "".join(parts)
        if text.strip():
            yield text


def _add_missed(builder: DocumentBuilder, root: etree._Element) -> None:
    """Add paragraphs that the conversion left out (formulas, unusual containers), so that no text is lost."""
    held = _SPACE.sub("", builder.text())
    missed: list[str] = []
    for text in _paragraphs(root):
        bare = _SPACE.sub("", text)
        if bare not in held and not any(bare in other for other in missed[-3:]):
            missed.append(bare)
            builder.add(BlockKind.PARAGRAPH, text)
    if missed:
        builder.warn(f"{len(missed)} paragraphs with formulas or unusual parts stand at the end, out of order.")


def _add_running_text(builder: DocumentBuilder, package: zipfile.ZipFile, names: set[str]) -> None:
    for prefix, kind in (("word/header", BlockKind.HEADER), ("word/footer", BlockKind.FOOTER)):
        seen: set[str] = set()
        for name in sorted(names):
            if name.startswith(prefix) and name.endswith(".xml"):
                for text in _paragraphs(_xml(package, name)):
                    if text not in seen:
                        seen.add(text)
                        builder.add(kind, text)


def _core_properties(package: zipfile.ZipFile, names: set[str]) -> dict[str, str]:
    if "docProps/core.xml" not in names:
        return {}
    root = _xml(package, "docProps/core.xml")
    return {_CORE_FIELDS[str(element.tag)]: element.text or "" for element in root if str(element.tag) in _CORE_FIELDS}
