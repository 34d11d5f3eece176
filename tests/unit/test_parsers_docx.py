"""DOCX: everything of a Word document in its place."""

import io
import zipfile

import docx
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Inches
from PIL import Image

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.docx_styles import format_number
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import CellSpan
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def saved(document):
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def parse(document, **options):
    content = document if isinstance(document, bytes) else saved(document)
    return parse_source(Source(content, "file", ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def with_members(content, members):
    """Add or replace members of a package."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name not in members:
                new.writestr(name, old.read(name))
        for name, text in members.items():
            new.writestr(name, text)
    return stream.getvalue()


def png():
    stream = io.BytesIO()
    Image.new("RGB", (64, 32), "blue").save(stream, "PNG")
    stream.seek(0)
    return stream


def append(document, xml):
    document.element.body.insert(len(document.element.body) - 1, parse_xml(xml))


def test_spans_and_header_rows_of_tables():
    document = docx.Document()
    table = document.add_table(4, 3)
    table.cell(0, 0).merge(table.cell(1, 0)).text = "City"
    table.cell(0, 1).merge(table.cell(0, 2)).text = "Year"
    for row, cells in enumerate([["", "1", "2"], ["Rome", "3", "4"], ["Bern", "5", "6"]], 1):
        for column, text in enumerate(cells):
            if text:
                table.cell(row, column).text = text
    for row in table.rows[:1]:
        row._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {nsdecls('w')}/>"))
    (block,) = parse(document).blocks
    assert block.table.rows == (("City", "Year", ""), ("", "1", "2"), ("Rome", "3", "4"), ("Bern", "5", "6"))
    assert block.table.spans == (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2))
    assert block.table.header_row_count == 2


def test_lists_and_tables_in_cells_are_text_of_the_cell_and_a_frame_is_no_table():
    document = docx.Document()
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "a"
    table.cell(0, 0).add_paragraph("item", style="List Bullet")
    inner = table.cell(0, 1).add_table(2, 2)
    for index, cell in enumerate(cell for row in inner.rows for cell in row.cells):
        cell.text = f"c{index}"
    frame = document.add_table(1, 1)
    frame.cell(0, 0).text = "Framed text"
    assert shown(parse(document)) == [("table", 0, "a item | c0 c1 c2 c3"), ("paragraph", 0, "Framed text")]


def test_one_column_is_a_table_unless_headings_in_it_make_it_the_layout_of_a_page():
    document = docx.Document()
    for cell, text in zip(document.add_table(2, 1).columns[0].cells, ("a", "b"), strict=True):
        cell.text = text
    layout = document.add_table(2, 1)
    layout.cell(0, 0).add_paragraph("Chapter", style="Heading 1")
    layout.cell(1, 0).text = "its text"
    assert shown(parse(document)) == [("table", 0, "a\nb"), ("heading", 1, "Chapter"), ("paragraph", 0, "its text")]


def test_pages_end_where_the_document_says_so():
    document = docx.Document()
    document.add_paragraph("one")
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    document.add_paragraph("two")
    chapter = document.add_paragraph("three")
    chapter.paragraph_format.page_break_before = True
    parsed = parse(document)
    assert [(block.page, block.text) for block in parsed.blocks] == [(1, "one"), (2, "two"), (3, "three")]
    assert parsed.page_count == 3


def test_pages_that_word_noted_when_it_saved_are_believed_alone():
    document = docx.Document()
    document.add_paragraph("one").add_run().add_break(WD_BREAK.PAGE)
    second = document.add_paragraph()
    run = second.add_run()
    run._r.append(parse_xml(f"<w:lastRenderedPageBreak {nsdecls('w')}/>"))
    second.add_run("two")
    assert [(block.page, block.text) for block in parse(document).blocks] == [(1, "one"), (2, "two")]


def test_document_without_page_marks_has_no_pages():
    document = docx.Document()
    document.add_paragraph("one")
    parsed = parse(document)
    assert (parsed.page_count, parsed.blocks[0].page) == (0, 0)


def test_figures_captions_and_alternative_text():
    document = docx.Document()
    shape = document.add_picture(png(), width=Inches(1))
    shape._inline.docPr.set("descr", "a blue field")
    document.add_paragraph("Figure 1: blue", style="Caption")
    parsed = parse(document, keep_pictures=True)
    assert shown(parsed) == [("figure", 0, "a blue field"), ("caption", 0, "Figure 1: blue")]
    (picture,) = parsed.pictures
    assert (picture.width, picture.height, picture.media_type) == (64, 32, "image/png")
    assert picture.name == parsed.blocks[0].picture
    without = parse(document)
    assert (shown(without), without.pictures) == (shown(parsed), ())


def test_pictures_beyond_the_limit_are_left_out_with_a_warning():
    document = docx.Document()
    for _ in range(3):
        document.add_picture(png())
    document.add_paragraph("text")
    parsed = parse(document, keep_pictures=True, limits=ParseLimits(max_pictures=2))
    assert len(parsed.pictures) == 2
    assert any("1 pictures were left out" in warning for warning in parsed.warnings)


def test_formulas_are_linear_text():
    document = docx.Document()
    append(
        document,
        f"""<w:p {nsdecls("w")} {MATH}><m:oMathPara><m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num>
        <m:den><m:r><m:t>2</m:t></m:r></m:den></m:f><m:r><m:t>=</m:t></m:r><m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e>
        <m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath></m:oMathPara></w:p>""",
    )
    paragraph = document.add_paragraph("where x is ")
    paragraph._p.append(parse_xml(f"<m:oMath {MATH}><m:r><m:t>y+1</m:t></m:r></m:oMath>"))
    assert shown(parse(document)) == [("formula", 0, "(a+b)/2=x^2"), ("paragraph", 0, "where x is y+1")]


def test_deleted_hidden_and_field_source_text_is_not_text_and_inserted_is():
    document = docx.Document()
    append(
        document,
        f"""<w:p {nsdecls("w")}><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r>
        </w:ins><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>
        <w:hyperlink><w:r><w:t xml:space="preserve"> link</w:t></w:r></w:hyperlink><w:sdt><w:sdtContent><w:r>
        <w:t xml:space="preserve"> control</w:t></w:r></w:sdtContent></w:sdt></w:p>""",
    )
    assert shown(parse(document)) == [("paragraph", 0, "new link control")]


def test_text_boxes_are_read_once_although_word_writes_them_twice():
    document = docx.Document()
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    append(
        document,
        f"""<w:p {nsdecls("w")} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:r><w:t>by</w:t>
        </w:r><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing>{box}</w:drawing></mc:Choice>
        <mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>""",
    )
    assert [block.text for block in parse(document).blocks] == ["by", "boxed"]


def test_footnotes_follow_their_paragraph():
    document = docx.Document()
    paragraph = document.add_paragraph("claim")
    paragraph.add_run()._r.append(parse_xml(f'<w:footnoteReference {nsdecls("w")} w:id="2"/>'))
    document.add_paragraph("next")
    notes = f"""<w:footnotes {nsdecls("w")}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>
    <w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>the source</w:t></w:r></w:p></w:footnote>
    </w:footnotes>"""
    content = saved(document)
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        relations = package.read("word/_rels/document.xml.rels").decode()
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    relations = relations.replace(
        "</Relationships>", f'<Relationship Id="rIdN" Type="{kind}" Target="footnotes.xml"/></Relationships>'
    )
    content = with_members(content, {"word/footnotes.xml": notes, "word/_rels/document.xml.rels": relations})
    assert shown(parse(content)) == [("paragraph", 0, "claim"), ("note", 0, "the source"), ("paragraph", 0, "next")]


NUMBERING = """<w:numbering xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="chineseCounting"/>
<w:lvlText w:val="第%1条"/></w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/>
<w:lvlText w:val="(%2)"/></w:lvl></w:abstractNum><w:num w:numId="7"><w:abstractNumId w:val="1"/></w:num>
</w:numbering>"""


def test_numbers_that_word_counts_are_part_of_the_text():
    document = docx.Document()
    for level in (0, 1, 1, 0, 1):
        paragraph = document.add_paragraph("text", style="List Number")
        properties = paragraph._p.get_or_add_pPr()
        properties.append(parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/><w:numId w:val="7"/></w:numPr>'))
    parsed = parse(with_members(saved(document), {"word/numbering.xml": NUMBERING}))
    assert shown(parsed) == [
        ("list_item", 1, "第一条 text"),
        ("list_item", 2, "(a) text"),
        ("list_item", 2, "(b) text"),
        ("list_item", 1, "第二条 text"),
        ("list_item", 2, "(a) text"),
    ]


@pytest.mark.parametrize(
    ("count", "number_format", "text"),
    [
        (4, "lowerRoman", "iv"),
        (1994, "upperRoman", "MCMXCIV"),
        (27, "lowerLetter", "aa"),
        (10, "chineseCounting", "十"),
        (21, "chineseCounting", "二十一"),
        (3, "decimalZero", "03"),
        (5, "unheard of", "5"),
    ],
)
def test_number_formats(count, number_format, text):
    assert format_number(count, number_format) == text


def test_embedded_document_is_read_under_its_name_one_level_deeper():
    inner = docx.Document()
    inner.add_heading("Inside", 1)
    inner.add_paragraph("inner text")
    outer = docx.Document()
    outer.add_heading("Outside", 1)
    outer.add_paragraph("outer text")
    content = saved(outer)
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        relations = package.read("word/_rels/document.xml.rels").decode()
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/package"
    relations = relations.replace(
        "</Relationships>", f'<Relationship Id="rIdE" Type="{kind}" Target="embeddings/a.docx"/></Relationships>'
    )
    content = with_members(content, {"word/embeddings/a.docx": saved(inner), "word/_rels/document.xml.rels": relations})
    parsed = parse(content)
    assert parsed.metadata["embedded_file_count"] == "1"
    assert [block.text for block in parsed.blocks] == ["Outside", "outer text", "a.docx", "Inside", "inner text"]
    assert parsed.blocks[-1].heading_path == ("a.docx", "Inside")
    shallow = parse(content, limits=ParseLimits(max_attachment_depth=0))
    assert [block.text for block in shallow.blocks] == ["Outside", "outer text"]
    assert any("max_attachment_depth" in warning for warning in shallow.warnings)


def test_strict_dialect_is_read_like_the_common_one():
    document = docx.Document()
    document.add_heading("Head", 1)
    with zipfile.ZipFile(io.BytesIO(saved(document))) as package:
        members = {name: package.read(name) for name in ("word/document.xml", "word/styles.xml")}
    common, strict = (
        b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        b"http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
    members = {name: text.replace(common, strict) for name, text in members.items()}
    assert shown(parse(with_members(saved(document), members))) == [("heading", 1, "Head")]


def test_no_letter_of_the_body_is_lost_or_doubled():
    document = docx.Document()
    document.add_heading("H1", 1)
    for index in range(30):
        document.add_paragraph(f"paragraph{index} ", style="List Bullet" if index % 3 == 0 else None)
        table = document.add_table(2, 2)
        for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
            cell.text = f"cell{index}x{number}"
    source = "".join(node.text or "" for node in document.element.body.iter(qn("w:t")))
    found = "".join(
        "".join("".join(row) for row in block.table.rows) if block.table else block.text
        for block in parse(document).blocks
    )
    assert "".join(found.split()) == "".join(source.split())
