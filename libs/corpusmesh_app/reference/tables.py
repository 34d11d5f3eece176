"""Markdown tables of the reference pages."""

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `python -m corpusmesh_app.reference`; do not edit. -->"


def one_line(text: str) -> str:
    """Make a text fit into a cell.

    Args:
        text: Any text.

    Returns:
        The text on one line, with its bars escaped.
    """
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Make a table.

    Args:
        header: Names of the columns.
        rows: One text a column.

    Returns:
        Its lines, with an empty one at the end.
    """
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines.extend(f"| {' | '.join(one_line(cell) for cell in row)} |" for row in rows)
    return [*lines, ""]
