"""PDFs in depth: merged cells, tables over pages, recognition, figures, attachments, and what each page costs alone."""

import io
from dataclasses import replace

import numpy as np
import pypdf
import pypdfium2 as pdfium
import pytest
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.pdf_frames import Frame
from corpusmesh_adapters.parsers.pdf_grid import find_grids
from corpusmesh_adapters.parsers.pdf_images import render
from corpusmesh_adapters.parsers.pdf_quality import spaced_arabic
from corpusmesh_adapters.parsers.pdf_rulings import Rulings
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import BlockKind, CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

recognition = pytest.importorskip("corpusmesh_adapters.parsers.recognition")
needs_recognition = pytest.mark.skipif(not recognition.is_available(), reason="the extra `vision` is not installed")

NEVER = ParseOptions(recognition=RecognitionMode.NEVER)


def parse(content, options=NEVER, depth=0):
    return parse_source(Source(content, "a.pdf", options, depth))


def pdf(*draw, size=A4, rotation=0):
    """Write a PDF with one page per drawing function."""
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=size)
    for page in draw:
        if rotation:
            canvas.setPageRotation(rotation)
        page(canvas)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def body(canvas, top=780, lines=6, word="Body"):
    canvas.setFont("Helvetica", 10)
    for row in range(lines):
        canvas.drawString(60, top - 12 * row, f"{word} text of line {row} that goes on for a while and says something.")


def grid(canvas, rows, top=700, left=60, width=100, height=20):
    lefts = [left + width * column for column in range(len(rows[0]) + 1)]
    tops = [top - height * row for row in range(len(rows) + 1)]
    canvas.setFont("Helvetica", 10)
    canvas.grid(lefts, tops)
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            canvas.drawString(lefts[column] + 4, tops[row + 1] + 6, cell)


def tables(document):
    return [block for block in document.blocks if block.kind is BlockKind.TABLE]


def merged(canvas):
    """Two header rows: "Year" over two columns, "Name" over two rows."""
    canvas.setFont("Helvetica", 10)
    xs, ys = (60, 160, 260, 360), (700, 680, 660, 640, 620)
    for y in (700, 660, 640, 620):
        canvas.line(60, y, 360, y)
    canvas.line(160, 680, 360, 680)
    for x in (60, 160, 360):
        canvas.line(x, 700, x, 620)
    canvas.line(260, 680, 260, 620)
    places = [(0, 1, "Name"), (1, 0, "Year"), (1, 1, "2024"), (2, 1, "2025")]
    places += [(0, 2, "oats"), (1, 2, "17"), (2, 2, "18"), (0, 3, "rye"), (1, 3, "27"), (2, 3, "28")]
    for column, row, text in places:
        canvas.drawString(xs[column] + 4, ys[row + 1] + 6, text)


def test_merged_cells_become_spans_and_header_rows():
    (table,) = tables(parse(pdf(merged)))
    assert table.table.rows == (("Name", "Year", ""), ("", "2024", "2025"), ("oats", "17", "18"), ("rye", "27", "28"))
    assert set(table.table.spans) == {CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2)}
    assert table.table.header_row_count == 2
    assert [box.top for box in table.boxes] == sorted(box.top for box in table.boxes)
    assert len(table.boxes) == 4


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_table_is_read_upright(turn):
    def turned(canvas):
        canvas.translate(*{90: (700, 0), 180: (600, 800), 270: (0, 500)}[turn])
        canvas.rotate(turn)
        merged(canvas)

    (table,) = tables(parse(pdf(turned, size=(800, 800))))
    assert table.table.rows[2:] == (("oats", "17", "18"), ("rye", "27", "28"))
    assert set(table.table.spans) == {CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2)}


def test_a_table_without_outer_rulings_keeps_its_outer_columns():
    def open_sided(canvas):
        canvas.setFont("Helvetica", 10)
        for y in (700, 680, 660, 640):
            canvas.line(60, y, 360, y)
        for x in (160, 260):
            canvas.line(x, 700, x, 640)
        for row in range(3):
            for column in range(3):
                canvas.drawString(64 + 100 * column, 686 - 20 * row, f"r{row}c{column}")

    (table,) = tables(parse(pdf(open_sided)))
    assert table.table.rows[0] == ("r0c0", "r0c1", "r0c2")
    assert len(table.table.rows) == 3


def test_boxes_of_a_diagram_are_no_table():
    def diagram(canvas):
        canvas.setFont("Helvetica", 10)
        for x, y, text in ((60, 700, "Client"), (250, 640, "Gateway"), (420, 560, "Store"), (130, 520, "Queue")):
            canvas.rect(x, y, 100, 40)
            canvas.drawString(x + 10, y + 15, text)
        canvas.line(160, 720, 250, 660)

    document = parse(pdf(diagram))
    assert tables(document) == []
    assert "Gateway" in "\n".join(block.text for block in document.blocks)


def test_a_table_that_goes_on_over_pages_is_one_with_boxes_on_each():
    head = ["key", "left", "right"]

    def page(number):
        def draw(canvas):
            rows = [[f"k{number}{row}", f"l{number}{row}", f"r{number}{row}"] for row in range(5)]
            grid(canvas, [head, *rows])

        return draw

    (table,) = tables(parse(pdf(page(1), page(2), page(3))))
    assert table.table.rows[0] == ("key", "left", "right")
    assert [row[0] for row in table.table.rows[1:]] == [f"k{page}{row}" for page in (1, 2, 3) for row in range(5)]
    assert [box.page for box in table.boxes] == [1] * 6 + [2] * 5 + [3] * 5


def test_a_page_number_below_a_table_does_not_end_it():
    def page(number):
        def draw(canvas):
            grid(canvas, [["key", "left"], [f"k{number}", f"l{number}"], [f"m{number}", f"n{number}"]])
            canvas.drawString(280, 30, f"Page {number} of 2")

        return draw

    (table,) = tables(parse(pdf(page(1), page(2))))
    assert [row[0] for row in table.table.rows] == ["key", "k1", "m1", "k2", "m2"]


def test_tables_with_other_columns_on_the_next_page_stay_apart():
    first = pdf(
        lambda canvas: grid(canvas, [["a", "b"], ["1", "2"], ["3", "4"]]),
        lambda canvas: grid(canvas, [["c", "d"], ["5", "6"], ["7", "8"]], left=90, width=140),
    )
    assert [table.page for table in tables(parse(first))] == [1, 2]


def test_text_between_two_tables_keeps_them_apart():
    def second(canvas):
        body(canvas, lines=2)
        grid(canvas, [["key", "left"], ["k3", "l3"], ["k4", "l4"]])

    content = pdf(lambda canvas: grid(canvas, [["key", "left"], ["k1", "l1"], ["k2", "l2"]]), second)
    assert len(tables(parse(content))) == 2


def test_a_word_that_reaches_over_a_ruling_stays_whole():
    def wide(canvas):
        grid(canvas, [["", "", ""], ["1", "2", "3"], ["4", "5", "6"]], width=40)
        canvas.drawCentredString(120, 686, "Disposition/Returned")

    document = parse(pdf(wide))
    assert any("Disposition/Returned" in block.text for block in document.blocks)


def test_grid_of_rulings_that_end_short_of_each_other_is_still_found():
    rulings = Rulings(
        horizontal=[(10.0, 10.0, 49.0), (30.0, 11.0, 50.0), (50.0, 10.0, 50.0)],
        vertical=[(10.0, 11.0, 50.0), (30.0, 10.0, 48.5), (50.0, 9.0, 50.0)],
    )
    (found,) = find_grids(rulings)
    assert (len(found.tops), len(found.lefts), len(found.cells)) == (3, 3, 4)
    assert found.cell_at(20, 20) == 0
    assert found.cell_at(60, 20) == -1


def test_captions_are_told_from_sentences_about_figures():
    def page(canvas):
        body(canvas, lines=3)
        for row, text in enumerate(
            ["Figure 2. Yield by year.", "Table 2-1 FUNCTION view", "Figure 3 shows the yield."]
        ):
            canvas.drawString(60, 600 - 40 * row, text)

    kinds = {block.text: block.kind for block in parse(pdf(page)).blocks}
    assert kinds["Figure 2. Yield by year."] is BlockKind.CAPTION
    assert kinds["Table 2-1 FUNCTION view"] is BlockKind.CAPTION
    assert kinds["Figure 3 shows the yield."] is BlockKind.PARAGRAPH


def picture(red=200):
    pixels = np.full((90, 120, 3), 255, np.uint8)
    pixels[20:70, 20:100] = (red, 30, 30)
    return ImageReader(Image.fromarray(pixels))


def with_figure(canvas):
    body(canvas, top=800, lines=3, word="Above")
    canvas.drawImage(picture(), 100, 550, width=200, height=150)
    canvas.drawImage(picture(), 400, 600, width=20, height=20)
    canvas.drawString(100, 530, "Figure 1: A red field")
    body(canvas, top=480, lines=3, word="Below")


def test_figures_are_cut_out_in_reading_order_and_small_ones_are_not():
    document = parse(pdf(with_figure), replace(NEVER, keep_pictures=True))
    kinds = [block.kind for block in document.blocks]
    assert kinds == [BlockKind.PARAGRAPH, BlockKind.FIGURE, BlockKind.CAPTION, BlockKind.PARAGRAPH]
    (figure,) = document.pictures
    assert document.blocks[1].picture == figure.name
    assert (figure.box.left, figure.box.top) == pytest.approx((100, A4[1] - 700), abs=1)
    image = Image.open(io.BytesIO(figure.content))
    assert image.size == (figure.width, figure.height) == pytest.approx((417, 313), abs=2)
    red, green, _ = image.getpixel((figure.width // 2, figure.height // 2))
    assert red > 150 > green


def test_figures_are_left_out_unless_they_are_asked_for():
    document = parse(pdf(with_figure))
    assert document.pictures == ()
    assert BlockKind.FIGURE not in {block.kind for block in document.blocks}


def test_pages_are_kept_as_images_in_the_asked_resolution():
    options = replace(NEVER, render_pages=True, render_dots_per_inch=36)
    images = parse(pdf(body, body), options).page_images
    assert [image.name for image in images] == ["page-1", "page-2"]
    assert (images[0].width, images[0].height) == pytest.approx((A4[0] / 2, A4[1] / 2), abs=1)
    assert Image.open(io.BytesIO(images[0].content)).format == "JPEG"


@pytest.mark.parametrize("size", [A4, (14_000, 20), (14_000, 14_000)])
def test_a_page_is_rendered_smaller_rather_than_beyond_the_limit_on_pixels(size):
    page = pdfium.PdfDocument(pdf(lambda canvas: canvas.drawString(5, 5, "x"), size=size))[0]
    frame = Frame(1, *page.get_bbox(), page.get_rotation())
    pixels, points_per_pixel = render(page, frame, dots_per_inch=200, max_pixels=40_000)
    height, width, channels = pixels.shape
    assert channels == 3
    assert width * height <= 40_000
    assert width * points_per_pixel == pytest.approx(size[0], abs=points_per_pixel)


def scan(text="Minutes of the harbour committee", dots_per_inch=150):
    """An image of a page with large text."""
    page = pdfium.PdfDocument(
        pdf(
            lambda canvas: [
                canvas.setFont("Helvetica", 20),
                canvas.drawString(60, 600, text),
                canvas.drawString(60, 560, "The river was measured twice"),
            ]
        )
    )[0]
    return ImageReader(page.render(scale=dots_per_inch / 72).to_pil())


def scanned(canvas):
    canvas.drawImage(scan(), 0, 0, *A4)


def stamped(canvas):
    scanned(canvas)
    canvas.setFont("Helvetica", 8)
    canvas.drawString(60, 820, "Received 4 May")


@needs_recognition
def test_scanned_pages_are_recognised_between_digital_ones():
    document = parse(pdf(body, scanned, body), ParseOptions())
    assert document.recognized_pages == (2,)
    pages = [block.page for block in document.blocks]
    assert pages == sorted(pages)
    text = " ".join(block.text for block in document.blocks if block.page == 2)
    assert "Minutes of the harbour committee" in text
    boxes = [box for block in document.blocks if block.page == 2 for box in block.boxes]
    assert all(40 < box.left < 80 and 220 < box.top < 300 for box in boxes)
    assert all(0.5 < block.confidence <= 1.0 for block in document.blocks if block.page == 2)
    assert all(block.confidence == 1.0 for block in document.blocks if block.page != 2)


@needs_recognition
def test_a_scan_under_a_thin_text_layer_is_recognised():
    document = parse(pdf(stamped), ParseOptions())
    assert document.recognized_pages == (1,)
    assert "The river was measured twice" in " ".join(block.text for block in document.blocks)


@needs_recognition
def test_recognition_of_every_page_does_without_text_layers():
    document = parse(pdf(body), ParseOptions(recognition=RecognitionMode.ALWAYS))
    assert document.recognized_pages == (1,)
    assert any(block.confidence < 1.0 for block in document.blocks)
    assert "Body text of line" in " ".join(block.text for block in document.blocks)


@needs_recognition
def test_pages_beyond_the_limit_on_recognition_are_named():
    document = parse(pdf(scanned, scanned, body), ParseOptions(limits=ParseLimits(max_recognized_pages=1)))
    assert document.recognized_pages == (1,)
    assert any("max_recognized_pages=1" in warning and warning.endswith(": 2.") for warning in document.warnings)


def test_without_recognition_a_stamp_is_all_that_is_read_and_scans_are_named():
    document = parse(pdf(stamped, scanned))
    assert [block.text for block in document.blocks] == ["Received 4 May"]
    assert document.recognized_pages == ()
    assert any(warning.startswith("Pages without text: 2") for warning in document.warnings)


def test_a_scan_without_recognition_is_an_empty_document():
    with pytest.raises(DocumentError) as raised:
        parse(pdf(scanned))
    assert raised.value.reason == "DOCUMENT_EMPTY"


def attached(content, name="notes.txt", inner=b"An attached text."):
    document = pdfium.PdfDocument(content)
    attachment = document.new_attachment(name)
    attachment.set_data(inner)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def test_attached_files_are_read_under_their_names():
    document = parse(attached(pdf(body)))
    assert document.metadata["attachments"] == "notes.txt"
    block = document.blocks[-1]
    assert (block.text, block.heading_path, block.page) == ("An attached text.", ("notes.txt",), 0)


def test_an_attached_pdf_is_read_through_its_own_attachment_down_to_the_limit():
    inner = attached(pdf(lambda canvas: body(canvas, word="Inner")), inner=b"Innermost text.")
    content = attached(pdf(body), "inner.pdf", inner)
    text = "\n".join(block.text for block in parse(content).blocks)
    assert "Inner text of line 0" in text
    assert "Innermost text." in text
    options = replace(NEVER, limits=ParseLimits(max_attachment_depth=1))
    document = parse(content, options)
    assert "Innermost text." not in "\n".join(block.text for block in document.blocks)
    assert any("max_attachment_depth=1" in warning for warning in document.warnings)


def test_an_attachment_that_cannot_be_read_costs_itself_alone():
    document = parse(attached(pdf(body), "broken.docx", b"PK\x03\x04 nothing of a package"))
    assert "Body text of line 0" in document.blocks[0].text
    assert any(warning.startswith("Attachment 1 was not read") for warning in document.warnings)


def test_more_pages_than_allowed_end_before_any_is_read():
    with pytest.raises(DocumentError) as raised:
        parse(pdf(*[body] * 12), replace(NEVER, limits=ParseLimits(max_pages=11)))
    assert (raised.value.reason, raised.value.metadata["limit"]) == ("DOCUMENT_RESOURCE_LIMIT", "max_pages")


def test_the_language_that_a_pdf_declares_is_taken_where_its_letters_do_not_say_otherwise():
    document = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(lambda canvas: canvas.drawString(60, 700, "Zurigo Ginevra"))))
    document.root_object[pypdf.generic.NameObject("/Lang")] = pypdf.generic.TextStringObject("it-CH")
    stream = io.BytesIO()
    document.write(stream)
    assert parse(stream.getvalue()).language == "it"


def test_lines_parted_by_wide_gaps_line_up_as_a_table_without_rulings():
    def columns(canvas):
        canvas.setFont("Helvetica", 10)
        for row, cells in enumerate([("Code", "Place", "Count"), ("S1", "D-22", "156"), ("S2", "A-1", "9")]):
            for column, cell in enumerate(cells):
                canvas.drawString(60 + 120 * column, 700 - 14 * row, cell)

    (table,) = tables(parse(pdf(columns)))
    assert table.table.rows == (("Code", "Place", "Count"), ("S1", "D-22", "156"), ("S2", "A-1", "9"))


def test_pages_beyond_the_room_for_images_are_read_without_one():
    limits = ParseLimits(max_picture_bytes=120_000)
    document = parse(pdf(*[body] * 6), replace(NEVER, render_pages=True, limits=limits))
    assert 0 < len(document.page_images) < 6
    assert sum(len(image.content) for image in document.page_images) <= 120_000
    assert any("max_picture_bytes=120000" in warning and warning.endswith("-6.") for warning in document.warnings)
    assert document.blocks[-1].page == 6


def test_spaces_between_arabic_and_latin_words_are_set_right():
    assert spaced_arabic("وPythonمن") == "و Python من"
    assert spaced_arabic("أي ًضا") == "أيًضا"
    assert spaced_arabic("plain words stay") == "plain words stay"


def test_tables_side_by_side_share_lines_and_lose_no_text():
    def two(canvas):
        grid(canvas, [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]], width=80)
        grid(canvas, [["x1", "x2"], ["y1", "y2"], ["z1", "z2"]], left=300, width=80)
        canvas.drawString(64, 726, "Left title")
        canvas.drawString(304, 726, "Right title")

    document = parse(pdf(two))
    assert [table.table.rows for table in tables(document)] == [
        (("a1", "a2"), ("b1", "b2"), ("c1", "c2")),
        (("x1", "x2"), ("y1", "y2"), ("z1", "z2")),
    ]
    text = " ".join(block.text for block in document.blocks)
    assert "Left title" in text
    assert "Right title" in text
