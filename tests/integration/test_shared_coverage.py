"""No text of a digital document is lost on its way to chunks: characters, counted by other readers than the parsers.

The documents lie outside the project and are only read there; without them these tests are skipped. Of DOC and XLS
nothing else here reads the text; their phrases and rows are tested with the manifest.
"""

import csv
import email
import email.policy
import io
import json
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import pypdfium2 as pdfium
import pytest
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.chunking import TEMPLATES, WordTokenCounter, chunk_document
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.ports.parsing import ParseOptions
from corpusmesh_core.records import Ordinal, chunk_record_id
from tests.integration.test_shared_documents import ENTRIES, OUT_OF_THIS_SET, ROOT

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")

MIN_COVERAGE = 0.995
BUDGETS_TOKENS = (32, 256)
RUNNING = (BlockKind.HEADER, BlockKind.FOOTER)
COUNTER = WordTokenCounter()
WITHOUT_ANOTHER_READER = ("doc", "xls")

EXPECT: dict[str, dict[str, Any]] = {entry["file"]: entry["expect"] for entry in ENTRIES}
FORMAT: dict[str, str] = {entry["file"]: entry["format"] for entry in ENTRIES}


def is_digital(entry: dict[str, Any]) -> bool:
    """Whether a file has text of its own that can be read."""
    expect = entry["expect"]
    choices = expect.get("either", [expect])
    may_fail = any("error" in choice for choice in choices) and "with_password" not in expect
    return (
        not may_fail
        and not expect.get("ocr")
        and entry["file"] not in OUT_OF_THIS_SET
        and entry["format"] not in WITHOUT_ANOTHER_READER
    )


DIGITAL = [entry["file"] for entry in ENTRIES if is_digital(entry)]
GARBLED = [file for file in DIGITAL if EXPECT[file].get("garbled_text_layer")]
"""Their text layer is not their text."""


def visible(text: str) -> Counter[str]:
    """Characters that can be seen: without white space, controls and soft hyphens."""
    bare = re.sub(r"[\s\x00-\x1f\u00ad\u200b-\u200f\ufeff\ufffe\uffff]+", "", unicodedata.normalize("NFKC", text))
    return Counter(bare)


@cache
def parsed(file: str) -> ParsedDocument:
    options = ParseOptions(password=EXPECT[file].get("password"))
    return parse_source(Source((ROOT / file).read_bytes(), file, options))


def of_pdf(file: str) -> str:
    """PDFium's own lines, without the running heads and feet that the parser keeps once each."""
    running = {undated(block.text) for block in parsed(file).blocks if block.kind in RUNNING}
    lines: list[str] = []
    with pdfium.PdfDocument(ROOT / file, password=EXPECT[file].get("password")) as pdf:
        for page in pdf:
            lines += page.get_textpage().get_text_bounded().splitlines()
    return "\n".join(line for line in lines if undated(line) not in running)


def undated(text: str) -> str:
    return re.sub(r"[\d\s]+", "", unicodedata.normalize("NFKC", text))


def of_package(members: str, tag: str) -> Callable[[str], str]:
    """Texts of one element in some members of an OOXML package."""

    def read(file: str) -> str:
        with zipfile.ZipFile(ROOT / file) as package:
            trees = [etree.fromstring(package.read(name)) for name in package.namelist() if re.fullmatch(members, name)]
        return "\n".join(text.text or "" for tree in trees for text in tree.iter("{*}" + tag))

    return read


def shown(content: bytes | str) -> str:
    tree = LexborHTMLParser(content)
    for hidden in tree.css("head, script, style, template"):
        hidden.decompose()
    return tree.root.text() if tree.root else ""


def of_book(file: str) -> str:
    with zipfile.ZipFile(ROOT / file) as book:
        return "\n".join(shown(book.read(name)) for name in book.namelist() if name.endswith(("html", "htm")))


def decoded(file: str) -> str:
    return (ROOT / file).read_bytes().decode(EXPECT[file].get("encoding", "utf-8"))


def of_markdown(file: str) -> str:
    """Words of Markdown, without its signs and the pictures that are written into it."""
    text = re.sub(r"\(data:[^)]*\)|^```\w*$", "", decoded(file), flags=re.MULTILINE)
    return re.sub(r"[^\w\s]|_", " ", text)


def of_mail(file: str) -> str:
    message = email.message_from_bytes((ROOT / file).read_bytes(), policy=email.policy.default)
    parts = [part.get_content() for part in message.walk() if part.get_content_type() == "text/plain"]
    return "\n".join([str(message["Subject"]), *parts])


def of_records(file: str) -> str:
    return "\n".join(text for line in decoded(file).splitlines() if line for text in strings(json.loads(line)))


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


READERS: dict[str, Callable[[str], str]] = {
    "pdf": of_pdf,
    "docx": of_package(r"word/document\.xml", "t"),
    "pptx": of_package(r"ppt/(slides|notesSlides)/[^/]+\.xml", "t"),
    "xlsx": of_package(r"xl/sharedStrings\.xml", "t"),
    "html": lambda file: shown((ROOT / file).read_bytes()),
    "epub": of_book,
    "md": of_markdown,
    "txt": decoded,
    "csv": lambda file: "\n".join(cell for row in csv.reader(io.StringIO(decoded(file))) for cell in row),
    "eml": of_mail,
    "jsonl": of_records,
}


def lost_share(source: Counter[str], held: Counter[str]) -> float:
    return (source - held).total() / max(1, source.total())


@pytest.mark.parametrize("file", [file for file in DIGITAL if file not in GARBLED])
def test_text_of_the_source_is_in_blocks_and_chunks(file: str) -> None:
    source = visible(READERS[FORMAT[file]](file))
    document = parsed(file)
    blocks = visible("".join(block.text for block in document.blocks if block.kind not in RUNNING))
    # Blocks repeat nothing: what one of them lacks is not made up for by a header of a table that is repeated.
    assert lost_share(source, blocks) <= 1 - MIN_COVERAGE, (source - blocks).most_common(12)
    for budget in BUDGETS_TOKENS:
        chunks = chunk_document(document, COUNTER, settings={"max_tokens": budget})
        held = visible("".join(chunk.text for chunk in chunks))
        assert lost_share(source, held) <= 1 - MIN_COVERAGE, (source - held).most_common(12)


@pytest.mark.parametrize("file", DIGITAL)
def test_no_chunk_is_above_the_budget(file: str) -> None:
    for template in TEMPLATES:
        for budget in BUDGETS_TOKENS:
            chunks = chunk_document(
                parsed(file), COUNTER, template=template, settings={"max_tokens": budget, "embedder_max_tokens": 320}
            )
            embedded = [f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text for chunk in chunks]
            assert [chunk.token_count for chunk in chunks] == COUNTER.count_tokens([chunk.text for chunk in chunks])
            assert max(COUNTER.count_tokens(embedded), default=0) <= 320
            if template == "general":
                assert max(chunk.token_count for chunk in chunks) <= budget


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    async with ParserPool(process_count=1) as running:
        yield running


@pytest.mark.parametrize("file", DIGITAL)
async def test_another_process_makes_the_same_chunks_under_the_same_ids(pool: ParserPool, file: str) -> None:
    options = ParseOptions(password=EXPECT[file].get("password"))
    again = await pool.parse(ROOT / file, display_name=file, options=options, deadline_seconds=60)
    first, second = (
        {chunk_record_id(Ordinal(7), chunk.position): chunk for chunk in chunk_document(document, COUNTER)}
        for document in (parsed(file), again)
    )
    assert first == second
    assert len(first) > 0


def test_most_of_the_documents_are_measured() -> None:
    measured = [file for file in DIGITAL if file not in GARBLED and visible(READERS[FORMAT[file]](file)).total() > 10]
    assert len(measured) >= 36
    assert set(READERS) == {FORMAT[file] for file in DIGITAL}
