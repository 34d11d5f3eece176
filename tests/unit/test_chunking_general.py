"""The general template: budget, coverage, seams, tables, places."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import (
    GeneralChunkSettings,
    WordTokenCounter,
    chunk_document,
    chunk_general,
    row_text,
)
from corpusmesh_core.documents import Block, BlockKind, Box, ParsedDocument, Table
from corpusmesh_core.errors import InvalidArgumentError

COUNTER = WordTokenCounter()


class RecordingCounter(WordTokenCounter):
    """Counts how often and with how much it is called."""

    def __init__(self) -> None:
        self.count_calls = 0

    def count_tokens(self, texts):
        self.count_calls += 1
        return super().count_tokens(texts)


class CharacterCounter:
    """A token per character, white space included: joined text costs more than its parts."""

    def count_tokens(self, texts):
        return [len(text) for text in texts]

    def token_offsets(self, text):
        return [(index, index + 1) for index in range(len(text))]


def paragraph(text, **more):
    return Block(BlockKind.PARAGRAPH, text, **more)


def heading(text, level=1, **more):
    return Block(BlockKind.HEADING, text, level=level, **more)


def table(rows, header=1, **more):
    rows = tuple(map(tuple, rows))
    return Block(BlockKind.TABLE, "\n".join(map(row_text, rows)), table=Table(rows, header), **more)


def document(*blocks):
    return ParsedDocument(media_type="text/plain", title="", blocks=tuple(blocks))


def chunks_of(*blocks, counter=COUNTER, **values):
    return list(chunk_general(document(*blocks), counter, GeneralChunkSettings(**values)).chunks)


def visible(text):
    return re.sub(r"\s+", "", text)


def words(count, word="word"):
    return " ".join(f"{word}{index}" for index in range(count))


def test_one_short_paragraph_gives_one_chunk_with_all_its_text():
    chunks = chunks_of(paragraph("Alpha beta gamma. Delta.", page=2, boxes=(Box(2, 1, 2, 3, 4),)))
    assert [chunk.text for chunk in chunks] == ["Alpha beta gamma. Delta."]
    assert chunks[0].token_count == 6
    assert chunks[0].page == 2
    assert chunks[0].boxes == (Box(2, 1, 2, 3, 4),)


def test_document_without_text_gives_no_chunk():
    assert chunks_of() == []
    assert chunks_of(paragraph(" \n ")) == []


def test_running_heads_and_feet_are_left_out():
    chunks = chunks_of(Block(BlockKind.HEADER, "ACME"), paragraph("Body."), Block(BlockKind.FOOTER, "Page 1"))
    assert [chunk.text for chunk in chunks] == ["Body."]


def test_long_text_is_cut_at_sentence_ends():
    text = " ".join(f"Sentence number {index} ends here." for index in range(60))
    chunks = chunks_of(paragraph(text), max_tokens=64)
    assert len(chunks) > 4
    assert all(chunk.text.endswith("here.") and chunk.text.startswith("Sentence") for chunk in chunks)


def test_chinese_is_cut_at_its_own_sentence_ends():
    text = "".join(f"这是第{index}个句子，用来测试切分。" for index in range(60))
    chunks = chunks_of(paragraph(text), max_tokens=64)
    assert len(chunks) > 4
    assert all(chunk.text.endswith("。") for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text


def test_paragraph_that_fits_a_chunk_is_not_torn():
    chunks = chunks_of(paragraph(words(40, "a")), paragraph(words(50, "b")), max_tokens=64)
    assert [chunk.text for chunk in chunks] == [words(40, "a"), words(50, "b")]


def test_heading_starts_a_chunk_once_the_running_one_has_enough():
    blocks = (
        heading("One"),
        paragraph(words(30, "a"), heading_path=("One",)),
        heading("Two"),
        paragraph(words(30, "b"), heading_path=("Two",)),
    )
    apart = chunks_of(*blocks, heading_break_tokens=20)
    assert [chunk.heading_path for chunk in apart] == [("One",), ("Two",)]
    assert apart[1].text.startswith("Two\n\nb0")
    together = chunks_of(*blocks, heading_break_tokens=90)
    assert len(together) == 1


def test_heading_never_stands_last_in_a_chunk():
    blocks = (
        heading("One"),
        paragraph(words(50, "a"), heading_path=("One",)),
        heading("Two"),
        paragraph(words(60, "b"), heading_path=("Two",)),
    )
    chunks = chunks_of(*blocks, max_tokens=64, heading_break_tokens=400)
    assert [chunk.text.split()[0] for chunk in chunks] == ["One", "Two"]


def test_table_that_fits_stays_whole():
    rows = [["name", "value"]] + [[f"n{index}", str(index)] for index in range(8)]
    chunks = chunks_of(paragraph(words(50)), table(rows), paragraph(words(50)), max_tokens=64)
    whole = [chunk for chunk in chunks if chunk.block_kind is BlockKind.TABLE]
    assert [chunk.text for chunk in whole] == ["\n".join(row_text(row) for row in rows)]


def test_long_table_is_split_by_rows_with_its_header_repeated():
    rows = [["name", "value"]] + [[f"n{index}", str(index)] for index in range(100)]
    chunks = chunks_of(table(rows), max_tokens=64)
    assert len(chunks) > 3
    assert all(chunk.text.startswith("name | value\n") for chunk in chunks)
    kept = [line for chunk in chunks for line in chunk.text.split("\n")[1:]]
    assert kept == [row_text(row) for row in rows[1:]]


def test_row_boxes_follow_their_rows():
    rows = [["h"]] + [[words(20, f"r{index}x")] for index in range(6)]
    boxes = tuple(Box(1, 0, 10 * index, 100, 10 * index + 9) for index in range(7))
    chunks = chunks_of(table(rows, boxes=boxes, page=1), max_tokens=64)
    assert [chunk.boxes for chunk in chunks] == [
        (Box(1, 0, 0, 100, 39),),
        (boxes[0], Box(1, 0, 40, 100, 69)),
    ]


def test_cell_beyond_the_budget_is_split_and_every_other_row_stays():
    rows = [["id", "text"]] + [[str(index), f"row{index}"] for index in range(99)] + [["x", words(20_000, "w")]]
    chunks = chunks_of(table(rows), max_tokens=256)
    assert max(chunk.token_count for chunk in chunks) <= 256
    text = "\n".join(chunk.text for chunk in chunks)
    assert all(f"row{index}" in text and f"w{index}" in text for index in range(99))
    assert "w19999" in text


def test_overlap_repeats_whole_sentences_and_their_boxes():
    lines = tuple(Box(1, 0, 10 * index, 100, 10 * index + 9) for index in range(30))
    text = " ".join(f"Sentence number {index:02d} is here." for index in range(30))
    chunks = chunks_of(paragraph(text, page=1, boxes=lines), max_tokens=60, overlap_tokens=12)
    for before, after in pairwise(chunks):
        last = re.findall(r"Sentence number \d\d is here\.", before.text)[-2:]
        assert after.text.startswith(" ".join(last))
        assert after.boxes[0].top < before.boxes[-1].bottom


def test_boxes_of_a_torn_paragraph_cover_only_its_lines():
    lines = tuple(Box(1, 0, 10 * index, 100, 10 * index + 9) for index in range(40))
    text = " ".join(f"Sentence number {index:02d} is here." for index in range(40))
    chunks = chunks_of(paragraph(text, page=1, boxes=lines), max_tokens=60)
    assert len(chunks) == 4
    for index, chunk in enumerate(chunks):
        (box,) = chunk.boxes
        assert box.top == pytest.approx(100 * index, abs=11)
        assert box.bottom == pytest.approx(100 * (index + 1), abs=11)


def test_boxes_of_two_columns_stay_apart():
    left = tuple(Box(1, 50, 100 + 12 * index, 290, 110 + 12 * index) for index in range(5))
    right = tuple(Box(1, 310, 40 + 12 * index, 550, 50 + 12 * index) for index in range(5))
    (chunk,) = chunks_of(paragraph("One two three.", page=1, boxes=left + right))
    assert chunk.boxes == (Box(1, 50, 100, 290, 158), Box(1, 310, 40, 550, 98))


def test_tokenizer_is_called_per_document_and_not_per_sentence():
    counter = RecordingCounter()
    blocks = [paragraph(f"Paragraph {index} says this. And that!") for index in range(500)]
    assert len(chunks_of(*blocks, counter=counter)) > 5
    assert counter.count_calls <= 3


def test_budget_is_the_smaller_of_template_and_embedder():
    chunks = chunks_of(paragraph(words(1_000)), max_tokens=400, embedder_max_tokens=100)
    assert max(chunk.token_count for chunk in chunks) == 100


TEXTS = st.text(st.sampled_from("ab cd.。！\n\t é中文字😀;?x"), max_size=400)
BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda text: paragraph(text), TEXTS),
        st.builds(lambda text: heading(text), TEXTS),
        st.builds(lambda text: Block(BlockKind.LIST_ITEM, text, level=1), TEXTS),
        st.builds(
            lambda rows: table(rows, header=0),
            st.lists(st.lists(st.text("abc中 ", max_size=60), min_size=1, max_size=4), max_size=12),
        ),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(BLOCKS, st.sampled_from([32, 50, 400]), st.sampled_from([COUNTER, CharacterCounter()]))
def test_no_text_is_lost_and_no_chunk_is_over_the_budget(blocks, budget, counter):
    chunks = chunks_of(*blocks, counter=counter, max_tokens=budget)
    source = "".join(
        "".join(row_text(row) for row in block.table.rows) if block.table else block.text for block in blocks
    )
    assert visible("".join(chunk.text for chunk in chunks)) == visible(source)
    for chunk in chunks:
        assert chunk.text.strip()
        assert chunk.token_count == counter.count_tokens([chunk.text])[0] <= budget
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))


@settings(max_examples=60, deadline=None)
@given(BLOCKS, st.sampled_from([0, 5, 16]))
def test_overlap_and_headers_stay_within_the_budget_and_are_deterministic(blocks, overlap):
    rows = [["h1", "h2"]] + [[f"r{index}", words(index)] for index in range(20)]
    first = chunks_of(*blocks, table(rows), counter=CharacterCounter(), max_tokens=64, overlap_tokens=overlap)
    again = chunks_of(*blocks, table(rows), counter=CharacterCounter(), max_tokens=64, overlap_tokens=overlap)
    assert first == again
    assert all(chunk.token_count <= 64 for chunk in first)
    text = visible("".join(chunk.text for chunk in first))
    assert all(visible(row_text(row)) in text for row in rows[:10])


def test_counter_whose_counts_never_shrink_does_not_loop():
    class Stubborn(WordTokenCounter):
        def count_tokens(self, texts):
            return [1_000 for _ in texts]

    chunks = chunks_of(paragraph("abcdef"), counter=Stubborn(), max_tokens=32)
    assert "".join(chunk.text for chunk in chunks) == "abcdef"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"max_tokens": 8}, "max_tokens"),
        ({"embedder_max_tokens": 8}, "embedder_max_tokens"),
        ({"overlap_tokens": 399}, "overlap_tokens"),
        ({"overlap_tokens": -1}, "overlap_tokens"),
        ({"heading_break_tokens": -1}, "heading_break_tokens"),
        ({"delimiters": ("",)}, "delimiters"),
        ({"delimiters": "x"}, "delimiters"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"page_size": 3}, "page_size"),
    ],
)
def test_settings_that_cannot_work_name_their_field(values, field):
    with pytest.raises(InvalidArgumentError) as raised:
        chunk_document(document(paragraph("a")), COUNTER, settings=values)
    assert raised.value.field == field


def test_configuration_values_reach_the_template():
    values = {"max_tokens": 50.0, "delimiters": ["|"]}
    chunks = chunk_document(document(paragraph("a b|" * 100)), COUNTER, settings=values)
    assert all(chunk.text.endswith("|") and chunk.token_count <= 50 for chunk in chunks)


def test_unknown_template_lists_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="general"):
        chunk_document(document(), COUNTER, template="novel")
