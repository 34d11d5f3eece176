"""Spreadsheets, presentations and mails in depth: merges, charts, pictures, embedded files, quotations."""

import io
from email.message import EmailMessage

import openpyxl
import pytest
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.oxml import parse_xml
from pptx.util import Inches

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.grids import guess_header_row_count
from corpusmesh_adapters.parsers.ole_chains import stream_names
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import BlockKind, CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseOptions


def saved(document):
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def parse(document, **options):
    content = document if isinstance(document, bytes) else saved(document)
    return parse_source(Source(content, "file", ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def png():
    stream = io.BytesIO()
    Image.new("RGB", (60, 40), "green").save(stream, "PNG")
    stream.seek(0)
    return stream


def test_xlsx_merges_are_spans_and_do_not_part_a_table():
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["", "City", "Year", ""], ["", "", "a", "b"], ["", "Rome", "3", "4"], ["", "Bern", "5", "6"]):
        sheet.append(row)
    sheet.merge_cells("B1:B2")
    sheet.merge_cells("C1:D1")
    (_, block) = parse(book).blocks
    assert block.table.rows == (("City", "Year", ""), ("", "a", "b"), ("Rome", "3", "4"), ("Bern", "5", "6"))
    assert set(block.table.spans) == {CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2)}
    assert block.table.header_row_count == 2


def test_xlsx_rows_that_only_merged_cells_cover_do_not_part_a_table():
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["a", "b"], [], ["c", "d"], [], ["apart", "x"]):
        sheet.append(row)
    for cells in ("A1:A2", "B1:B2"):
        sheet.merge_cells(cells)
    tables = [block.text for block in parse(book).blocks if block.table is not None]
    assert tables == ["a | b\nc | d", "apart | x"]


@pytest.mark.parametrize(
    ("rows", "spans", "count"),
    [
        ([("", "Y", ""), ("", "a", "b"), ("x", "1", "2")], [CellSpan(0, 1, 1, 2)], 2),
        ([("City", "Y", ""), ("", "a", "b"), ("x", "1", "2")], [CellSpan(0, 1, 1, 2)], 2),
        ([("City", "Y", ""), ("Rome", "a", "b"), ("x", "1", "2")], [CellSpan(0, 1, 1, 2)], 1),
        ([("City", "Y", "Z"), ("", "a", "b"), ("x", "1", "2")], [], 1),
    ],
)
def test_header_rows_under_groups_of_columns(rows, spans, count):
    assert guess_header_row_count(rows, spans) == count


def test_pptx_merged_cells_charts_pictures_and_formulas():
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    table.cell(0, 0).merge(table.cell(0, 1))
    for index, (row, column) in enumerate([(0, 0), (1, 0), (1, 1)]):
        table.cell(row, column).text = f"cell {index}"
    data = CategoryChartData()
    data.categories = ["Q1", "Q2"]
    data.add_series("North", (1.5, 2))
    data.add_series("South", (3, None))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(3), Inches(3), Inches(2), data)
    picture = slide.shapes.add_picture(png(), Inches(1), Inches(6), Inches(1), Inches(1))
    picture._element.nvPicPr.cNvPr.set("descr", "a green field")
    box = slide.shapes.add_textbox(Inches(1), Inches(7), Inches(1), Inches(0.2))
    box.text_frame.paragraphs[0]._p.append(
        parse_xml(
            '<a14:m xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
            'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">'
            "<m:oMath><m:r><m:t>a=b</m:t></m:r></m:oMath></a14:m>"
        )
    )
    document = parse(presentation, keep_pictures=True)
    assert shown(document) == [
        ("table", 0, "cell 0\ncell 1 | cell 2"),
        ("table", 0, " | North | South\nQ1 | 1.5 | 3\nQ2 | 2"),
        ("figure", 0, "a green field"),
        ("formula", 0, "a=b"),
    ]
    assert document.blocks[0].table.spans == (CellSpan(0, 0, 1, 2),)
    (kept,) = document.pictures
    assert (kept.name, kept.width, kept.box.page) == (document.blocks[2].picture, 60, 1)


def test_pptx_shapes_that_come_in_several_forms_are_read_once():
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1))
    box.text_frame.text = "new form"
    tree, shape = slide.shapes._spTree, box._element
    alternatives = parse_xml(
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        '<mc:Choice Requires="a14"/><mc:Fallback/></mc:AlternateContent>'
    )
    tree.append(alternatives)
    alternatives[0].append(shape)
    assert shown(parse(presentation)) == [("paragraph", 0, "new form")]


def test_pptx_embedded_workbook_is_read_under_its_name():
    book = openpyxl.Workbook()
    book.active.append(["inner", "cell"])
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Slide"
    slide.shapes.add_ole_object(
        io.BytesIO(saved(book)), "Excel.Sheet.12", Inches(1), Inches(2), Inches(2), Inches(1), icon_file=png()
    )
    document = parse(presentation)
    assert document.metadata["embedded_file_count"] == "1"
    assert [block.text for block in document.blocks][-2:] == ["Sheet", "inner | cell"]
    assert len(document.blocks[-1].heading_path) == 2
    assert document.title == "Slide"


def test_mail_quotations_have_their_depth_as_level():
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.c", "Re: x"
    message.set_content("My answer.\n\n> You asked.\n> And said.\n>> I said first.\n\nBye\n")
    assert shown(parse(bytes(message)))[1:] == [
        ("paragraph", 0, "My answer."),
        ("paragraph", 1, "You asked.\nAnd said."),
        ("paragraph", 2, "I said first."),
        ("paragraph", 0, "Bye"),
    ]


def test_mail_attachments_of_every_format_are_read_through_the_same_router():
    book = openpyxl.Workbook()
    book.active.append(["cell", "other"])
    inner = EmailMessage()
    inner["From"], inner["Subject"] = "x@y.z", "Inner"
    inner.set_content("inner body")
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.c", "Outer"
    message.set_content("outer body")
    message.add_attachment(
        saved(book), maintype="application", subtype="octet-stream", filename="../../a\u202excod.exe"
    )
    message.add_attachment(inner)
    document = parse(bytes(message))
    texts = [block.text for block in document.blocks]
    assert texts[1:5] == ["outer body", "../../axcod.exe", "Sheet", "cell | other"]
    assert texts[-1] == "inner body"
    assert document.blocks[-1].heading_path == ("Inner.eml",)


def test_mail_that_is_nothing_but_a_file_is_read():
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.c", "Only a file"
    message.set_content(b"x,y\n1,2\n", maintype="application", subtype="octet-stream", filename="a.csv")
    assert parse(bytes(message)).blocks[-1].kind is BlockKind.TABLE


def test_old_container_whose_chain_runs_in_a_circle_is_refused():
    sector = 512
    header = bytearray(sector)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    for offset, value in ((24, 62), (26, 3), (28, 0xFFFE), (30, 9), (32, 6)):
        header[offset : offset + 2] = value.to_bytes(2, "little")
    for offset, value in ((44, 1), (48, 1), (56, 4096), (60, 0xFFFFFFFE), (68, 0xFFFFFFFE)):
        header[offset : offset + 4] = value.to_bytes(4, "little")
    header[76:] = b"\xff" * (sector - 76)
    header[76:80] = (0).to_bytes(4, "little")
    table = bytearray(b"\xff" * sector)
    table[0:4] = (0xFFFFFFFD).to_bytes(4, "little")
    table[4:8] = (1).to_bytes(4, "little")  # the directory's chain: sector 1, then sector 1, then sector 1, ...
    with pytest.raises(DocumentError) as raised:
        stream_names(bytes(header + table + bytes(sector)))
    assert raised.value.reason == "DOCUMENT_CORRUPT"
