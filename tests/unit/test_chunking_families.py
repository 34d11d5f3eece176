"""Settings of running text: parents and children, contexts, exact delimiters, tables as HTML, figures, warnings."""

from dataclasses import replace

import pytest

from corpusmesh_core.chunking import WordTokenCounter, chunk_document, chunk_with_warnings, row_text, table_html
from corpusmesh_core.documents import Block, BlockKind, Box, CellSpan, ChunkRole, ParsedDocument, Table
from corpusmesh_core.errors import InvalidArgumentError

COUNTER = WordTokenCounter()


def paragraph(text, **more):
    return Block(BlockKind.PARAGRAPH, text, **more)


def heading(text, level=1, **more):
    return Block(BlockKind.HEADING, text, level=level, **more)


def table(rows, header=1, spans=(), **more):
    rows = tuple(map(tuple, rows))
    return Block(BlockKind.TABLE, "\n".join(map(row_text, rows)), table=Table(rows, header, tuple(spans)), **more)


def document(*blocks, title=""):
    return ParsedDocument(media_type="text/plain", title=title, blocks=tuple(blocks))


def words(count, word="word"):
    return " ".join(f"{word}{index}" for index in range(count))


def chunks_of(*blocks, title="", template="general", **values):
    return chunk_document(document(*blocks, title=title), COUNTER, template=template, settings=values)


def test_parent_holds_the_text_of_its_children_in_order():
    blocks = [
        heading("B+ tree"),
        paragraph("Root, inner and leaf nodes."),
        paragraph("Leaves are linked."),
        paragraph(words(30)),
    ]
    chunks = chunks_of(*blocks, children_delimiter="\n", max_tokens=40)
    parents = [chunk for chunk in chunks if chunk.role is ChunkRole.PARENT]
    children = [chunk for chunk in chunks if chunk.role is ChunkRole.TEXT]
    assert [chunk.position for chunk in parents] == [0, 1]
    assert [chunk.position for chunk in children] == [0, 1, 2]
    assert [chunk.text for chunk in children] == [
        "B+ tree\n\nRoot, inner and leaf nodes.",
        "Leaves are linked.",
        words(30),
    ]
    assert [chunk.parent for chunk in children] == [0, 0, 1]
    for child in children:
        assert child.text in parents[child.parent].text


def test_children_delimiter_splits_inside_a_paragraph_and_children_keep_their_budget():
    text = "First part.## Second part.## " + " ".join(f"Sentence {index} here." for index in range(60))
    chunks = chunks_of(paragraph(text), children_delimiter="##", child_max_tokens=32, max_tokens=1_000)
    children = [chunk for chunk in chunks if chunk.role is ChunkRole.TEXT]
    assert children[0].text == "First part.##"
    assert children[1].text == "Second part.##"
    assert all(chunk.token_count <= 32 and chunk.parent == 0 for chunk in children)
    assert all(chunk.text.endswith(".") for chunk in children[2:])


def test_parent_may_be_longer_than_the_embedder_reads_and_its_children_may_not():
    blocks = [paragraph(words(40, chr(97 + index))) for index in range(20)]
    chunks = chunks_of(*blocks, children_delimiter="\n", max_tokens=2_000, embedder_max_tokens=64)
    assert [chunk.token_count for chunk in chunks if chunk.role is ChunkRole.PARENT] == [800]
    assert {chunk.token_count for chunk in chunks if chunk.role is ChunkRole.TEXT} == {40}


def test_children_have_the_boxes_and_pages_of_their_own_text():
    blocks = [paragraph(f"Paragraph {page}.", page=page, boxes=(Box(page, 1, 2, 3, 4),)) for page in (1, 2)]
    parent, first, second = chunks_of(*blocks, children_delimiter="\n")
    assert parent.boxes == first.boxes + second.boxes
    assert (first.page, second.page) == (1, 2)


def test_rows_that_are_children_carry_the_header_in_their_context():
    rows = [["city", "people"], ["Bern", "134000"], ["Basel", "174000"]]
    chunks = chunks_of(table(rows), children_delimiter="\n")
    texts = [(chunk.text, chunk.context) for chunk in chunks if chunk.role is ChunkRole.TEXT]
    assert texts == [("city | people\nBern | 134000", ""), ("Basel | 174000", "city | people")]


def test_context_is_the_headings_above_without_the_title_and_those_in_the_text():
    blocks = [
        heading("Handbook"),
        heading("Safety", 2, heading_path=("Handbook",)),
        paragraph(words(60), heading_path=("Handbook", "Safety")),
        paragraph(words(60, "more"), heading_path=("Handbook", "Safety")),
    ]
    first, second = chunks_of(*blocks, title="Handbook", max_tokens=64)
    assert first.text.startswith("Handbook\n\nSafety")
    assert first.context == ""
    assert second.context == "Safety"
    assert second.heading_path == ("Handbook", "Safety")
    first, second = chunks_of(*blocks, max_tokens=64)
    assert second.context == "Handbook > Safety"


def test_context_and_text_fit_the_embedder_together():
    path = tuple(f"Part {words(25, chr(97 + index))}" for index in range(4))
    blocks = [paragraph(words(50, f"x{index}y"), heading_path=path) for index in range(6)]
    chunks = chunks_of(*blocks, embedder_max_tokens=128)
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.context.endswith(path[-1])
        assert COUNTER.count_tokens([chunk.context])[0] <= 32
        assert COUNTER.count_tokens([chunk.context + "\n" + chunk.text])[0] <= 128


def test_contextual_header_can_be_switched_off():
    blocks = [paragraph(words(60), heading_path=("Safety",)), paragraph(words(60, "b"), heading_path=("Safety",))]
    assert {chunk.context for chunk in chunks_of(*blocks, max_tokens=64, contextual_header=False)} == {""}


def test_later_part_of_a_table_carries_its_caption():
    rows = [["name", "value"]] + [[f"n{index}", str(index)] for index in range(60)]
    caption = Block(BlockKind.CAPTION, "Table 3. Values by name.")
    chunks = chunks_of(caption, table(rows), max_tokens=64)
    assert chunks[0].text.startswith("Table 3. Values by name.")
    assert [chunk.context for chunk in chunks[1:]] == ["Table 3. Values by name."] * (len(chunks) - 1)


def test_exact_delimiters_make_every_part_a_chunk():
    blocks = [
        paragraph("One two. Three.", heading_path=("A",)),
        paragraph("Four.=== Five.", heading_path=("A",)),
        paragraph("Six.==="),
        paragraph("Seven."),
    ]
    chunks = chunks_of(*blocks, exact_delimiters=["`===`"])
    assert [chunk.text for chunk in chunks] == ["One two. Three.\n\nFour.===", "Five.\n\nSix.===", "Seven."]
    chunks = chunks_of(*blocks, exact_delimiters=["\n\n"])
    assert [chunk.text for chunk in chunks] == ["One two. Three.", "Four.=== Five.", "Six.===", "Seven."]


def test_part_between_exact_delimiters_over_the_budget_is_split_at_sentences():
    text = " ".join(f"Sentence {index} is here." for index in range(40)) + "=== End."
    chunks = chunks_of(paragraph(text), exact_delimiters=["==="], max_tokens=40)
    assert len(chunks) > 3
    assert all(chunk.token_count <= 40 for chunk in chunks)
    assert all(chunk.text.startswith("Sentence") for chunk in chunks[:-1])
    assert chunks[-1].text == "End."


def test_table_html_has_spans_and_escaped_cells():
    merged = Table(
        (("Year", "Sum <CHF>", ""), ("", "Bern", "Basel"), ("2024", "1", "2")),
        2,
        (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2)),
    )
    assert table_html(merged) == (
        '<table><tr><th rowspan="2">Year</th><th colspan="2">Sum &lt;CHF&gt;</th></tr>'
        "<tr><th>Bern</th><th>Basel</th></tr><tr><td>2024</td><td>1</td><td>2</td></tr></table>"
    )


def test_part_of_a_table_has_html_of_its_own_rows():
    rows = [["region", "value"]] + [["north" if index == 0 else "", str(index)] for index in range(30)]
    block = table(rows, spans=[CellSpan(1, 0, 30, 1)])
    chunks = chunks_of(block, max_tokens=32, table_html=True)
    assert len(chunks) > 1
    last = chunks[-1].attributes["table_html"]
    assert last.startswith("<table><tr><th>region</th><th>value</th></tr>")
    count = last.count("<tr>") - 1
    assert f'<td rowspan="{count}">north</td>' in last
    assert last.count("north") == 1
    assert all("table_html" not in chunk.attributes for chunk in chunks_of(block, max_tokens=32))


def test_figure_without_text_gives_no_chunk_and_one_with_text_shows_its_picture():
    silent = Block(BlockKind.FIGURE, "", picture="figure-1-1")
    assert chunks_of(silent) == []
    (chunk,) = chunks_of(paragraph("Text."), Block(BlockKind.FIGURE, "A red house", picture="figure-1-2"))
    assert chunk.picture == "figure-1-2"
    assert "A red house" in chunk.text
    captioned = [heading("A"), heading("B"), silent, Block(BlockKind.CAPTION, "Figure 1. A map.")]
    assert [chunk.picture for chunk in chunks_of(*captioned)] == ["figure-1-1"]


def test_confidence_of_a_chunk_is_the_least_of_its_blocks():
    blocks = [paragraph("Sure.", confidence=0.9), paragraph("Unsure.", confidence=0.4)]
    assert [chunk.confidence for chunk in chunks_of(*blocks)] == [0.4]
    apart = [paragraph(words(50), confidence=0.9), paragraph(words(50, "b"), confidence=0.4)]
    assert [chunk.confidence for chunk in chunks_of(*apart, max_tokens=64)] == [0.9, 0.4]


def test_row_over_the_budget_is_split_and_a_warning_names_it():
    # FR-A10: a cell of 60,000 characters in a table of 100 rows.
    rows = [["id", "text"]] + [[str(index), f"row{index}"] for index in range(99)]
    rows[57][1] = words(8_000, "w")
    result = chunk_with_warnings(document(table(rows, page=3)), COUNTER)
    assert all(chunk.token_count <= 400 for chunk in result.chunks)
    text = "\n".join(chunk.text for chunk in result.chunks)
    assert all(f"row{index}" in text for index in range(99) if index != 56)
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("Row 58 of a table on page 3 is longer than a chunk")
    assert "w1" not in result.warnings[0]


def test_warnings_are_bounded():
    rows = [["id", "text"]] + [[str(index), words(500)] for index in range(50)]
    result = chunk_with_warnings(document(table(rows)), COUNTER)
    assert len(result.warnings) == 21
    assert result.warnings[-1] == "30 more warnings of this kind are not shown."


def test_overlap_copies_boxes_and_children_do_not_repeat_it():
    lines = tuple(Box(1, 0, 10 * index, 100, 10 * index + 9) for index in range(30))
    text = " ".join(f"Sentence number {index:02d} is here." for index in range(30))
    block = paragraph(text, page=1, boxes=lines)
    values = {"max_tokens": 60, "overlap_tokens": 12}
    family = chunks_of(block, **values, children_delimiter=".", child_max_tokens=32)
    plain = chunks_of(block, **values)
    parents = [chunk for chunk in family if chunk.role is ChunkRole.PARENT]
    assert [(chunk.text, chunk.boxes) for chunk in parents] == [(chunk.text, chunk.boxes) for chunk in plain]
    children = " ".join(chunk.text for chunk in family if chunk.role is ChunkRole.TEXT)
    assert children == text


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"children_delimiter": "\n", "child_max_tokens": 4}, "child_max_tokens"),
        ({"exact_delimiters": [""]}, "exact_delimiters"),
        ({"contextual_header": 1}, "contextual_header"),
        ({"table_html": "yes"}, "table_html"),
        ({"children_delimiter": "\n", "embedder_max_tokens": 8}, "embedder_max_tokens"),
    ],
)
def test_settings_that_cannot_work_name_their_field(values, field):
    with pytest.raises(InvalidArgumentError) as raised:
        chunks_of(paragraph("a"), **values)
    assert raised.value.field == field


def test_one_chunk_shortcut_gives_what_the_long_way_gives():
    block = paragraph("Alpha beta.", page=2, boxes=(Box(2, 1, 2, 3, 4),), confidence=0.5)
    note = replace(block, kind=BlockKind.NOTE, text="Gamma.", confidence=0.8)
    short = chunks_of(block, note)
    assert short == chunks_of(block, note, table_html=True)
