"""Every format of the first set: what becomes a block, what is left out, where it stands."""

import io
from email.message import EmailMessage

import docx
import openpyxl
import pytest
from pptx import Presentation
from pptx.util import Inches, Pt
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers.builder import Source, guess_header_row_count
from corpusmesh_adapters.parsers.languages import detect_language
from corpusmesh_adapters.parsers.pdf_quality import judge_layer
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import BlockKind
from corpusmesh_core.ports.parsing import ParseOptions


def parse(content, name="file"):
    if isinstance(content, str):
        content = content.encode()
    return parse_source(Source(content, name, ParseOptions()))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def texts(document):
    return [block.text for block in document.blocks]


def saved(document):
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def test_html_becomes_blocks_and_boilerplate_is_told_from_content():
    document = parse(
        """<!doctype html><html><head><title>A  page</title><style>p {color: red}</style></head><body>
        <nav><a href="/">Home</a></nav><script>alert(1)</script><div hidden>secret</div>
        <h1>Head</h1>loose <b>bold</b> text<p>para<br>two</p>
        <ul><li>one<ul><li>deep</li></ul></li><li>two</li></ul><pre>x = 1
  y</pre><img src="data:image/png;base64,AAAA" alt="a duck"></body></html>"""
    )
    assert document.title == "A page"
    assert shown(document) == [
        ("header", 0, "Home"),
        ("heading", 1, "Head"),
        ("paragraph", 0, "loose bold text"),
        ("paragraph", 0, "para\ntwo"),
        ("list_item", 1, "one"),
        ("list_item", 2, "deep"),
        ("list_item", 1, "two"),
        ("code", 0, "x = 1\n  y"),
        ("figure", 0, "a duck"),
    ]
    assert document.blocks[-1].heading_path == ("Head",)


def test_html_table_keeps_spans_as_empty_cells():
    document = parse(
        """<html><table><thead><tr><th rowspan=2>City</th><th colspan=2>Year</th></tr><tr><th>1</th><th>2</th></tr>
        </thead><tbody><tr><td>Rome</td><td>3</td><td>4</td></tr></tbody></table></html>"""
    )
    table = document.blocks[0].table
    assert table.rows == (("City", "Year", ""), ("", "1", "2"), ("Rome", "3", "4"))
    assert table.header_row_count == 2
    assert document.blocks[0].text == "City | Year\n | 1 | 2\nRome | 3 | 4"


def test_html_line_breaks_between_chinese_characters_leave_no_space():
    document = parse("<html><p>第一\n  行和第二行 and\n English</p></html>")
    assert texts(document) == ["第一行和第二行 and English"]


@pytest.mark.parametrize("encoding", ["gb18030", "shift_jis", "windows-1251"])
def test_html_declared_encoding_is_believed(encoding):
    text = {"gb18030": "中文网页", "shift_jis": "日本語のページ", "windows-1251": "Русская страница"}[encoding]
    page = f'<html><head><meta charset="{encoding}"></head><body><p>{text}</p></body></html>'
    assert texts(parse(page.encode(encoding))) == [text]


def test_markdown_has_line_numbers_levels_and_no_addresses():
    document = parse(
        "---\ntitle: Front\n---\n# One\n\npara [link](http://x.y) ![pic](data:image/png;base64,AAAA)\n\n"
        "- a\n  - b\n\n```py\ncode()\n```\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\n<b>html</b>\n",
        "a.md",
    )
    assert document.title == "Front"
    assert [(block.kind.value, block.line, block.text) for block in document.blocks] == [
        ("heading", 4, "One"),
        ("paragraph", 6, "para link pic"),
        ("list_item", 8, "a"),
        ("list_item", 9, "b"),
        ("code", 11, "code()"),
        ("table", 15, "h | i\n1 | 2"),
        ("paragraph", 19, "html"),
    ]
    assert document.blocks[5].table.header_row_count == 1


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_found_by_counting(delimiter):
    rows = [["name", "a, b; c"], ["x", "1"], ["y", "2"]]
    text = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    table = parse(text, "a.csv").blocks[0].table
    assert table.rows == tuple(map(tuple, rows))
    assert table.header_row_count == 1


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Grüße aus Köln, schöne Straße. " * 3, "cp1252"),
        ("Съешь же ещё этих мягких французских булок. " * 3, "cp1251"),
        ("今天天气很好，我们去公园散步，然后回家吃饭。" * 3, "gb18030"),
        ("今天天氣很好，我們去公園散步，然後回家吃飯。" * 3, "big5"),
        ("東京は日本の首都です。とても大きい都市です。" * 3, "cp932"),
        ("plain text with no mark\n" * 3, "utf-16-le"),
        ("plain text with no mark\n" * 3, "utf-16-be"),
        ("plain text with no mark\n" * 3, "utf-32-le"),
        ("with a mark — in it", "utf-16"),
        ("with a mark — in it", "utf-8-sig"),
        ("ascii first " * 20_000 + "\ndann kommt später ein schöner Umlaut, größer und kühner", "cp1252"),
    ],
)
def test_text_of_any_encoding_is_read(text, encoding):
    document = parse(text.encode(encoding), "a.txt")
    assert "".join(texts(document)).split() == text.split()
    assert document.warnings == ()


def test_text_has_a_block_per_paragraph_with_its_line():
    document = parse("first\nstill first\n\n\nsecond\n \nthird", "a.txt")
    assert [(block.line, block.text) for block in document.blocks] == [
        (1, "first\nstill first"),
        (5, "second"),
        (7, "third"),
    ]


def test_text_without_noise_characters_survives_every_encoder():
    assert texts(parse(b"ab\x07c\xc2\xadd \xef\xbf\xbe", "a.txt")) == ["abcd"]
    assert parse(b'["\\ud800 lone"]').blocks[0].text.strip() == "lone"


def test_json_is_one_line_per_value_and_json_lines_one_block_per_line():
    assert texts(parse('{"a": {"b": 1, "c": [1, 2]}, "d": "x"}')) == ["a.b: 1\na.c: 1, 2", "d: x"]
    document = parse('{"a": 1}\n{"a": 2}\nnot json\n')
    assert [(block.line, block.text) for block in document.blocks] == [(1, "a: 1"), (2, "a: 2"), (3, "not json")]
    assert document.warnings == ("1 lines are no JSON and were taken as text.",)


def test_wrong_extension_does_not_matter():
    document = docx.Document()
    document.add_paragraph("A Word document.")
    assert texts(parse(saved(document), "lies.pdf")) == ["A Word document."]
    assert parse("<!DOCTYPE html><p>x</p>", "lies.txt").media_type == "text/html"
    assert parse("# no heading", "lies.txt").blocks[0].kind is BlockKind.PARAGRAPH


def test_docx_headings_lists_tables_and_title():
    document = docx.Document()
    document.add_heading("The title", 0)
    document.add_heading("One", 1)
    custom = document.styles.add_style("Company chapter", 1)
    custom.base_style = document.styles["Heading 2"]
    document.add_paragraph("Deeper", style=custom)
    document.add_paragraph("Text.")
    document.add_paragraph("Bullet", style="List Bullet")
    table = document.add_table(2, 3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).text = "last"
    document.sections[0].header.paragraphs[0].text = "Running head"
    document.core_properties.author = "Author"
    parsed = parse(saved(document))
    assert parsed.title == "The title"
    assert parsed.metadata["author"] == "Author"
    assert shown(parsed) == [
        ("title", 0, "The title"),
        ("heading", 1, "One"),
        ("heading", 2, "Deeper"),
        ("paragraph", 0, "Text."),
        ("list_item", 1, "Bullet"),
        ("table", 0, "wide\n |  | last"),
        ("header", 0, "Running head"),
    ]
    assert parsed.blocks[3].heading_path == ("One", "Deeper")


def test_pptx_reads_title_first_then_by_place_with_notes_and_boxes():
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Slide title"
    for text, left, top in (("right", 5, 3), ("left", 1, 3), ("above", 5, 2)):
        box = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Pt(36))
        box.text_frame.text = text
    group = slide.shapes.add_group_shape()
    inner = group.shapes.add_textbox(Inches(1), Inches(4), Inches(2), Inches(1))
    inner.text_frame.text = "in a group"
    slide.notes_slide.notes_text_frame.text = "said aloud"
    document = parse(saved(presentation))
    assert texts(document) == ["Slide title", "above", "left", "right", "in a group", "said aloud"]
    assert document.blocks[-1].kind is BlockKind.NOTE
    (box,) = document.blocks[2].boxes
    assert (box.page, box.left, box.top, box.right, box.bottom) == (1, 72, 216, 216, 252)
    (box,) = document.blocks[4].boxes
    assert (box.left, box.top) == (72, 288)


def test_xlsx_has_a_page_per_sheet_and_a_table_between_empty_rows():
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Data"
    for row in (["name", "value"], ["a", 1.0], ["b", 2.5], [], [], [None, "x", "y"], [None, "z", True]):
        sheet.append(row)
    book.create_sheet("Empty")
    book.create_sheet("More").append(["only"])
    document = parse(saved(book))
    assert document.page_count == 3
    assert [(block.page, block.kind.value, block.text) for block in document.blocks] == [
        (1, "heading", "Data"),
        (1, "table", "name | value\na | 1\nb | 2.5"),
        (1, "table", "x | y\nz | TRUE"),
        (3, "heading", "More"),
        (3, "paragraph", "only"),
    ]


def test_mail_has_headers_one_body_and_its_attachments():
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@b.c", "d@e.f", "Über alles"
    message.set_content("Plain body, long enough to be the real one.")
    message.add_alternative("<p>HTML body, long enough to be the real one.</p>", subtype="html")
    message.add_attachment(b"x,y\n1,2\n", maintype="text", subtype="csv", filename="data.csv")
    message.add_attachment(b"MZ\0\0", maintype="application", subtype="octet-stream", filename="run.exe")
    document = parse(bytes(message))
    assert document.title == "Über alles"
    assert texts(document) == [
        "Subject: Über alles\nFrom: a@b.c\nTo: d@e.f",
        "Plain body, long enough to be the real one.",
        "data.csv",
        "x | y\n1 | 2",
    ]
    assert document.blocks[3].heading_path == ("data.csv",)
    assert any("application/x-msdownload" in warning for warning in document.warnings)


def test_mail_takes_html_where_the_plain_part_is_a_stub():
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.c", "News"
    message.set_content("See HTML.")
    message.add_alternative("<p>" + "A long letter. " * 20 + "</p>", subtype="html")
    assert texts(parse(bytes(message)))[1].startswith("A long letter.")


def two_columns(pages, *, across=False):
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    for page in range(pages):
        canvas.setFont("Helvetica", 9)
        canvas.drawString(60, 815, f"Running head of this journal {page + 1}")
        canvas.drawString(290, 20, str(page + 1))
        lines = [(side, row) for side in range(2) for row in range(20)]
        if across:
            lines.sort(key=lambda line: (line[1], line[0]))
        for side, row in lines:
            words = f"page{page}side{side}row{row:02d} " + "text goes on here " * 3
            canvas.drawString(60 + side * 260, 760 - 12 * row, words[:52])
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


@pytest.mark.parametrize("across", [False, True])
def test_pdf_columns_are_read_one_after_the_other_and_running_heads_once(across):
    document = parse(two_columns(4, across=across))
    body = " ".join(block.text for block in document.blocks if block.kind is BlockKind.PARAGRAPH)
    order = [
        body.index(f"page{page}side{side}row{row:02d}") for page in range(4) for side in (0, 1) for row in range(20)
    ]
    assert order == sorted(order)
    heads = [block.text for block in document.blocks if block.kind is BlockKind.HEADER]
    assert heads == ["Running head of this journal 1"]
    assert "Running head" not in body


def test_pdf_boxes_are_points_from_the_top_left():
    document = parse(two_columns(1))
    box = next(box for block in document.blocks if "side0row00" in block.text for box in block.boxes)
    assert box.page == 1
    assert box.left == pytest.approx(60, abs=2)
    assert box.top == pytest.approx(A4[1] - 760 - 7, abs=3)
    assert box.bottom == pytest.approx(A4[1] - 760 + 2, abs=2)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_pdf_text_beside_the_page_is_left_out_and_boxes_end_at_its_edge(rotation):
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=(500, 500))
    canvas.setPageRotation(rotation)
    canvas.drawString(50, 200, "On the page")
    canvas.drawString(470, 300, "Over the edge")
    for x, y in ((50, -20), (50, 520), (520, 200), (-200, 200)):
        canvas.drawString(x, y, "Beside the page")
    canvas.save()
    document = parse(stream.getvalue())
    body = "\n".join(block.text for block in document.blocks)
    assert "On the page" in body
    assert "Over the edge" in body
    assert "Beside" not in body
    for box in (box for block in document.blocks for box in block.boxes):
        assert 0 <= box.left <= box.right <= 500
        assert 0 <= box.top <= box.bottom <= 500


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_pdf_boxes_of_turned_pages_lie_on_the_page_as_displayed(rotation):
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=(600, 400))  # stored as 400 by 600 where the page is turned sideways
    canvas.setPageRotation(rotation)
    canvas.drawString(50, 350, "Near the top left corner")
    canvas.save()
    (box,) = parse(stream.getvalue()).blocks[0].boxes
    top_left = {0: (50, 40), 90: (348, 50), 180: (430, 348), 270: (241, 227)}[rotation]
    assert (box.left, box.top) == pytest.approx(top_left, abs=12)


def test_pdf_headings_by_size_and_ruled_tables():
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    canvas.setFont("Helvetica-Bold", 16)
    canvas.drawString(60, 780, "1 Introduction")
    canvas.setFont("Helvetica", 10)
    for row in range(6):
        canvas.drawString(60, 750 - 12 * row, "Body text of the section that goes on for a while.")
    xs, ys = (60, 160, 260, 360), (600, 620, 640, 660)
    canvas.grid(xs, ys)
    for row, y in enumerate(reversed(ys[:-1])):
        for column, x in enumerate(xs[:-1]):
            canvas.drawString(x + 4, y + 6, ["key", "left", "right"][column] if row == 0 else f"c{row}{column}")
    canvas.save()
    document = parse(stream.getvalue())
    assert shown(document)[0] == ("heading", 1, "1 Introduction")
    table = document.blocks[-1]
    assert table.table.rows == (("key", "left", "right"), ("c10", "c11", "c12"), ("c20", "c21", "c22"))
    assert table.table.header_row_count == 1
    assert len(table.boxes) == 3
    assert table.heading_path == ("1 Introduction",)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("The parser reads the text of the page and finds it.", "en"),
        ("Der Text ist nicht auf der Seite und wird nicht gelesen.", "de"),
        ("这是一个中文句子，用来测试语言。", "zh"),
        ("これは日本語の文です。", "ja"),
        ("한국어 문장입니다", "ko"),
        ("Это русское предложение", "ru"),
        ("12345 67890", ""),
    ],
)
def test_language_of_most_of_the_text(text, tag):
    assert detect_language([text]) == tag


def test_first_row_is_a_header_only_if_it_looks_like_one():
    assert guess_header_row_count([("name", "value"), ("a", "1"), ("b", "2")]) == 1
    assert guess_header_row_count([("1", "2"), ("a", "1"), ("b", "2")]) == 0
    assert guess_header_row_count([("name", ""), ("a", "1"), ("b", "2")]) == 0
    assert guess_header_row_count([("name", "value"), ("a", "1")]) == 0


@pytest.mark.parametrize(
    ("text", "is_garbled"),
    [
        ("An ordinary page of text, with words and marks.", False),
        ("Contents . . . . . . . . . . . . . . . . 1 Notices . . . . . . . . . . . . . . . . . . 2", False),
        ("一页普通的中文文字，没有任何问题。还有更多的文字。", False),
        ("Café, naïve façade: señor Müller dîne à Genève.", False),
        ("\ue012\ue013\ue014 \ue015\ue016\ue017\ue018 \ue019\ue020\ue021 some more words", True),
        ("(cid:12)(cid:31)(cid:7) (cid:88)(cid:3) and (cid:9)", True),
        ("!#$%&'()*+,-./:;<=>?@[]^_`{|}~!#$%&'()*+ab", True),
        ("\x01\x02\x03\x04\x05\x06\x07\x08 \x0e\x0f\x10\x11\x12 text here", True),
    ],
)
def test_garbled_text_layers_are_told_from_readable_ones(text, is_garbled):
    assert judge_layer(text).is_garbled is is_garbled


def test_gbk_shown_as_latin_is_read_again():
    shown_text = "关于红军作战的原则和对国防问题的意见".encode("gbk").decode("latin-1")
    verdict = judge_layer(shown_text)
    assert verdict.is_garbled
    assert verdict.gbk_text == "关于红军作战的原则和对国防问题的意见"


def test_pdf_form_values_are_read_with_their_boxes_and_signatures_are_not():
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    canvas.drawString(60, 780, "Application form")
    canvas.acroForm.textfield(name="city", tooltip="Your city", value="Geneva", x=60, y=700, width=200, height=20)
    canvas.acroForm.textfield(name="empty", value="", x=60, y=600, width=200, height=20)
    canvas.save()
    document = parse(stream.getvalue())
    assert texts(document) == ["Application form", "Your city: Geneva"]
    (box,) = document.blocks[1].boxes
    assert (box.left, box.top) == pytest.approx((60, A4[1] - 720), abs=2)
