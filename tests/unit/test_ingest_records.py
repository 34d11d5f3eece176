"""Records of a version: their ids, links and vectors, and the form in which the index keeps them."""

from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_adapters.opensearch.documents import RECORD_FIELDS, check_records, to_record, to_source
from corpusmesh_core.artefacts import KEY_BYTES, text_key
from corpusmesh_core.chunking.edits import DISABLED_ATTRIBUTE
from corpusmesh_core.documents import BlockKind, Box, Chunk, ChunkRole
from corpusmesh_core.enrichment.values import Derived
from corpusmesh_core.errors import InternalError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_ingest.records import VersionPieces, version_records
from tests.support.ingest_stages import DIMENSION, unit_vector, version

VERSION = version(7, title="Handbook", version=2)


def chunk(position: int, text: str, **fields: object) -> Chunk:
    plain = Chunk(position, text, ("One",), 3, (Box(3, 1, 2, 3, 4),), len(text.split()))
    return replace(plain, **fields)  # type: ignore[arg-type]


CHUNKS = (
    chunk(0, "parent text", role=ChunkRole.PARENT),
    chunk(
        0,
        "child text",
        parent=0,
        context="One > Two\nTable 1",
        heading_path=("One", "Two"),
        keywords=("key",),
        questions=("why?",),
        tags={"law": 0.5},
        attributes={"sender": "b", "block_kind": "stolen"},
        picture="figure-3-1",
        confidence=0.5,
        is_edited=True,
        block_kind=BlockKind.TABLE,
    ),
    chunk(1, "plain text"),
    chunk(0, "example", role=ChunkRole.TAG_EXAMPLE, tags={"law": 1.0}),
)
DERIVED = (
    Derived(RecordKind.QUESTION, "0-0", "why?", (0,), is_embedded=True, page=3, heading_path=("One",)),
    Derived(RecordKind.TOC, "0", "One", (0, 1), is_embedded=False, attributes={"method": "lite", "level": "1"}),
)
PIECES = VersionPieces(VERSION, CHUNKS, DERIVED)


def records() -> dict[str, Record]:
    texts = PIECES.embedded_texts
    made = list(version_records(PIECES, np.array([unit_vector(text) for text in texts])))
    assert len({record.record_id for record in made}) == len(made) == PIECES.record_count
    return {record.record_id: record for record in made}


def test_every_kind_has_an_id_of_its_own_and_points_at_what_it_belongs_to() -> None:
    made = records()
    assert {record_id: record.kind for record_id, record in made.items()} == {
        "7-parent-0": RecordKind.PARENT,
        "7-0": RecordKind.CHUNK,
        "7-1": RecordKind.CHUNK,
        "7-tag_example-0": RecordKind.TAG_EXAMPLE,
        "7-question-0-0": RecordKind.QUESTION,
        "7-toc-0": RecordKind.TOC,
    }
    assert made["7-0"].links == ("7-parent-0",)
    assert made["7-question-0-0"].links == ("7-0",)
    assert made["7-toc-0"].links == ("7-0", "7-1")
    check_records(list(made.values()), DIMENSION)


def test_vectors_stand_for_title_context_and_text_of_what_is_searched() -> None:
    assert PIECES.embedded_texts == [
        "Handbook\nOne > Two\nTable 1\nchild text",
        "Handbook\nplain text",
        "Handbook\nexample",
        "Handbook\nwhy?",
    ]
    made = records()
    for record_id, text in (("7-0", "Handbook\nOne > Two\nTable 1\nchild text"), ("7-question-0-0", "Handbook\nwhy?")):
        vector = made[record_id].vector
        assert vector is not None
        assert np.array_equal(vector, unit_vector(text)), record_id
    assert made["7-parent-0"].vector is None
    assert made["7-toc-0"].vector is None


def test_what_a_chunk_carries_is_in_its_record() -> None:
    record = records()["7-0"]
    assert record.attributes == {
        "sender": "b",
        "block_kind": "table",
        "parent": "7-parent-0",
        "picture": "figure-3-1",
        "confidence": "0.500",
        "edited": "true",
    }
    assert (record.context, record.tags) == ("One > Two\nTable 1", {"law": 0.5})
    assert (record.keywords, record.questions, record.page, record.title) == (("key",), ("why?",), 3, "Handbook")


def test_a_chunk_that_is_switched_off_has_no_record_and_no_vector() -> None:
    off = replace(CHUNKS[2], attributes={DISABLED_ATTRIBUTE: "true"})
    pieces = VersionPieces(VERSION, (*CHUNKS[:2], off, CHUNKS[3]), DERIVED[:1])
    assert not [text for text in pieces.embedded_texts if "plain" in text]
    made = list(version_records(pieces, np.zeros((3, DIMENSION), dtype=np.float32)))
    assert [record.record_id for record in made] == ["7-parent-0", "7-0", "7-tag_example-0", "7-question-0-0"]
    assert pieces.record_count == 4


def test_another_number_of_vectors_is_refused() -> None:
    with pytest.raises(InternalError) as caught:
        list(version_records(PIECES, np.zeros((3, DIMENSION), dtype=np.float32)))
    assert caught.value.reason == "VECTORS_MISMATCH"


def test_the_index_gives_back_what_it_was_given() -> None:
    for record in records().values():
        source = to_source(record)
        kept = {name: source[name] for name in RECORD_FIELDS if name in source}
        assert to_record(record.record_id, kept) == replace(record, vector=None)


def test_tag_names_can_be_filtered_and_context_is_among_the_terms() -> None:
    source = to_source(records()["7-0"])
    assert source["tag_names"] == ["law"]
    assert "1" in source["content_fine"].split(), "of Table 1"
    terms = source["content_fine"].split()
    assert (terms.count("one"), terms.count("two")) == (1, 1), "the headings that the context repeats count once"
    assert "tabl" not in source["title_fine"]


def test_a_long_text_is_cut_to_the_bytes_that_a_call_takes() -> None:
    [text] = VersionPieces(VERSION, (chunk(0, "字" * MAX_TEXT_BYTES),)).embedded_texts
    assert MAX_TEXT_BYTES - 3 <= len(text.encode()) <= MAX_TEXT_BYTES


def test_the_key_of_a_text_is_that_of_its_space_too() -> None:
    assert len(text_key("a", "x")) == KEY_BYTES
    assert len({text_key("a", "x"), text_key("b", "x"), text_key("a", "y")}) == 3
    assert text_key("a", "x\ud800"), "a lone surrogate of a broken file"
