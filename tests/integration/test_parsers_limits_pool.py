"""Hostile and huge files through the pool of parser processes: a typed end, and the memory that was taken for it.

Each is parsed by a pool of a process of its own, whose descendants' peak of resident memory the kernel tells. An idle
parser process takes about 110 MiB with its libraries, shared with the children that it forks.
"""

import io
import json
import random
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docx
import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers.recognition import is_available
from tests.integration.test_shared_documents import ENTRIES, ROOT

MEBIBYTE = 1024 * 1024
DEADLINE_SECONDS = 280
REFUSED_MEBIBYTES = 300
"""What it may take to refuse a file, the idle process's own included."""

PROGRAM = """
import asyncio, json, resource, sys, threading
from pathlib import Path
import psutil
from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

async def main(paths, limits):
    options = ParseOptions(limits=ParseLimits(**limits), keep_pictures=True)
    outcomes = []
    async with ParserPool(process_count=1) as pool:
        for path in paths:
            try:
                document = await pool.parse(Path(path), display_name="file", options=options, deadline_seconds=260)
                text = sum(len(block.text) for block in document.blocks)
                outcomes.append(["", "", document.page_count, text, document.warnings])
            except DocumentError as error:
                outcomes.append([error.reason, error.metadata.get("limit", ""), 0, 0, []])
    return outcomes

def watch():
    # A child that is killed with the pool is waited for by nobody who counts: its high-water mark is read while it is.
    while not ended.wait(0.01):
        for process in psutil.Process().children(recursive=True):
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                continue
            peaks.extend(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        peaks[:] = [max(peaks, default=0)]

peaks, ended = [], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
try:
    outcomes = asyncio.run(main(*json.loads(sys.argv[1])))
finally:
    ended.set()
    watcher.join()
print(json.dumps([outcomes, max(*peaks, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024]))
"""


@dataclass(frozen=True)
class Outcome:
    """How a document ended, "" for the reason where it has text."""

    reason: str
    limit: str
    page_count: int
    character_count: int
    warnings: list[str]


def run(*paths: Path, **limits: int) -> tuple[list[Outcome], int]:
    """Parse files one after the other in one pool; their outcomes, and the peak of resident memory in MiB."""
    order = json.dumps([[str(path) for path in paths], limits])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, order], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes, peak = json.loads(done.stdout)
    return [Outcome(*outcome) for outcome in outcomes], peak


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


def long_pdf(page_count: int) -> bytes:
    """Pages of forty lines of ten words, no two the same."""
    words = random.Random(4)
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    for number in range(1, page_count + 1):
        page = canvas.beginText(60, 760)
        for _ in range(40):
            page.textLine(" ".join(f"w{words.randrange(90_000)}" for _ in range(10)))
        canvas.drawText(page)
        canvas.drawString(280, 30, f"Page {number}")
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


@pytest.fixture(scope="module")
def five_thousand_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pages"), long_pdf(5_000))


def test_five_thousand_pages_are_too_many_unless_they_are_allowed(five_thousand_pages: Path) -> None:
    (outcome,), peak = run(five_thousand_pages)
    assert (outcome.reason, outcome.limit) == ("DOCUMENT_RESOURCE_LIMIT", "max_pages")
    assert peak < REFUSED_MEBIBYTES


def test_five_thousand_pages_that_are_allowed_take_less_than_half_a_gibibyte(five_thousand_pages: Path) -> None:
    (outcome,), peak = run(five_thousand_pages, max_pages=5_000, cpu_seconds=200)
    assert outcome.page_count == 5_000
    assert outcome.character_count > 5_000 * 40 * 40
    assert peak < 512


def png(side: int) -> bytes:
    """A white square, compressed row by row."""
    packer = zlib.compressobj(9)
    row = b"\0" + b"\xff" * side
    body = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()

    def part(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + checksum

    header = side.to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", body) + part(b"IEND", b"")


@pytest.fixture(scope="module")
def huge_image() -> bytes:
    return png(20_000)


def test_an_image_of_twenty_thousand_pixels_squared_is_refused_before_it_is_unpacked(
    tmp_path: Path, huge_image: bytes
) -> None:
    (outcome,), peak = run(written(tmp_path, huge_image))
    assert (outcome.reason, outcome.limit) == ("DOCUMENT_RESOURCE_LIMIT", "max_pixels")
    assert peak < REFUSED_MEBIBYTES


@pytest.mark.skipif(not is_available(), reason="the extra `vision` is not installed")
def test_an_image_just_below_the_limit_is_read_within_the_memory_of_recognition(tmp_path: Path) -> None:
    (outcome,), peak = run(written(tmp_path, png(9_999)))
    assert outcome.reason == "DOCUMENT_EMPTY"
    # It is unpacked, so this also shows that what a child takes is counted.
    assert REFUSED_MEBIBYTES < peak < 1024


def pdf_with_image(side: int, content: bytes, caption: bytes) -> bytes:
    """One page of text above an image that is as packed in the file as in a PNG."""
    text = b"BT /F1 12 Tf 72 760 Td (%s) Tj ET q 400 0 0 400 72 200 cm /I Do Q" % caption
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>/XObject<</I 6 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8"
        b"/Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (side, side, len(content), content),
    ]
    body, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return body + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        len(body),
    )


def flat_white(side: int) -> bytes:
    packer = zlib.compressobj(9)
    row = b"\xff" * side
    return b"".join(packer.compress(row) for _ in range(side)) + packer.flush()


@pytest.mark.parametrize("caption", [b"A caption that can be read.", b""])
def test_a_huge_image_on_a_page_costs_no_more_than_the_limit_on_memory(tmp_path: Path, caption: bytes) -> None:
    content = pdf_with_image(20_000, flat_white(20_000), caption)
    (outcome,), peak = run(written(tmp_path, content))
    assert outcome.character_count == len(caption)
    assert outcome.reason == ("" if caption else "DOCUMENT_EMPTY")
    assert peak < 1024 + REFUSED_MEBIBYTES


def test_a_huge_image_in_a_word_file_costs_only_itself(tmp_path: Path, huge_image: bytes) -> None:
    document = docx.Document()
    document.add_paragraph("A caption that can be read.")
    document.add_picture(io.BytesIO(png(8)))
    stream = io.BytesIO()
    document.save(stream)
    swapped = io.BytesIO()
    with zipfile.ZipFile(stream) as before, zipfile.ZipFile(swapped, "w", zipfile.ZIP_STORED) as after:
        for name in before.namelist():
            after.writestr(name, huge_image if name.startswith("word/media/") else before.read(name))
    (outcome,), peak = run(written(tmp_path, swapped.getvalue()))
    assert outcome.reason == ""
    assert outcome.character_count > 20
    assert peak < REFUSED_MEBIBYTES


def zipped(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def nested_bomb() -> bytes:
    """A gigabyte of text six archives deep, each of them of sixteen of the next: 16 TiB in all."""
    content = zipped("bomb.txt", b"0" * (64 * MEBIBYTE))
    for _ in range(5):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(16):
                archive.writestr(f"{number}.zip", content)
        content = stream.getvalue()
    return content


def entity_bomb() -> bytes:
    entities = "".join(f'<!ENTITY a{index} "{f"&a{index - 1};" * 10}">' for index in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{entities}]><x>&a9;</x>'
    document = docx.Document()
    document.add_paragraph("Hello")
    stream = io.BytesIO()
    document.save(stream)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/bomb.xml", bomb)
    return stream.getvalue()


def page_bomb() -> bytes:
    """A page whose description unpacks to a gigabyte."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * MEBIBYTE) for _ in range(1024)) + packer.flush()
    return (
        b"%%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<<>>>>\nendobj\n"
        b"4 0 obj<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream\nendobj\ntrailer<</Root 1 0 R/Size 5>>\n%%%%EOF"
    ) % (len(packed), packed)


BOMBS: dict[str, tuple[Callable[[], bytes], set[str], int]] = {
    "zip in zip": (nested_bomb, {"DOCUMENT_RESOURCE_LIMIT"}, REFUSED_MEBIBYTES),
    "zip": (lambda: zipped("a.txt", b"0" * (512 * MEBIBYTE)), {"DOCUMENT_RESOURCE_LIMIT"}, REFUSED_MEBIBYTES),
    "xml": (entity_bomb, {"DOCUMENT_RESOURCE_LIMIT"}, REFUSED_MEBIBYTES),
    "page": (page_bomb, {"DOCUMENT_RESOURCE_LIMIT", "DOCUMENT_EMPTY", "DOCUMENT_CORRUPT"}, 1024 + REFUSED_MEBIBYTES),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_typed_within_bounded_memory(tmp_path: Path, name: str) -> None:
    make, reasons, most = BOMBS[name]
    (outcome,), peak = run(written(tmp_path, make()))
    assert outcome.reason in reasons, outcome
    assert peak < most, outcome


def deep_html(depth: int) -> bytes:
    return b"<html>" + b"<table><tr><td>a</td><td>" * depth + b"x" + b"</td></tr></table>" * depth


def deep_docx(depth: int) -> bytes:
    document = docx.Document()
    document.add_paragraph("Before the tables.")
    inner = "<w:p><w:r><w:t>x</w:t></w:r></w:p>"
    for _ in range(depth):
        inner = f"<w:tbl><w:tr><w:tc>{inner}</w:tc><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p/>"
    # Not packed: it is not the ratio that is to be refused.
    stream = io.BytesIO()
    document.save(stream)
    swapped = io.BytesIO()
    with zipfile.ZipFile(stream) as before, zipfile.ZipFile(swapped, "w", zipfile.ZIP_STORED) as after:
        for name in before.namelist():
            content = before.read(name)
            if name == "word/document.xml":
                content = content.replace(b"</w:body>", inner.encode() + b"</w:body>")
            after.writestr(name, content)
    return swapped.getvalue()


@pytest.mark.parametrize("make", [deep_html, deep_docx])
@pytest.mark.parametrize("depth", [60, 20_000])
def test_deeply_nested_tables_are_read_or_refused_by_depth(
    tmp_path: Path, make: Callable[[int], bytes], depth: int
) -> None:
    (outcome,), peak = run(written(tmp_path, make(depth)))
    assert outcome.reason in ("", "DOCUMENT_RESOURCE_LIMIT"), outcome
    if outcome.reason:
        assert outcome.limit == "max_depth"
    assert peak < REFUSED_MEBIBYTES


@pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")
@pytest.mark.parametrize("share", [0.25, 0.75, 0.98])
def test_real_documents_that_are_cut_off_end_as_text_or_typed(tmp_path: Path, share: float) -> None:
    paths: list[Path] = []
    for entry in ENTRIES:
        if entry["bytes"] and not entry["expect"].get("ocr"):
            content = (ROOT / entry["file"]).read_bytes()
            paths.append(tmp_path / f"{len(paths)}")
            paths[-1].write_bytes(content[: int(len(content) * share)])
    outcomes, peak = run(*paths)
    known = {
        "",
        *(f"DOCUMENT_{reason}" for reason in ("CORRUPT", "EMPTY", "ENCRYPTED", "UNSUPPORTED", "RESOURCE_LIMIT")),
    }
    assert {outcome.reason for outcome in outcomes} <= known
    assert sum(outcome.reason == "DOCUMENT_CORRUPT" for outcome in outcomes) > len(paths) // 4
    assert not [outcome for outcome in outcomes if outcome.limit in ("memory_bytes", "cpu_seconds", "wall_seconds")]
    assert peak < 512


@pytest.mark.skipif(not ENTRIES, reason=f"the shared documents are not at {ROOT}")
def test_real_bombs_stay_below_the_memory_that_their_manifest_allows() -> None:
    bombs = [entry for entry in ENTRIES if "max_rss_mb" in entry["expect"]]
    assert len(bombs) == 2
    for entry in bombs:
        _, peak = run(ROOT / entry["file"])
        assert peak < entry["expect"]["max_rss_mb"]
