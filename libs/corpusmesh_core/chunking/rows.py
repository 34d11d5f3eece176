"""Rows of records: what templates for lists of pairs and for data tables read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.places import boxes_of_range
from corpusmesh_core.chunking.tables import filled_cells
from corpusmesh_core.documents import Block, BlockKind, Box, Table

_MAX_NAME_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a table, or one line of fields.

    Attributes:
        cells: Texts of its fields.
        number: Its number from 1 in its table, header rows counted.
        page: Its page; 0 where there are none.
        boxes: Where it stands.
        heading_path: Headings above it.
        confidence: Of its block.
    """

    cells: tuple[str, ...]
    number: int
    page: int
    boxes: tuple[Box, ...]
    heading_path: tuple[str, ...]
    confidence: float

    def block(self, kind: BlockKind, text: str) -> Block:
        """Make a block that stands where the row does.

        Args:
            kind: Its kind.
            text: Its text.

        Returns:
            The block.
        """
        return Block(
            kind,
            text,
            page=self.page,
            boxes=self.boxes,
            heading_path=self.heading_path,
            confidence=self.confidence,
        )


def read_rows(block: Block) -> list[SourceRow]:
    """Read the rows of a block.

    Args:
        block: A table, or a paragraph most of whose lines hold a tab.

    Returns:
        Rows with any text, in order; empty for any other block.
    """
    if block.table is not None:
        return [
            _row(block, cells, number, _row_boxes(block, number))
            for number, cells in enumerate(block.table.rows)
            if any(cells)
        ]
    lines = block.text.split("\n")
    if block.kind is not BlockKind.PARAGRAPH or 2 * sum("\t" in line for line in lines) < len(lines):
        return []
    return list(_lines(block, lines))


def column_names(table: Table) -> list[str]:
    """Name the columns of a table.

    Args:
        table: The cells and their spans.

    Returns:
        One name a column: its header cells joined by "-", merged cells taken for every column that they cover;
        "column N" where there is none, and " (2)" after a name that another column has.
    """
    width = max(map(len, table.rows), default=0)
    header = filled_cells(table)[: table.header_row_count]
    names: dict[str, None] = {}
    counts: dict[str, int] = {}
    for column in range(width):
        parts = [row[column].strip() for row in header if column < len(row) and row[column].strip()]
        name = "-".join(dict.fromkeys(parts))[:_MAX_NAME_CHARACTERS] or f"column {column + 1}"
        unique = name
        while unique in names:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name} ({counts[name]})"
        names[unique] = None
    return list(names)


def find_column(header: Sequence[str], names: frozenset[str]) -> int:
    """Find a column by its name.

    Args:
        header: Texts of a table's first row.
        names: Names in lower case without marks and spaces.

    Returns:
        Its number from 0; -1 if there is none.
    """
    bare = [re.sub(r"[\W_]+", "", text).casefold() for text in header]
    return next((column for column, text in enumerate(bare) if text in names), -1)


def _lines(block: Block, lines: Sequence[str]) -> Iterator[SourceRow]:
    begin = 0
    for number, line in enumerate(lines):
        if line.strip():
            cells = tuple(cell.strip() for cell in line.split("\t"))
            yield _row(block, cells, number, boxes_of_range(block, begin, begin + len(line)))
        begin += len(line) + 1


def _row(block: Block, cells: Sequence[str], index: int, boxes: tuple[Box, ...]) -> SourceRow:
    return SourceRow(tuple(cells), index + 1, block.page, boxes, block.heading_path, block.confidence)


def _row_boxes(block: Block, number: int) -> tuple[Box, ...]:
    assert block.table is not None
    return (block.boxes[number],) if len(block.boxes) == len(block.table.rows) else block.boxes
