"""Real documents that nobody here wrote, against their manifest's expectations.

They lie outside the project and are only read there; without them these tests are skipped.
"""

import json
import os
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_core.chunking import WordTokenCounter, chunk_document, row_text
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

ROOT = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[2].parent / "shared")) / "documents"
MEBIBYTE = 1024 * 1024

OUT_OF_THIS_SET = {
    "scanned-minutes.pdf": ("DOCUMENT_EMPTY", "a scan: needs OCR"),
    "scanned-four-orientations.pdf": ("DOCUMENT_EMPTY", "a scan: needs OCR"),
    "scanned-merged-header-table.pdf": ("DOCUMENT_EMPTY", "a scan: needs OCR"),
    "zh-text.jpeg": ("DOCUMENT_UNSUPPORTED", "an image: needs OCR"),
    "ja-vertical.jpeg": ("DOCUMENT_UNSUPPORTED", "an image: needs OCR"),
    "complex_document.png": ("DOCUMENT_UNSUPPORTED", "an image: needs OCR"),
    "50000-merges-no-values.xlsx": ("DOCUMENT_EMPTY", "a workbook without a value: an empty result would be a lie"),
}
"""Files whose expectations are for later, with the typed error that they end with until then, and why."""

NOT_EXPECTATIONS = {
    "columns": "says how the page looks; `order` is the check",
    "lang": "of the file's subject, not of most of its letters",
    "rtl": "`must_contain` and `lam_alef` are the check",
    "rotate": "`tables` is the check",
    "vertical": "`order` is the check",
    "toc_page": "`toc_entries` is the check",
    "note": "a note",
    "wrong_extension": "`must_contain` is the check",
    "resource_limit": "`either` is the check",
    "garbled_text_layer": "PDFium reads this file's text right; `latin1_to_gbk_contains` is the check",
    "table_elements": "counts tables inside cells too; here those are text of their cell",
    "optional_format": "it is read here",
    "nested_tables": "`rows_contain` is the check",
    "declared_rows": "`max_rows_emitted` is the check",
    "lists_in_cells": "`must_contain` is the check",
    "grouped_shapes": "`must_contain` is the check",
    "parts": "`body_not_duplicated` is the check",
    "max_seconds": "set as the process's limit",
    "max_rss_mb": "set as the process's limit",
    "password": "used by `with_password`",
    "recovered_text_also_ok": "an error is what happens here",
    "slides": "the same as `pages`",
}
"""Manifest keys that this test does not look at by themselves, and why."""

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


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
async def test_document_meets_its_manifest(pool: ParserPool, entry: dict[str, Any]) -> None:
    expect = entry["expect"]
    outcome: ParsedDocument | DocumentError
    try:
        outcome = await parse(pool, entry)
    except DocumentError as error:
        outcome = error
    if entry["file"] in OUT_OF_THIS_SET:
        reason, _ = OUT_OF_THIS_SET[entry["file"]]
        assert isinstance(outcome, DocumentError)
        assert outcome.reason == reason
        return
    assert list(misses(outcome, expect)) == []
    if "with_password" in expect:
        opened = await parse(pool, entry, expect["password"])
        assert list(misses(opened, expect["with_password"])) == []
        with pytest.raises(DocumentError) as raised:
            await parse(pool, entry, "not the password")
        assert raised.value.reason == "DOCUMENT_ENCRYPTED"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
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


def contains(document: ParsedDocument, wanted: list[str]) -> bool:
    text = whole(document)
    return all(bare(part) in text for part in wanted)


def in_order(document: ParsedDocument, wanted: list[str]) -> bool:
    text = whole(document)
    position = 0
    for part in wanted:
        position = text.find(bare(part), position)
        if position < 0:
            return False
    return True


def headings(document: ParsedDocument) -> list[tuple[str, int]]:
    kinds = (BlockKind.HEADING, BlockKind.TITLE)
    return [(bare(block.text), block.level) for block in document.blocks if block.kind in kinds]


def has_headings(document: ParsedDocument, wanted: list[str]) -> bool:
    found = {text for text, _ in headings(document)}
    return all(bare(text) in found for text in wanted)


def has_rows(document: ParsedDocument, wanted: list[list[str]], page: int = 0) -> bool:
    blocks = [block for block in document.blocks if not page or block.page == page]
    lines = [bare(line) for block in blocks for line in block.text.split("\n")]
    return all(any(in_line(line, row) for line in lines) for row in wanted)


def in_line(line: str, cells: list[str]) -> bool:
    position = 0
    for cell in map(bare, cells):
        found = line.find(cell, position)
        if found < 0:
            return False
        position = found + len(cell)
    return True


def has_tables(document: ParsedDocument, wanted: list[dict[str, Any]] | int) -> bool:
    tables = [block for block in document.blocks if block.kind is BlockKind.TABLE]
    if isinstance(wanted, int):
        return len(tables) == wanted
    for table in wanted:
        rows = table.get("rows_contain", []) + ([table["header"]] if "header" in table else [])
        if not has_rows(document, rows, table["page"]):
            return False
        on_page = [block.table for block in tables if block.page == table["page"] and block.table is not None]
        if table.get("merged") and not any(each.rows for each in on_page):
            return False
        if "header_rows" in table and table["header_rows"] not in {each.header_row_count for each in on_page}:
            return False
    return True


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
