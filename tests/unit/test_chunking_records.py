"""Templates for records: questions and answers, rows of data, tag examples."""

import pytest

from corpusmesh_core.chunking import WordTokenCounter, chunk_with_warnings, row_text
from corpusmesh_core.chunking.cell_types import CellType, infer_type, typed_text
from corpusmesh_core.chunking.edits import is_disabled
from corpusmesh_core.chunking.headings import with_levels
from corpusmesh_core.chunking.rows import column_names
from corpusmesh_core.documents import Block, BlockKind, Box, CellSpan, ChunkRole, ParsedDocument, Table

COUNTER = WordTokenCounter()


def paragraph(text, **more):
    return Block(BlockKind.PARAGRAPH, text, **more)


def heading(text, level=1, **more):
    return Block(BlockKind.HEADING, text, level=level, **more)


def table(rows, header=1, spans=(), **more):
    width = max(map(len, rows))
    rows = tuple(tuple(row) + ("",) * (width - len(row)) for row in rows)
    return Block(BlockKind.TABLE, "\n".join(map(row_text, rows)), table=Table(rows, header, tuple(spans)), **more)


def cut(template, *blocks, **values):
    document = ParsedDocument("text/plain", values.pop("title", ""), tuple(with_levels(blocks, {})))
    return chunk_with_warnings(document, COUNTER, template=template, settings=values)


def words(count, word="word"):
    return " ".join(f"{word}{index}" for index in range(count))


def texts(result):
    return [chunk.text for chunk in result.chunks]


# qa


def test_qa_reads_pairs_from_a_table_with_a_header():
    boxes = tuple(Box(1, 0, 10 * index, 50, 10 * index + 9) for index in range(3))
    result = cut(
        "qa",
        table([["No", "Answer", "Question"], ["1", "Blue.", "What colour?"], ["2", "42.", "How many?"]], boxes=boxes),
    )
    assert texts(result) == [
        "Question: What colour?\nAnswer: Blue.\nNo: 1",
        "Question: How many?\nAnswer: 42.\nNo: 2",
    ]
    assert [chunk.questions for chunk in result.chunks] == [("What colour?",), ("How many?",)]
    assert [chunk.boxes for chunk in result.chunks] == [(boxes[1],), (boxes[2],)]
    assert result.warnings == ()


def test_qa_takes_every_row_of_a_table_without_known_header_as_a_pair():
    result = cut("qa", table([["什么颜色？", "蓝色。"], ["多少？", "四十二。"]]))
    assert texts(result) == ["问题：什么颜色？\n回答：蓝色。", "问题：多少？\n回答：四十二。"]


def test_qa_rows_with_one_field_extend_the_answer_and_one_without_a_question_is_reported():
    result = cut("qa", table([["lonely"], ["Why?", "Because."], ["It is so."]], page=2))
    assert texts(result) == ["lonely", "Question: Why?\nAnswer: Because.\nIt is so."]
    assert result.warnings == ("Row 1 of a table on page 2 is no pair of question and answer.",)


def test_qa_reads_lines_with_tabs():
    assert texts(cut("qa", paragraph("Why?\tBecause.\nHow?\tSo.\nand so on"))) == [
        "Question: Why?\nAnswer: Because.",
        "Question: How?\nAnswer: So.\nand so on",
    ]


def test_qa_reads_marked_lines():
    text = "Intro.\nQ: Why?\nA: Because.\nIt is so.\nQ2: How\nexactly?\nA2: So."
    result = cut("qa", paragraph(text), paragraph("More on how."), paragraph("Question: Never answered?"))
    assert texts(result) == [
        "Intro.",
        "Question: Why?\nAnswer: Because.\nIt is so.",
        "Question: How\nexactly?\nAnswer: So.\n\nMore on how.",
        "Never answered?",
    ]
    assert result.chunks[2].questions == ("How exactly?",)
    assert result.warnings == ("A question has no answer.",)


def test_qa_reads_marked_lines_in_chinese():
    result = cut("qa", heading("常见问题"), paragraph("问：为什么？\n答：因为。\n问题2：如何？\n答案2：这样。"))
    assert texts(result) == ["问题：为什么？\n回答：因为。", "问题：如何？\n回答：这样。"]
    assert {chunk.heading_path for chunk in result.chunks} == {("常见问题",)}


def test_qa_keeps_headings_in_text_that_belongs_to_no_pair():
    blocks = [
        heading("Rules"),
        paragraph("Be kind."),
        heading("More"),
        paragraph("Q: Why?\nA: Because."),
        heading("End"),
    ]
    result = cut("qa", *blocks)
    assert texts(result) == ["Rules\n\nBe kind.", "Question: Why?\nAnswer: Because.", "End"]
    assert result.chunks[1].heading_path == ("More",)


def test_qa_headings_nest_as_questions():
    blocks = [
        Block(BlockKind.TITLE, "Help"),
        heading("Accounts"),
        heading("Passwords", 2),
        paragraph("Change them in the settings."),
        Block(BlockKind.LIST_ITEM, "Open the menu."),
        heading("How do I log in?", 2),
        paragraph("With your name."),
    ]
    result = cut("qa", *blocks, title="Help")
    assert texts(result) == [
        "Question: Passwords\nAnswer: Change them in the settings.\nOpen the menu.",
        "Question: How do I log in?\nAnswer: With your name.",
    ]
    assert [chunk.questions for chunk in result.chunks] == [("Accounts > Passwords",), ("How do I log in?",)]
    assert [chunk.context for chunk in result.chunks] == ["Accounts", "Accounts"]


def test_qa_table_inside_an_answer_stays_in_it():
    blocks = [heading("What does it cost?"), paragraph("It depends on the size " * 5), table([["S", "1"], ["L", "2"]])]
    (text,) = texts(cut("qa", *blocks))
    assert text.endswith("S | 1\nL | 2")


def test_qa_repeats_the_question_above_every_part_of_a_long_answer():
    answer = " ".join(f"Sentence {index} of it." for index in range(60))
    result = cut("qa", table([["Why is it so?", answer]]), max_tokens=64)
    assert len(result.chunks) > 4
    assert all(chunk.text.startswith("Question: Why is it so?\n") for chunk in result.chunks)
    assert all(chunk.token_count <= 64 and chunk.questions == ("Why is it so?",) for chunk in result.chunks)
    assert "Sentence 59" in result.chunks[-1].text


def test_qa_without_pairs_keeps_the_text_and_says_so():
    result = cut("qa", paragraph("Just text."))
    assert texts(result) == ["Just text."]
    assert result.warnings == ("No pair of question and answer was found; the text was cut as running text.",)


# table

PEOPLE = [
    ["name", "age", "member", "since"],
    ["Ann", "1,204", "yes", "2020/1/5"],
    ["Bob", "30", "no", "2021-12-31"],
]


def test_table_makes_a_chunk_of_each_row_with_typed_attributes():
    result = cut("table", heading("People"), table(PEOPLE))
    assert texts(result) == [
        "- name: Ann\n- age: 1,204\n- member: yes\n- since: 2020/1/5",
        "- name: Bob\n- age: 30\n- member: no\n- since: 2021-12-31",
    ]
    assert result.chunks[0].attributes == {
        "row": "2",
        "name": "Ann",
        "age": "1204",
        "member": "true",
        "since": "2020-01-05",
        "column_types": "name=text; age=int; member=bool; since=date",
    }
    assert result.chunks[0].block_kind is BlockKind.TABLE
    assert result.chunks[0].heading_path == ("People",)
    assert result.chunks[0].context == "People"


def test_table_columns_cannot_set_what_attributes_mean_to_the_mesh():
    header = ["disabled", "edits", "picture", "parent", "row", "block_kind", "edited", "disabled"]
    result = cut("table", table([header, ["true", "00000001-0001", "../x", "9", "77", "code", "true", "yes"]]))
    [chunk] = result.chunks
    assert not is_disabled(chunk)
    assert chunk.attributes["row"] == "2"
    assert chunk.attributes["disabled (column)"] == "true"
    assert chunk.attributes["disabled (2)"] == "true"
    assert not {"edits", "picture", "parent", "block_kind", "edited"} & set(chunk.attributes)


def test_table_columns_have_roles():
    result = cut("table", table(PEOPLE), column_roles={"age": "metadata", "member": "indexed"})
    assert texts(result)[0] == "- name: Ann\n- member: yes\n- since: 2020/1/5"
    assert set(result.chunks[0].attributes) == {"row", "name", "age", "since", "column_types"}


def test_table_takes_several_rows_a_chunk():
    rows = [["n"]] + [[str(index)] for index in range(5)]
    result = cut("table", table(rows), rows_per_chunk=2)
    assert texts(result) == ["- n: 0\n\n- n: 1", "- n: 2\n\n- n: 3", "- n: 4"]
    assert [chunk.attributes["row"] for chunk in result.chunks] == ["2-3", "4-5", "6-6"]


def test_table_joins_merged_headers():
    spans = [CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2)]
    block = table([["city", "people"], ["", "2020", "2024"], ["Bern", "1", "2"]], header=2, spans=spans)
    assert column_names(block.table) == ["city", "people-2020", "people-2024"]
    assert texts(cut("table", block)) == ["- city: Bern\n- people-2020: 1\n- people-2024: 2"]


def test_table_names_columns_without_or_with_the_same_header():
    assert column_names(Table((("a", "a", ""), ("1", "2", "3")), 1)) == ["a", "a (2)", "column 3"]


def test_table_splits_a_long_row_and_names_it():
    # FR-A10: a cell of 60,000 characters in a table of 100 rows.
    rows = [["id", "text"]] + [[f"r{index}", "short"] for index in range(99)]
    rows[40][1] = words(8_000)
    result = cut("table", table(rows, page=1))
    assert all(chunk.token_count <= 400 for chunk in result.chunks)
    parts = [chunk for chunk in result.chunks if chunk.attributes["row"] == "41"]
    assert len(parts) > 20
    assert all(chunk.text.startswith("- id: r39\n") for chunk in parts)
    assert {chunk.attributes["row"] for chunk in result.chunks} == {str(index) for index in range(2, 101)}
    assert result.warnings == (
        f"Row 41 of a table on page 1 is longer than a chunk and was split into {len(parts)} parts.",
    )


def test_table_keeps_text_beside_tables_and_tables_of_headers_alone():
    result = cut("table", paragraph("A note."), table(PEOPLE), table([["only", "headers"]]), heading("End"))
    assert texts(result)[0] == "A note."
    assert texts(result)[-1] == "only | headers\n\nEnd"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2", "1,000", ""], CellType.INT),
        (["1.5", "2", "1e3", ".5"], CellType.FLOAT),
        (["true", "No", "是"], CellType.BOOL),
        (["2020-01-02", "2020年1月2日", "2020/1/2 10:30"], CellType.DATE),
        (["007", "12"], CellType.TEXT),
        (["2020-13-02"], CellType.TEXT),
        (["1", "x"], CellType.TEXT),
        (["", ""], CellType.TEXT),
        (["1,00"], CellType.TEXT),
    ],
)
def test_column_types(cells, expected):
    assert infer_type(cells) is expected


def test_values_have_one_form_of_their_type():
    assert typed_text("2020年1月2日", CellType.DATE) == "2020-01-02"
    assert typed_text("2020/1/2 10:30", CellType.DATE) == "2020-01-02T10:30"
    assert typed_text("+1,000", CellType.INT) == "1000"
    assert typed_text("否", CellType.BOOL) == "false"
    assert typed_text("odd", CellType.DATE) == "odd"


# tag


def test_tag_makes_examples_with_their_tags():
    result = cut("tag", table([["Description", "Category"], ["Which phones are there?", "Huawei, phone"]]))
    (chunk,) = result.chunks
    assert chunk.role is ChunkRole.TAG_EXAMPLE
    assert chunk.text == "Which phones are there?"
    assert chunk.tags == {"Huawei": 1.0, "phone": 1.0}
    assert result.warnings == ()


def test_tag_reads_lines_and_leaves_out_what_is_no_example():
    result = cut(
        "tag", heading("Tags"), paragraph("浙江省的办法\t浙江，政策\nno tag here\n\tlonely"), paragraph("Prose.")
    )
    assert [(chunk.text, dict(chunk.tags)) for chunk in result.chunks] == [("浙江省的办法", {"浙江": 1.0, "政策": 1.0})]
    assert result.warnings == (
        "Row 2 of a table has no description or no tag and was left out.",
        "Row 3 of a table has no description or no tag and was left out.",
        "1 blocks of text lie outside of rows and were left out.",
    )


def test_tag_splits_a_long_description_into_several_examples():
    result = cut("tag", table([[words(100), "long"]]), max_tokens=64)
    assert len(result.chunks) == 2
    assert [chunk.position for chunk in result.chunks] == [0, 1]
    assert {chunk.role for chunk in result.chunks} == {ChunkRole.TAG_EXAMPLE}
    assert all(chunk.tags == {"long": 1.0} for chunk in result.chunks)
