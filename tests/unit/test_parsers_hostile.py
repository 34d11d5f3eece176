"""Broken and hostile files of every format: text or a typed error, never anything else."""

import base64
import io
import struct
import zipfile
import zlib
from email.message import EmailMessage

import docx
import openpyxl
import pytest
from PIL import Image
from pptx import Presentation
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers import router
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table", "style")
)
ENTITIES = "".join(f'<!ENTITY a{index} "{f"&a{index - 1};" * 10}">' for index in range(1, 9))
BOMB = f'<!DOCTYPE x [<!ENTITY a0 "ha">{ENTITIES}]>'


def parse(content, name="file", **limits):
    options = ParseOptions(limits=ParseLimits(**limits), recognition=RecognitionMode.NEVER)
    return parse_source(Source(content, name, options))


def failure(content, name="file", **limits):
    with pytest.raises(DocumentError) as raised:
        parse(content, name, **limits)
    return raised.value


TYPED = {"TEXT"} | {
    f"DOCUMENT_{reason}" for reason in ("CORRUPT", "EMPTY", "ENCRYPTED", "UNSUPPORTED", "RESOURCE_LIMIT")
}


def outcome(content, name="file"):
    try:
        document = parse(content, name)
    except DocumentError as error:
        return error.reason
    assert document.blocks
    return "TEXT"


def saved(document):
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def packed(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in members.items():
            package.writestr(name, content)
    return stream.getvalue()


def pdf():
    stream = io.BytesIO()
    canvas = Canvas(stream)
    canvas.drawString(72, 720, "A page of text.")
    canvas.save()
    return stream.getvalue()


def word():
    document = docx.Document()
    document.add_paragraph("A paragraph of text. " * 30)
    return saved(document)


def slides():
    presentation = Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = "A title"
    return saved(presentation)


def workbook():
    book = openpyxl.Workbook()
    for row in range(50):
        book.active.append([f"cell {row}", row])
    return saved(book)


def odf(kind="text", body="<text:p>A paragraph of text.</text:p>", prologue=""):
    return packed(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{prologue}<office:document-content {ODF}><office:body><office:text>{body}</office:text>"
            "</office:body></office:document-content>",
        }
    )


def book(page="<html><p>A page of text.</p></html>", prologue=""):
    container = '<container><rootfile full-path="a.opf"/></container>'
    root = (
        f'{prologue}<package><manifest><item id="a" href="a.html" media-type="text/html"/></manifest><spine>'
        '<itemref idref="a"/></spine></package>'
    )
    return packed(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "a.opf": root, "a.html": page}
    )


def mail():
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.c", "Subject"
    message.set_content("A body of text. " * 40)
    message.add_attachment(b"x,y\n1,2\n" * 50, maintype="text", subtype="csv", filename="a.csv")
    return bytes(message)


def picture(kind="PNG"):
    stream = io.BytesIO()
    Image.effect_noise((90, 60), 50).convert("RGB").save(stream, kind)
    return stream.getvalue()


MAKERS = {
    "pdf": pdf,
    "docx": word,
    "pptx": slides,
    "xlsx": workbook,
    "odt": odf,
    "epub": book,
    "eml": mail,
    "zip": lambda: packed({"a.docx": word(), "b.txt": "text"}),
    "html": lambda: b"<!doctype html><title>T</title>" + b"<p>A paragraph <b>of</b> text.<table><tr><td>a</table>" * 50,
    "md": lambda: "# 标题\n\n段落。\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode() * 30,
    "txt": lambda: "Ein Absatz über Größe.\n".encode("cp1252") * 30,
    "utf16": lambda: ("A paragraph of text.\n" * 30).encode("utf-16"),
    "csv": lambda: b'a,"b ""c""",d\n1,2,3\n' * 30,
    "json": lambda: b'{"a": [' + b'{"b": "text"}, ' * 50 + b"1]}",
    "jsonl": lambda: b'{"a": "text"}\n' * 50,
    "rtf": lambda: rb"{\rtf1\ansi " + rb"\pard A {\b paragraph}\par" * 50 + b"}",
    "png": picture,
    "jpeg": lambda: picture("JPEG"),
    "tiff": lambda: picture("TIFF"),
}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_file_that_was_cut_off_is_text_or_a_typed_error(kind, share):
    content = MAKERS[kind]()
    assert outcome(content[: int(len(content) * share)], f"a.{kind}") in (
        "TEXT",
        "DOCUMENT_CORRUPT",
        "DOCUMENT_EMPTY",
        "DOCUMENT_UNSUPPORTED",
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_file_with_flipped_bytes_is_text_or_a_typed_error(kind, seed):
    content = bytearray(MAKERS[kind]())
    state = seed + 1
    for _ in range(20):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        content[state % len(content)] ^= 1 << (state >> 8) % 8
    assert outcome(bytes(content), f"a.{kind}") in TYPED


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "odt", "epub", "eml", "html", "rtf", "pdf", "zip"])
def test_a_wrong_extension_does_not_matter(kind):
    content = MAKERS[kind]()
    assert parse(content, "lies.txt").media_type == parse(content, f"true.{kind}").media_type != "text/plain"


@pytest.mark.parametrize(
    "content",
    [
        odf(prologue=BOMB, body="<text:p>&a8;</text:p>"),
        book(prologue=BOMB),
        packed({"[Content_Types].xml": "<a/>", "word/document.xml": f"{BOMB}<x>&a8;</x>"}),
        packed({"[Content_Types].xml": "<a/>", "word/document.xml": f"{BOMB}<x>&a8;</x>".encode("utf-16")}),
    ],
    ids=["odt", "epub", "docx", "docx in UTF-16"],
)
def test_entity_bombs_are_refused(content):
    error = failure(content)
    assert error.reason == "DOCUMENT_RESOURCE_LIMIT"
    assert "entities" in error.message


def test_entity_bomb_behind_a_long_comment_is_not_expanded():
    prologue = f"<!--{'x' * 5_000}-->{BOMB}"
    document = parse(odf(prologue=prologue, body="<text:p>kept</text:p><text:p>&a8;</text:p>"))
    assert sum(len(block.text) for block in document.blocks) < 100


def test_entity_bomb_in_a_page_is_text():
    document = parse(f"<!DOCTYPE html [{ENTITIES}]><html><p>text &a8;</p></html>".encode())
    assert sum(len(block.text) for block in document.blocks) < 2_000


def test_external_entities_are_not_fetched():
    prologue = '<!DOCTYPE x SYSTEM "file:///etc/passwd">'
    assert failure(odf(prologue=prologue)).reason == "DOCUMENT_RESOURCE_LIMIT"


@pytest.mark.parametrize("tag", ["div", "b", "ul", "table", "blockquote", "span", "x"])
def test_a_page_nested_100_000_deep_is_refused_before_it_is_parsed(tag):
    assert failure(b"<html>" + f"<{tag}>".encode() * 100_000 + b"x").metadata["limit"] == "max_depth"


def test_a_page_with_100_000_elements_side_by_side_is_read():
    content = b"<html>" + b"<p><font>x" * 50_000 + b"<table>" + b"<tr><td><font>x<td>y" * 20_000 + b"</table>"
    assert len(parse(content).blocks) == 50_001
    svg = b"<html><p>x<svg>" + b"<path d='M0'/>" * 50_000 + b"</svg><p>y"
    assert len(parse(svg).blocks) == 2


@pytest.mark.parametrize("content", [b">" * 100_000 + b" x", b"".join(b" " * (2 * i) + b"- x\n" for i in range(400))])
def test_markdown_nested_too_deeply_is_refused_not_shortened(content):
    assert failure(content, "a.md").metadata["limit"] == "max_depth"


def test_xml_nested_too_deeply_is_refused_not_shortened():
    deep = "<text:section>" * 10_000 + "<text:p>x</text:p>" + "</text:section>" * 10_000
    assert failure(odf(body=deep)).metadata["limit"] == "max_depth"


@pytest.mark.parametrize("content", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_json_nested_100_000_deep_is_text(content):
    assert parse(content).media_type == "text/plain"


def test_repeated_cells_of_opendocument_do_not_blow_a_table_up():
    cell = '<table:table-cell table:number-columns-repeated="99999999"><text:p>x</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="99999999">{cell}</table:table-row>'
    assert failure(odf(body=f"<table:table>{row * 20}</table:table>")).metadata["limit"] in ("max_cells", "max_rows")


def declared_png(width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1_000)) + chunk(b"IEND", b"")


def test_image_that_says_it_is_20_000_pixels_square_is_refused():
    with pytest.raises(DocumentError) as raised:
        parse_source(Source(declared_png(20_000, 20_000), "a.png", ParseOptions()))
    error = raised.value
    assert (error.reason, error.metadata["limit"]) == ("DOCUMENT_RESOURCE_LIMIT", "max_pixels")


def test_huge_picture_in_a_document_costs_the_picture_only():
    text = '<html><p>text<img alt="huge" src="data:image/png;base64,{}"></html>'
    encoded = base64.b64encode(declared_png(20_000, 20_000)).decode()
    options = ParseOptions(keep_pictures=True)
    document = parse_source(Source(text.format(encoded).encode(), "a.html", options))
    assert document.pictures == ()
    assert [block.text for block in document.blocks] == ["text", "huge"]


def test_mail_whose_parts_are_nested_without_end_is_a_typed_error():
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(2_000))
    content = b"From: a@b.c\nSubject: x\n" + parts + b"Content-Type: text/plain\n\nhi\n"
    assert outcome(content) in ("TEXT", "DOCUMENT_RESOURCE_LIMIT", "DOCUMENT_CORRUPT")


class PanicException(BaseException):
    pass


def test_panic_of_a_reader_costs_its_document_and_not_the_archive_around_it(monkeypatch):
    def panic(_source):
        raise PanicException("index out of bounds")

    monkeypatch.setitem(router._PARSERS, Format.CSV, panic)
    document = parse(packed({"a.csv": "1,2", "b.txt": "text"}))
    assert [block.text for block in document.blocks] == ["b.txt", "text"]
    assert failure(b"1,2", "a.csv").reason == "DOCUMENT_CORRUPT"


def test_stopping_the_process_is_no_fault_of_a_document(monkeypatch):
    def stop(_source):
        raise KeyboardInterrupt

    monkeypatch.setitem(router._PARSERS, Format.CSV, stop)
    with pytest.raises(KeyboardInterrupt):
        parse(b"1,2", "a.csv")


def test_container_that_says_that_a_stream_is_longer_than_the_file_is_refused():
    sector, header, table = 512, bytearray(b"\xff" * 512), bytearray(b"\xff" * 512)
    header[:76] = bytes(76)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    for offset, value in ((24, 62), (26, 3), (28, 0xFFFE), (30, 9), (32, 6)):
        header[offset : offset + 2] = value.to_bytes(2, "little")
    for offset, value in ((44, 1), (48, 1), (56, 4096), (60, 0xFFFFFFFE), (68, 0xFFFFFFFE), (76, 0)):
        header[offset : offset + 4] = value.to_bytes(4, "little")
    table[0:8] = struct.pack("<II", 0xFFFFFFFD, 0xFFFFFFFE)

    def entry(name, kind, child, size):
        encoded = name.encode("utf-16-le") + b"\0\0"
        return encoded.ljust(64, b"\0") + struct.pack(
            "<HBBIII16sIQQIQ", len(encoded), kind, 1, 0xFFFFFFFF, 0xFFFFFFFF, child, b"", 0, 0, 0, 1, size
        )

    directory = entry("Root Entry", 5, 1, 0) + entry("WordDocument", 2, 0xFFFFFFFF, 2**31)
    error = failure(bytes(header + table + directory.ljust(sector, b"\0")))
    assert error.reason == "DOCUMENT_CORRUPT"
    assert "longer than the file" in error.message


def test_container_of_the_old_format_with_nothing_in_it_is_corrupt():
    # The signature of the container, then nothing that could be read.
    assert failure(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600).reason == "DOCUMENT_CORRUPT"
