"""XLSX, XLSM, XLSB, XLS and ODS by calamine: a sheet is a page, a block of rows between empty rows is a table."""

import datetime
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError, SheetTypeEnum, load_workbook

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, encrypted, over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.ole_chains import stream_names
from corpusmesh_adapters.parsers.packages import open_package, read_member, refuse_entities
from corpusmesh_core.documents import BlockKind, CellSpan, ParsedDocument

_MIDNIGHT = datetime.time()
_Range = tuple[int, int, int, int]
# What calamine holds in memory for a sheet is the rectangle around its filled cells, about 32 bytes a cell.
_MAX_RECTANGLE_FACTOR = 5


def parse_spreadsheet(source: Source, media_type: Format) -> ParsedDocument:
    """Read a workbook.

    Args:
        source: The document.
        media_type: XLSX, XLS or ODS.

    Returns:
        Per sheet a heading with its name and its tables; `page` counts sheets from 1.

    Raises:
        DocumentError: DOCUMENT_ENCRYPTED, DOCUMENT_CORRUPT, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    if media_type is not Format.XLS:
        with open_package(source.content, source.limits) as package:
            if media_type is Format.XLSX:
                refuse_entities(package)
            elif b"manifest:encryption-data" in read_member(package, "META-INF/manifest.xml"):
                raise encrypted("an OpenDocument password", password_helps=False)
    else:
        stream_names(source.content)  # calamine follows a circle of sectors for ever
    workbook = _open(source.content)
    builder = DocumentBuilder(media_type, source.limits)
    sheets = [entry for entry in workbook.sheets_metadata if entry.typ == SheetTypeEnum.WorkSheet]
    if len(sheets) > source.limits.max_pages:
        raise over_limit("max_pages", source.limits.max_pages, f"it has {len(sheets)} sheets")
    for number, entry in enumerate(sheets, 1):
        try:
            sheet = workbook.get_sheet_by_name(entry.name)
        except CalamineError as error:
            builder.warn(f"Sheet {number} cannot be read ({type(error).__name__}).")
            continue
        _add_sheet(builder, sheet, number, source)
    return builder.build(
        page_count=len(sheets),
        metadata={"sheets": ", ".join(entry.name for entry in sheets)},
        empty_detail=f"none of its {len(sheets)} sheets has a cell with a value",
    )


def _open(content: bytes) -> CalamineWorkbook:
    try:
        return load_workbook(io.BytesIO(content))
    except PasswordError as error:
        raise encrypted("a workbook password", password_helps=False) from error
    except (CalamineError, OSError, ValueError) as error:
        raise corrupt(f"its workbook cannot be opened ({type(error).__name__})") from error


def _add_sheet(builder: DocumentBuilder, sheet: CalamineSheet, number: int, source: Source) -> None:
    rectangle = sheet.height * sheet.width
    if rectangle > _MAX_RECTANGLE_FACTOR * source.limits.max_cells:
        raise over_limit("max_cells", source.limits.max_cells, f"sheet {number} spans {rectangle} cells")
    opened = False
    ranges = _merged_ranges(sheet)
    for first_row, first_column, table in _tables(sheet.iter_rows(), ranges):
        if not opened:
            builder.add(BlockKind.HEADING, sheet.name, level=1, page=number)
            opened = True
        if len(table) == 1 and sum(map(bool, table[0])) == 1:
            # A lone cell is a title or a note, not a table.
            builder.add(BlockKind.PARAGRAPH, next(filter(None, table[0])), page=number)
        else:
            builder.add_table(table, spans=_spans(ranges, first_row, first_column, table), page=number)


def _tables(
    rows: Iterable[Sequence[object]], ranges: Mapping[int, list[_Range]]
) -> Iterator[tuple[int, int, list[list[str]]]]:
    """Part rows at empty ones; with each table, the place of its first cell in the rectangle of filled cells."""
    table: list[list[str]] = []
    start = covered_to = 0
    for index, row in enumerate(rows):
        cells = [cell_text(cell) for cell in row]
        if any(cells):
            if not table:
                start = index
            table.append(cells)
            if index in ranges and sum(map(bool, cells)) > 1:
                covered_to = max(covered_to, max(last for _, _, last, _ in ranges[index]))
        elif table and index <= covered_to:
            table.append(cells)  # nothing but the lower parts of merged cells
        elif table:
            yield start, *_narrowed(table)
            table = []
    if table:
        yield start, *_narrowed(table)


def _narrowed(table: list[list[str]]) -> tuple[int, list[list[str]]]:
    first = min(next((index for index, cell in enumerate(row) if cell), len(row)) for row in table)
    return first, [row[first:] for row in table]


def _merged_ranges(sheet: CalamineSheet) -> Mapping[int, list[_Range]]:
    """Sort merged ranges by their first row; both count from the first filled cell."""
    found: dict[int, list[_Range]] = {}
    top, left = sheet.start or (0, 0)
    if not sheet.height:
        return found
    for (row, column), (last_row, last_column) in sheet.merged_cell_ranges or ():
        found.setdefault(row - top, []).append((row - top, column - left, last_row - top, last_column - left))
    return found


def _spans(
    ranges: Mapping[int, list[_Range]], first_row: int, first_column: int, table: Sequence[Sequence[str]]
) -> Iterator[CellSpan]:
    for index in range(len(table)):
        for row, column, last_row, last_column in ranges.get(first_row + index, ()):
            if column >= first_column and table[index][column - first_column : column - first_column + 1] != [""]:
                rows = min(last_row, first_row + len(table) - 1) - row + 1
                yield CellSpan(index, column - first_column, rows, last_column - column + 1)


def cell_text(value: object) -> str:
    """Write a cell's value as a reader would expect it.

    Args:
        value: What calamine gives: text, number, truth, date, time or duration.

    Returns:
        Whole numbers without a fraction, dates in ISO 8601.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return "" if value is None else str(value)
