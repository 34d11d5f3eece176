"""What each template for running text does with a document that it is made for."""

import pytest

from corpusmesh_core.chunking import TEMPLATES, WordTokenCounter, chunk_document, chunk_with_warnings, row_text
from corpusmesh_core.chunking.contents import contents_blocks
from corpusmesh_core.chunking.headings import number_headings, split_lines, with_levels
from corpusmesh_core.documents import Block, BlockKind, Box, OutlineEntry, ParsedDocument, Picture, Table
from corpusmesh_core.errors import InvalidArgumentError

COUNTER = WordTokenCounter()


def paragraph(text, **more):
    return Block(BlockKind.PARAGRAPH, text, **more)


def heading(text, level=1, **more):
    return Block(BlockKind.HEADING, text, level=level, **more)


def table(rows, header=1, **more):
    rows = tuple(map(tuple, rows))
    return Block(BlockKind.TABLE, "\n".join(map(row_text, rows)), table=Table(rows, header), **more)


def document(*blocks, **more):
    return ParsedDocument("text/plain", more.pop("title", ""), tuple(with_levels(blocks, {})), **more)


def cut(template, *blocks, more=None, **values):
    return chunk_document(document(*blocks, **(more or {})), COUNTER, template=template, settings=values)


def words(count, word="word"):
    return " ".join(f"{word}{index}" for index in range(count))


def texts(chunks):
    return [chunk.text for chunk in chunks]


# title

SECTIONS = (
    heading("Book"),
    heading("One", 2),
    paragraph(words(10, "a")),
    heading("One A", 3),
    paragraph(words(10, "b")),
    heading("Two", 2),
    paragraph(words(200, "c")),
    heading("Two A", 3),
    paragraph(words(5, "d")),
)


def test_title_keeps_sections_apart_and_small_subsections_together():
    chunks = cut("title", *SECTIONS, level=2)
    assert [text.split("\n")[0] for text in texts(chunks)] == ["Book", "Two", "Two A"]
    assert "One A" in chunks[0].text
    assert chunks[0].heading_path == ("Book", "One")


def test_title_takes_the_level_that_most_headings_have():
    blocks = [heading("Book"), paragraph("Intro.")]
    for name in "ABC":
        blocks += [heading(name, 2), paragraph(f"Text of {name}."), heading(f"{name}1", 3), paragraph("Deep.")]
    blocks += [heading("D", 2), paragraph("Text of D.")]
    assert [text.split("\n")[0] for text in texts(cut("title", *blocks))] == ["Book", "A", "B", "C", "D"]


def test_title_splits_a_large_section_at_its_budget():
    chunks = cut("title", *SECTIONS, level=2, max_tokens=64)
    assert all(chunk.token_count <= 64 for chunk in chunks)
    assert [chunk.heading_path[-1] for chunk in chunks] == ["One", "Two", "Two", "Two", "Two"]
    assert chunks[-1].text.endswith("Two A\n\nd0 d1 d2 d3 d4")


# paper

PAPER = (
    heading("A Study of Trees", page=1),
    paragraph("Ann Author, Bob Writer"),
    heading("Abstract", 2),
    paragraph("We study trees."),
    paragraph("Keywords: trees; forests, deep learning."),
    heading("1 Introduction", 2),
    paragraph(words(50, "a")),
    heading("2 Method", 2),
    paragraph(words(50, "b")),
    heading("References", 2),
    paragraph("[1] A. Author. Trees. 1999."),
    heading("Appendix", 2),
    paragraph("More."),
)


def test_paper_has_its_front_matter_with_keywords_in_one_chunk():
    chunks = cut("paper", *PAPER)
    assert chunks[0].text.startswith("A Study of Trees\n\nAnn Author")
    assert chunks[0].text.endswith("deep learning.")
    assert chunks[0].keywords == ("trees", "forests", "deep learning")
    assert chunks[0].attributes == {"section": "abstract"}
    assert [text.split("\n")[0] for text in texts(chunks[1:])] == [
        "1 Introduction",
        "2 Method",
        "References",
        "Appendix",
    ]
    assert [chunk.attributes.get("section") for chunk in chunks[1:]] == [None, None, "references", None]


def test_paper_can_leave_its_references_out():
    chunks = cut("paper", *PAPER, references="drop")
    assert "References" not in "".join(texts(chunks))
    assert chunks[-1].text == "Appendix\n\nMore."


def test_paper_in_chinese():
    blocks = [
        heading("树的研究"),
        paragraph("张三"),
        paragraph("摘要：我们研究树。"),
        paragraph("关键词：树；森林"),
        heading("一、引言"),
        paragraph("文字。"),
        heading("二、方法"),
        paragraph("文字。"),
        heading("参考文献"),
        paragraph("[1] 某某"),
    ]
    chunks = cut("paper", *blocks)
    assert chunks[0].keywords == ("树", "森林")
    assert [text.split("\n")[0] for text in texts(chunks)] == ["树的研究", "一、引言", "二、方法", "参考文献"]
    assert chunks[-1].attributes == {"section": "references"}


def test_paper_without_sections_is_cut_like_running_text():
    assert texts(cut("paper", paragraph("Just text."))) == ["Just text."]


# book


def test_book_leaves_contents_pages_out_and_finds_chapters_by_their_numbers():
    blocks = [
        paragraph("The Long Book"),
        paragraph("Contents"),
        paragraph("Chapter 1 Trees ......... 1"),
        paragraph("Chapter 2 Leaves ........ 9"),
        Block(BlockKind.FOOTER, "iii"),
        paragraph("Index . . . . . . . . . 20"),
        paragraph("Chapter 1 Trees"),
        paragraph(words(40, "a")),
        paragraph("Chapter 2 Leaves"),
        paragraph(words(40, "b")),
    ]
    chunks = cut("book", *blocks)
    assert "....." not in "".join(texts(chunks))
    assert [chunk.heading_path for chunk in chunks] == [(), ("Chapter 1 Trees",), ("Chapter 2 Leaves",)]
    kept = cut("book", *blocks, drop_contents=False)
    assert "....." in "".join(texts(kept))


def test_book_in_chinese_with_lines_in_one_paragraph():
    text = (
        "第一章 总论\n本章讲述树。\n第一节 树根\n树根在地下。\n第二节 树叶\n树叶在空中。\n第二章 森林\n森林有很多树。"
    )
    chunks = cut("book", paragraph(text, line=5), min_tokens=1)
    assert [chunk.heading_path for chunk in chunks] == [
        ("第一章 总论",),
        ("第一章 总论", "第一节 树根"),
        ("第一章 总论", "第二节 树叶"),
        ("第二章 森林",),
    ]
    assert chunks[1].context == "第一章 总论"
    assert chunks[1].text == "第一节 树根\n\n树根在地下。"


def test_numbered_lines_become_headings_of_their_depth():
    blocks = [
        paragraph(text)
        for text in ("1 Trees", "Text one.", "1.1 Roots", "Text two.", "1.1.1 Hair", "Text.", "2 Leaves", "End.")
    ]
    paths = [block.heading_path for block in number_headings(blocks) if block.kind is BlockKind.PARAGRAPH]
    assert paths == [("1 Trees",), ("1 Trees", "1.1 Roots"), ("1 Trees", "1.1 Roots", "1.1.1 Hair"), ("2 Leaves",)]


@pytest.mark.parametrize(
    "lines",
    [
        ("一、概述", "二、方法"),
        ("# One", "# Two"),
        ("Chapter I", "Chapter II"),
        ("第一条 定义", "第二条 范围"),
        ("1. Scope", "2. Terms"),
    ],
)
def test_every_numbering_family_is_found(lines):
    blocks = [block for line in lines for block in (paragraph(line), paragraph("Text that follows it."))]
    headings = [block.text for block in number_headings(blocks) if block.kind is BlockKind.HEADING]
    assert headings == list(lines)


def test_sentences_footnotes_and_list_items_are_no_numbered_headings():
    blocks = [
        paragraph("1 http://example.com"),
        paragraph("2 http://example.org"),
        Block(BlockKind.LIST_ITEM, "3. Mix the flour"),
        Block(BlockKind.LIST_ITEM, "4. Add water"),
        paragraph("5. This sentence goes on for more words than any heading has and then it ends."),
        paragraph("第一条 这是一个句子。"),
        paragraph("第二条 这也是一个句子。"),
    ]
    assert number_headings(blocks) == blocks


def test_contents_heading_without_entries_is_kept():
    blocks = [heading("Contents"), paragraph("The box contains three things."), paragraph("More text.")]
    assert contents_blocks(blocks) == frozenset()


def test_contents_of_joined_lines_and_of_links_are_found():
    joined = "Notices . . . . . . vii Preface . . . . . . ix Trees . . . . . 1"
    linked = [heading("目录"), *(paragraph(name) for name in ("树", "叶", "根"))]
    blocks = [paragraph(joined), *linked, heading("树"), paragraph("x"), heading("叶"), heading("根")]
    assert contents_blocks(blocks) == frozenset({0, 1, 2, 3, 4})


# laws


def test_laws_makes_a_chunk_of_each_article_with_its_path():
    text = (
        "第一章 总则\n第一条 为了保护权利，制定本法。\n第二条 本法适用于境内。\n有下列情形的除外：\n（一）军事。\n"
        "第二章 权利\n第三条 公民有权利。"
    )
    chunks = cut("laws", heading("某某法"), paragraph("2020年通过"), paragraph(text, line=3))
    assert [chunk.heading_path for chunk in chunks] == [
        ("某某法",),
        ("某某法", "第一章 总则", "第一条"),
        ("某某法", "第一章 总则", "第二条"),
        ("某某法", "第二章 权利", "第三条"),
    ]
    assert chunks[2].text == "第二条 本法适用于境内。\n有下列情形的除外：\n（一）军事。"
    assert chunks[2].context == "某某法 > 第一章 总则"


def test_laws_split_article_keeps_its_number_in_every_part():
    blocks = [
        paragraph("Article 1"),
        paragraph("Short."),
        paragraph("Article 2"),
        paragraph(" ".join(f"Sentence {index}." for index in range(60))),
        table([["a", "b"], ["1", "2"]]),
        paragraph("Article 3. Everything else follows the rules of this act."),
    ]
    chunks = cut("laws", *blocks, max_tokens=64)
    assert [chunk.heading_path for chunk in chunks] == [
        ("Article 1",),
        ("Article 2",),
        ("Article 2",),
        ("Article 2",),
        ("Article 2",),
        ("Article 3",),
    ]
    assert chunks[2].context == "Article 2"
    assert chunks[4].block_kind is BlockKind.TABLE


@pytest.mark.parametrize("name", ["§ {}", "Section {}", "Art. {}", "第{}条", "第{}條"])
def test_laws_knows_articles_by_the_most_frequent_name(name):
    blocks = [paragraph(f"{name.format(number)} Text of the rule, which says something.") for number in (1, 2, 3)]
    chunks = cut("laws", *blocks)
    assert [chunk.heading_path for chunk in chunks] == [(name.format(number),) for number in (1, 2, 3)]


def test_laws_without_articles_says_so_and_cuts_at_headings():
    result = chunk_with_warnings(
        document(heading("A"), paragraph("One."), heading("B"), paragraph("Two.")), COUNTER, template="laws"
    )
    assert texts(result.chunks) == ["A\n\nOne.", "B\n\nTwo."]
    assert result.warnings == ("No numbered articles were found; it was cut at headings.",)


# manual


def test_manual_takes_levels_from_the_outline():
    blocks = [
        paragraph("PART ONE", page=1),
        paragraph(words(40, "a"), page=1),
        paragraph("Setup", page=1),
        paragraph(words(40, "b"), page=1),
        paragraph("Use", page=2),
        paragraph(words(40, "c"), page=2),
    ]
    outline = (OutlineEntry("Part One", 1, 1), OutlineEntry("Setup", 2, 1), OutlineEntry("Use", 2, 2))
    chunks = cut("manual", *blocks, more={"outline": outline})
    assert [chunk.heading_path for chunk in chunks] == [("PART ONE",), ("PART ONE", "Setup"), ("PART ONE", "Use")]


def test_manual_merges_small_pieces_within_a_section_and_tiny_sections():
    blocks = [
        heading("A"),
        paragraph(words(10, "a")),
        heading("A1", 2),
        paragraph(words(30, "b")),
        heading("B"),
        paragraph(words(5, "c")),
        heading("C"),
        paragraph(words(5, "d")),
    ]
    chunks = cut("manual", *blocks, level=1)
    assert [text.split("\n")[0] for text in texts(chunks)] == ["A", "B"]
    assert "A1" in chunks[0].text
    assert "C" in chunks[1].text


# presentation, picture, one


def slides():
    images = tuple(Picture(f"page-{page}", "image/png", b"x", 10, 10) for page in (1, 2, 3))
    blocks = (
        heading("First", page=1),
        paragraph("Text one.", page=1),
        heading("Only a title", page=2),
        heading("Third", page=3),
        paragraph("Text three.", page=3),
    )
    return document(*blocks, page_count=3, page_images=images)


def test_presentation_makes_a_chunk_of_each_slide_with_its_picture():
    chunks = chunk_document(slides(), COUNTER, template="presentation")
    assert texts(chunks) == ["First\n\nText one.", "Only a title", "Third\n\nText three."]
    assert [chunk.picture for chunk in chunks] == ["page-1", "page-2", "page-3"]
    assert [chunk.page for chunk in chunks] == [1, 2, 3]


def test_presentation_splits_a_slide_only_above_the_budget():
    blocks = (heading("Long", page=1), *(paragraph(words(30, chr(97 + index)), page=1) for index in range(4)))
    chunks = cut("presentation", *blocks, max_tokens=64, more={"page_count": 1})
    assert [chunk.context for chunk in chunks] == ["", "Long"]


def test_picture_is_one_chunk_that_shows_the_image():
    image = Picture("figure-1-1", "image/png", b"x", 10, 10)
    blocks = (
        Block(BlockKind.FIGURE, "", page=1, picture="figure-1-1"),
        heading("SALE", page=1, confidence=0.7),
        paragraph("Everything at half the price.", page=1, confidence=0.9),
        Block(BlockKind.CAPTION, "A poster.", page=1),
    )
    (chunk,) = cut("picture", *blocks, more={"page_count": 1, "pictures": (image,)})
    assert chunk.text == "SALE\n\nEverything at half the price.\n\nA poster."
    assert chunk.picture == "figure-1-1"
    assert chunk.confidence == 0.7


def test_one_keeps_a_document_whole_where_the_embedder_reads_it():
    result = chunk_with_warnings(document(*SECTIONS), COUNTER, template="one", settings={"embedder_max_tokens": 235})
    assert len(result.chunks) == 1
    assert result.warnings == ()
    result = chunk_with_warnings(document(*SECTIONS), COUNTER, template="one", settings={"embedder_max_tokens": 128})
    assert len(result.chunks) > 1
    assert result.warnings[0].startswith("The document is longer than one chunk of 128 tokens")
    assert "d4" in result.chunks[-1].text


# email, resume

MAIL = (
    paragraph("Subject: Trip\nFrom: Ann <ann@example.com>\nTo: Bob"),
    paragraph("Hello Bob,\n> your old line\nI agree."),
    paragraph("On Monday, Bob wrote:\n> first\n> second"),
    paragraph("> third"),
    heading("plan.txt"),
    paragraph("The plan."),
)
MAIL_FACTS = {
    "title": "Trip",
    "metadata": {"subject": "Trip", "from": "Ann <ann@example.com>", "to": "Bob", "attachments": "plan.txt"},
}


def test_email_keeps_body_quotes_and_attachments_apart():
    chunks = cut("email", *MAIL, more=dict(MAIL_FACTS))
    assert [(chunk.attributes["section"], chunk.attributes.get("attachment")) for chunk in chunks] == [
        ("body", None),
        ("quoted", None),
        ("body", None),
        ("quoted", None),
        ("attachment", "plan.txt"),
    ]
    assert chunks[0].text.endswith("Hello Bob,")
    assert chunks[2].text == "I agree."
    assert chunks[3].text == "On Monday, Bob wrote:\n> first\n> second\n\n> third"
    assert {chunk.attributes["from"] for chunk in chunks} == {"Ann <ann@example.com>"}


def test_email_can_leave_quotes_out():
    chunks = cut("email", *MAIL, more=dict(MAIL_FACTS), quoted="drop")
    assert ">" not in "".join(chunk.text.replace("<ann@example.com>", "") for chunk in chunks)


@pytest.mark.parametrize(
    "begin",
    [
        "-----Original Message-----",
        "在 2024年1月2日，李四 写道：",
        "From: Bob\nSent: Monday\nTo: Ann",
        "发件人：李四\n主题：你好",
    ],
)
def test_email_knows_how_replies_begin(begin):
    blocks = (MAIL[0], paragraph("New text."), paragraph(f"{begin}\n\nOld text."), paragraph("Older text."))
    chunks = cut("email", *blocks, more=dict(MAIL_FACTS))
    assert [chunk.attributes["section"] for chunk in chunks] == ["body", "quoted"]
    assert chunks[1].text.endswith("Older text.")


def test_resume_parts_sections_and_finds_the_person():
    text = (
        "Jane Q. Doe\njane.doe@example.com | +41 44 123 45 67\nWORK EXPERIENCE\n2019-2024 Engineer at Acme\n"
        "Education\nMSc, ETH\nTechnical Skills:\nPython, Go"
    )
    chunks = cut("resume", paragraph(text))
    assert [chunk.attributes["section"] for chunk in chunks] == ["personal", "experience", "education", "skills"]
    assert chunks[1].text == "WORK EXPERIENCE\n\n2019-2024 Engineer at Acme"
    for chunk in chunks:
        assert chunk.attributes["name"] == "Jane Q. Doe"
        assert chunk.attributes["email"] == "jane.doe@example.com"
        assert chunk.attributes["phone"] == "+41 44 123 45 67"


def test_resume_in_chinese():
    blocks = [
        heading("个人简历"),
        paragraph("姓名：王小明 电话：138 0013 8000"),
        paragraph("教育背景"),
        paragraph("清华大学"),
        paragraph("【工作经历】"),
        paragraph("某公司，工程师"),
    ]
    chunks = cut("resume", *blocks)
    assert [chunk.attributes["section"] for chunk in chunks] == ["personal", "education", "experience"]
    assert chunks[0].attributes["name"].startswith("王小明")
    assert chunks[0].attributes["phone"] == "138 0013 8000"


def test_resume_takes_years_for_no_phone_number():
    chunks = cut("resume", paragraph("Jane Doe\nWORK EXPERIENCE\n2019-2024 Engineer"))
    assert {chunk.attributes.get("phone") for chunk in chunks} == {None}
    assert {chunk.attributes["name"] for chunk in chunks} == {"Jane Doe"}


# what they share


def test_split_lines_moves_boxes_and_line_numbers_along():
    lines = tuple(Box(1, 0, 10 * index, 100, 10 * index + 9) for index in range(4))
    block = paragraph("one\ntwo\nthree\nfour", line=7, boxes=lines, page=1)
    first, second = split_lines([block], lambda _, line: line == "three")
    assert (first.text, first.line, second.text, second.line) == ("one\ntwo", 7, "three\nfour", 9)
    assert first.boxes[0] == lines[0]
    assert second.boxes[-1] == lines[-1]


@pytest.mark.parametrize(
    ("template", "values", "field"),
    [
        ("title", {"level": 10}, "level"),
        ("title", {"min_tokens": -1}, "min_tokens"),
        ("paper", {"references": "keep"}, "references"),
        ("paper", {"abstract_max_tokens": 3}, "abstract_max_tokens"),
        ("book", {"depth": 0}, "depth"),
        ("email", {"quoted": "no"}, "quoted"),
        ("table", {"rows_per_chunk": 0}, "rows_per_chunk"),
        ("table", {"column_roles": {"a": "hidden"}}, "column_roles"),
        ("table", {"column_roles": ["a"]}, "column_roles"),
        ("one", {"overlap_tokens": 10}, "overlap_tokens"),
    ],
)
def test_settings_that_cannot_work_name_their_field(template, values, field):
    with pytest.raises(InvalidArgumentError) as raised:
        TEMPLATES[template].settings(values)
    assert raised.value.field == field


def test_small_budget_alone_is_a_valid_setting_of_every_template():
    for template in TEMPLATES.values():
        assert template.settings({"max_tokens": 32, "embedder_max_tokens": 32}).budget_tokens == 32
