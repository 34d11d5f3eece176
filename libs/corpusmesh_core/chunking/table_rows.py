"""Template `table`: rows of data, each as `- column: value` lines with typed attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.cell_types import CellType, infer_type, typed_text
from corpusmesh_core.chunking.edits import DISABLED_ATTRIBUTE, EDITS_ATTRIBUTE
from corpusmesh_core.chunking.groups import Group
from corpusmesh_core.chunking.rows import SourceRow, column_names, read_rows
from corpusmesh_core.chunking.settings import BudgetSettings, invalid_setting, require_choice, require_range
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate, bounded_warnings
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

COLUMN_ROLES = ("indexed", "metadata", "both")

_MAX_ROWS_PER_CHUNK = 100
_MAX_ATTRIBUTES = 32
_MAX_ATTRIBUTE_CHARACTERS = 200
_NEVER_BREAK = 1 << 30
_OWN_ATTRIBUTES = frozenset({
    "row", "column_types", "table_html", DISABLED_ATTRIBUTE, EDITS_ATTRIBUTE,
    "block_kind", "parent", "picture", "confidence", "edited",
})  # fmt: skip
"""What attributes mean to the mesh itself: a column of that name must not decide it, or a table could switch off its
rows, point at pictures or keep people's edits away."""


@dataclass(frozen=True, slots=True)
class TableChunkSettings(BudgetSettings):
    """Settings of the template `table`, with those of `BudgetSettings`.

    Attributes:
        rows_per_chunk: Rows in one chunk.
        column_roles: What a column is for, by its name: "indexed" stands in the text alone, "metadata" in the
            attributes alone, "both" in both. A column that is not named here is "both".
    """

    rows_per_chunk: int = 1
    column_roles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        BudgetSettings.__post_init__(self)
        require_range("rows_per_chunk", self.rows_per_chunk, 1, _MAX_ROWS_PER_CHUNK)
        if not isinstance(self.column_roles, Mapping):
            raise invalid_setting("column_roles", "an object of column names and roles")
        for role in self.column_roles.values():
            require_choice("column_roles", str(role), COLUMN_ROLES)


def chunk_table(document: ParsedDocument, counter: TextTokenizer, settings: TableChunkSettings) -> ChunkResult:
    """Make chunks of the rows of a document's tables.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Rows a chunk, roles of columns, budget.

    Returns:
        Chunks in reading order. The text has one line a filled cell, `- column: value`; header rows are merged by "-".
        Attributes hold `row` (numbers from 1, header counted) and, for one row a chunk, each value in the form of its
        column's type, with `column_types`. A row over the budget is split, its first line repeated above each part
        where it is short, and a warning names it. Text outside of tables is kept as running text; headings above a
        table are in the heading path and not in the text.
    """
    blocks: list[Block] = []
    groups: list[Group] = []
    for has_table, run in groupby(document.blocks, key=_has_rows):
        if has_table:
            for block in run:
                _add_table(block, blocks, groups, settings)
            continue
        others = list(run)
        names_table = all(block.kind is BlockKind.HEADING for block in others)
        if not names_table or others[-1] is document.blocks[-1]:
            groups.append(Group(range(len(blocks), len(blocks) + len(others))))
            blocks.extend(others)
    result = chunk_groups(document, blocks, groups, counter, settings)
    return ChunkResult(result.chunks, bounded_warnings([*_split_rows(result), *result.warnings]))


def _has_rows(block: Block) -> bool:
    return block.table is not None and len(block.table.rows) > block.table.header_row_count


def _add_table(block: Block, blocks: list[Block], groups: list[Group], settings: TableChunkSettings) -> None:
    assert block.table is not None
    names = column_names(block.table)
    rows = [row for row in read_rows(block) if row.number > block.table.header_row_count]
    types = [infer_type(row.cells[column] for row in rows if column < len(row.cells)) for column in range(len(names))]
    roles = [settings.column_roles.get(name, "both") for name in names]
    size = settings.rows_per_chunk
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        begin = len(blocks)
        for row in part:
            blocks.extend(_row_blocks(row, names, roles))
        last = part[-1].number
        attributes = {"row": str(part[0].number) if size == 1 else f"{part[0].number}-{last}"}
        if size == 1:
            attributes |= _values(part[0], names, types, roles)
        groups.append(
            Group(
                range(begin, len(blocks)),
                break_tokens=_NEVER_BREAK,
                repeated_blocks=1 if size == 1 and len(blocks) - begin > 1 else 0,
                attributes=attributes,
                block_kind=BlockKind.TABLE,
            )
        )


def _row_blocks(row: SourceRow, names: Sequence[str], roles: Sequence[str]) -> list[Block]:
    """Write a row as its first line, which may be repeated, and the others."""
    lines = [
        f"- {name}: {text}"
        for name, role, text in zip(names, roles, row.cells, strict=False)
        if text and role != "metadata"
    ]
    kinds = (BlockKind.PARAGRAPH, BlockKind.LIST_ITEM)
    texts = (lines[0], "\n".join(lines[1:])) if lines else ()
    return [row.block(kind, text) for kind, text in zip(kinds, texts, strict=False) if text]


def _values(row: SourceRow, names: Sequence[str], types: Sequence[CellType], roles: Sequence[str]) -> dict[str, str]:
    kept = [
        (name, cell_type, typed_text(text, cell_type)[:_MAX_ATTRIBUTE_CHARACTERS])
        for name, cell_type, role, text in zip(names, types, roles, row.cells, strict=False)
        if text and role != "indexed"
    ][:_MAX_ATTRIBUTES]
    values = {f"{name} (column)" if name in _OWN_ATTRIBUTES else name: text for name, _, text in kept}
    if kept:
        values["column_types"] = "; ".join(f"{name}={cell_type.value}" for name, cell_type, _ in kept)
    return values


def _split_rows(result: ChunkResult) -> list[str]:
    warnings: list[str] = []
    for (row, page, _), chunks in groupby(
        result.chunks, key=lambda chunk: (chunk.attributes.get("row", ""), chunk.page, chunk.heading_path)
    ):
        count = sum(1 for _ in chunks)
        if row and count > 1:
            where = f" on page {page}" if page else ""
            warnings.append(f"Row {row} of a table{where} is longer than a chunk and was split into {count} parts.")
    return warnings


TEMPLATE = ChunkTemplate(
    name="table",
    summary="Rows of data as `- column: value` lines with typed attributes, one row or several a chunk.",
    settings_type=TableChunkSettings,
    chunk=chunk_table,
)
