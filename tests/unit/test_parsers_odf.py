"""ODT and ODP: text documents and presentations of OpenDocument."""

import io
import zipfile

import pytest
from PIL import Image

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseOptions

NAMES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "style": "style",
        "svg": "svg-compatible",
        "presentation": "presentation",
        "meta": "meta",
    }.items()
)
NAMES += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
TEXT = "application/vnd.oasis.opendocument.text"
SLIDES = "application/vnd.oasis.opendocument.presentation"


def packed(media_type, body, *, styles="", automatic="", members=None):
    kind = "text" if media_type == TEXT else "presentation"
    parts = {
        "mimetype": media_type,
        "content.xml": f"<office:document-content {NAMES}>"
        f"<office:automatic-styles>{automatic}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
        "styles.xml": f"<office:document-styles {NAMES}>{styles}</office:document-styles>",
        "meta.xml": f"<office:document-meta {NAMES}><office:meta><dc:title>Own title</dc:title>"
        "<dc:creator>A. Writer</dc:creator></office:meta></office:document-meta>",
    } | (members or {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return stream.getvalue()


def parse(content, **options):
    return parse_source(Source(content, "file", ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def test_odt_headings_lists_notes_and_running_heads():
    body = """<text:p text:style-name="P1">The title</text:p><text:h text:outline-level="2">Head</text:h>
    <text:p>Some<text:s text:c="3"/>text<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>
    <text:note-body><text:p>a note</text:p></text:note-body></text:note><text:line-break/>line</text:p>
    <text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>deep</text:p></text:list-item>
    </text:list></text:list-item></text:list><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>
    <text:section><text:p>in a <text:span>section</text:span></text:p></text:section>
    <text:p><office:annotation><text:p>remark</text:p></office:annotation>seen</text:p>"""
    automatic = '<style:style style:name="P1" style:parent-style-name="Title"/>'
    styles = (
        "<style:header><text:p>Running head</text:p></style:header><style:footer><text:p>Foot</text:p></style:footer>"
    )
    document = parse(packed(TEXT, body, automatic=automatic, styles=styles))
    assert shown(document) == [
        ("title", 0, "The title"),
        ("heading", 2, "Head"),
        ("paragraph", 0, "Some   text\nline"),
        ("note", 0, "a note"),
        ("list_item", 1, "one"),
        ("list_item", 2, "deep"),
        ("paragraph", 0, "in a section"),
        ("paragraph", 0, "seen"),
        ("header", 0, "Running head"),
        ("footer", 0, "Foot"),
    ]
    assert (document.title, document.metadata["author"], document.page_count) == ("Own title", "A. Writer", 0)


def test_odt_tables_have_spans_header_rows_and_repeated_cells():
    def cell(text, **attributes):
        written = " ".join(f'table:number-{key.replace("_", "-")}="{value}"' for key, value in attributes.items())
        return f"<table:table-cell {written}><text:p>{text}</text:p></table:table-cell>"

    covered = "<table:covered-table-cell/>"
    body = f"""<table:table><table:table-header-rows><table:table-row>{cell("City", rows_spanned=2)}
    {cell("Year", columns_spanned=2)}{covered}</table:table-row></table:table-header-rows>
    <table:table-row>{covered}{cell("x", columns_repeated=2)}</table:table-row>
    <table:table-row table:number-rows-repeated="2">{cell("Rome")}{cell("3")}{cell("4")}</table:table-row>
    </table:table>"""
    (block,) = parse(packed(TEXT, body)).blocks
    assert block.table.rows == (("City", "Year", ""), ("", "x", "x"), ("Rome", "3", "4"), ("Rome", "3", "4"))
    assert block.table.spans == (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2))
    assert block.table.header_row_count == 2


def test_odt_pages_follow_the_breaks_that_the_program_noted():
    body = (
        "<text:p>one</text:p><text:soft-page-break/><text:p>two<text:soft-page-break/></text:p><text:p>three</text:p>"
    )
    document = parse(packed(TEXT, body))
    assert [(block.page, block.text) for block in document.blocks] == [(1, "one"), (3, "two"), (3, "three")]
    assert document.page_count == 3


def test_odt_figures_and_formulas():
    stream = io.BytesIO()
    Image.new("RGB", (32, 32)).save(stream, "PNG")
    body = """<text:p>Let <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame> be</text:p>
    <text:p><draw:frame><svg:desc>a black field</svg:desc><draw:image xlink:href="Pictures/a.png"/></draw:frame>
    </text:p>"""
    formula = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi><annotation>x^2</annotation></math>'
    members = {"Object 1/content.xml": formula, "Pictures/a.png": stream.getvalue()}
    document = parse(packed(TEXT, body, members=members), keep_pictures=True)
    assert shown(document) == [("paragraph", 0, "Let  x^2  be"), ("figure", 0, "a black field")]
    assert len(document.pictures) == 1


def test_odp_slides_have_titles_boxes_and_notes():
    def frame(text, top, kind=""):
        presentation = f'presentation:class="{kind}"' if kind else ""
        return f"""<draw:frame {presentation} svg:x="1in" svg:y="{top}in" svg:width="2in" svg:height="1in">
        <draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"""

    body = f"""<draw:page>{frame("lower", 4)}{frame("upper", 2)}{frame("Slide title", 5, "title")}
    <presentation:notes>{frame("said aloud", 1, "notes")}</presentation:notes></draw:page>
    <draw:page><draw:g>{frame("grouped", 1)}</draw:g></draw:page>"""
    document = parse(packed(SLIDES, body))
    assert [(block.page, *row) for block, row in zip(document.blocks, shown(document), strict=True)] == [
        (1, "heading", 1, "Slide title"),
        (1, "paragraph", 0, "upper"),
        (1, "paragraph", 0, "lower"),
        (1, "note", 0, "said aloud"),
        (2, "paragraph", 0, "grouped"),
    ]
    (box,) = document.blocks[1].boxes
    assert (box.left, box.top, box.right, box.bottom) == (72, 144, 216, 216)
    assert document.page_count == 2


def test_encrypted_opendocument_is_encrypted():
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    with pytest.raises(DocumentError) as raised:
        parse(packed(TEXT, "<text:p>x</text:p>", members={"META-INF/manifest.xml": manifest}))
    assert raised.value.reason == "DOCUMENT_ENCRYPTED"
