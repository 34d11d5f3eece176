"""Recognition of pages that are pixels: what is read, in what order, where it stands, and what it may cost."""

import errno
import itertools
import os
import re
import sys
import types
import unicodedata
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw, ImageFont

from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.parsers import pool as pool_module
from corpusmesh_adapters.parsers.failures import is_out_of_memory
from corpusmesh_adapters.parsers.recognition import is_available, recognize
from corpusmesh_adapters.parsers.recognition import models as models_module
from corpusmesh_adapters.parsers.recognition import page as page_module
from corpusmesh_adapters.parsers.recognition.order import reading_order
from corpusmesh_adapters.parsers.recognition.raster import turned, turned_quads, unturned_box
from corpusmesh_adapters.parsers.recognition.rules import find_grids
from corpusmesh_adapters.parsers.sandbox import has_room
from corpusmesh_core.documents import BlockKind, CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

SHARED = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).parents[3] / "shared")) / "documents"
DOTS = 200
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "omicron",
    "rho",
)

needs_models = pytest.mark.skipif(not is_available(), reason="the extra vision is not installed")


def shared(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def pixels_of(name, page=0):
    path = shared(name)
    if path.suffix == ".pdf":
        document = pdfium.PdfDocument(path)
        try:
            image = document[page].render(scale=DOTS / 72).to_pil()
        finally:
            document.close()
    else:
        image = Image.open(path)
    return np.asarray(image.convert("RGB"))


def read(pixels, **limits):
    return recognize(pixels, page=1, points_per_pixel=72 / DOTS, limits=ParseLimits(**limits))


def text_of(page):
    return "\n".join(block.text for block in page.blocks)


def bare(text):
    return "".join(unicodedata.normalize("NFKC", text).split())


def holds(text, wanted):
    """Whether a text is there with at most one error in twenty characters."""
    text, wanted = bare(text), bare(wanted)
    if wanted in text:
        return True
    match = SequenceMatcher(None, text, wanted, autojunk=False).find_longest_match()
    start = max(match.a - match.b - 2, 0)
    window = text[start : start + len(wanted) + 4]
    same = sum(block.size for block in SequenceMatcher(None, window, wanted, autojunk=False).get_matching_blocks())
    return len(wanted) - same <= len(wanted) // 20


def page_image(size=(1650, 1100)):
    image = Image.new("L", size, 255)
    return image, ImageDraw.Draw(image)


def write(draw, text, x, y, *, width=620, size=26):
    """Write text in lines of a width; returns where the next line goes."""
    font = ImageFont.load_default(size=size)
    line = ""
    for word in [*text.split(), None]:
        if word is not None and draw.textlength(f"{line} {word}", font=font) <= width:
            line = f"{line} {word}".strip()
            continue
        draw.text((x, y), line, font=font, fill=0)
        y += round(size * 1.3)
        line = word or ""
    return y


def as_pixels(image):
    return np.asarray(image.convert("RGB"))


def sentences(count, seed):
    return " ".join(np.random.default_rng(seed).choice(WORDS, count))


def two_columns():
    image, draw = page_image((1650, 2200))
    write(draw, "A Paper With Two Columns", 400, 120, width=1000, size=60)
    below = write(draw, f"LEFTONE {sentences(60, 1)}", 150, 300)
    write(draw, f"LEFTTWO {sentences(60, 2)}", 150, below + 30)
    below = write(draw, f"RIGHTONE {sentences(50, 3)}", 880, 300)
    write(draw, f"RIGHTTWO {sentences(60, 4)}", 880, below + 30)
    return image


@needs_models
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "scanned-minutes.pdf",
            [
                "MEETING MINUTES",
                "March 10, 2024",
                "John Smith, Jane Doe, Bob Johnson",
                "Phase 1 completed successfully",
                "75% of allocated budget",
            ],
        ),
        ("scanned-merged-header-table.pdf", ["Disability", "Low Vision", "1672.1 sec, n=4"]),
        ("zh-text.jpeg", ["改善肌肤松弛", "适合任何肌肤", "宛若新生"]),
        ("ja-vertical.jpeg", ["元来日本語は漢文に倣い"]),
        ("complex_document.png", ["Sales Report 2024", "Q1 Sales", "Widget A", "Prepared by"]),
    ],
)
def test_scans_are_read(name, wanted):
    page = read(pixels_of(name))
    assert [text for text in wanted if not holds(text_of(page), text)] == []
    assert page.confidence > 0.95
    assert all(0.5 <= block.confidence <= 1.0 for block in page.blocks)


@needs_models
@pytest.mark.parametrize(("page", "degrees"), [(0, 0), (1, 180), (2, 90), (3, 270)])
def test_turned_pages_are_turned_upright_and_boxes_stay_in_the_page_as_it_lies(page, degrees):
    pixels = pixels_of("scanned-four-orientations.pdf", page)
    found = read(pixels)
    assert found.turned_degrees == degrees
    (block,) = found.blocks
    assert block.text == (
        "Docling bundles PDF document conversion to JSON and Markdown in an easy self contained package"
    )
    # Every box is dark somewhere inside, and the rest of the page is white.
    scale = DOTS / 72
    rest = pixels.copy()
    for box in block.boxes:
        area = np.s_[
            int(box.top * scale) : int(box.bottom * scale) + 1, int(box.left * scale) : int(box.right * scale) + 1
        ]
        assert pixels[area].min() < 100
        rest[area] = 255
    assert rest.min() > 150


@needs_models
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_turned_chinese_is_not_taken_for_writing_from_top_to_bottom(degrees):
    upright = pixels_of("zh-text.jpeg")
    found = read(np.ascontiguousarray(np.rot90(upright, -degrees // 90)))
    assert found.turned_degrees == degrees
    assert holds(text_of(found), "改善肌肤松弛")
    assert text_of(found).index("改善") < text_of(found).index("人群")


@needs_models
def test_vertical_japanese_is_read_from_the_right_in_one_paragraph():
    found = read(pixels_of("ja-vertical.jpeg"))
    (block,) = found.blocks
    assert found.turned_degrees == 0
    # Its commas and full stops hang beside their characters.
    assert bare(block.text) == bare(
        "元来日本語は漢文に倣い、文字を上から下へ、また行を右から左へと進めて表記を行っていた。"
        "漢字と仮名の筆順も縦書きを前提としており、横書き不能な書体も存在する。"
    )
    assert " " not in block.text
    assert [box.left for box in block.boxes] == sorted((box.left for box in block.boxes), reverse=True)


@needs_models
def test_scanned_table_keeps_merged_cells_and_both_header_rows():
    (block,) = read(pixels_of("scanned-merged-header-table.pdf")).blocks
    assert block.kind is BlockKind.TABLE
    assert block.table.header_row_count == 2
    assert block.table.rows[2] == ("Blind", "5", "1", "4", "34.5%, n=1", "1199 sec, n=1")
    assert block.table.rows[5] == ("Mobility", "3", "3", "0", "95.4%, n=3", "1416 sec, n=3")
    assert block.table.rows[0][4] == "Results"
    assert set(block.table.spans) == {*(CellSpan(0, column, 2, 1) for column in range(4)), CellSpan(0, 4, 1, 2)}
    assert len(block.boxes) == len(block.table.rows)


@needs_models
def test_tables_beside_each_other_are_two_tables():
    tables = [block.table for block in read(pixels_of("complex_document.png")).blocks if block.table is not None]
    assert [len(table.rows) for table in tables] == [4, 4]
    assert tables[0].rows[2][:2] == ("Widget B", "200")
    assert tables[1].rows[3][:2] == ("Widget C", "130")


@needs_models
def test_chinese_table_with_merged_cells_is_read_from_pixels():
    found = read(pixels_of("zh-merged-tables.pdf"))
    tables = [block.table for block in found.blocks if block.table is not None]
    assert [(len(table.rows), len(table.rows[0])) for table in tables] == [(8, 5), (11, 8), (2, 3)]
    assert tables[0].rows[0][0] == "公路技术等级"
    assert CellSpan(2, 0, 3, 1) in tables[0].spans
    assert tables[1].rows[4][3:] == ("0.97", "1.04", "1.12", "1.19", "1.25")
    kinds = {block.kind for block in found.blocks}
    assert {BlockKind.HEADER, BlockKind.FOOTER, BlockKind.CAPTION} <= kinds


@needs_models
def test_table_without_upright_rules_is_read_by_its_structure():
    image, draw = page_image()
    rows = [
        ("Country", "Capital", "Population"),
        ("France", "Paris", "68,000,000"),
        ("Spain", "Madrid", "48,000,000"),
        ("Italy", "Rome", "59,000,000"),
        ("Poland", "Warsaw", "38,000,000"),
        ("Norway", "Oslo", "5,500,000"),
    ]
    write(draw, "The table below lists countries of Europe.", 150, 100, width=1200)
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            write(draw, cell, 200 + column * 420, 200 + row * 60)
    for y in (190, 250, 560):
        draw.line((150, y, 1400, y), fill=0, width=3)
    (table,) = [block.table for block in read(as_pixels(image)).blocks if block.table is not None]
    assert table.rows == tuple(rows)
    assert table.header_row_count == 1


@needs_models
@pytest.mark.parametrize("skew_degrees", [0, 1.2, -3])
def test_columns_are_read_one_after_the_other_also_on_a_skewed_scan(skew_degrees):
    image = two_columns().rotate(skew_degrees, fillcolor=255, resample=Image.Resampling.BICUBIC)
    found = read(as_pixels(image))
    starts = [block.text.split()[0] for block in found.blocks]
    assert starts == ["A", "LEFTONE", "LEFTTWO", "RIGHTONE", "RIGHTTWO"]
    assert found.blocks[0].kind is BlockKind.TITLE
    assert holds(text_of(found), sentences(60, 1))


@needs_models
def test_boxes_of_a_skewed_page_lie_on_its_lines():
    image, draw = page_image((1650, 900))
    for row in range(4):
        write(draw, f"Line {row} of a page that lay crooked on its scanner", 300, 200 + 130 * row, width=1200, size=40)
    pixels = as_pixels(image.rotate(2, fillcolor=255, resample=Image.Resampling.BICUBIC))
    found = read(pixels)
    assert found.turned_degrees == 0
    scale = DOTS / 72
    for block in found.blocks:
        for box in block.boxes:
            left, top, right, bottom = (int(edge * scale) for edge in (box.left, box.top, box.right, box.bottom))
            again = read(pixels[max(top, 0) : bottom, max(left, 0) : right])
            assert holds(text_of(again), block.text)


@needs_models
def test_words_parted_at_a_line_end_are_made_whole():
    image, draw = page_image()
    for row, line in enumerate(
        ("The committee has recom-", "mended that the budget of", "the city be raised by ten", "percent.")
    ):
        write(draw, line, 150, 150 + 40 * row)
    assert read(as_pixels(image)).blocks[0].text.startswith("The committee has recommended that the budget of the city")


@needs_models
def test_small_print_is_looked_at_closely():
    image, draw = page_image((1654, 2339))
    text = sentences(300, 9)
    write(draw, text, 120, 120, width=1400, size=15)
    found = read(as_pixels(image))
    assert found.confidence > 0.95
    words = re.findall(r"\w+", text_of(found))
    assert SequenceMatcher(None, words, text.split(), autojunk=False).ratio() > 0.9


@needs_models
def test_page_with_more_lines_than_time_keeps_what_was_read(monkeypatch):
    image, draw = page_image()
    for row in range(10):
        write(draw, f"row{row} {sentences(6, row)}", 100, 60 + 90 * row, width=1500)
    # Each look at the clock is a second later than the one before.
    clock = types.SimpleNamespace(process_time=itertools.count().__next__)
    monkeypatch.setattr(page_module, "time", clock)
    found = read(as_pixels(image), recognition_cpu_seconds=10)
    assert re.findall(r"row\d+", text_of(found)) == [f"row{row}" for row in range(7)]
    assert found.dropped_line_count == 3


@needs_models
@pytest.mark.parametrize("shape", [(800, 800), (1, 1), (2, 3000), (3000, 2)])
@pytest.mark.parametrize("shade", [0, 255])
def test_pages_without_text_have_no_blocks(shape, shade):
    found = read(np.full((*shape, 3), shade, np.uint8))
    assert found.blocks == ()
    assert found.confidence == 0.0


@needs_models
def test_noise_is_dropped():
    noise = np.random.default_rng(0).integers(0, 255, (1200, 900, 3), dtype=np.uint8)
    assert len(text_of(read(noise))) < 20


def test_page_with_too_many_pixels_is_refused_before_any_model_is_opened():
    with pytest.raises(DocumentError) as raised:
        read(np.broadcast_to(np.uint8(255), (1001, 1000, 3)), max_pixels=1_000_000)
    assert raised.value.metadata["limit"] == "max_pixels"


def test_asking_whether_recognition_is_there_opens_no_model():
    before = set(sys.modules)
    is_available()
    assert not {name for name in set(sys.modules) - before if name.startswith(("onnxruntime", "rapid"))}


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_turning_a_page_and_its_boxes_agree(degrees):
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[5:9, 10:30] = 255
    quad = np.asarray([[[10, 5], [30, 5], [30, 9], [10, 9]]], np.float32)
    upright = turned(pixels, degrees)
    (moved,) = turned_quads(quad, degrees, 60, 40)
    (left, top), (right, bottom) = moved[0], moved[2]
    assert (left, top) == tuple(moved.min(axis=0))
    assert upright[int(top) : int(bottom), int(left) : int(right)].min() == 255
    assert upright.sum() == 4 * 20 * 3 * 255
    assert unturned_box((left, top, right, bottom), degrees, 60, 40) == (10, 5, 30, 9)


def test_ruled_grid_finds_merged_cells_at_its_edges():
    image = Image.new("RGB", (600, 400), "white")
    draw = ImageDraw.Draw(image)
    for y in (50, 150, 250, 350):
        draw.line((50, y, 550, y), fill="black", width=2)
    for x in (50, 550):
        draw.line((x, 50, x, 350), fill="black", width=2)
    draw.line((300, 150, 300, 350), fill="black", width=2)
    (grid,) = find_grids(np.asarray(image), 30.0)
    assert [round(row) for row in grid.rows] == pytest.approx([50, 150, 250, 350], abs=2)
    assert [round(column) for column in grid.columns] == pytest.approx([50, 300, 550], abs=2)
    assert grid.spans == (CellSpan(0, 0, 1, 2),)


def test_forms_are_read_across_and_columns_of_text_down():
    form = [(0, y, 60, y + 20) for y in (0, 40, 80)] + [(200, y, 280, y + 20) for y in (0, 40, 80)]
    assert reading_order(form, page_width=1000, line_height=20) == [0, 3, 1, 4, 2, 5]
    text = [(0, y, 400, y + 20) for y in (0, 40, 80)] + [(500, y, 900, y + 20) for y in (0, 40, 80)]
    assert reading_order(text, page_width=1000, line_height=20) == [0, 1, 2, 3, 4, 5]


def test_heading_across_the_page_parts_columns_above_from_columns_below():
    above = [(0, 0, 400, 60), (500, 0, 900, 60)]
    heading = (0, 100, 900, 130)
    below = [(0, 160, 400, 300), (500, 160, 900, 300)]
    order = reading_order([*below, heading, *above], page_width=1000, line_height=20)
    assert order == [3, 4, 2, 0, 1]


# What a recogniser does inside a confined reader; a document is the order to it.
READER = """
import os, signal, time
import numpy as np
from corpusmesh_adapters.parsers.builder import DocumentBuilder
from corpusmesh_adapters.parsers.child import serve
from corpusmesh_adapters.parsers.recognition import recognize
from corpusmesh_adapters.parsers.sandbox import recognizing
from corpusmesh_core.documents import BlockKind

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def parse(source):
    order, _, count = source.content.decode().partition(" ")
    limits = source.limits
    said = []
    for page in range(int(count or 1)):
        if order == "models":
            shape = np.frombuffer(open(source.display_name, "rb").read(), np.uint8).reshape(-1, 1200, 3)
            found = recognize(shape, page=1, points_per_pixel=0.36, limits=limits)
            said += [block.text for block in found.blocks]
            tasks = len(os.listdir("/proc/self/task"))
            said.append(f"threads {tasks}")
        elif order == "take":
            with recognizing(limits):
                said.append(str(len(bytearray(400 * 1024 * 1024))))
        elif order == "sleep":
            with recognizing(limits):
                time.sleep(600)
        elif order == "nap":
            with recognizing(limits):
                time.sleep(0.8)
        elif order == "page":
            with recognizing(limits):
                burn(1.2)
        elif order == "loop":
            with recognizing(limits):
                burn(600)
        elif order == "after":
            with recognizing(limits):
                burn(0.1)
            burn(600)
        elif order == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif order == "crash-recognizing":
            with recognizing(limits):
                os.kill(os.getpid(), signal.SIGSEGV)
        elif order == "unmapped":
            raise ImportError("libanything.so: failed to map segment from shared object")
    builder = DocumentBuilder("text/plain", limits)
    builder.add(BlockKind.PARAGRAPH, "|".join(["read", *said]))
    return builder.build()

serve(parse)
"""
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
async def reader(tmp_path_factory):
    script = tmp_path_factory.mktemp("recognition") / "reader.py"
    script.write_text(READER)
    async with ParserPool(process_count=1, command=(sys.executable, str(script))) as pool:
        yield pool


async def ask(pool, order, *, name="a.txt", deadline_seconds=120.0, **limits):
    options = ParseOptions(limits=ParseLimits(**limits))
    document = await pool.parse(order.encode(), display_name=name, options=options, deadline_seconds=deadline_seconds)
    return document.blocks[0].text.split("|")


@needs_models
async def test_models_run_in_a_reader_without_network_and_files(reader, tmp_path):
    image, draw = page_image((1200, 300))
    write(draw, "Words in a picture", 100, 100, width=1000, size=40)
    file = tmp_path / "pixels"
    file.write_bytes(as_pixels(image).tobytes())
    found = await ask(reader, "models", name=str(file))
    assert found[1] == "Words in a picture"
    # The runtime keeps one helper of its own; none of them computes.
    assert int(found[2].removeprefix("threads ")) <= 2


@needs_models
async def test_wherever_the_models_run_out_of_memory_the_limit_is_named(reader, tmp_path):
    file = tmp_path / "pixels"
    file.write_bytes(as_pixels(page_image((1200, 300))[0]).tobytes())
    # Importing the runtime, reading a model, preparing it, running it: each fails in its own way.
    for mebibytes in (2, 12, 18, 20, 24, 36, 48, 54, 60, 64):
        limits = {"memory_bytes": mebibytes * MEBIBYTE, "recognition_memory_bytes": mebibytes * MEBIBYTE}
        with pytest.raises(DocumentError) as raised:
            await ask(reader, "models", name=str(file), **limits)
        assert raised.value.reason == "DOCUMENT_RESOURCE_LIMIT", (mebibytes, raised.value)
        assert raised.value.metadata["limit"] == "recognition_memory_bytes", (mebibytes, raised.value)


async def test_crash_is_the_files_fault_but_not_while_a_page_is_recognised(reader):
    with pytest.raises(DocumentError) as raised:
        await ask(reader, "crash")
    assert raised.value.reason == "DOCUMENT_CORRUPT"
    with pytest.raises(DocumentError) as raised:
        await ask(reader, "crash-recognizing")
    assert raised.value.metadata["limit"] == "recognition_memory_bytes"


async def test_library_that_cannot_be_mapped_is_want_of_memory(reader):
    with pytest.raises(DocumentError) as raised:
        await ask(reader, "unmapped")
    assert raised.value.metadata["limit"] == "memory_bytes"


@needs_models
def test_model_that_fails_with_memory_left_is_not_taken_for_want_of_memory(tmp_path, monkeypatch):
    layout = models_module.Model("layout")
    with pytest.raises(RuntimeError, match="InvalidArgument"):
        layout.run(np.zeros((1, 1), np.float32))
    monkeypatch.setattr(models_module, "has_room", lambda _: False)
    with pytest.raises(MemoryError):
        layout.run(np.zeros((1, 1), np.float32))
    monkeypatch.undo()
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    monkeypatch.setattr(models_module, "model_file", lambda _: broken)
    with pytest.raises(RuntimeError, match="a recognition model failed"):
        models_module.Model("layout")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.ENOENT, "No such file"), False),
        (ImportError("libx.so: failed to map segment from shared object"), True),
        (ImportError("No module named x"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("std::bad_alloc"), True),
        # Words of a document are not believed.
        (ValueError("invalid literal: 'out of memory'"), False),
    ],
)
def test_want_of_memory_is_told_from_other_failures(error, expected):
    assert is_out_of_memory(error) is expected
    wrapped = KeyError("x")
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped) is expected


def test_causes_that_run_in_circles_end():
    first, second = KeyError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert not is_out_of_memory(first)


def test_room_is_what_can_still_be_mapped():
    assert has_room(MEBIBYTE)
    assert not has_room(1 << 60)


async def test_recognition_gets_memory_that_parsing_does_not_have(reader):
    small = {"memory_bytes": 200 * MEBIBYTE}
    found = await ask(reader, "take", **small, recognition_memory_bytes=600 * MEBIBYTE)
    assert found == ["read", str(400 * MEBIBYTE)]
    with pytest.raises(DocumentError) as raised:
        await ask(reader, "take", **small, recognition_memory_bytes=MEBIBYTE)
    assert raised.value.reason == "DOCUMENT_RESOURCE_LIMIT"


async def test_each_recognised_page_has_time_of_its_own(reader, monkeypatch):
    # The pool believes its process no longer than the process believes its reader.
    monkeypatch.setattr(pool_module, "_GRACE_SECONDS", 0.5)
    # Four pages of 1.2 processor seconds, and a document that may take one.
    assert await ask(reader, "page 4", cpu_seconds=1, wall_seconds=100, recognition_cpu_seconds=20) == ["read"]
    # Four pages of 0.8 wall seconds, and a document that may take two.
    assert await ask(reader, "nap 4", cpu_seconds=1, wall_seconds=2, recognition_cpu_seconds=20) == ["read"]


@pytest.mark.parametrize(
    ("order", "limits", "broken"),
    [
        ("loop", {"cpu_seconds": 60, "wall_seconds": 600, "recognition_cpu_seconds": 1}, "recognition_cpu_seconds"),
        ("after", {"cpu_seconds": 1, "wall_seconds": 100, "recognition_cpu_seconds": 60}, "cpu_seconds"),
        ("sleep", {"cpu_seconds": 60, "wall_seconds": 60, "recognition_cpu_seconds": 1}, "recognition_cpu_seconds"),
        # Beyond the pages that may be recognised, a page takes the document's own time.
        (
            "page 5",
            {"cpu_seconds": 1, "wall_seconds": 100, "recognition_cpu_seconds": 20, "max_recognized_pages": 2},
            "cpu_seconds",
        ),
    ],
)
async def test_page_or_document_that_goes_on_for_ever_is_ended_and_named(reader, order, limits, broken):
    with pytest.raises(DocumentError) as raised:
        await ask(reader, order, **limits)
    assert raised.value.reason == "DOCUMENT_RESOURCE_LIMIT"
    assert raised.value.metadata["limit"] == broken
    assert await ask(reader, "nothing") == ["read"]
