"""Reads the values of Office charts as tables (ECMA-376 Part 1, 21.2)."""

from lxml import etree

from corpusmesh_adapters.parsers.builder import DocumentBuilder
from corpusmesh_core.documents import BlockKind, Box

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_A_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_MAX_POINTS = 10_000


def add_chart(builder: DocumentBuilder, root: etree._Element, *, page: int = 0, boxes: tuple[Box, ...] = ()) -> None:
    """Add a chart's title as a caption and its series as a table, a column each.

    Args:
        builder: Where to.
        root: The chart's part.
        page: Page from 1, 0 where there are none.
        boxes: Where it stands.
    """
    title = root.find(f"{_C}chart/{_C}title")
    if title is not None:
        builder.add(BlockKind.CAPTION, "".join(t.text or "" for t in title.iter(_A_TEXT)), page=page, boxes=boxes)
    for plot in root.iterfind(f"{_C}chart/{_C}plotArea/*"):
        series = plot.findall(f"{_C}ser")
        if not series:
            continue
        names = [_first(each.find(f"{_C}tx")) for each in series]
        categories: dict[int, str] = {}
        for each in series:
            # Every series may name the categories; a scatter chart has x values instead.
            for tag in ("cat", "xVal"):
                categories |= {
                    at: text for at, text in _points(each.find(f"{_C}{tag}")).items() if at not in categories
                }
        values = [_points(each.find(f"{_C}val")) or _points(each.find(f"{_C}yVal")) for each in series]
        count = 1 + max((at for found in [categories, *values] for at in found), default=-1)
        rows = [["", *names]]
        rows += [[categories.get(at, ""), *(found.get(at, "") for found in values)] for at in range(count)]
        if count:
            builder.add_table(rows, header_row_count=1, page=page, boxes=boxes)


def _points(element: etree._Element | None) -> dict[int, str]:
    """Read cached points by index; of categories on several levels, the innermost."""
    found: dict[int, str] = {}
    if element is None:
        return found
    level = element.find(f".//{_C}lvl")
    for point in (level if level is not None else element).iter(f"{_C}pt"):
        index = str(point.get("idx", ""))
        text = _value(point)
        if index.isdecimal() and len(index) < 8 and int(index) < _MAX_POINTS and text:
            found[int(index)] = text
    return found


def _value(point: etree._Element) -> str:
    text = (point.findtext(f"{_C}v") or "").strip()
    try:
        return f"{float(text):.10g}"
    except ValueError:
        return text


def _first(element: etree._Element | None) -> str:
    return "" if element is None else next((v.text or "" for v in element.iter(f"{_C}v")), "")
