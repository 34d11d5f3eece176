"""HTML, EPUB, Markdown and JSON: what is content, what stands around it, and where it lies."""

import base64
import io
import zipfile

import pytest
from PIL import Image

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.documents import BlockKind, CellSpan
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseOptions


def parse(content, name="file", **options):
    if isinstance(content, str):
        content = content.encode()
    return parse_source(Source(content, name, ParseOptions(**options)))


def shown(document):
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def png(width=40, height=30):
    stream = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(stream, "PNG")
    return stream.getvalue()


def test_html_navigation_feet_and_asides_of_the_page_are_not_content_and_those_of_an_article_are():
    document = parse(
        """<!doctype html><header><h1>Site</h1></header><nav><h2>Menu</h2><ul><li>Home</ul></nav>
        <main><article><h2>News</h2><p>Text<aside>An important remark</aside><footer>By A. Writer</footer></article>
        </main>        <aside><h3>Adverts</h3><p>Buy</aside><footer><table><tr><td>a<td>b</table>Imprint</footer>"""
    )
    assert shown(document) == [
        ("heading", 1, "Site"),
        ("header", 0, "Menu"),
        ("header", 0, "Home"),
        ("heading", 2, "News"),
        ("paragraph", 0, "Text"),
        ("paragraph", 0, "An important remark"),
        ("paragraph", 0, "By A. Writer"),
        ("footer", 0, "Adverts"),
        ("footer", 0, "Buy"),
        ("footer", 0, "a"),
        ("footer", 0, "b"),
        ("footer", 0, "Imprint"),
    ]


def test_html_spans_are_kept_and_nested_tables_stay_in_their_cell():
    document = parse(
        """<html><table><tr><th rowspan=2>City<th colspan=2>Year<tr><th>1<th>2
        <tr><td>Rome<td><table><tr><td>x<td>y<tr><td>z<td>w</table><td>4</table></html>"""
    )
    (block,) = document.blocks
    assert block.table.rows == (("City", "Year", ""), ("", "1", "2"), ("Rome", "x y z w", "4"))
    assert block.table.spans == (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2))
    assert block.table.header_row_count == 2


def test_html_formulas_are_formulas_where_they_stand_alone():
    document = parse(
        """<html><p>Let <math><mi>x</mi><mo>=</mo><mn>1</mn></math>.
        <math display="block" alttext="a^2+b^2=c^2"><mi>a</mi></math>
        <script type="math/tex; mode=display">e=mc^2</script><script>evil()</script>
        <p>$$\\int_0^1 x\\,dx$$<p>It costs $5.</html>"""
    )
    assert shown(document) == [
        ("paragraph", 0, "Let x=1 ."),
        ("formula", 0, "a^2+b^2=c^2"),
        ("formula", 0, "e=mc^2"),
        ("formula", 0, "$$\\int_0^1 x\\,dx$$"),
        ("paragraph", 0, "It costs $5."),
    ]


def test_html_ordered_lists_keep_their_numbers():
    document = parse("<html><ol start=3><li>three<ul><li>dot</ul><li>four</ol></html>")
    assert shown(document) == [
        ("list_item", 1, "3. three"),
        ("list_item", 2, "dot"),
        ("list_item", 1, "4. four"),
    ]


def test_html_pictures_inside_the_page_are_kept_if_asked_for():
    address = "data:image/png;base64," + base64.b64encode(png()).decode()
    page = f'<html><p>before<img src="{address}" alt="a red field">after<img src="http://x.y/z.png"></html>'
    kept = parse(page, keep_pictures=True)
    assert [(block.kind.value, block.text) for block in kept.blocks] == [
        ("paragraph", "before"),
        ("figure", "a red field"),
        ("paragraph", "after"),
    ]
    (picture,) = kept.pictures
    assert (picture.name, picture.width, picture.height) == (kept.blocks[1].picture, 40, 30)
    assert parse(page).pictures == ()
    assert [block.text for block in parse(page).blocks] == ["before a red field after"]


@pytest.mark.parametrize(
    ("declared", "text", "language"),
    [
        ("de-CH", "Kurz.", "de"),
        ("en", "这是一个中文网页，用来测试语言。", "zh"),
        ("zh-CN", "The text of the page is in the language of the reader.", "en"),
        ("xx!", "Kurz.", ""),
    ],
)
def test_html_declared_language_is_believed_unless_the_script_says_otherwise(declared, text, language):
    assert parse(f'<!doctype html><html lang="{declared}"><p>{text}</html>').language == language


def test_passages_in_another_script_have_a_language_of_their_own():
    document = parse(
        "<html><p>The text of the page is in English.<p>这一段是用中文写的，共两句话。<p>End of it.</html>"
    )
    assert document.language == "en"
    assert [block.language for block in document.blocks] == ["", "zh", ""]


def test_heading_with_an_empty_line_in_it_is_a_number_and_a_title():
    document = parse("<html><h2>CHAPTER I<br/>\n<br/><small>THE SUN</small></h2><p>x</html>")
    assert document.blocks[-1].heading_path == ("CHAPTER I", "THE SUN")


def test_markdown_paragraph_of_images_is_a_figure_without_its_address():
    address = "data:image/png;base64," + base64.b64encode(png()).decode()
    text = f"Text with ![one]({address}) inside.\n\n![two]({address})\n\n1. first\n2. second\n\n$$a_1 * b_2 * c$$\n"
    document = parse(text, "a.md", keep_pictures=True)
    assert shown(document) == [
        ("paragraph", 0, "Text with one inside."),
        ("figure", 0, "two"),
        ("list_item", 1, "1. first"),
        ("list_item", 1, "2. second"),
        ("formula", 0, "$$a_1 * b_2 * c$$"),
    ]
    assert len(document.pictures) == 1


def test_json_lines_have_paths_and_long_values_are_cut_where_an_object_starts():
    orders = ", ".join(f'{{"id": {number}, "note": "{"word " * 60}"}}' for number in range(8))
    document = parse(f'{{"orders": [{orders}]}}')
    assert len(document.blocks) > 1
    for block in document.blocks:
        first, last = block.text.split("\n")[0], block.text.split("\n")[-1]
        assert first.startswith("orders[")
        assert ".id: " in first
        assert ".note: " in last


CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
BOOK = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The Book</dc:title><dc:creator>A. Writer</dc:creator></metadata><manifest>
<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/one%20page.xhtml" media-type="application/xhtml+xml"/>
<item id="gone" href="gone.xhtml" media-type="application/xhtml+xml"/>
<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="pic" href="pic.png" media-type="image/png"/>
</manifest><spine><itemref idref="a"/><itemref idref="b"/><itemref idref="gone"/></spine></package>"""
NAVIGATION = """<html xmlns:epub="http://www.idpf.org/2007/ops"><nav epub:type="toc"><ol><li><a href="a">One</a><ol>
<li><a href="b">Inner</a></li></ol></li><li><a href="c">Two</a></li></ol></nav></html>"""


def book(extra=None):
    stream = io.BytesIO()
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/book.opf": BOOK,
        "OPS/nav.xhtml": NAVIGATION,
        "OPS/two.xhtml": '<html><h1>Two</h1><p>second</p><aside epub:type="footnote">a note</aside></html>',
        "OPS/text/one page.xhtml": '<html><h1>One</h1><p>first</p><img src="../pic.png" alt="red"/></html>',
        "OPS/pic.png": png(),
    } | (extra or {})
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_epub_is_read_in_the_order_of_its_spine_with_its_contents_as_outline():
    document = parse(book(), keep_pictures=True)
    assert (document.media_type, document.title, document.metadata["author"]) == (
        "application/epub+zip",
        "The Book",
        "A. Writer",
    )
    assert shown(document) == [
        ("heading", 1, "One"),
        ("paragraph", 0, "first"),
        ("figure", 0, "red"),
        ("heading", 1, "Two"),
        ("paragraph", 0, "second"),
        ("note", 0, "a note"),
    ]
    assert [(entry.title, entry.level) for entry in document.outline] == [("One", 1), ("Inner", 2), ("Two", 1)]
    assert len(document.pictures) == 1
    assert document.warnings == ("1 pages of the book are missing or damaged.",)


@pytest.mark.parametrize(
    ("algorithm", "reason"), [("http://www.w3.org/2001/04/xmlenc#aes128-cbc", True), ("font", False)]
)
def test_epub_with_rights_management_is_encrypted_and_one_with_disguised_fonts_is_not(algorithm, reason):
    method = "http://www.idpf.org/2008/embedding" if algorithm == "font" else algorithm
    encryption = f'<encryption xmlns:e="x"><e:EncryptionMethod Algorithm="{method}"/></encryption>'
    content = book({"META-INF/encryption.xml": encryption})
    if reason:
        with pytest.raises(DocumentError) as raised:
            parse(content)
        assert raised.value.reason == "DOCUMENT_ENCRYPTED"
    else:
        assert parse(content).blocks[0].kind is BlockKind.HEADING
