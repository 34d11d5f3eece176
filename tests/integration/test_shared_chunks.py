"""Chunk templates on real documents that nobody here wrote.

They lie outside the project and are only read there; without them these tests are skipped.
"""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.chunking import TEMPLATES, ChunkResult, WordTokenCounter, chunk_with_warnings
from corpusmesh_core.chunking.pieces import SKIPPED_KINDS
from corpusmesh_core.documents import ChunkRole, ParsedDocument
from corpusmesh_core.ports.parsing import ParseOptions

ROOT = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[2].parent / "shared")) / "documents"
COUNTER = WordTokenCounter()
MIN_COVERAGE = 0.995
EMBEDDER_MAX_TOKENS = 478

FILES = (
    "tracemonkey.pdf",
    "federal-register-2020-17221.pdf",
    "redp5110_sampled.pdf",
    "bookmark_sample.pdf",
    "zh-merged-tables.pdf",
    "korean-text-with-tables.pdf",
    "rotated-wide-table.pdf",
    "word_sample.docx",
    "unit_test_headers_numbered.docx",
    "docx_lists.docx",
    "powerpoint_sample.pptx",
    "merged_range.xlsx",
    "zh-provinces.xls",
    "csv-comma-in-cell.csv",
    "html_rich_table_cells.html",
    "zh-guide.html",
    "zh-plan.md",
    "eml_with_attachment.eml",
    "gbk.txt",
    "big5.txt",
)
RECORD_TEMPLATES = frozenset({"qa", "table", "tag"})
"""Templates that leave text out by definition."""

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=f"the shared documents are not at {ROOT}")

_parsed: dict[str, ParsedDocument] = {}


def parsed(name: str) -> ParsedDocument:
    if name not in _parsed:
        _parsed[name] = parse_source(Source((ROOT / name).read_bytes(), name, ParseOptions()))
    return _parsed[name]


def cut(name: str, template: str, **settings: object) -> ChunkResult:
    values = {"embedder_max_tokens": EMBEDDER_MAX_TOKENS, **settings}
    return chunk_with_warnings(parsed(name), COUNTER, template=template, settings=values)


def visible(text: str) -> Counter[str]:
    return Counter(re.sub(r"\s+", "", text))


def source_text(document: ParsedDocument) -> Counter[str]:
    held = Counter[str]()
    for block in document.blocks:
        if block.kind not in SKIPPED_KINDS:
            held += visible(block.text if block.table is None else "".join(map("".join, block.table.rows)))
    return held


@pytest.mark.parametrize("template", sorted(TEMPLATES))
@pytest.mark.parametrize("name", FILES)
def test_every_template_on_every_document(name: str, template: str) -> None:
    document = parsed(name)
    settings = {"drop_contents": False} if template == "book" else {}
    result = cut(name, template, **settings)
    pages = {block.page for block in document.blocks}
    for chunk in result.chunks:
        embedded = f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text
        counts = COUNTER.count_tokens([chunk.text, embedded])
        assert chunk.token_count == counts[0]
        assert counts[1] <= EMBEDDER_MAX_TOKENS
        assert chunk.page in pages
        assert {box.page for box in chunk.boxes} <= pages
    assert [chunk.position for chunk in result.chunks] == list(range(len(result.chunks)))
    assert result == cut(name, template, **settings)
    if template not in RECORD_TEMPLATES:
        source = source_text(document)
        lost = source - visible("".join(chunk.text for chunk in result.chunks))
        assert lost.total() <= (1 - MIN_COVERAGE) * source.total()


def test_paper_has_its_abstract_and_references_apart() -> None:
    chunks = cut("tracemonkey.pdf", "paper").chunks
    first = chunks[0]
    assert first.attributes["section"] == "abstract"
    assert first.text.startswith("Trace-based Just-in-Time Type Specialization")
    assert "Dynamic languages such as JavaScript are more difficult to compile" in " ".join(first.text.split())
    assert chunks[1].text.startswith("1. Introduction")
    references = [chunk for chunk in chunks if chunk.attributes.get("section") == "references"]
    assert references[0].text.startswith("References")
    assert chunks[-1] == references[-1]
    body = [chunk for chunk in chunks[1:] if chunk not in references]
    assert not any("[13] J. Ha" in chunk.text for chunk in body)


def test_book_drops_the_contents_pages_and_knows_its_chapters() -> None:
    with_contents = cut("redp5110_sampled.pdf", "book", drop_contents=False).chunks
    without = cut("redp5110_sampled.pdf", "book").chunks
    assert any(". . . . ." in chunk.text for chunk in with_contents)
    assert not any(". . . . ." in chunk.text for chunk in without)
    assert ("Chapter 1. Securing and protecting IBM DB2 data", "1.1 Security fundamentals") in {
        chunk.heading_path for chunk in without
    }


def test_manual_takes_the_levels_of_the_outline() -> None:
    chunks = cut("bookmark_sample.pdf", "manual").chunks
    assert ("PART I - DEFINITIONS", "2. Construction of Terms") in {chunk.heading_path for chunk in chunks}


def test_title_keeps_the_sections_of_a_page_apart() -> None:
    assert [chunk.heading_path[-1] for chunk in cut("zh-plan.md", "title").chunks] == [
        "健康检查套餐对比",
        "套餐明细",
        "注意事项",
    ]


def test_presentation_has_a_chunk_a_slide() -> None:
    chunks = cut("powerpoint_sample.pptx", "presentation").chunks
    assert [chunk.page for chunk in chunks] == [1, 2, 3]


def test_table_has_a_chunk_a_row_with_merged_headers() -> None:
    chunks = cut("merged_range.xlsx", "table").chunks
    assert "- B1-B3: B4" in "\n".join(chunk.text for chunk in chunks)
    rows = cut("zh-provinces.xls", "table").chunks
    assert rows[0].attributes["Chinese Name"] == "安徽省"
    assert rows[0].text == "- Provinces in China: Anhui\n- Chinese Name: 安徽省"


def test_email_has_its_attachment_apart() -> None:
    body, attachment = cut("eml_with_attachment.eml", "email").chunks
    assert body.attributes["section"] == "body"
    assert body.text.startswith("Subject: Email with Attachment")
    assert attachment.attributes["attachment"] == "test.txt"
    assert attachment.attributes["from"] == body.attributes["from"]


def test_parents_hold_their_children_on_a_real_paper() -> None:
    chunks = cut("tracemonkey.pdf", "general", children_delimiter="\n", child_max_tokens=96).chunks
    parents = [chunk for chunk in chunks if chunk.role is ChunkRole.PARENT]
    children = [chunk for chunk in chunks if chunk.role is ChunkRole.TEXT]
    assert len(children) > 3 * len(parents)
    assert all(chunk.token_count <= 96 for chunk in children)
    for child in children:
        assert set(child.text.split()) <= set(parents[child.parent].text.split())


def test_boxes_of_a_chunk_lie_around_its_text() -> None:
    document = parsed("tracemonkey.pdf")
    by_page: dict[int, float] = {}
    for block in document.blocks:
        for box in block.boxes:
            by_page[box.page] = max(by_page.get(box.page, 0.0), box.bottom)
    chunks = cut("tracemonkey.pdf", "general").chunks
    assert all(chunk.boxes for chunk in chunks)
    for chunk in chunks:
        assert chunk.boxes[0].page == chunk.page
        assert all(0 <= box.left < box.right and 0 <= box.top < box.bottom <= by_page[box.page] for box in chunk.boxes)


def test_tables_carry_html_with_spans() -> None:
    tables = [
        chunk.attributes["table_html"]
        for chunk in cut("zh-merged-tables.pdf", "general", table_html=True).chunks
        if "table_html" in chunk.attributes
    ]
    assert tables
    assert any("span=" in html for html in tables)
