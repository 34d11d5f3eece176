"""ODT and ODP: the text document and the presentation of OpenDocument; spreadsheets are read by calamine."""

import re
import zipfile
from collections.abc import Iterable

from lxml import etree

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.odf_text import DRAW, OFFICE, STYLE, SVG, TEXT, OdfText
from corpusmesh_adapters.parsers.packages import open_package, read_member, xml_root
from corpusmesh_core.documents import BlockKind, Box, ParsedDocument

_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_META = {
    "{http://purl.org/dc/elements/1.1/}title": "title",
    "{http://purl.org/dc/elements/1.1/}creator": "author",
    "{http://purl.org/dc/elements/1.1/}subject": "subject",
    "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}creation-date": "created",
    "{http://purl.org/dc/elements/1.1/}date": "modified",
}
_LENGTH = re.compile(r"\A(-?\d+(?:\.\d+)?)(cm|mm|in|pt|pc)\Z")
_POINTS = {"cm": 72 / 2.54, "mm": 72 / 25.4, "in": 72.0, "pt": 1.0, "pc": 12.0}
_ROW_TOLERANCE_POINTS = 8.0
_KIND_OF_CLASS = {
    "title": BlockKind.HEADING,
    "footer": BlockKind.FOOTER,
    "header": BlockKind.HEADER,
    "date-time": BlockKind.FOOTER,
    "page-number": BlockKind.FOOTER,
}


def parse_odf(source: Source, media_type: Format) -> ParsedDocument:
    """Read an OpenDocument text or presentation.

    Args:
        source: The document.
        media_type: ODT or ODP.

    Returns:
        Blocks in reading order; a slide is a page. A text has pages where its program noted the page breaks.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    with open_package(source.content, source.limits) as package:
        names = set(package.namelist())
        manifest = "META-INF/manifest.xml"
        if manifest in names and b"encryption-data" in read_member(package, manifest):
            raise encrypted("an OpenDocument password", password_helps=False)
        root = xml_root(read_member(package, "content.xml"))
        styles = xml_root(read_member(package, "styles.xml")) if "styles.xml" in names else None
        builder = DocumentBuilder(media_type, source.limits, keep_pictures=source.options.keep_pictures)
        text = OdfText(builder, source, package)
        for tree in (styles, root):
            if tree is not None:
                text.learn_styles(tree)
        body = root.find(f"{OFFICE}body")
        if body is None:
            raise corrupt("its content has no body")
        page_count = _add_slides(builder, text, body, source) if media_type is Format.ODP else _add_text(text, body)
        if styles is not None and media_type is Format.ODT:
            _add_running_text(builder, styles)
        metadata = _metadata(package, names)
        if text.embedded_count:
            builder.warn(f"{text.embedded_count} embedded objects were not read.")
    first = BlockKind.HEADING if media_type is Format.ODP else BlockKind.TITLE
    return builder.build(
        title=metadata.pop("title", "") or builder.first_text(first),
        page_count=page_count,
        metadata=metadata,
        empty_detail="it has pictures at most",
    )


def _add_text(text: OdfText, body: etree._Element) -> int:
    text.page = 1 if next(body.iter(f"{TEXT}soft-page-break"), None) is not None else 0
    text.add_content(body)
    return text.page


def _add_slides(builder: DocumentBuilder, text: OdfText, body: etree._Element, source: Source) -> int:
    slides = list(body.iter(f"{DRAW}page"))
    if len(slides) > source.limits.max_pages:
        raise over_limit("max_pages", source.limits.max_pages, f"it has {len(slides)} slides")
    for number, slide in enumerate(slides, 1):
        builder.close_headings(1)
        text.page = number
        shapes = [(shape, _box(shape, number)) for shape in slide if _class(shape) != "notes"]
        for shape, box in sorted(shapes, key=lambda each: _reading_key(*each)):
            if shape.tag == f"{_PRESENTATION}notes":
                continue
            text.kind, text.box = _KIND_OF_CLASS.get(_class(shape)), box
            text.add_frame(shape)
        text.box = None
        for notes in slide.findall(f"{_PRESENTATION}notes"):
            for frame in notes:
                if _class(frame) not in ("page", "header", "footer", "date-time", "page-number"):
                    text.kind = BlockKind.NOTE
                    text.add_frame(frame)
    text.kind = None
    return len(slides)


def _class(shape: etree._Element) -> str:
    return str(shape.get(f"{_PRESENTATION}class", ""))


def _reading_key(shape: etree._Element, box: Box | None) -> tuple[bool, float, float]:
    is_title = _class(shape) == "title"
    if box is None:
        return (not is_title, 0.0, 0.0)
    return (not is_title, round(box.top / _ROW_TOLERANCE_POINTS), box.left)


def _box(shape: etree._Element, page: int) -> Box | None:
    found = [_points(shape.get(f"{SVG}{name}", "")) for name in ("x", "y", "width", "height")]
    left, top, width, height = found
    if left is None or top is None or width is None or height is None:
        return None
    return Box(page, round(left, 1), round(top, 1), round(left + width, 1), round(top + height, 1))


def _points(length: str) -> float | None:
    match = _LENGTH.match(length)
    return float(match.group(1)) * _POINTS[match.group(2)] if match else None


def _add_running_text(builder: DocumentBuilder, styles: etree._Element) -> None:
    for names, kind in (
        (("header", "header-left", "header-first"), BlockKind.HEADER),
        (("footer", "footer-left", "footer-first"), BlockKind.FOOTER),
    ):
        elements = (element for name in names for element in styles.iter(f"{STYLE}{name}"))
        for line in dict.fromkeys(_lines(elements)):
            builder.add(kind, line)


def _lines(elements: Iterable[etree._Element]) -> Iterable[str]:
    for element in elements:
        for paragraph in element.iter(f"{TEXT}p", f"{TEXT}h"):
            yield "".join(str(text) for text in paragraph.itertext())


def _metadata(package: zipfile.ZipFile, names: set[str]) -> dict[str, str]:
    if "meta.xml" not in names:
        return {}
    root = xml_root(read_member(package, "meta.xml"))
    return {_META[str(node.tag)]: node.text or "" for node in root.iter() if str(node.tag) in _META}
