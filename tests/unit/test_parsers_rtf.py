"""RTF: groups, encodings, tables, notes; and the compressed and wrapped forms of Outlook."""

import pytest

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_adapters.parsers.rtf_compression import decompress_rtf
from corpusmesh_core.documents import CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions

FONTS = (
    r"{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset134 SimSun;}{\f2\fcharset128 MS Gothic;}{\f3\fcharset204 Arial Cyr;}}"
)


def parse(body, head=r"\ansi\ansicpg1252\deff0", **options):
    content = b"{\\rtf1" + head.encode() + FONTS.encode() + (body if isinstance(body, bytes) else body.encode()) + b"}"
    return parse_source(Source(content, "file", ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def hexed(text, codec):
    return "".join(f"\\'{byte:02x}" for byte in text.encode(codec))


@pytest.mark.parametrize(
    ("font", "codec", "text"),
    [(0, "cp1252", "Café – naïve"), (1, "gb18030", "中文字"), (2, "cp932", "日本語ソ表"), (3, "cp1251", "Русский")],
)
def test_bytes_mean_what_their_font_says(font, codec, text):
    assert shown(parse(rf"\pard\f{font} {hexed(text, codec)}\par")) == [("paragraph", 0, text)]


def test_document_code_page_holds_where_no_font_says_otherwise():
    document = parse(rf"\pard {hexed('简体中文', 'gbk')}\par", head=r"\ansi\ansicpg936")
    assert shown(document) == [("paragraph", 0, "简体中文")]


def test_unicode_marks_skip_their_fallbacks_and_pairs_are_joined():
    document = parse(r"\pard\uc1\u20013?\u-10179?\u-8704?{\uc2\u8212 --}x\uc0\u233 y\par")
    assert shown(document) == [("paragraph", 0, "中😀—xéy")]


def test_headings_by_style_name_and_outline_level_lists_and_title():
    styles = r"{\stylesheet{\s1 heading 1;}{\s2\outlinelevel1 Chapter;}{\s3 Title;}{\s4 caption;}}"
    document = parse(
        styles
        + r"\pard\s3 The title\par\pard\s1 One\par\pard\s2 Two\par\pard\outlinelevel2 Three\par\pard\s4 Figure 1\par"
        + r"\pard{\listtext \bullet\tab}\ls1\ilvl0 dot\par{\listtext 2.\tab}\ls1\ilvl1 second\par\pard end\par"
    )
    assert shown(document) == [
        ("title", 0, "The title"),
        ("heading", 1, "One"),
        ("heading", 2, "Two"),
        ("heading", 3, "Three"),
        ("caption", 0, "Figure 1"),
        ("list_item", 1, "dot"),
        ("list_item", 2, "2. second"),
        ("paragraph", 0, "end"),
    ]
    assert document.title == "The title"


def test_tables_have_spans_and_tables_in_cells_are_text_of_the_cell():
    document = parse(
        r"\pard\trowd\clvmgf\cellx1000\cellx2000\cellx3000\intbl a\cell b\cell c\cell\row"
        r"\trowd\clvmrg\cellx1000\cellx3010\intbl\cell wide\par more\cell\row"
        r"\trowd\cellx1000\cellx2000\cellx3000\intbl x\cell{\itap2 i\nestcell j\nestcell"
        r"{\*\nesttableprops\nestrow}}\cell z\cell\row\pard after\par"
    )
    table, after = document.blocks
    assert table.table.rows == (("a", "b", "c"), ("", "wide more", ""), ("x", "i j", "z"))
    assert table.table.spans == (CellSpan(0, 0, 2, 1), CellSpan(1, 1, 1, 2))
    assert after.text == "after"


def test_fields_notes_hidden_text_and_running_heads():
    document = parse(
        r"{\header Head\par}{\footer Foot\par}{\info{\title T}{\author A}}"
        r'\pard See {\field{\*\fldinst HYPERLINK "http://x.y"}{\fldrslt the page}}{\v hidden}{\footnote a note}.\par'
        r"{\*\unheardof junk}{\pict\pngblip 89504e47}\pard next{\deleted gone}\line line\par"
    )
    assert shown(document) == [
        ("paragraph", 0, "See the page."),
        ("note", 0, "a note"),
        ("paragraph", 0, "next\nline"),
        ("header", 0, "Head"),
        ("footer", 0, "Foot"),
    ]
    assert (document.title, document.metadata["author"]) == ("T", "A")


def test_binary_parts_are_stepped_over():
    body = rb"\pard before{\*\objdata\bin9 }}}{{{\x}}}after\par"
    assert shown(parse(body)) == [("paragraph", 0, "beforeafter")]


def test_groups_nested_without_end_are_refused():
    with pytest.raises(DocumentError) as raised:
        parse("{" * 100_000)
    assert raised.value.metadata["limit"] == "max_depth"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_off_gives_the_text_that_is_there(share):
    whole = rb"{\rtf1\ansi " + rb"\pard word \par" * 200 + b"}"
    document = parse_source(Source(whole[: int(len(whole) * share)], "a.rtf", ParseOptions(limits=ParseLimits())))
    assert len(document.blocks) >= 200 * share - 5


def test_page_that_a_mail_wraps_in_rtf_is_read_as_the_page():
    document = parse(
        rb"{\*\htmltag64 <p>}\htmlrtf \par\htmlrtf0 Caf\'e9 & co{\*\htmltag72 </p>}"
        rb"{\*\htmltag <h1>}Head{\*\htmltag </h1>}",
        head=r"\ansi\ansicpg1252\fromhtml1",
    )
    assert shown(document) == [("paragraph", 0, "Café & co"), ("heading", 1, "Head")]


def test_compressed_rtf_of_the_specification_is_unpacked():
    # [MS-OXRTFCP] 4.1.1
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert decompress_rtf(packed, max_bytes=1_000) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    assert decompress_rtf(packed, max_bytes=5) == b"{\\rtf"
    assert decompress_rtf(packed[:30], max_bytes=1_000).startswith(b"{\\rtf1")
    assert decompress_rtf(b"junk", max_bytes=1_000) == b""
