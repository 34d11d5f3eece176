"""What holds for every template: no text is lost, no chunk is over its budget, the same result twice."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import TEMPLATES, WordTokenCounter, chunk_with_warnings, row_text
from corpusmesh_core.chunking.headings import with_levels
from corpusmesh_core.documents import Block, BlockKind, Box, ChunkRole, ParsedDocument, Table

COUNTER = WordTokenCounter()
RUNNING_TEXT = ("general", "title", "paper", "book", "laws", "manual", "email", "resume")
DROPS = {
    "qa": "labels of questions and answers, the title",
    "table": "header cells without values",
    "tag": "all but examples",
}
"""Templates that drop text by definition; their own tests say what."""


class CharacterCounter:
    """A token per character, white space included: joined text costs more than its parts."""

    def count_tokens(self, texts):
        return [len(text) for text in texts]

    def token_offsets(self, text):
        return [(index, index + 1) for index in range(len(text))]


LINES = st.sampled_from(
    [
        "Chapter 1 The Beginning",
        "第一章 总则",
        "第一条 本法自公布之日起施行。",
        "第二条 为了保护权利，制定本法。国家保护。",
        "Article 1",
        "Article 2. Every person has rights.",
        "§ 3 Scope",
        "1.2 Setup",
        "一、概述",
        "Abstract",
        "Keywords: trees; maps",
        "References",
        "[1] A. Author. A paper. 2020.",
        "> quoted line",
        "On Monday, Ann wrote:",
        "From: Ann",
        "Experience",
        "教育经历",
        "Q: Why? ",
        "A: Because.",
        "问：为什么？",
        "答：因为。",
        "a\tb",
        "Plain sentence one. And sentence two!",
        "普通的句子。还有一句！",
        " ",
        "😀 é",
        "x" * 70,
    ]
)
TEXTS = st.lists(LINES, max_size=5).map("\n".join)
CELLS = st.text("abc中 1-", max_size=30).map(str.strip)
KINDS = st.sampled_from(
    [BlockKind.PARAGRAPH, BlockKind.PARAGRAPH, BlockKind.LIST_ITEM, BlockKind.CODE, BlockKind.CAPTION, BlockKind.FIGURE]
)
BOXES = st.lists(
    st.builds(Box, st.just(1), st.just(0.0), st.integers(0, 90), st.just(50.0), st.just(100.0)), max_size=3
)


def table_block(rows, header):
    width = max(map(len, rows))
    rows = tuple(tuple(row) + ("",) * (width - len(row)) for row in rows)
    table = Table(rows, min(header, len(rows)))
    return Block(BlockKind.TABLE, "\n".join(filter(None, map(row_text, rows))), page=1, table=table)


def document_of(blocks):
    return ParsedDocument("text/plain", "", tuple(with_levels(blocks, {})), page_count=3)


DOCUMENTS = st.lists(
    st.one_of(
        st.builds(
            lambda kind, text, page, boxes: Block(kind, text, page=page, boxes=tuple(boxes)),
            KINDS,
            TEXTS,
            st.integers(1, 3),
            BOXES,
        ),
        st.builds(lambda text, level: Block(BlockKind.HEADING, text.strip(), level=level), LINES, st.integers(1, 3)),
        st.builds(
            table_block,
            st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1, max_size=6),
            st.integers(0, 2),
        ),
    ),
    max_size=14,
).map(document_of)


def visible(text):
    return Counter(re.sub(r"\s+", "", text))


def source_text(document):
    return "".join(
        "".join(row_text(row) for row in block.table.rows) if block.table else block.text for block in document.blocks
    )


@pytest.mark.parametrize("template", sorted(set(TEMPLATES) - set(DROPS)))
@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.sampled_from([32, 60, 400]), st.sampled_from([COUNTER, CharacterCounter()]))
def test_no_text_is_lost_and_no_chunk_is_over_the_budget(template, document, budget, counter):
    values = {"max_tokens": budget, "embedder_max_tokens": 128}
    if template == "book":
        values["drop_contents"] = False
    chunks = chunk_with_warnings(document, counter, template=template, settings=values).chunks
    # A table's header is repeated where the table goes on in another chunk; nothing else is there twice.
    held = visible("".join(chunk.text for chunk in chunks))
    assert visible(source_text(document)) <= held
    if not any(block.table and block.table.header_row_count for block in document.blocks):
        assert held == visible(source_text(document))
    for chunk in chunks:
        assert chunk.text.strip()
        longest = min(480 if chunk.attributes.get("section") == "abstract" else budget, 128)
        assert chunk.token_count == counter.count_tokens([chunk.text])[0] <= longest
        embedded = f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text
        assert counter.count_tokens([embedded])[0] <= 128
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))


@pytest.mark.parametrize("template", sorted(DROPS))
@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.sampled_from([32, 400]), st.sampled_from([COUNTER, CharacterCounter()]))
def test_record_templates_keep_within_the_budget(template, document, budget, counter):
    values = {"max_tokens": budget, "embedder_max_tokens": 128}
    chunks = chunk_with_warnings(document, counter, template=template, settings=values).chunks
    for chunk in chunks:
        assert chunk.token_count == counter.count_tokens([chunk.text])[0] <= min(budget, 128)
        assert counter.count_tokens([f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text])[0] <= 128
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))


@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.sampled_from([32, 400]))
def test_qa_keeps_all_text_in_texts_or_heading_paths(document, budget):
    values = {"max_tokens": budget}
    chunks = chunk_with_warnings(document, COUNTER, template="qa", settings=values).chunks
    held = visible("".join(chunk.text + "".join(chunk.heading_path) for chunk in chunks))
    missing = visible(re.sub(r"[QA]:|问：|答：", "", source_text(document))) - held
    # Headings of pairs stand in heading paths, once for all; every other character is in a text.
    headings = {character for block in document.blocks if block.kind is BlockKind.HEADING for character in block.text}
    assert set(missing) - headings - {"|"} == set()


@pytest.mark.parametrize("template", sorted(TEMPLATES))
@settings(max_examples=12, deadline=None)
@given(DOCUMENTS)
def test_the_same_document_gives_the_same_chunks(template, document):
    first = chunk_with_warnings(document, COUNTER, template=template)
    assert first == chunk_with_warnings(replace(document), WordTokenCounter(), template=template)
    assert len(first.warnings) <= 42


@pytest.mark.parametrize("template", RUNNING_TEXT)
@settings(max_examples=12, deadline=None)
@given(DOCUMENTS, st.sampled_from(["\n", "。", ". "]))
def test_children_hold_the_text_of_their_parents(template, document, delimiter):
    values = {"children_delimiter": delimiter, "child_max_tokens": 40, "max_tokens": 200, "embedder_max_tokens": 64}
    chunks = chunk_with_warnings(document, COUNTER, template=template, settings=values).chunks
    parents = [chunk for chunk in chunks if chunk.role is ChunkRole.PARENT]
    children = [chunk for chunk in chunks if chunk.role is ChunkRole.TEXT]
    assert [chunk.position for chunk in parents] == list(range(len(parents)))
    assert [chunk.position for chunk in children] == list(range(len(children)))
    assert {chunk.parent for chunk in children} == set(range(len(parents)))
    assert [chunk.parent for chunk in children] == sorted(chunk.parent for chunk in children)
    for parent in parents:
        own = visible("".join(chunk.text for chunk in children if chunk.parent == parent.position))
        # A table's header is repeated in a child where the table goes on, and not in a child of a later parent.
        assert set(own) <= set(visible(parent.text))
        if not any(block.table and block.table.header_row_count for block in document.blocks):
            assert own == visible(parent.text)
    assert all(chunk.token_count <= 40 for chunk in children)


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_document_without_blocks_or_text_gives_no_chunk(template):
    for document in (document_of([]), document_of([Block(BlockKind.PARAGRAPH, " \n ")])):
        assert chunk_with_warnings(document, COUNTER, template=template).chunks == ()


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_every_template_has_defaults_a_summary_and_takes_the_embedders_limit(template):
    found = TEMPLATES[template]
    assert found.summary.endswith(".")
    assert found.settings({"embedder_max_tokens": 96}).embedder_max_tokens == 96
    assert found.settings({}) == found.settings_type()
