"""Hostile and broken input ends with a typed error that names the limit or the damage."""

import io
import json
import zipfile

import docx
import openpyxl
import pytest
from pptx import Presentation
from reportlab.pdfgen.canvas import Canvas

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.errors import DocumentError, InvalidArgumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions


def failure(content, name="file", **limits):
    with pytest.raises(DocumentError) as raised:
        parse_source(Source(content, name, ParseOptions(limits=ParseLimits(**limits))))
    assert len(raised.value.message) > 40
    return raised.value


def limit_of(content, name="file", **limits):
    error = failure(content, name, **limits)
    assert error.reason == "DOCUMENT_RESOURCE_LIMIT"
    limit = error.metadata["limit"]
    assert limit in error.message
    return limit


def pdf(page_count=1, text="Text of a page that can be read."):
    stream = io.BytesIO()
    canvas = Canvas(stream)
    for _ in range(page_count):
        canvas.drawString(72, 720, text)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def word(*paragraphs):
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def workbook(rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def package(members, *, base=None):
    stream = io.BytesIO(base or b"")
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.docx", "a"])
def test_zero_bytes_are_empty(name):
    assert failure(b"", name).reason == "DOCUMENT_EMPTY"


@pytest.mark.parametrize("content", [b" \n\n ", b"\xef\xbb\xbf", b"<html><script>x()</script></html>", b"[]", b"{}"])
def test_files_without_text_are_empty(content):
    assert failure(content).reason == "DOCUMENT_EMPTY"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("make", [lambda: word("Hello " * 50), lambda: workbook([["a", 1]]), pdf])
def test_truncated_files_are_corrupt(make, share):
    content = make()
    assert failure(content[: int(len(content) * share)]).reason == "DOCUMENT_CORRUPT"


def test_zip_bomb_is_refused_before_it_is_unpacked():
    bomb = package({"word/media/image.bin": b"\0" * 50_000_000}, base=word("Hello"))
    assert limit_of(bomb) == "max_compression_ratio"
    assert limit_of(bomb, max_uncompressed_bytes=1_000_000) == "max_uncompressed_bytes"


def test_package_with_too_many_members_is_refused():
    many = package({f"word/part{index}.xml": b"<a/>" for index in range(300)}, base=word("Hello"))
    assert limit_of(many, max_entries=200) == "max_entries"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("make", [lambda: word("Hello"), lambda: workbook([["a", 1]])])
def test_entity_bomb_is_refused(make, encoding):
    entities = "".join(f'<!ENTITY a{index} "{f"&a{index - 1};" * 10}">' for index in range(1, 9))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{entities}]><x>&a8;</x>'
    error = failure(package({"word/bomb.xml": bomb.encode(encoding)}, base=make()))
    assert error.reason == "DOCUMENT_RESOURCE_LIMIT"
    assert "entities" in error.message


def test_file_longer_than_allowed_is_refused():
    assert limit_of(b"x" * 101, max_bytes=100) == "max_bytes"


def test_pdf_with_too_many_pages_is_refused():
    assert limit_of(pdf(6), max_pages=5) == "max_pages"


def test_presentation_with_too_many_slides_is_refused():
    presentation = Presentation()
    for _ in range(4):
        presentation.slides.add_slide(presentation.slide_layouts[6])
    stream = io.BytesIO()
    presentation.save(stream)
    assert limit_of(stream.getvalue(), max_pages=3) == "max_pages"


def test_too_many_rows_are_refused_in_every_kind_of_table():
    rows = [["a", "b"]] * 30
    assert limit_of(workbook(rows), max_rows=20) == "max_rows"
    assert limit_of(b"a,b\n" * 30, "a.csv", max_rows=20) == "max_rows"
    html = "<table>" + "<tr><td>a</td><td>b</td></tr>" * 30 + "</table>"
    assert limit_of(html.encode(), "a.html", max_rows=20) == "max_rows"


def test_spans_that_blow_a_table_up_are_refused():
    rows = "".join(f'<tr><td colspan="900" rowspan="900">{index}</td><td>x</td></tr>' for index in range(200))
    assert limit_of(f"<table>{rows}</table>".encode(), "a.html", max_cells=50_000) == "max_cells"


def test_deeply_nested_html_is_refused():
    deep = "<div>" * 500 + "text" + "</div>" * 500
    assert limit_of(deep.encode(), "a.html") == "max_depth"


def test_deeply_nested_tables_are_bounded():
    deep = "<html>" + "<table><tr><td>a</td><td>" * 150 + "x" + "</td></tr></table>" * 150
    document = parse_source(Source(deep.encode(), "a.html", ParseOptions()))
    assert len(document.blocks) == 1


def test_deeply_nested_json_is_refused_or_text():
    deep = json.loads("[" * 150 + "1" + "]" * 150)
    content = json.dumps({"a": [{"b": deep}]}).encode()
    assert limit_of(content.replace(b"[1]", b'[{"c": 1}]')) == "max_depth"
    assert parse_source(Source(b"[" * 100_000, "a.json", ParseOptions())).media_type == "text/plain"


def test_text_longer_than_allowed_is_refused():
    assert limit_of(b"word " * 100, max_text_characters=100) == "max_text_characters"
    assert limit_of(pdf(10), max_text_characters=100) == "max_text_characters"


def mail(inner, depth):
    boundary = f"b{depth}"
    return (
        f"From: a@b.c\nSubject: level {depth}\nMIME-Version: 1.0\n"
        f'Content-Type: multipart/mixed; boundary="{boundary}"\n\n'
        f"--{boundary}\nContent-Type: text/plain\n\nbody {depth}\n"
        f"--{boundary}\nContent-Type: message/rfc822\n\n{inner}\n--{boundary}--\n"
    )


def test_mails_in_mails_are_read_to_the_depth_that_is_allowed():
    content = "From: a@b.c\nSubject: innermost\n\nbody 0\n"
    for depth in range(1, 6):
        content = mail(content, depth)
    options = ParseOptions(limits=ParseLimits(max_attachment_depth=2))
    document = parse_source(Source(content.encode(), "a.eml", options))
    text = "\n".join(block.text for block in document.blocks)
    assert "body 5" in text
    assert "body 3" in text
    assert "body 2" not in text
    assert any("max_attachment_depth" in warning for warning in document.warnings)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x00\x00\x01\x00" + b"\0" * 20, "image/x-icon"),
        (b"\x1f\x8b\x08" + b"\0" * 20, "application/gzip"),
        (b"<?xml version='1.0'?><feed/>", "application/xml"),
        (b"\x00\x01\x02\x03binary\x00\xff", "application/octet-stream"),
        (
            package({"mimetype": b"application/vnd.oasis.opendocument.graphics"}),
            "application/vnd.oasis.opendocument.graphics",
        ),
        (package({"[Content_Types].xml": b"<Types/>"}), "application/vnd.openxmlformats-package"),
    ],
)
def test_foreign_formats_are_named_with_what_is_supported(content, media_type):
    error = failure(content, "a.docx")
    assert error.reason == "DOCUMENT_UNSUPPORTED"
    assert error.metadata["media_type"] == media_type
    assert "PDF" in error.message
    assert "DOCX" in error.message


def test_password_never_shows_in_the_options():
    assert "hunter2" not in repr(ParseOptions(password="hunter2"))


def test_limit_that_lets_nothing_pass_is_refused():
    with pytest.raises(InvalidArgumentError) as raised:
        ParseLimits(max_pages=0)
    assert raised.value.field == "max_pages"
    assert ParseLimits(max_attachment_depth=0).max_attachment_depth == 0
