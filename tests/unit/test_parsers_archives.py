"""ZIP archives of documents: every member on its own account, and what hostile archives cost."""

import io
import struct
import zipfile

import docx
import pytest

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions


def parse(content, *, password=None, **limits):
    return parse_source(Source(content, "file.zip", ParseOptions(password=password, limits=ParseLimits(**limits))))


def failure(content, **limits):
    with pytest.raises(DocumentError) as raised:
        parse(content, **limits)
    return raised.value


def packed(members, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def word(text):
    document = docx.Document()
    document.add_heading("Inside", 1)
    document.add_paragraph(text)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def texts(document):
    return [block.text for block in document.blocks]


def test_members_are_read_by_their_content_and_joined_under_their_names():
    document = parse(
        packed(
            {
                "a.txt": "first",
                "folder/b.pdf": word("second"),
                "c.csv": "x,y\n1,2",
                "__MACOSX/._a.txt": "junk",
                "folder/.DS_Store": "junk",
                "run.exe": b"MZ\0\0",
                "empty.txt": b"",
            }
        )
    )
    assert document.media_type == "application/zip"
    assert texts(document) == ["a.txt", "first", "folder/b.pdf", "Inside", "second", "c.csv", "x | y\n1 | 2"]
    assert document.blocks[4].heading_path == ("folder/b.pdf", "Inside")
    assert [entry.title for entry in document.outline] == ["a.txt", "folder/b.pdf", "c.csv"]
    assert document.metadata["member_count"] == "5"
    assert len(document.warnings) == 2


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("/root/x.txt", "/root/x.txt"),
        ("C:\\windows\\x.txt", "C:\\windows\\x.txt"),
        ("invoice\u202etxt.exe", "invoicetxt.exe"),
        ("a\x1b[31mred.txt", "a[31mred.txt"),
        ("x" * 500 + ".txt", "x" * 200),
    ],
)
def test_names_of_members_are_data(name, title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = parse(packed({name: "harmless text"}))
    assert texts(document) == [title, "harmless text"]
    assert list(tmp_path.iterdir()) == []


def test_name_with_a_nul_ends_there():
    content = packed({"aXb.txt": "text"}).replace(b"aXb.txt", b"a\0b.txt")
    assert "\0" not in "".join(texts(parse(content)))


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("二零二六年度财务报告和附件说明.txt", "gbk"),
        ("대한민국 헌법 전문과 부칙에 대한 설명서.txt", "cp949"),
        ("二零二六年度财务报告.txt", "utf-8"),
    ],
)
def test_names_without_a_declared_encoding_are_found_out(name, encoding):
    encoded = name.encode(encoding)
    placeholder = "n" * len(encoded)
    content = packed({placeholder: "text"}, zipfile.ZIP_STORED).replace(placeholder.encode(), encoded)
    assert texts(parse(content)) == [name, "text"]


def test_archives_in_archives_are_read_to_the_depth_that_is_allowed():
    content = packed({"bottom.txt": "bottom"})
    for level in range(3):
        content = packed({f"{level}.txt": f"level {level}", "inner.zip": content})
    found = texts(parse(content, max_attachment_depth=3))
    assert "level 0" in found
    assert "bottom" not in found
    assert "bottom" in texts(parse(content, max_attachment_depth=4))
    assert failure(packed({"a.zip": packed({"a.txt": "x"})}), max_attachment_depth=1).metadata["limit"] == (
        "max_attachment_depth"
    )


def encrypted_member(content):
    """Mark the first member of an archive as encrypted."""
    marked = bytearray(content)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        marked[marked.index(signature) + offset] |= 1
    return bytes(marked)


def test_encrypted_member_costs_a_warning_and_nothing_but_encrypted_members_is_an_error():
    content = encrypted_member(packed({"secret.txt": "x" * 50, "open.txt": "readable"}))
    document = parse(content)
    assert texts(document) == ["open.txt", "readable"]
    assert any("encrypted" in warning for warning in document.warnings)
    assert failure(encrypted_member(packed({"secret.txt": "x" * 50}))).reason == "DOCUMENT_ENCRYPTED"
    with pytest.raises(DocumentError) as raised:
        parse(encrypted_member(packed({"secret.txt": "x" * 50})), password="wrong")
    assert raised.value.reason == "DOCUMENT_ENCRYPTED"


def test_damaged_member_costs_a_warning():
    content = bytearray(packed({"bad.txt": "damaged text " * 9, "good.txt": "good"}))
    start = content.index(b"bad.txt") + 7
    content[start : start + 8] = b"\xff" * 8
    document = parse(bytes(content))
    assert texts(document) == ["good.txt", "good"]
    assert len(document.warnings) == 1


def test_flat_bomb_is_refused_before_it_is_unpacked():
    bomb = packed({"a.txt": b"\0" * 50_000_000})
    assert failure(bomb).metadata["limit"] == "max_compression_ratio"
    assert failure(bomb, max_uncompressed_bytes=1_000_000).metadata["limit"] == "max_uncompressed_bytes"


def test_nested_bomb_spends_one_budget_over_all_levels():
    content = packed({f"{index}.txt": f"text of member {index} " * 2_000 for index in range(8)})
    for _ in range(2):
        content = packed({f"{index}.zip": content for index in range(8)})
    document = parse(content, max_uncompressed_bytes=3_000_000)
    assert sum(len(text) for text in texts(document)) < 3_000_000
    assert any("max_uncompressed_bytes" in warning for warning in document.warnings)
    assert any("max_entries" in warning for warning in parse(content, max_entries=60).warnings)
    assert failure(content, max_text_characters=30_000).metadata["limit"] == "max_text_characters"


def overlapping(member_count):
    """Many entries of the directory that all name the same bytes (D. Fifield's bomb in its simplest form)."""
    body = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0x21, 0, 1000, 1000, 5, 0) + b"a.txt" + b"x" * 1000
    directory = b"".join(
        struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0x21, 0, 1000, 1000, 7, 0, 0, 0, 0, 0, 0)
        + b"%03d.txt" % index
        for index in range(member_count)
    )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, member_count, member_count, len(directory), len(body), 0)
    return body + directory + end


def test_overlapping_members_are_refused():
    assert failure(overlapping(900)).reason == "DOCUMENT_CORRUPT"
    assert "overlap" in failure(overlapping(2)).message


@pytest.mark.parametrize("is_zip64", [False, True])
def test_million_entries_are_counted_without_reading_them(is_zip64, monkeypatch):
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0x21, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"n"
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0x21, 0, 0, 0, 1, 0) + b"n"
    directory = entry * 1_000_000
    count, size, start, more = 65_535, len(directory), len(local), b""
    if is_zip64:
        more = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 10**6, 10**6, size, start)
        more += struct.pack("<IIQI", 0x07064B50, 0, start + size, 1)
        size = start = 0xFFFFFFFF
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, size, start, 0)

    def refuse(*_arguments, **_options):
        raise AssertionError("the directory was read")

    monkeypatch.setattr(zipfile, "ZipFile", refuse)
    assert failure(local + directory + more + end).metadata["limit"] == "max_entries"
