"""The text form of a table, one line per row."""

from collections.abc import Iterable, Sequence

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
        rows: Rows of cell texts.

    Returns:
        One line per row that holds anything, see `row_text`.
    """
    return "\n".join(line for line in map(row_text, rows) if line)
