"""JSON and JSON Lines as text: one block per element of the outermost list, one line per value with its path."""

import json
from collections.abc import Iterator

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits

_LONG_BLOCK_CHARACTERS = 1_000


def parse_json(source: Source) -> ParsedDocument:
    """Read a JSON value.

    Args:
        source: The document.

    Returns:
        One block per element of the outermost list or member of the outermost object, several where it is long; a line
        per value, as in "orders[0].total: 12".

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    value = json.loads(decode(source.content).text)
    builder = DocumentBuilder(Format.JSON, source.limits)
    if isinstance(value, list):
        for element in value:
            _add(builder, element, "", source.limits)
    elif isinstance(value, dict):
        for key, member in value.items():
            _add(builder, member, str(key), source.limits)
    else:
        _add(builder, value, "", source.limits)
    return builder.build(empty_detail="its JSON holds no values")


def parse_json_lines(source: Source) -> ParsedDocument:
    """Read JSON Lines; a line that is no JSON is kept as text, with a warning.

    Args:
        source: The document.

    Returns:
        One block per line.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    builder = DocumentBuilder(Format.JSON_LINES, source.limits)
    bad = 0
    for number, line in enumerate(decode(source.content).text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            bad += 1
            builder.add(BlockKind.PARAGRAPH, line, line=number)
        else:
            _add(builder, value, "", source.limits, line=number)
    if bad:
        builder.warn(f"{bad} lines are no JSON and were taken as text.")
    return builder.build(empty_detail="its lines hold no values")


def _add(builder: DocumentBuilder, value: object, name: str, limits: ParseLimits, line: int = 0) -> None:
    """Add a value: one block, or several where it is long, cut where an inner object starts."""
    lines: list[str] = []
    length = 0
    for text, starts_object in _lines(value, name, limits, 0):
        if starts_object and length >= _LONG_BLOCK_CHARACTERS:
            builder.add(BlockKind.PARAGRAPH, "\n".join(lines), line=line)
            lines.clear()
            length = 0
        lines.append(text)
        length += len(text)
    builder.add(BlockKind.PARAGRAPH, "\n".join(lines), line=line)


def _lines(value: object, path: str, limits: ParseLimits, depth: int) -> Iterator[tuple[str, bool]]:
    """Write scalars as "path: value"; with each, whether it is the first of an object or list."""
    if depth > limits.max_depth:
        raise over_limit("max_depth", limits.max_depth, "its JSON is nested deeper")
    if isinstance(value, list) and not any(isinstance(element, dict | list) for element in value):
        value = ", ".join(filter(None, map(_scalar, value)))
    if isinstance(value, dict):
        children = ((f"{path}.{key}" if path else str(key), member) for key, member in value.items())
    elif isinstance(value, list):
        children = ((f"{path}[{index}]", element) for index, element in enumerate(value))
    else:
        text = _scalar(value)
        if text:
            yield (f"{path}: {text}" if path else text), False
        return
    is_first = True
    for inner_path, member in children:
        for text, starts_object in _lines(member, inner_path, limits, depth + 1):
            yield text, starts_object or is_first
            is_first = False


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else json.dumps(value)
