"""Parsed documents and chunks survive the way through an artefact."""

import msgpack
import pytest

from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, OutlineEntry, ParsedDocument, Table
from corpusmesh_core.documents_codec import chunks_from_plain, chunks_to_plain, document_from_plain, document_to_plain
from corpusmesh_core.errors import InvalidArgumentError

DOCUMENT = ParsedDocument(
    media_type="application/pdf",
    title="Title",
    blocks=(
        Block(BlockKind.HEADING, "One", level=1, page=1, boxes=(Box(1, 1.25, 2.5, 3.75, 4.0),)),
        Block(BlockKind.TABLE, "a | b", page=1, heading_path=("One",), table=Table((("a", "b"),), 1)),
        Block(BlockKind.PARAGRAPH, "正文", line=7),
    ),
    page_count=3,
    language="en",
    outline=(OutlineEntry("One", 1, 1),),
    warnings=("Page 2 holds no text.",),
    metadata={"author": "A"},
)
CHUNKS = [Chunk(0, "text", ("One",), 1, (Box(1, 0.0, 0.0, 9.5, 9.5),), 3, BlockKind.CODE)]


def test_document_survives_msgpack():
    packed = msgpack.packb(document_to_plain(DOCUMENT))
    assert document_from_plain(msgpack.unpackb(packed)) == DOCUMENT


def test_chunks_survive_msgpack():
    assert chunks_from_plain(msgpack.unpackb(msgpack.packb(chunks_to_plain(CHUNKS)))) == CHUNKS


@pytest.mark.parametrize("plain", [{}, {"format": 99}, {"format": 1}, {"format": 1, "chunks": [{}]}, []])
def test_foreign_forms_are_refused(plain):
    with pytest.raises(InvalidArgumentError) as raised:
        chunks_from_plain(plain)
    assert raised.value.reason == "ARTEFACT_MALFORMED"
    with pytest.raises(InvalidArgumentError):
        document_from_plain(plain)
