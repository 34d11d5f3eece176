"""A cited passage is where its boxes say: they are cut out of the page and read back, by other means than the parser's.

Text layers are read back character by character through PDFium's own page-to-device transform; pages that are pixels
are cropped and recognised again.
"""

import ctypes
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from PIL import Image

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.parsers.recognition import recognize
from corpusmesh_core.chunking import WordTokenCounter, chunk_document
from corpusmesh_core.documents import Box, Chunk, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions
from tests.integration.test_shared_documents import ENTRIES, ROOT

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")

BY_NAME = {entry["file"]: entry["expect"] for entry in ENTRIES}
TEXT_LAYER = (
    "tracemonkey.pdf",
    "redp5110_sampled.pdf",
    "zh-merged-tables.pdf",
    "federal-register-2020-17221.pdf",
    "borderless-sparse-table.pdf",
    "rotated-wide-table.pdf",
    "anticlockwise-text-table.pdf",
    "scan-with-ocr-layer.pdf",
    "korean-text-with-tables.pdf",
    "bookmark_sample.pdf",
    "right_to_left_01.pdf",
    "encrypted-open-password.pdf",
    "encrypted-aes256-r6.pdf",
    "encrypted-empty-user-password.pdf",
    "jbig2-bomb.pdf",
    "garbled-gbk-font.pdf",
    "corrupt-recoverable.pdf",
)
PIXELS = (
    "scanned-minutes.pdf",
    "scanned-four-orientations.pdf",
    "scanned-merged-header-table.pdf",
    "complex_document.png",
    "zh-text.jpeg",
)
DOTS_PER_INCH = 200
MAX_CHUNKS = 12


def bare(text: str) -> str:
    return re.sub(r"[\s\u00ad\ufffe|.\u2026_-]+", "", unicodedata.normalize("NFKC", text))


async def read(name: str) -> tuple[ParsedDocument, list[Chunk]]:
    """Parse a document, and give an even sample of its chunks that have a place."""
    async with ParserPool(process_count=1) as pool:
        document = await pool.parse(
            ROOT / name,
            display_name=name,
            options=ParseOptions(password=BY_NAME[name].get("password"), limits=ParseLimits(cpu_seconds=200)),
            deadline_seconds=280,
        )
    chunks = chunk_document(document, WordTokenCounter(), settings={"max_tokens": 120, "contextual_header": False})
    placed = [chunk for chunk in chunks if chunk.boxes]
    step = max(1, len(placed) // MAX_CHUNKS)
    return document, placed[::step]


def characters_of(page: pdfium.PdfPage) -> list[tuple[str, float, float]]:
    """Every visible character with its centre in points from the top left of the page as it is shown."""
    width, height = page.get_size()
    scale = 100
    textpage = page.get_textpage()
    x, y = ctypes.c_int(), ctypes.c_int()
    found = []
    for index in range(textpage.count_chars()):
        character = chr(pdfium_c.FPDFText_GetUnicode(textpage, index))
        if not character.strip():
            continue
        left, bottom, right, top = textpage.get_charbox(index)
        pdfium_c.FPDF_PageToDevice(
            page,
            0,
            0,
            round(width * scale),
            round(height * scale),
            0,
            (left + right) / 2,
            (bottom + top) / 2,
            ctypes.byref(x),
            ctypes.byref(y),
        )
        found.append((character, x.value / scale, y.value / scale))
    return found


def text_in(characters: Sequence[tuple[str, float, float]], boxes: Sequence[Box]) -> str:
    slack = 1.0
    return "".join(
        character
        for character, x, y in characters
        if any(
            box.left - slack <= x <= box.right + slack and box.top - slack <= y <= box.bottom + slack for box in boxes
        )
    )


def shared_share(wanted: str, found: str) -> float:
    """Share of the wanted characters that were found, as a bag: reading order is another test's matter."""
    if not wanted:
        return 1.0
    held = Counter(wanted) & Counter(found)
    return sum(held.values()) / len(wanted)


@pytest.mark.parametrize("name", TEXT_LAYER)
async def test_boxes_of_a_chunk_hold_its_text(name: str) -> None:
    _, chunks = await read(name)
    assert chunks, "no chunk has a place"
    pdf = pdfium.PdfDocument(ROOT / name, password=BY_NAME[name].get("password"))
    pages: dict[int, list[tuple[str, float, float]]] = {}
    try:
        for chunk in chunks:
            found = ""
            for number in sorted({box.page for box in chunk.boxes}):
                if number not in pages:
                    pages[number] = characters_of(pdf[number - 1])
                found += text_in(pages[number], [box for box in chunk.boxes if box.page == number])
            wanted = bare(chunk.text)
            if name == "garbled-gbk-font.pdf":
                # What the layer holds are the bytes of another encoding; how many there are is what can be compared.
                assert len(found) >= 0.5 * len(wanted)
                continue
            # A heading cell that stands across two rows lies in the boxes of both together: a sample that holds only
            # one of the rows misses it.
            assert shared_share(wanted, bare(found)) >= 0.85, (chunk.text, found)
            # A box is a line: a chunk that begins or ends within one holds the rest of that line too, not a page.
            assert len(bare(found)) <= 1.5 * len(wanted) + 150, (chunk.text, found)
    finally:
        pdf.close()


@pytest.mark.parametrize("name", PIXELS)
async def test_boxes_of_a_recognised_chunk_read_the_same_again(name: str) -> None:
    document, chunks = await read(name)
    assert chunks, "no chunk has a place"
    chunk = max(chunks[:4], key=lambda item: len(item.text))
    page = chunk.boxes[0].page
    boxes = [box for box in chunk.boxes if box.page == page]
    image = page_pixels(name, page)
    scale = image.width / page_width(name, page)
    left, top = min(box.left for box in boxes), min(box.top for box in boxes)
    right, bottom = max(box.right for box in boxes), max(box.bottom for box in boxes)
    margin = 12
    crop = image.crop(
        (
            max(0, round(left * scale) - margin),
            max(0, round(top * scale) - margin),
            min(image.width, round(right * scale) + margin),
            min(image.height, round(bottom * scale) + margin),
        )
    )
    again = recognize(np.asarray(crop), page=1, points_per_pixel=72 / DOTS_PER_INCH, limits=ParseLimits())
    found = bare("".join(block.text for block in again.blocks))
    if {box.page for box in chunk.boxes} == {page}:
        assert shared_share(bare(chunk.text), found) >= 0.75, (chunk.text, found)
    assert found
    assert shared_share(found, bare(chunk.text)) >= 0.85, (chunk.text, found)
    assert document.recognized_pages


def page_pixels(name: str, page: int) -> Image.Image:
    content = (ROOT / name).read_bytes()
    if name.endswith(".pdf"):
        pdf = pdfium.PdfDocument(content)
        try:
            return pdf[page - 1].render(scale=DOTS_PER_INCH / 72).to_pil().convert("RGB")
        finally:
            pdf.close()
    return Image.open(io.BytesIO(content)).convert("RGB")


def page_width(name: str, page: int) -> float:
    """Width of a page in points, in the frame that boxes are given in."""
    if name.endswith(".pdf"):
        pdf = pdfium.PdfDocument(ROOT / name)
        try:
            width: float = pdf[page - 1].get_size()[0]
            return width
        finally:
            pdf.close()
    with Image.open(ROOT / name) as image:
        dots: Any = image.info.get("dpi", (72, 72))[0]
        return image.width * 72 / float(dots or 72)


def test_at_least_twenty_documents_are_read_back() -> None:
    assert len({*TEXT_LAYER, *PIXELS}) >= 20
