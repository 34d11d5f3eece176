"""CSV and TSV: one table."""

import csv
import io
from collections import Counter

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.plain_text import note_replacements
from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits

_DELIMITERS = ",\t;|"
_SAMPLE_LINES = 50


def parse_delimited(source: Source) -> ParsedDocument:
    """Read a table of delimited values of any encoding; the delimiter is found by counting.

    Args:
        source: The document.

    Returns:
        One table block, its first row the header.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    decoded = decode(source.content)
    text = decoded.text.replace("\0", "")
    delimiter = find_delimiter(text)
    media_type = Format.TSV if delimiter == "\t" else Format.CSV
    builder = DocumentBuilder(media_type, source.limits)
    note_replacements(builder, decoded)
    builder.add_table(_rows(text, delimiter, source.limits), header_row_count=1, line=1)
    return builder.build(metadata={"encoding": decoded.encoding, "delimiter": delimiter})


def find_delimiter(text: str) -> str:
    """Find what separates the cells: the mark that occurs equally often in most lines.

    Args:
        text: The table.

    Returns:
        A comma, tab, semicolon or bar; a comma where nothing tells.
    """
    lines = [line for line in text[:100_000].splitlines()[:_SAMPLE_LINES] if line.strip()]
    best, best_score = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter))
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        score = count * min(width, 20) if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _rows(text: str, delimiter: str, limits: ParseLimits) -> list[list[str]]:
    csv.field_size_limit(max(limits.max_text_characters, 131_072))
    rows: list[list[str]] = []
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False):
        if any(row):
            rows.append(row)
        if len(rows) > limits.max_rows:
            raise over_limit("max_rows", limits.max_rows, f"it has at least {len(rows)} table rows")
    return rows
