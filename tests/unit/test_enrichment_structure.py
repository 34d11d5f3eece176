"""Summaries, tables of contents and memories: what leads to which chunks, and what is said."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import chunk_document
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, OutlineEntry, ParsedDocument
from corpusmesh_core.enrichment import SummaryScope
from corpusmesh_core.enrichment.memories import extract_memories
from corpusmesh_core.enrichment.placement import place_blocks
from corpusmesh_core.enrichment.statements import centrality, pick_central, statements_of
from corpusmesh_core.enrichment.summaries import extract_summary, find_passages
from corpusmesh_core.enrichment.toc import TocEntry, clean_title, finish_entries, has_structure, is_title, read_toc

COUNTER = WordTokenCounter()
INDEX_TEXT = (
    "A clustered index keeps the rows of a table in its leaf pages. The leaf pages of a clustered index are linked in"
    " key order. A range query reads the linked leaf pages of the clustered index in order. Lunch is served at noon. A"
    " secondary index keeps the key of the clustered index instead of rows."
)
TREE_TEXT = (
    "聚簇索引把整行数据存放在叶子节点。叶子节点按照主键的顺序相互连接。范围查询沿着聚簇索引的叶子节点顺序读取数据。食堂中午十二点开饭。"
    "二级索引的叶子节点只存放主键。"
)


def heading(text: str, *path: str, page: int = 0) -> Block:
    return Block(BlockKind.HEADING, text, level=len(path) + 1, page=page, heading_path=path)


def paragraph(text: str, *path: str, page: int = 0) -> Block:
    boxes = (Box(page, 10, 10, 100, 20),) if page else ()
    return Block(BlockKind.PARAGRAPH, text, page=page, heading_path=path, boxes=boxes)


def document(*blocks: Block, outline: tuple[OutlineEntry, ...] = ()) -> ParsedDocument:
    return ParsedDocument("text/plain", "", blocks, outline=outline)


def cut(parsed: ParsedDocument, max_tokens: int = 40) -> list[Chunk]:
    return chunk_document(parsed, COUNTER, template="general", settings={"max_tokens": max_tokens})


@pytest.mark.parametrize("text", [INDEX_TEXT, TREE_TEXT])
def test_central_sentences_share_their_terms_with_many_and_the_stranger_is_last(text: str) -> None:
    sentences = statements_of(text)
    scores = centrality(sentences)
    assert len(sentences) == 5
    assert scores.sum() == pytest.approx(1.0)
    assert int(np.argmin(scores)) == 3


def test_what_a_walk_starts_from_draws_it_there() -> None:
    sentences = ["Alpha beta gamma delta.", "Epsilon zeta eta theta.", "Iota kappa lambda mu."]
    assert int(np.argmax(centrality(sentences))) == 0
    assert int(np.argmax(centrality(sentences, towards=["Kappa lambda"]))) == 2


def test_sentences_of_no_terms_and_no_sentences_score_nothing() -> None:
    assert centrality([]).shape == (0,)
    assert centrality(["…", "!!"]).tolist() == [0.0, 0.0]
    assert pick_central([], centrality([]), [], 10) == []


def test_far_too_many_sentences_are_compared_within_the_bound() -> None:
    sentences = [f"Sentence number{place} is about topic{place % 7} here." for place in range(2000)]
    scores = centrality(sentences)
    assert np.count_nonzero(scores) == 300
    assert np.array_equal(scores, centrality(sentences))


def test_statements_are_whole_sentences_that_say_something() -> None:
    text = (
        "# Heading\nTitle line\n- A list item that says something useful.\n| a | b |\nIs this a question?\n"
        "torn from its beginning by a column break. The following:\nChapter 1 ........... 7\nToo short.\n"
        "A whole sentence stands here."
    )
    assert statements_of(text) == ["A list item that says something useful.", "A whole sentence stands here."]
    assert statements_of("1.2 Something in a list of places.", ("Guide", "Contents")) == []


SECTIONED = document(
    heading("Storage", page=1),
    heading("Indexes", "Storage", page=1),
    paragraph(INDEX_TEXT, "Storage", "Indexes", page=1),
    heading("Meals", "Storage", page=2),
    paragraph("The canteen serves soup every day at noon. Soup is free for guests.", "Storage", "Meals", page=2),
)


@pytest.mark.parametrize(("text", "path"), [(INDEX_TEXT, "Indexes"), (TREE_TEXT, "索引")])
def test_a_summary_is_made_of_own_sentences_in_their_order_within_its_budget(text: str, path: str) -> None:
    parsed = document(heading(path), paragraph(text, path))
    passages = find_passages(parsed.blocks, cut(parsed), SummaryScope.SECTION)
    assert [passage.heading_path for passage in passages] == [(path,)]
    summary = extract_summary(passages[0], COUNTER, max_tokens=200)
    sentences = statements_of(text)
    picked = [sentence for sentence in sentences if sentence in summary]
    assert 1 <= len(picked) < len(sentences)
    assert sentences[3] not in summary
    assert summary.replace(" ", "") == "".join(picked).replace(" ", "")
    assert COUNTER.count_tokens([summary])[0] <= COUNTER.count_tokens([text])[0] / 2 + 1
    tight = extract_summary(passages[0], COUNTER, max_tokens=32)
    assert 0 < COUNTER.count_tokens([tight])[0] <= 32


def test_pages_and_sections_lead_to_the_chunks_that_hold_them() -> None:
    chunks = cut(SECTIONED)
    passages = find_passages(SECTIONED.blocks, chunks, SummaryScope.BOTH)
    by_key = {passage.key: passage for passage in passages}
    assert [key for key in by_key if key.startswith("page")] == ["page-1", "page-2"]
    meals = next(chunk.position for chunk in chunks if "canteen" in chunk.text)
    assert by_key["page-2"].chunks == (meals,)
    assert meals not in by_key["page-1"].chunks
    assert by_key["page-1"].boxes[0].page == 1
    # The whole, and the one section that fills more than one chunk.
    sections = [passage.heading_path for passage in passages if passage.scope is SummaryScope.SECTION]
    assert sections == [("Storage",), ("Storage", "Indexes")]
    assert find_passages(SECTIONED.blocks, chunks, SummaryScope.PAGE) == passages[:2]


def test_a_contents_page_has_no_summary() -> None:
    parsed = document(heading("Contents", page=1), paragraph("Indexes are on page 3 of this.", "Contents", page=1))
    assert find_passages(parsed.blocks, cut(parsed), SummaryScope.BOTH) == []


def test_blocks_are_found_in_the_chunks_that_hold_their_first_and_last_words() -> None:
    chunks = cut(SECTIONED, 32)
    places = place_blocks(SECTIONED.blocks, chunks)
    for block, place in zip(SECTIONED.blocks, places, strict=True):
        assert place, block.text
        joined = "".join(chunks[index].text for index in place)
        assert "".join(block.text.split())[-20:] in "".join(joined.split())
    assert [place[0] for place in places] == sorted(place[0] for place in places)
    assert place_blocks([paragraph("not in there at all")], chunks) == [range(0)]
    assert place_blocks([paragraph("")], []) == [range(0)]


def test_a_table_of_contents_of_headings_leads_to_the_chunks_up_to_the_next_entry() -> None:
    chunks = cut(SECTIONED)
    entries = read_toc(SECTIONED, chunks, COUNTER)
    assert [(entry.title, entry.level, entry.path) for entry in entries] == [
        ("Storage", 1, ()),
        ("Indexes", 2, ("Storage",)),
        ("Meals", 2, ("Storage",)),
    ]
    meals = next(chunk.position for chunk in chunks if "canteen" in chunk.text)
    assert entries[2].chunks == (meals,)
    assert entries[1].chunks == tuple(range(meals))
    assert entries[2].page == 2


def test_bookmarks_come_before_headings_and_find_their_place_by_title_or_page() -> None:
    outline = (
        OutlineEntry("1 Indexes .......... 1", 1, 1),
        OutlineEntry("Meals", 2, 2),
        OutlineEntry("On no page", 1, 0),
        OutlineEntry("Beyond the end", 1, 99),
    )
    parsed = ParsedDocument("application/pdf", "", SECTIONED.blocks, outline=outline)
    chunks = cut(parsed)
    entries = read_toc(parsed, chunks, COUNTER)
    assert [entry.title for entry in entries] == ["1 Indexes", "Meals", "On no page", "Beyond the end"]
    meals = next(chunk.position for chunk in chunks if "canteen" in chunk.text)
    assert entries[0].start == 0
    assert meals in entries[1].chunks
    # Where nothing tells, an entry stays at the one before it: never before, never lost.
    assert [entry.start for entry in entries] == sorted(entry.start for entry in entries)
    assert all(entry.chunks for entry in entries)


def test_dots_that_lead_nowhere_cost_time_linear_in_their_number() -> None:
    # It took minutes, in a thread that lets no other run.
    for run in (". " * 50_000, "." * 100_000, " " * 100_000 + ".."):
        assert clean_title(f"{run}x") == f"{run}x".strip()[:300]
    assert clean_title(f"Storage {'. ' * 50_000} 12") == "Storage"
    assert clean_title("1.2 Storage . . . . 12") == "1.2 Storage"
    assert clean_title("Wait..") == "Wait.."


def test_titles_that_say_nothing_and_sentences_are_left_out() -> None:
    long = "word " * 23
    parsed = document(
        heading("3.2"), heading("iv"), heading(long), paragraph("Some text stands here.", long), heading("第三章 共享")
    )
    assert [entry.title for entry in read_toc(parsed, cut(parsed), COUNTER)] == ["第三章 共享"]
    assert is_title("Mix")
    assert not is_title("XIV.")
    assert read_toc(document(paragraph("No heading.")), cut(parsed), COUNTER) == []
    assert read_toc(parsed, [], COUNTER) == []
    assert not has_structure(document(paragraph("No heading.")))
    assert has_structure(parsed)


def test_levels_never_jump_and_the_deepest_go_first_when_there_are_too_many() -> None:
    chunks = [Chunk(0, "text", (), 0, (), 1)]
    jumping = [TocEntry("One", 2, 0), TocEntry("Two", 6, 0), TocEntry("Three", 3, 0), TocEntry("Four", 1, 0)]
    assert [entry.level for entry in finish_entries(jumping, chunks)] == [1, 2, 2, 1]
    many = [TocEntry(f"Title {number}", 1 + number % 3, 0) for number in range(2500)]
    kept = finish_entries(many, chunks)
    assert len(kept) == 2000
    assert sum(entry.title.endswith("0") for entry in kept) > 0
    assert max(entry.level for entry in kept) <= 3


@given(st.lists(st.tuples(st.text(max_size=12), st.integers(1, 9), st.integers(0, 6)), max_size=20), st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_entries_own_every_chunk_from_the_first_entry_on(drawn: list[tuple[str, int, int]], chunk_count: int) -> None:
    chunks = [Chunk(10 + place, "text", (), 0, (), 1) for place in range(chunk_count)]
    entries = finish_entries(
        [TocEntry(title, level, min(start, chunk_count - 1)) for title, level, start in drawn], chunks
    )
    if entries:
        owned = {position for entry in entries for position in entry.chunks}
        assert owned == {chunk.position for chunk in chunks[entries[0].start :]}
        assert entries[0].level == 1
        assert all(later.level <= entry.level + 1 for entry, later in pairwise(entries))
        assert all(len(entry.path) == entry.level - 1 for entry in entries)


def test_a_memory_is_a_topic_with_the_key_sentences_of_its_section() -> None:
    parsed = document(
        heading("1. Introduction"),
        paragraph("Databases keep rows in pages on disk. Pages of a database are read into memory.", "1. Introduction"),
        heading("2. Indexes"),
        paragraph(INDEX_TEXT, "2. Indexes"),
    )
    pairs = extract_memories(cut(parsed, 64), COUNTER, title="Storage engines")
    assert pairs[0].topic == "Storage engines"
    assert pairs[-1].topic == "Indexes"
    assert "clustered index" in pairs[-1].details
    assert pairs[-1].text.startswith("Indexes: ")
    assert [position for pair in pairs for position in pair.chunks] == list(range(len(cut(parsed, 64))))


def test_without_headings_each_chunk_is_a_topic_named_by_its_keywords() -> None:
    pairs = extract_memories(cut(document(paragraph(TREE_TEXT)), 256), COUNTER)
    assert len(pairs) == 1
    assert "叶子节点" in pairs[0].topic
    assert extract_memories([], COUNTER) == []
