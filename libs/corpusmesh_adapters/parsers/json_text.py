"""JSON and JSON Lines as text: one block per element of the outermost list, one line per value."""

import json
from collections.abc import Iterator

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, one_line
from corpusmesh_adapters.parsers.encodings import decode
from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits


def parse_json(source: Source) -> ParsedDocument:
    """Read a JSON value.

    Args:
        source: The document.

    Returns:
        One block per element of the outermost list, or one block per member of the outermost object.

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
    builder.add(BlockKind.PARAGRAPH, "\n".join(_lines(value, name, limits, 0)), line=line)


def _lines(value: object, name: str, limits: ParseLimits, depth: int) -> Iterator[str]:
    if depth > limits.max_depth:
        raise over_limit("max_depth", limits.max_depth, "its JSON is nested deeper")
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _lines(member, f"{name}.{key}" if name else str(key), limits, depth + 1)
    elif isinstance(value, list):
        if all(not isinstance(element, dict | list) for element in value):
            value = ", ".join(_scalar(element) for element in value)
            if value:
                yield f"{name}: {value}" if name else value
            return
        for element in value:
            yield from _lines(element, name, limits, depth + 1)
    else:
        text = _scalar(value)
        if text:
            yield f"{name}: {text}" if name else text


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else json.dumps(value)
