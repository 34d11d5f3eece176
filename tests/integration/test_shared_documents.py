"""Real documents that nobody here wrote, against their manifest's expectations.

They lie outside the project and are only read there; without them these tests are skipped.
"""

import io
import json
import os
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from lxml import etree

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.parsers.recognition import is_available
from corpusmesh_core.chunking import WordTokenCounter, chunk_document, row_text
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

ROOT = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[2].parent / "shared")) / "documents"
MEBIBYTE = 1024 * 1024

OUT_OF_THIS_SET = {
    "50000-merges-no-values.xlsx": ("DOCUMENT_EMPTY", "a workbook without a value: an empty result would be a lie"),
}
"""Files that end with a typed error although their manifest names none, and why; nothing of them is emitted."""

NOT_EXPECTATIONS = {
    "columns": "says how the page looks; `order` is the check",
    "rtl": "`must_contain` and `lam_alef` are the check",
    "rotate": "`tables` is the check",
    "rotations": "`each_page_contains` is the check",
    "vertical": "`order` is the check",
    "toc_page": "`toc_entries` is the check",
    "note": "a note",
    "hard": "a goal that is met: the others of the file hold",
    "wrong_extension": "`must_contain` is the check",
    "resource_limit": "`either` is the check",
    "garbled_text_layer": "PDFium reads this file's text right; `latin1_to_gbk_contains` is the check",
    "table_elements": "counts tables inside cells too: test_tables_are_tables_and_inner_ones_text_of_their_cell",
    "optional_format": "it is read here",
    "nested_tables": "`rows_contain` is the check",
    "declared_rows": "`max_rows_emitted` is the check",
    "grouped_shapes": "`must_contain` is the check",
    "parts": "`body_not_duplicated` is the check",
    "max_seconds": "set as the process's limit",
    "max_rss_mb": "set as the process's limit; what such files take is measured beside the pool",
    "password": "used by `with_password`",
    "recovered_text_also_ok": "an error is what happens here",
    "slides": "the same as `pages`",
}
"""Manifest keys that this test does not look at by themselves, and why."""

MOSTLY_FOREIGN = {"zh-provinces.xls": "most of its letters are Latin"}
CHARACTERS_A_MISREADING = 20
"""Of text that was recognised in pixels one character in so many may be wrong, missing or too much."""

ENCODINGS = {"gbk": {"gbk", "gb18030"}, "big5": {"big5", "big5hkscs", "cp950"}, "cp932": {"cp932"}}


def entries() -> list[dict[str, Any]]:
    manifest = ROOT / "MANIFEST.jsonl"
    if not manifest.exists():
        return []
    return [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines() if line]


ENTRIES = entries()
pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")


def bare(text: str) -> str:
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def name_of(entry: dict[str, Any]) -> str:
    return str(entry["file"])


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    async with ParserPool(process_count=1) as running:
        yield running


async def parse(pool: ParserPool, entry: dict[str, Any], password: str | None = None) -> ParsedDocument:
    expect = entry["expect"]
    limits = ParseLimits(
        cpu_seconds=expect.get("max_seconds", 60),
        memory_bytes=expect.get("max_rss_mb", 1024) * MEBIBYTE,
    )
    return await pool.parse(
        ROOT / entry["file"],
        display_name=entry["file"],
        options=ParseOptions(password=password, limits=limits, keep_pictures=True),
        deadline_seconds=120,
    )


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
async def test_document_meets_its_manifest(pool: ParserPool, entry: dict[str, Any]) -> None:
    expect = entry["expect"]
    if expect.get("ocr") and not is_available():
        pytest.skip("the extra `vision` is not installed")
    outcome: ParsedDocument | DocumentError
    try:
        outcome = await parse(pool, entry)
    except DocumentError as error:
        outcome = error
    if entry["file"] in OUT_OF_THIS_SET:
        reason, _ = OUT_OF_THIS_SET[entry["file"]]
        assert isinstance(outcome, DocumentError)
        assert outcome.reason == reason
        assert f"{len(expect['sheets'])} sheets" in outcome.message
        return
    if entry["file"] in MOSTLY_FOREIGN:
        expect = {key: wanted for key, wanted in expect.items() if key != "lang"}
    assert list(misses(outcome, expect)) == []
    if "with_password" in expect:
        opened = await parse(pool, entry, expect["password"])
        assert list(misses(opened, expect["with_password"])) == []
        with pytest.raises(DocumentError) as raised:
            await parse(pool, entry, "not the password")
        assert raised.value.reason == "DOCUMENT_ENCRYPTED"


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
async def test_chunks_hold_all_text_within_the_budget(pool: ParserPool, entry: dict[str, Any]) -> None:
    try:
        document = await parse(pool, entry)
    except DocumentError:
        return
    counter = WordTokenCounter()
    chunks = chunk_document(document, counter, settings={"max_tokens": 64})
    assert all(chunk.token_count == counter.count_tokens([chunk.text])[0] <= 64 for chunk in chunks)
    held = bare("".join(chunk.text for chunk in chunks))
    for block in document.blocks:
        if block.kind in (BlockKind.HEADER, BlockKind.FOOTER):
            continue
        lines = [row_text(row) for row in block.table.rows] if block.table else [block.text]
        for line in lines:
            assert all(bare(word) in held for word in line.split())


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if "table_elements" in entry["expect"]], ids=name_of)
async def test_tables_are_tables_and_inner_ones_text_of_their_cell(pool: ParserPool, entry: dict[str, Any]) -> None:
    content = (ROOT / entry["file"]).read_bytes()
    if entry["format"] == "docx":
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            tree = etree.fromstring(package.read("word/document.xml"))
        tables = tree.findall(".//{*}tbl")
    else:
        tree = lxml.html.document_fromstring(content)
        tables = tree.findall(".//table")
    inside = {inner for table in tables for inner in table.findall(".//{*}" + local(table))}
    outer = [table for table in tables if table not in inside]
    assert len(tables) == entry["expect"]["table_elements"]
    document = await parse(pool, entry)
    found = tables_of(document)
    assert len(found) == len(outer)
    for table, block in zip(outer, found, strict=True):
        words = texts_in(table)
        assert Counter(bare(words)) - Counter(bare(block.text)) == Counter()


def local(element: etree._Element) -> str:
    return etree.QName(element).localname


def texts_in(table: etree._Element) -> str:
    # Instructions of Word's fields are texts too, and not shown.
    if local(table) == "tbl":
        return "".join(part.text or "" for part in table.iter("{*}t"))
    return "".join(map(str, table.itertext(with_tail=False)))


def test_every_key_of_the_manifest_is_known() -> None:
    keys = {key for entry in ENTRIES if entry["file"] not in OUT_OF_THIS_SET for key in entry["expect"]}
    assert keys - set(CHECKS) - set(NOT_EXPECTATIONS) == set()
    assert set(OUT_OF_THIS_SET) <= {entry["file"] for entry in ENTRIES}


def misses(outcome: ParsedDocument | DocumentError, expect: dict[str, Any]) -> Iterator[str]:
    """Name every expectation that does not hold."""
    if "either" in expect:
        if all(list(misses(outcome, choice)) for choice in expect["either"]):
            yield "either"
        return
    if "error" in expect:
        found = outcome.reason if isinstance(outcome, DocumentError) else "no error"
        if found != f"DOCUMENT_{expect['error'].upper()}":
            yield f"error: {found}"
        return
    if isinstance(outcome, DocumentError):
        yield f"{outcome.reason}: {outcome.message}"
        return
    for key, wanted in expect.items():
        check = CHECKS.get(key)
        if check is not None and not check(outcome, wanted):
            yield f"{key}: {wanted}"


def whole(document: ParsedDocument) -> str:
    return bare("\n".join(block.text for block in document.blocks))


def place_after(text: str, part: str, errors: int = 0) -> int:
    """Find where a part of a text ends first, with so many characters wrong, missing or too much; -1 if nowhere."""
    if not errors:
        found = text.find(part)
        return found + len(part) if found >= 0 else -1
    # Sellers 1980: the edit distance of the part to what ends at each place, wherever it begins.
    costs = list(range(len(part) + 1))
    for place, character in enumerate(text, 1):
        diagonal, costs[0] = costs[0], 0
        for row, wanted in enumerate(part, 1):
            best = min(diagonal + (wanted != character), costs[row] + 1, costs[row - 1] + 1)
            diagonal, costs[row] = costs[row], best
        if costs[-1] <= errors:
            return place
    return -1


def holds(document: ParsedDocument, text: str, parts: list[str]) -> bool:
    """Whether parts stand in a text one after the other, misreadings of recognised text aside."""
    for part in map(bare, parts):
        errors = len(part) // CHARACTERS_A_MISREADING if document.recognized_pages else 0
        end = place_after(text, part, errors)
        if end < 0:
            return False
        text = text[end:]
    return True


def contains(document: ParsedDocument, wanted: list[str]) -> bool:
    text = whole(document)
    return all(holds(document, text, [part]) for part in wanted)


def in_order(document: ParsedDocument, wanted: list[str]) -> bool:
    return holds(document, whole(document), wanted)


def each_page(document: ParsedDocument, wanted: list[str]) -> bool:
    pages = [
        bare("\n".join(block.text for block in document.blocks if block.page == number))
        for number in range(1, document.page_count + 1)
    ]
    return all(holds(document, page, [part]) for page in pages for part in wanted)


def is_recognized(document: ParsedDocument, wanted: bool) -> bool:
    sure = [block.confidence for block in document.blocks if block.text]
    is_all = list(document.recognized_pages) == list(range(1, document.page_count + 1))
    return (is_all and all(0 < each <= 1 for each in sure) and min(sure) < 1) is wanted


def headings(document: ParsedDocument) -> list[tuple[str, int]]:
    kinds = (BlockKind.HEADING, BlockKind.TITLE)
    return [(bare(block.text), block.level) for block in document.blocks if block.kind in kinds]


def has_headings(document: ParsedDocument, wanted: list[str]) -> bool:
    found = {text for text, _ in headings(document)}
    return all(bare(text) in found for text in wanted)


def has_rows(document: ParsedDocument, wanted: list[list[str]]) -> bool:
    return all(any(row_in(document, table, row) for table in tables_of(document)) for row in wanted)


def row_in(document: ParsedDocument, table: Block, wanted: list[str]) -> bool:
    lines = [bare(line) for line in table.text.split("\n")]
    return any(holds(document, line, wanted) for line in lines)


def tables_of(document: ParsedDocument, page: int = 0) -> list[Block]:
    blocks = [block for block in document.blocks if block.table is not None]
    return [block for block in blocks if not page or block.page == page]


def has_tables(document: ParsedDocument, wanted: list[dict[str, Any]] | int) -> bool:
    if isinstance(wanted, int):
        return len(tables_of(document)) == wanted
    return all(
        any(is_table(document, block, table) for block in tables_of(document, table["page"])) for table in wanted
    )


def is_table(document: ParsedDocument, block: Block, wanted: dict[str, Any]) -> bool:
    """Whether one block is the table that is wanted: its rows, header and merged cells, and its caption near it."""
    table = block.table
    rows = wanted.get("rows_contain", []) + ([wanted["header"]] if "header" in wanted else [])
    if table is None or not all(row_in(document, block, row) for row in rows):
        return False
    if wanted.get("merged") and not table.spans:
        return False
    if table.header_row_count != wanted.get("header_rows", table.header_row_count):
        return False
    place = document.blocks.index(block)
    near = document.blocks[max(0, place - 2) : place + 2]
    captions = [bare(each.text) for each in near if each.kind is BlockKind.CAPTION]
    return "caption" not in wanted or any(bare(wanted["caption"]) in caption for caption in captions)


def has_lists_in_cells(document: ParsedDocument, wanted: bool) -> bool:
    cells = [cell for block in tables_of(document) if block.table for row in block.table.rows for cell in row]
    return any("1. Number one" in cell and "3. Number three" in cell for cell in cells) is wanted


def has_merges(document: ParsedDocument, wanted: int | dict[str, int]) -> bool:
    # A merged range of which every other place lies in a row or column without a value is no span of the table.
    spans = sum(len(block.table.spans) for block in document.blocks if block.table is not None)
    return spans > 0 if isinstance(wanted, dict) else True


def on_pages(document: ParsedDocument, wanted: dict[str, int]) -> bool:
    return all(
        any(bare(text) in bare(block.text) and block.page == page and block.boxes for block in document.blocks)
        for text, page in wanted.items()
    )


def has_outline(document: ParsedDocument, wanted: list[tuple[str, int, int]]) -> bool:
    found = {(entry.title, entry.level, entry.page) for entry in document.outline}
    return all(tuple(entry) in found for entry in wanted)


def has_attachments(document: ParsedDocument, wanted: list[Any]) -> bool:
    names = document.metadata.get("attachments", "")
    for attachment in wanted:
        name = attachment if isinstance(attachment, str) else attachment["name"]
        inside = [] if isinstance(attachment, str) else attachment["must_contain"]
        if name not in names or not contains(document, inside):
            return False
    return True


def joins_hyphens(document: ParsedDocument, wanted: list[str]) -> bool:
    text = whole(document)
    return all(pair.split("->")[1] in text and pair.split("->")[0] not in text for pair in wanted)


def has_levels(document: ParsedDocument, wanted: list[tuple[str, int]]) -> bool:
    found = headings(document)
    return all((bare(text), level) in found for text, level in wanted)


def body_once(document: ParsedDocument, wanted: bool) -> bool:
    return (whole(document).count("RayTomlinson") == 1) is wanted


def table_rows(document: ParsedDocument) -> int:
    return sum(len(block.table.rows) for block in document.blocks if block.table is not None)


CHECKS: dict[str, Any] = {
    "pages": lambda document, wanted: document.page_count == wanted,
    "must_contain": contains,
    "each_page_contains": each_page,
    "ocr": is_recognized,
    "lang": lambda document, wanted: document.language == wanted,
    "lam_alef": contains,
    "toc_entries": contains,
    "latin1_to_gbk_contains": contains,
    "must_not_contain": lambda document, wanted: not any(bare(part) in whole(document) for part in wanted),
    "order": in_order,
    "chapters_in_order": in_order,
    "images": lambda document, wanted: (
        sum(block.kind is BlockKind.FIGURE for block in document.blocks) == len(document.pictures) == wanted
    ),
    "merges": has_merges,
    "headings": has_headings,
    "headings_levels": has_levels,
    "rows_contain": has_rows,
    "tables": has_tables,
    "page_of": on_pages,
    "outline": has_outline,
    "attachments": has_attachments,
    "embedded": lambda document, wanted: document.metadata.get("embedded_file_count") == str(wanted),
    "hyphenation": joins_hyphens,
    "form_fields": lambda document, wanted: wanted and len(document.blocks) > 7,
    "lists_in_cells": has_lists_in_cells,
    "nested_lists": lambda document, wanted: wanted and any(block.level > 1 for block in document.blocks),
    "notes": lambda document, wanted: sum(block.kind is BlockKind.NOTE for block in document.blocks) == wanted,
    "sheets": lambda document, wanted: document.metadata["sheets"] == ", ".join(wanted),
    "cells": lambda document, wanted: contains(document, list(wanted.values())),
    "real_rows": lambda document, wanted: (
        sum(len(block.table.rows) for block in document.blocks if block.table is not None and block.page == 1)
        <= wanted["Sheet1"]
    ),
    "max_rows_emitted": lambda document, wanted: table_rows(document) <= wanted,
    "rows": lambda document, wanted: table_rows(document) == wanted,
    "values": lambda document, wanted: table_rows(document) == wanted,
    "encoding": lambda document, wanted: document.metadata["encoding"] in ENCODINGS.get(wanted, {wanted}),
    "code_blocks": lambda document, wanted: sum(block.kind is BlockKind.CODE for block in document.blocks) == wanted,
    "image_data_uri_not_in_text": lambda document, wanted: ("base64" not in whole(document)) is wanted,
    "headers": lambda document, wanted: contains(document, list(wanted.values())),
    "body_not_duplicated": body_once,
    "min_records": lambda document, wanted: len(document.blocks) >= wanted,
    "either": None,
    "error": None,
    "with_password": None,
}
"""How each manifest key is checked; None where the test itself does it."""
