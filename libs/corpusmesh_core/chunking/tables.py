"""The text and HTML forms of a table."""

import html
from collections.abc import Iterable, Sequence

from corpusmesh_core.documents import CellSpan, Table

CELL_SEPARATOR = " | "


def row_text(cells: Sequence[str]) -> str:
    """Write one row as one line.

    Args:
        cells: Cell texts, one line each; empty where a merged neighbour covers the cell.

    Returns:
        The cells joined by " | ", without the empty ones at the end.
    """
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return CELL_SEPARATOR.join(cells[:end])


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """Write a table as text.

    Args:
        rows: Rows of cell texts; a merged cell's text stands once, where the cell begins.

    Returns:
        One line per row that holds anything, see `row_text`.
    """
    return "\n".join(line for line in map(row_text, rows) if line)


def table_html(table: Table) -> str:
    """Write a table as HTML.

    Args:
        table: The cells and their spans.

    Returns:
        One `table` element without attributes but `rowspan` and `colspan`; header cells are `th`, cell texts escaped,
        covered places left out.
    """
    spans = {(span.row, span.column): span for span in table.spans}
    covered = {
        (row, column)
        for span in table.spans
        for row in range(span.row, min(span.row + span.row_count, len(table.rows)))
        for column in range(span.column, min(span.column + span.column_count, len(table.rows[row])))
    } - spans.keys()
    lines: list[str] = []
    for number, cells in enumerate(table.rows):
        tag = "th" if number < table.header_row_count else "td"
        kept = "".join(
            f"<{tag}{_span_attributes(spans.get((number, column)))}>{html.escape(text)}</{tag}>"
            for column, text in enumerate(cells)
            if (number, column) not in covered
        )
        lines.append(f"<tr>{kept}</tr>")
    return f"<table>{''.join(lines)}</table>"


def part_of_table(table: Table, rows: Sequence[int]) -> Table:
    """Take some rows of a table, its header rows among them.

    Args:
        table: The whole table.
        rows: Numbers of the rows to take, ascending.

    Returns:
        A smaller table; a cell that began in a row left out gets its text in the first row that it covers here.
    """
    taken = sorted({*range(table.header_row_count), *rows})
    place = {number: index for index, number in enumerate(taken)}
    cells = [list(table.rows[number]) for number in taken]
    spans: list[CellSpan] = []
    for span in table.spans:
        kept = [place[number] for number in range(span.row, span.row + span.row_count) if number in place]
        if not kept:
            continue
        if span.row not in place:
            cells[kept[0]][span.column] = table.rows[span.row][span.column]
        if len(kept) > 1 or span.column_count > 1:
            spans.append(CellSpan(kept[0], span.column, kept[-1] - kept[0] + 1, span.column_count))
    return Table(tuple(map(tuple, cells)), table.header_row_count, tuple(spans))


def filled_cells(table: Table) -> list[list[str]]:
    """Give every place that a merged cell covers the text of that cell.

    Args:
        table: The cells and their spans.

    Returns:
        Rows of cell texts.
    """
    cells = [list(row) for row in table.rows]
    for span in table.spans:
        text = table.rows[span.row][span.column]
        for row in range(span.row, min(span.row + span.row_count, len(cells))):
            for column in range(span.column, min(span.column + span.column_count, len(cells[row]))):
                cells[row][column] = text
    return cells


def _span_attributes(span: CellSpan | None) -> str:
    if span is None:
        return ""
    rows = f' rowspan="{span.row_count}"' if span.row_count > 1 else ""
    columns = f' colspan="{span.column_count}"' if span.column_count > 1 else ""
    return rows + columns
