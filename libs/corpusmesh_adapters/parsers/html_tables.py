"""Reads HTML tables into grids, spans and nested tables included."""

from selectolax.lexbor import LexborNode

from corpusmesh_adapters.parsers.grids import MAX_COLUMNS, Grid
from corpusmesh_adapters.parsers.html_text import is_dropped, visible_text
from corpusmesh_core.ports.parsing import ParseLimits

_SECTIONS = frozenset({"thead", "tbody", "tfoot"})


def own_rows(table: LexborNode) -> list[LexborNode]:
    """List the rows of a table, those of tables inside its cells left out.

    Args:
        table: A `table` element.

    Returns:
        Its `tr` elements in order, those of its head first.
    """
    heads: list[LexborNode] = []
    bodies: list[LexborNode] = []
    for child in table.iter():
        if child.tag == "tr":
            bodies.append(child)
        elif child.tag in _SECTIONS and not is_dropped(child):
            found = [row for row in child.iter() if row.tag == "tr"]
            (heads if child.tag == "thead" else bodies).extend(found)
    return heads + bodies


def is_layout_table(table: LexborNode, rows: list[LexborNode]) -> bool:
    """Say whether a table only places things on the page.

    Args:
        table: A `table` element.
        rows: Its own rows.

    Returns:
        True if it says so itself or no row has two cells.
    """
    if table.attributes.get("role") in ("presentation", "none"):
        return True
    return all(len(_cells(row)) <= 1 for row in rows)


def table_grid(rows: list[LexborNode], limits: ParseLimits, depth: int) -> tuple[Grid, int | None]:
    """Lay cells out on a grid.

    Args:
        rows: `tr` elements.
        limits: How many rows and cells are allowed, how deep a cell may be nested.
        depth: How deep the table lies.

    Returns:
        The grid, and how many of the first rows are marked as headers; None if none is.

    Raises:
        DocumentError: DOCUMENT_RESOURCE_LIMIT if spans blow the grid up.
    """
    grid = Grid(limits)
    headers: list[bool] = []
    for row in rows:
        cells = _cells(row)
        headers.append(bool(cells) and all(cell.tag == "th" for cell in cells))
        if row.parent is not None and row.parent.tag == "thead":
            headers[-1] = bool(cells)
        grid.start_row()
        for cell in cells:
            grid.add(
                visible_text(cell, depth, limits.max_depth),
                column_count=_span(cell, "colspan", MAX_COLUMNS),
                row_count=_span(cell, "rowspan", limits.max_rows),
            )
    leading = next((index for index, is_header in enumerate(headers) if not is_header), len(headers))
    return grid, leading or None


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th") and not is_dropped(cell)]


def _span(cell: LexborNode, name: str, most: int) -> int:
    value = (cell.attributes.get(name) or "").strip()
    return max(1, min(int(value), most)) if value.isdecimal() and len(value) < 8 else 1
