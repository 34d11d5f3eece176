"""Where lines and tables of a PDF belong: running heads apart from text, tables where they stand."""

import io

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import BlockKind
from corpusmesh_core.ports.parsing import ParseOptions, RecognitionMode

NEVER = ParseOptions(recognition=RecognitionMode.NEVER)
HEAD = BlockKind.HEADER
FOOT = BlockKind.FOOTER


def parse(*pages):
    """Parse a PDF whose pages have the given lines at the given points from their foot."""
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    for lines in pages:
        for y, text in lines:
            canvas.drawString(72, y, text)
        canvas.showPage()
    canvas.save()
    return parse_source(Source(stream.getvalue(), "a.pdf", NEVER))


def texts(document, *kinds):
    return [
        block.text for block in document.blocks if (block.kind in kinds if kinds else block.kind not in (HEAD, FOOT))
    ]


def page(number, *lines):
    return [(800, f"The harbour book, part {number}"), *lines, (30, f"Page {number}")]


def test_running_heads_are_kept_once_and_apart_from_the_text():
    document = parse(*(page(number, (500, f"What page {number} says of the harbour.")) for number in range(1, 6)))
    assert texts(document, HEAD, FOOT) == ["The harbour book, part 1", "Page 1"]
    assert texts(document) == [f"What page {number} says of the harbour." for number in range(1, 6)]


@pytest.mark.parametrize("y", [800, 30])
def test_text_that_is_all_there_is_on_its_pages_is_no_running_head(y):
    document = parse(*([(y, f"Warning sign number {number} of the report.")] for number in range(1, 5)))
    assert texts(document) == [f"Warning sign number {number} of the report." for number in range(1, 5)]
    assert [block.page for block in document.blocks] == [1, 2, 3, 4]


def test_pages_of_nothing_but_edges_among_pages_of_text_keep_theirs():
    signs = [[(800, f"Warning sign number {number} of the report.")] for number in range(1, 5)]
    bodies = [page(number, (500, f"What page {number} says of the harbour.")) for number in range(1, 6)]
    document = parse(*signs, *bodies)
    assert sum(text.startswith("Warning sign") for text in texts(document)) == 4
    assert texts(document, HEAD, FOOT) == ["The harbour book, part 1", "Page 1"]


def test_a_page_without_a_body_does_not_make_text_of_its_running_head():
    bodies = [page(number, (500, f"What page {number} says of the harbour.")) for number in range(1, 6)]
    document = parse(*bodies, page(6))
    assert texts(document, HEAD, FOOT) == ["The harbour book, part 1", "Page 1"]
    assert len(texts(document)) == 5


def test_a_table_that_the_file_writes_last_stands_behind_its_caption():
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    lines = {
        "Table 1: Boats of the harbour": 720,
        "What the boats bring is told below the table, at length.": 580,
        "Who brings it is told here.": 500,
    }
    for text, y in lines.items():
        canvas.drawString(72, y, text)
    canvas.grid((72, 172, 272), (700, 680, 660))
    for x, y, text in ((76, 686, "Boat"), (176, 686, "Length"), (76, 666, "Heron"), (176, 666, "12 m")):
        canvas.drawString(x, y, text)
    canvas.showPage()
    canvas.save()
    document = parse_source(Source(stream.getvalue(), "a.pdf", NEVER))
    assert [block.kind for block in document.blocks[:2]] == [BlockKind.CAPTION, BlockKind.TABLE]
    assert [block.text for block in document.blocks[2:]] == list(lines)[1:]
