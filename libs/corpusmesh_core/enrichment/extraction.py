"""Metadata without a model: what patterns find in the text and what the file says of itself, checked by the schema."""

from collections.abc import Mapping, Sequence
from typing import Final

from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.enrichment.schema import (
    FieldSource,
    MetadataField,
    MetadataSchema,
    compile_rule,
    describe_bad_value,
    first_value,
)
from corpusmesh_core.tenancy.values import MetadataValue

_MAX_TEXT_CHARACTERS: Final = 2_000_000
_MAX_MATCHES: Final = 20
_RUNNING_HEADS: Final = frozenset({BlockKind.HEADER, BlockKind.FOOTER})


def extract_metadata(
    document: ParsedDocument, schema: MetadataSchema
) -> tuple[dict[str, MetadataValue], tuple[str, ...]]:
    """Read the fields of sources RULE and PARSER.

    Args:
        document: A parsed document.
        schema: The knowledge base's schema.

    Returns:
        Values by name; and a warning for each field whose values were all bad. What is not found is not there.
    """
    text = ""
    values: dict[str, MetadataValue] = {}
    warnings: list[str] = []
    for entry in schema.fields:
        if entry.source is FieldSource.PARSER:
            candidates = _said_by_file(document.metadata, entry.key)
        elif entry.source is FieldSource.RULE:
            text = text or document_text(document)
            candidates = _found_by_rule(entry, text)
        else:
            continue
        value, is_bad = first_value(entry, candidates)
        if value is not None:
            values[entry.name] = value
        elif is_bad:
            warnings.append(describe_bad_value(entry))
    return values, tuple(warnings)


def missing_fields(
    schema: MetadataSchema, values: Mapping[str, MetadataValue], sources: frozenset[FieldSource]
) -> tuple[str, ...]:
    """Warn of required fields that have no value.

    Args:
        schema: The schema.
        values: What was found.
        sources: Sources that were read.

    Returns:
        One sentence for each.
    """
    return tuple(
        f"The metadata field {entry.name} is required and was not found in the document."
        for entry in schema.fields
        if entry.required and entry.source in sources and entry.name not in values
    )


def document_text(document: ParsedDocument, *, max_characters: int = _MAX_TEXT_CHARACTERS) -> str:
    """Write a document as one text, running heads and feet at its end, so that a rule sees them without being broken.

    Args:
        document: A parsed document.
        max_characters: Where to cut.

    Returns:
        Its title and blocks, one a line.
    """
    body = (block.text for block in document.blocks if block.kind not in _RUNNING_HEADS)
    heads = dict.fromkeys(block.text for block in document.blocks if block.kind in _RUNNING_HEADS)
    lines: list[str] = []
    room = max_characters
    for line in (document.title, *body, *heads):
        if room <= 0:
            break
        if line:
            lines.append(line[:room])
            room -= len(line) + 1
    return "\n".join(lines)


def _said_by_file(metadata: Mapping[str, str], key: str) -> Sequence[str]:
    wanted = key.casefold()
    return [value for name, value in metadata.items() if name.casefold() == wanted and value.strip()]


def _found_by_rule(entry: MetadataField, text: str) -> Sequence[str]:
    found: list[str] = []
    for match in compile_rule(entry).finditer(text):
        value = next((group for group in match.groups() if group), None) if match.re.groups else match.group()
        if value and value.strip():
            found.append(value.strip())
        if len(found) == _MAX_MATCHES:
            break
    return found
