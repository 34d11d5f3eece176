"""DOC, PPT and MSG: files of the old container, written here byte by byte."""

import io
import struct

import pytest

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.ole_properties import summary_of
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

SECTOR, MINI = 512, 64
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def container(tree):  # noqa: C901 - a file format in one piece
    """Write an OLE file ([MS-CFB]): `tree` maps names to bytes or to another tree."""
    entries = []  # name, kind, right sibling, child, content

    def add(items, name, kind):
        number = len(entries)
        entries.append([name, kind, FREE, FREE, items if isinstance(items, bytes) else b""])
        if isinstance(items, dict):
            previous = None
            for child_name, child in items.items():
                child_number = add(child, child_name, 2 if isinstance(child, bytes) else 1)
                if previous is None:
                    entries[number][3] = child_number
                else:
                    entries[previous][2] = child_number
                previous = child_number
        return number

    add(tree, "Root Entry", 5)
    mini, mini_fat, starts = b"", [], {}
    for number, (_, kind, _, _, content) in enumerate(entries):
        if kind == 2 and 0 < len(content) < 4096:
            starts[number] = len(mini_fat)
            count = -(-len(content) // MINI)
            mini_fat += [len(mini_fat) + index + 1 for index in range(count - 1)] + [END]
            mini += content.ljust(count * MINI, b"\0")
    sectors, fat = [], []

    def store(content):
        if not content:
            return END
        start, count = len(fat), -(-len(content) // SECTOR)
        fat.extend([start + index + 1 for index in range(count - 1)] + [END])
        padded = content.ljust(count * SECTOR, b"\0")
        sectors.extend(padded[at : at + SECTOR] for at in range(0, len(padded), SECTOR))
        return start

    for number, (_, kind, _, _, content) in enumerate(entries):
        if kind == 2 and len(content) >= 4096:
            starts[number] = store(content)
    mini_start = store(mini)
    mini_fat_start = store(struct.pack(f"<{len(mini_fat)}I", *mini_fat).ljust(SECTOR, b"\xff") if mini_fat else b"")
    directory = b""
    for number, (name, kind, right, child, content) in enumerate(entries):
        encoded = name.encode("utf-16-le") + b"\0\0"
        start, size = starts.get(number, END), len(content)
        if kind == 5:
            start, size = mini_start, len(mini)
        directory += encoded.ljust(64, b"\0") + struct.pack(
            "<HBBIII16sIQQIQ", len(encoded), kind, 1, FREE, right, child, b"", 0, 0, 0, start, size
        )
    directory = directory.ljust(-(-len(directory) // SECTOR) * SECTOR, b"\0")
    directory_start = store(directory)
    fat_sector_count = -(-(len(fat) + 1) // 127)
    fat_start = len(fat)
    fat += [FAT] * fat_sector_count
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(fat_sector_count * SECTOR, b"\xff")
    sectors += [table[at : at + SECTOR] for at in range(0, len(table), SECTOR)]
    difat = [fat_start + index for index in range(fat_sector_count)] + [FREE] * (109 - fat_sector_count)
    mini_sectors = -(-len(mini_fat) * 4 // SECTOR)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack(
        "<16sHHHHH6sIIIIIIIII109I",
        b"",
        62,
        3,
        0xFFFE,
        9,
        6,
        b"",
        0,
        fat_sector_count,
        directory_start,
        0,
        4096,
        mini_fat_start if mini_fat else END,
        mini_sectors,
        END,
        0,
        *difat,
    )
    return header + b"".join(sectors)


# DOC

PROPERTIES = {
    "in_table": struct.pack("<HB", 0x2416, 1),
    "row_end": struct.pack("<HB", 0x2417, 1),
    "inner_cell": struct.pack("<HB", 0x244B, 1),
    "inner_row_end": struct.pack("<HB", 0x244C, 1),
    "deep": struct.pack("<Hi", 0x6649, 2),
    "outline": struct.pack("<HB", 0x2640, 2),
    "list": struct.pack("<HHHB", 0x460B, 3, 0x260A, 1),
}


def row_definition(edges, flags):
    body = bytes([len(flags)]) + struct.pack(f"<{len(edges)}h", *edges)
    body += b"".join(struct.pack("<H18x", flag) for flag in flags)
    return struct.pack("<HH", 0xD608, len(body) + 1) + body


def style_sheet(styles):
    """Styles as built-in number, base and name."""
    block = struct.pack("<HHHHHHHHHH", 18, len(styles), 10, 0, 0, 0, 0, 0, 0, 0)
    for built_in, base, name in styles:
        entry = struct.pack("<HHHHH", built_in, base << 4 | 1, 0, 0, 0)
        entry += struct.pack("<H", len(name)) + name.encode("utf-16-le") + b"\0\0"
        block += struct.pack("<H", len(entry)) + entry + b"\0" * (len(entry) % 2)
    return block


def word(paragraphs, *, hidden=(), notes=(), wide=True, flags=0, styles=()):
    """Write a Word 97 file.

    `paragraphs` are (text with its end mark, style number, properties); `hidden` are words in the text;
    `notes` are (place, text).
    """
    body = "".join(text for text, _, _ in paragraphs)
    note_text = "".join(f"\x02{text}\r" for _, text in notes)
    text = body + note_text
    encoded = text.encode("utf-16-le") if wide else text.encode("cp1252", "replace")
    width, base = (2, 1024) if wide else (1, 1024)
    main = bytearray(1024) + encoded
    main += b"\0" * (-len(main) % 512)

    def property_page(bounds, grpprls, entry_bytes):
        page, tail = bytearray(512), 510
        struct.pack_into(f"<{len(bounds)}I", page, 0, *bounds)
        for index, grpprl in enumerate(grpprls):
            if entry_bytes == 13:
                grpprl += b"\0" * (len(grpprl) % 2 == 0)  # an odd number of bytes after the count of words
                stored = bytes([(len(grpprl) + 1) // 2]) + grpprl
            else:
                stored = bytes([len(grpprl)]) + grpprl
            tail -= len(stored) + len(stored) % 2
            tail -= tail % 2
            page[tail : tail + len(stored)] = stored
            page[4 * len(bounds) + index * entry_bytes] = tail // 2 if grpprl else 0
        page[511] = len(grpprls)
        number = len(main) // 512
        main.extend(page)
        return number

    table = bytearray()
    places = {}

    def block(index, content):
        places[index] = (len(table), len(content))
        table.extend(content)

    pages, at, group, bounds = [], base, [], [base]
    for paragraph, style, properties in paragraphs:
        at += len(paragraph) * width
        group.append(struct.pack("<H", style) + properties)
        bounds.append(at)
        if sum(map(len, group)) > 200 or len(group) > 12:
            pages.append((bounds[0], at, property_page(bounds, group, 13)))
            group, bounds = [], [at]
    if group:
        pages.append((bounds[0], at, property_page(bounds, group, 13)))
    block(
        13,
        struct.pack(f"<{len(pages) + 1}I", *[first for first, _, _ in pages], pages[-1][1])
        + struct.pack(f"<{len(pages)}I", *[number for _, _, number in pages]),
    )
    marks = sorted((body.index(part), body.index(part) + len(part)) for part in hidden)
    bounds, group = [base], []
    for first, last in marks:
        group += [b"", struct.pack("<HB", 0x083C, 1)]
        bounds += [base + first * width, base + last * width]
    group.append(b"")
    bounds.append(base + len(text) * width)
    number = property_page(bounds, group, 1)
    block(12, struct.pack("<III", base, bounds[-1], number))
    block(1, style_sheet(styles) if styles else style_sheet([(0, 0xFFF, "Normal")]))
    if notes:
        ends, position = [0], 0
        for _, note in notes:
            position += len(note) + 2
            ends.append(position)
        block(
            2,
            struct.pack(f"<{len(notes) + 1}I", *[place for place, _ in notes], len(body))
            + struct.pack(f"<{len(notes)}H", *range(1, len(notes) + 1)),
        )
        block(3, struct.pack(f"<{len(ends) + 1}I", *ends, position + 1))
    offset = base if wide else base * 2 | 0x40000000
    piece = struct.pack("<IIHIH", 0, len(text), 0, offset, 0)
    block(33, b"\x02" + struct.pack("<I", len(piece)) + piece)
    struct.pack_into("<HH", main, 0, 0xA5EC, 0xC1)
    struct.pack_into("<H", main, 10, 0x0200 | flags)
    struct.pack_into("<8i", main, 0x4C, len(body), len(note_text), 0, 0, 0, 0, 0, 0)
    for index, (start, length) in places.items():
        struct.pack_into("<II", main, 0x9A + 8 * index, start, length)
    return container({"WordDocument": bytes(main), "1Table": bytes(table)})


def parse(content, **options):
    return parse_source(Source(content, "file", ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


STYLES = [
    (0, 0xFFF, "Normal"),
    (1, 0, "heading 1"),
    (0xFFE, 1, "Company chapter"),
    (62, 0, "Title"),
    (34, 0, "caption"),
]


@pytest.mark.parametrize("wide", [True, False])
def test_doc_headings_by_style_and_level_lists_and_title(wide):
    paragraphs = [
        ("The title\r", 3, b""),
        ("One\r", 1, b""),
        ("Chapter\r", 2, b""),
        ("Level\r", 0, PROPERTIES["outline"]),
        ("Café\r", 0, b""),
        ("item\r", 0, PROPERTIES["list"]),
        ("Figure 1\r", 4, b""),
    ]
    document = parse(word(paragraphs, styles=STYLES, wide=wide))
    assert document.media_type == "application/msword"
    assert document.title == "The title"
    assert shown(document) == [
        ("title", 0, "The title"),
        ("heading", 1, "One"),
        ("heading", 1, "Chapter"),
        ("heading", 3, "Level"),
        ("paragraph", 0, "Café"),
        ("list_item", 2, "item"),
        ("caption", 0, "Figure 1"),
    ]


def test_doc_tables_have_spans_and_inner_tables_are_text_of_their_cell():
    cell, deep = PROPERTIES["in_table"], PROPERTIES["in_table"] + PROPERTIES["deep"]
    inner_cell, inner_end = PROPERTIES["inner_cell"], PROPERTIES["inner_cell"] + PROPERTIES["inner_row_end"]

    def end(edges, flags):
        return ("\x07", 0, cell + PROPERTIES["row_end"] + row_definition(edges, flags))

    paragraphs = [
        *[(f"{text}\x07", 0, cell) for text in ("City", "Year")],
        end((0, 1000, 3000), (0x60, 0)),
        *[(f"{text}\x07", 0, cell) for text in ("", "1", "2")],
        end((0, 1000, 2000, 3000), (0x20, 0, 0)),
        ("first line\r", 0, cell),
        ("second\x07", 0, cell),
        ("i\r", 0, deep + inner_cell),
        ("j\r", 0, deep + inner_cell),
        ("\r", 0, deep + inner_end),
        ("\x07", 0, cell),
        ("z\x07", 0, cell),
        end((0, 1000, 2000, 3000), (0, 0, 0)),
        ("after\r", 0, b""),
    ]
    table, after = parse(word(paragraphs)).blocks
    assert table.table.rows == (("City", "Year", ""), ("", "1", "2"), ("first line second", "i j", "z"))
    assert table.table.spans == (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2))
    assert after.text == "after"


def test_doc_drops_hidden_text_and_the_sources_of_fields_and_reads_notes():
    paragraphs = [
        ("See \x13 HYPERLINK \x14the page\x15 and SECRET it\x02.\r", 0, b""),
        ("next 😀\x0bline\r", 0, b""),
    ]
    place = paragraphs[0][0].index("\x02")
    document = parse(word(paragraphs, hidden=["SECRET "], notes=[(place, "a note")]))
    assert shown(document) == [
        ("paragraph", 0, "See the page and it."),
        ("note", 0, "a note"),
        ("paragraph", 0, "next 😀\nline"),
    ]


def test_doc_with_a_password_is_encrypted():
    with pytest.raises(DocumentError) as raised:
        parse(word([("x\r", 0, b"")], flags=0x0100))
    assert raised.value.reason == "DOCUMENT_ENCRYPTED"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_doc_that_was_cut_off_is_corrupt(share):
    content = word([(f"paragraph {number}\r", 0, b"") for number in range(200)])
    with pytest.raises(DocumentError) as raised:
        parse(content[: int(len(content) * share)])
    assert raised.value.reason == "DOCUMENT_CORRUPT"


# PPT


def record(kind, body, *, instance=0, is_container=False):
    return struct.pack("<HHI", instance << 4 | (0xF if is_container else 0), kind, len(body)) + body


def holder(kind, *parts, instance=0):
    return record(kind, b"".join(parts), instance=instance, is_container=True)


def slide_text(kind, text):
    is_wide = not text.isascii()
    body = record(4000, text.encode("utf-16-le")) if is_wide else record(4008, text.encode("latin-1"))
    return record(3999, struct.pack("<I", kind)) + body


def slide_place(reference, number):
    return record(1011, struct.pack("<IIiII", reference, 0, 0, number, 0))


def presentation(token=0xE391C05F):
    def slide(*texts):
        boxes = [holder(0xF004, holder(0xF00D, text)) for text in texts]
        return holder(1006, holder(1036, holder(0xF002, *boxes)))

    document = holder(
        1000,
        holder(
            4080,
            slide_place(2, 256),
            slide_text(0, "First\x0btitle"),
            slide_text(1, "one\rtwo"),
            slide_place(3, 257),
            slide_text(0, "第二页"),
            instance=0,
        ),
        holder(4080, slide_place(4, 900), instance=2),
    )
    notes = holder(1008, record(1009, struct.pack("<IHH", 257, 0, 0)), holder(0xF00D, slide_text(2, "said aloud")))
    # The slide that an earlier edit left behind is not read.
    parts = [slide(slide_text(4, "old box")), document, slide(slide_text(4, "in a box")), slide(), notes]
    places, stream = [], b""
    for part in parts:
        places.append(len(stream))
        stream += part
    first_table = len(stream)
    stream += record(6002, struct.pack("<II", 1 << 20 | 2, places[0]))
    first_edit = len(stream)
    stream += record(4085, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, 0, first_table, 1, 5, 0, 0))
    table = len(stream)
    stream += record(6002, struct.pack("<I4I", 4 << 20 | 1, *places[1:]))
    edit = len(stream)
    stream += record(4085, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, first_edit, table, 1, 5, 0, 0))
    user = record(4086, struct.pack("<III", 20, token, edit))
    return container({"Current User": user, "PowerPoint Document": stream})


def test_ppt_slides_are_pages_with_titles_outline_boxes_and_notes():
    document = parse(presentation())
    assert document.media_type == "application/vnd.ms-powerpoint"
    assert [(block.page, *row) for block, row in zip(document.blocks, shown(document), strict=True)] == [
        (1, "heading", 1, "First title"),
        (1, "list_item", 1, "one"),
        (1, "list_item", 1, "two"),
        (1, "paragraph", 0, "in a box"),
        (2, "heading", 1, "第二页"),
        (2, "note", 0, "said aloud"),
    ]
    assert (document.page_count, document.title) == (2, "First title")


def test_ppt_with_a_password_is_encrypted():
    with pytest.raises(DocumentError) as raised:
        parse(presentation(token=0xF3D1C4DF))
    assert raised.value.reason == "DOCUMENT_ENCRYPTED"


# MSG


def text_stream(number, text):
    return {f"__substg1.0_{number:04X}001F": text.encode("utf-16-le")}


def properties(header_bytes, values=()):
    entries = b"".join(struct.pack("<IIQ", number << 16 | kind, 6, value) for number, kind, value in values)
    return {"__properties_version1.0": b"\0" * header_bytes + entries}


def message(header_bytes=32, subject="Subject line", body="Hello,\n\n> quoted\n>> twice\n\nBye", **streams):
    recipient = properties(8, [(0x0C15, 3, 1)]) | text_stream(0x3001, "Bob") | text_stream(0x39FE, "bob@example.com")
    ticks = (1_700_000_000 + 11_644_473_600) * 10_000_000
    return (
        properties(header_bytes, [(0x0039, 0x40, ticks), (0x3FFD, 3, 936)])
        | text_stream(0x0037, subject)
        | text_stream(0x1000, body)
        | text_stream(0x0C1A, "Alice")
        | text_stream(0x5D01, "alice@example.com")
        | {"__recip_version1.0_#00000000": recipient}
        | streams
    )


def attachment(name, content):
    held = {"__substg1.0_3701000D": content} if isinstance(content, dict) else {"__substg1.0_37010102": content}
    return properties(8) | text_stream(0x3707, name) | held


def test_msg_headers_body_and_attachments():
    tree = message()
    tree["__attach_version1.0_#00000000"] = attachment("data.csv", b"x,y\n1,2\n")
    tree["__attach_version1.0_#00000001"] = attachment("inner", message(24, subject="Inner", body="Inside"))
    tree["__attach_version1.0_#00000002"] = attachment("run.exe", b"MZ\0\0")
    document = parse(container(tree))
    assert document.media_type == "application/vnd.ms-outlook"
    assert document.title == "Subject line"
    assert document.metadata["attachments"] == "data.csv, inner, run.exe"
    header = "From: Alice <alice@example.com>\nTo: Bob <bob@example.com>\nDate: 2023-11-14T22:13:20+00:00"
    assert shown(document) == [
        ("paragraph", 0, f"Subject: Subject line\n{header}"),
        ("paragraph", 0, "Hello,"),
        ("paragraph", 1, "quoted"),
        ("paragraph", 2, "twice"),
        ("paragraph", 0, "Bye"),
        ("heading", 1, "data.csv"),
        ("table", 0, "x | y\n1 | 2"),
        ("heading", 1, "inner"),
        ("paragraph", 0, f"Subject: Inner\n{header}"),
        ("paragraph", 0, "Inside"),
    ]
    assert len(document.warnings) == 1


def test_msg_byte_texts_have_the_message_s_code_page():
    tree = message(body="")
    del tree["__substg1.0_1000001F"], tree["__substg1.0_0037001F"]
    tree |= {"__substg1.0_0037001E": "主题".encode("gbk"), "__substg1.0_1000001E": "正文内容".encode("gbk")}
    document = parse(container(tree))
    assert document.title == "主题"
    assert document.blocks[-1].text == "正文内容"


def test_msg_takes_the_page_or_the_rtf_where_there_is_no_plain_text():
    page = message(body="") | {"__substg1.0_10130102": b"<html><h1>Head</h1><p>Page</p></html>"}
    assert shown(parse(container(page)))[1:] == [("heading", 1, "Head"), ("paragraph", 0, "Page")]
    rtf = rb"{\rtf1\ansi\pard Rich text\par}"
    wrapped = struct.pack("<II4sI", len(rtf) + 12, len(rtf), b"MELA", 0) + rtf
    assert shown(parse(container(message(body="") | {"__substg1.0_10090102": wrapped})))[1:] == [
        ("paragraph", 0, "Rich text")
    ]


def test_msg_mails_in_mails_are_read_to_the_depth_that_is_allowed():
    tree = message(24, body="body 0")
    for depth in range(1, 5):
        tree = message(24 if depth < 4 else 32, body=f"body {depth}") | {
            "__attach_version1.0_#00000000": attachment("inner", tree)
        }
    document = parse(container(tree), limits=ParseLimits(max_attachment_depth=2))
    text = "\n".join(block.text for block in document.blocks)
    assert "body 2" in text
    assert "body 1" not in text
    assert any("max_attachment_depth" in warning for warning in document.warnings)


def test_a_property_set_that_claims_more_than_it_holds_is_read_as_far_as_it_goes() -> None:
    title = struct.pack("<II", 0x1E, 6) + b"Title\0\0\0"
    endless = struct.pack("<II", 0x101E, 0xFFFFFFFF)
    entries = struct.pack("<IIIIII", 2, 32, 7, 32 + len(title), 12, 4_000_000_000)
    section = struct.pack("<II", 64, 0xFFFFFFF0) + entries + title + endless
    stream = b"\xfe\xff" + bytes(42) + struct.pack("<I", 48) + section

    class Container:
        def exists(self, name: str) -> bool:
            return True

        def get_size(self, name: str) -> int:
            return len(stream)

        def openstream(self, name: str) -> io.BytesIO:
            return io.BytesIO(stream)

    # A thousand entries are looked for, and the bytes end long before: nothing is believed of such a set.
    assert summary_of(Container()) == {}
    honest = struct.pack("<II", 64, 1) + struct.pack("<II", 2, 16) + title
    stream = b"\xfe\xff" + bytes(42) + struct.pack("<I", 48) + honest
    assert summary_of(Container()) == {"title": "Title"}
