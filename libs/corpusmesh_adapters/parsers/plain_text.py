"""Plain text: one block per paragraph."""

import re

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, clean
from corpusmesh_adapters.parsers.encodings import DecodedText, decode
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_core.documents import BlockKind, ParsedDocument

_BLANK_LINES = re.compile(r"\n[ \t\u3000]*\n\s*")


def parse_text(source: Source) -> ParsedDocument:
    """Read plain text of any encoding.

    Args:
        source: The document.

    Returns:
        A paragraph per block, with its line number; `metadata["encoding"]` says how it was read.

    Raises:
        DocumentError: DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    decoded = decode(source.content)
    builder = DocumentBuilder(Format.TEXT, source.limits)
    note_replacements(builder, decoded)
    add_paragraphs(builder, decoded.text)
    return builder.build(metadata={"encoding": decoded.encoding})


def add_paragraphs(builder: DocumentBuilder, text: str, *, numbered: bool = True) -> None:
    """Add the paragraphs of a text.

    Args:
        builder: Where to.
        text: Paragraphs with empty lines between them.
        numbered: Whether line numbers of the text are line numbers of the source.
    """
    text = clean(text)
    begin, line = 0, 1
    for match in _BLANK_LINES.finditer(text):
        builder.add(BlockKind.PARAGRAPH, text[begin : match.start()], line=line if numbered else 0)
        line += text.count("\n", begin, match.end())
        begin = match.end()
    builder.add(BlockKind.PARAGRAPH, text[begin:], line=line if numbered else 0)


def note_replacements(builder: DocumentBuilder, decoded: DecodedText) -> None:
    """Warn of bytes that stand for no character.

    Args:
        builder: Where to.
        decoded: The decoded text.
    """
    if decoded.replaced_count:
        builder.warn(f"{decoded.replaced_count} byte sequences are no text in {decoded.encoding}.")
