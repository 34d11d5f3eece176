"""People's edits: they outlive cutting again, or are listed as unplaced."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import (
    ChunkEdit,
    EditAction,
    WordTokenCounter,
    anchor_of,
    apply_edits,
    chunk_document,
    is_disabled,
)
from corpusmesh_core.chunking.edits import EDITS_ATTRIBUTE, ChunkAnchor
from corpusmesh_core.documents import Block, BlockKind, Chunk, ChunkRole, ParsedDocument

COUNTER = WordTokenCounter()
CHANGE, ADD, DELETE = EditAction.CHANGE, EditAction.ADD, EditAction.DELETE


def chunks(*texts, path=()):
    counts = COUNTER.count_tokens(texts)
    return [Chunk(index, text, path, 1, (), counts[index], context="ctx") for index, text in enumerate(texts)]


def apply(given_chunks, *edits, max_tokens=50):
    return apply_edits(given_chunks, edits, COUNTER, max_tokens)


def texts(result):
    return [chunk.text for chunk in result.chunks]


def words(count, word="word"):
    return " ".join(f"{word}{index}" for index in range(count))


def test_no_edits_change_nothing():
    before = chunks("one", "two")
    assert apply(before).chunks == tuple(before)


def test_change_replaces_what_it_names_and_nothing_else():
    before = chunks("one", "two")
    edit = ChunkEdit("e1", CHANGE, anchor_of(before[1]), text="two and a half", questions=("What?",))
    result = apply(before, edit)
    assert texts(result) == ["one", "two and a half"]
    changed = result.chunks[1]
    assert (changed.is_edited, changed.token_count, changed.questions, changed.keywords) == (True, 4, ("What?",), ())
    assert changed.attributes[EDITS_ATTRIBUTE] == "e1"
    assert changed.context == "ctx"
    assert result.chunks[0] == before[0]
    assert result.placed == ("e1",)


def test_added_chunk_goes_after_its_anchor_and_positions_stay_dense():
    before = chunks("one", "two")
    result = apply(
        before,
        ChunkEdit("e1", ADD, anchor_of(before[0]), text="one and a half", tags={"x": 2.0}),
        ChunkEdit("e2", ADD, anchor_of(before[0]), text="one and three quarters"),
        ChunkEdit("e3", ADD, ChunkAnchor(0, ""), text="zero"),
    )
    assert texts(result) == ["zero", "one", "one and a half", "one and three quarters", "two"]
    assert [chunk.position for chunk in result.chunks] == [0, 1, 2, 3, 4]
    assert result.chunks[2].tags == {"x": 2.0}
    assert [chunk.is_edited for chunk in result.chunks] == [True, False, True, True, False]


def test_delete_and_switching_off():
    before = chunks("one", "two", "three")
    result = apply(
        before,
        ChunkEdit("e1", DELETE, anchor_of(before[0])),
        ChunkEdit("e2", CHANGE, anchor_of(before[2]), enabled=False),
    )
    assert texts(result) == ["two", "three"]
    assert [is_disabled(chunk) for chunk in result.chunks] == [False, True]
    again = apply(
        before,
        ChunkEdit("e2", CHANGE, anchor_of(before[2]), enabled=False),
        ChunkEdit("e3", CHANGE, anchor_of(before[2]), enabled=True),
    )
    assert not is_disabled(again.chunks[2])
    assert again.chunks[2].attributes[EDITS_ATTRIBUTE] == "e2,e3"


def test_edit_finds_its_chunk_at_another_place():
    before = chunks("one", "two", "three")
    after = chunks("new", "three", "one", "two")
    result = apply(after, ChunkEdit("e1", CHANGE, anchor_of(before[1]), text="TWO"))
    assert texts(result) == ["new", "three", "one", "TWO"]


def test_of_equal_chunks_the_one_with_the_same_headings_is_taken_then_the_nearest():
    same = [replace(chunk, heading_path=("B",) if chunk.position == 3 else ("A",)) for chunk in chunks(*["same"] * 5)]
    assert texts(apply(same, ChunkEdit("e", CHANGE, anchor_of(same[3]), text="x")))[3] == "x"
    assert texts(apply(same[:3], ChunkEdit("e", CHANGE, anchor_of(same[3]), text="x")))[2] == "x"


def test_chunk_that_changed_a_little_is_found_under_the_same_headings_only():
    text = words(30)
    before = chunks(text, path=("A",))[0]
    little = chunks("start", text.replace("word7 ", "seven "), path=("A",))
    edit = ChunkEdit("e1", CHANGE, anchor_of(before), keywords=("k",))
    assert [chunk.keywords for chunk in apply(little, edit).chunks] == [(), ("k",)]
    elsewhere = [replace(chunk, heading_path=("B",)) for chunk in little]
    assert apply(elsewhere, edit).unplaced == ("e1",)
    another = chunks("start", words(30, "other"), path=("A",))
    assert apply(another, edit).unplaced == ("e1",)
    assert apply(another, edit).chunks == tuple(another)


def test_two_edits_of_chunks_that_became_alike_take_one_chunk_each():
    first, second = chunks(words(30) + " one", words(30) + " two")
    merged = chunks(words(30) + " both")
    result = apply(
        merged,
        ChunkEdit("e1", CHANGE, anchor_of(first), keywords=("a",)),
        ChunkEdit("e2", CHANGE, anchor_of(second), keywords=("b",)),
    )
    assert (result.placed, result.unplaced) == (("e1",), ("e2",))
    assert result.chunks[0].keywords == ("a",)


def test_edit_of_a_deleted_chunk_is_unplaced_and_deleting_twice_is_one_deletion():
    before = chunks("one", "two")
    anchor = anchor_of(before[0])
    result = apply(
        before,
        ChunkEdit("e1", DELETE, anchor),
        ChunkEdit("e2", DELETE, anchor),
        ChunkEdit("e3", CHANGE, anchor, text="x"),
        ChunkEdit("e4", ADD, anchor, text="instead"),
    )
    assert texts(result) == ["instead", "two"]
    assert (result.placed, result.unplaced) == (("e1", "e2", "e4"), ("e3",))


def test_edits_that_are_in_the_chunks_are_not_done_again():
    before = chunks("one", "two")
    edits = (
        ChunkEdit("e1", CHANGE, anchor_of(before[0]), text="ONE"),
        ChunkEdit("e2", ADD, anchor_of(before[1]), text="three"),
    )
    once = apply(before, *edits)
    assert apply(once.chunks, *edits) == once


def test_text_over_the_budget_is_split_and_nothing_of_it_is_lost():
    before = chunks("one", "two")
    result = apply(before, ChunkEdit("e1", CHANGE, anchor_of(before[0]), text=words(120)))
    assert len(result.chunks) == 4
    assert all(chunk.token_count <= 50 for chunk in result.chunks)
    assert " ".join(texts(result)[:3]) == words(120)
    assert result.chunks[3].text == "two"


def test_added_chunk_without_text_is_unplaced():
    before = chunks("one")
    assert apply(before, ChunkEdit("e1", ADD, anchor_of(before[0]), text=" ")).unplaced == ("e1",)


def family():
    blocks = tuple(Block(BlockKind.PARAGRAPH, text) for text in ("First part.", "Second part.", words(30)))
    document = ParsedDocument("text/plain", "", blocks)
    values = {"children_delimiter": "\n", "max_tokens": 32}
    return chunk_document(document, COUNTER, settings=values)


def test_parent_follows_the_edits_of_its_children():
    before = family()
    children = [chunk for chunk in before if chunk.role is ChunkRole.TEXT]
    result = apply(before, ChunkEdit("e1", CHANGE, anchor_of(children[0]), text="Edited part."))
    assert result.chunks[0].role is ChunkRole.PARENT
    assert result.chunks[0].text == "Edited part.\n\nSecond part."
    assert result.chunks[0].token_count == COUNTER.count_tokens([result.chunks[0].text])[0]
    result = apply(before, ChunkEdit("e1", DELETE, anchor_of(children[0])))
    assert result.chunks[0].text == "Second part."
    off = ChunkEdit("e1", CHANGE, anchor_of(children[1]), enabled=False)
    result = apply(before, off)
    assert result.chunks[0].text == "First part."
    assert apply(result.chunks, off).chunks == result.chunks
    on = ChunkEdit("e2", CHANGE, anchor_of(children[1]), enabled=True)
    assert apply(before, off, on).chunks[0].text == before[0].text


def test_parent_of_nothing_but_switched_off_children_goes():
    before = family()
    child = before[-1]
    result = apply(before, ChunkEdit("e1", CHANGE, anchor_of(child), enabled=False))
    assert [chunk.role for chunk in result.chunks].count(ChunkRole.PARENT) == 1
    assert (result.chunks[-1].text, result.chunks[-1].parent) == (child.text, -1)


def test_parent_whose_text_holds_an_edited_child_elsewhere_is_left_out():
    before = family()
    before[0] = replace(before[0], text="something else")
    result = apply(before, ChunkEdit("e1", CHANGE, anchor_of(before[1]), text="Edited."))
    assert [chunk.parent for chunk in result.chunks if chunk.role is ChunkRole.TEXT] == [-1, -1, 0]


def test_parent_without_children_goes_and_the_others_are_numbered_again():
    before = family()
    children = [chunk for chunk in before if chunk.role is ChunkRole.TEXT]
    result = apply(before, *(ChunkEdit(f"e{index}", DELETE, anchor_of(children[index])) for index in (0, 1)))
    assert [(chunk.role, chunk.position, chunk.parent) for chunk in result.chunks] == [
        (ChunkRole.PARENT, 0, -1),
        (ChunkRole.TEXT, 0, 0),
    ]


PARAGRAPHS = st.lists(st.integers(0, 40).map(lambda seed: words(12 + seed % 9, f"p{seed}w")), min_size=1, max_size=10)
ACTIONS = st.lists(st.tuples(st.sampled_from(list(EditAction)), st.integers(0, 9)), max_size=8)


@settings(max_examples=100, deadline=None)
@given(PARAGRAPHS, ACTIONS, PARAGRAPHS, st.booleans())
def test_every_edit_is_placed_once_or_listed(paragraphs, actions, others, shuffled):
    before = chunks(*paragraphs)
    edits = [
        ChunkEdit(f"e{number}", action, anchor_of(before[target % len(before)]), text=f"edit {number} {words(5, 'by')}")
        for number, (action, target) in enumerate(actions)
    ]
    after = chunks(*(others + paragraphs if shuffled else paragraphs + others))
    result = apply(after, *edits)
    assert sorted(result.placed + result.unplaced) == sorted(edit.edit_id for edit in edits)
    assert [chunk.position for chunk in result.chunks] == list(range(len(result.chunks)))
    carried = [edit_id for chunk in result.chunks for edit_id in chunk.attributes.get(EDITS_ATTRIBUTE, "").split(",")]
    for edit in edits:
        written = edit.action is not DELETE and edit.edit_id in result.placed
        assert carried.count(edit.edit_id) <= written
        if edit.action is ADD:
            assert carried.count(edit.edit_id) == 1
    assert apply(after, *edits) == result
    # Chunks that nobody edited are as they were.
    untouched = [chunk.text for chunk in result.chunks if not chunk.is_edited]
    assert all(text in {chunk.text for chunk in after} for text in untouched)


@pytest.mark.parametrize("max_tokens", [40, 64, 400])
def test_edits_survive_cutting_again_with_another_document_version(max_tokens):
    blocks = [Block(BlockKind.PARAGRAPH, words(30, f"p{index}x")) for index in range(10)]
    first = chunk_document(ParsedDocument("text/plain", "", tuple(blocks)), COUNTER, settings={"max_tokens": 40})
    edit = ChunkEdit("e1", CHANGE, anchor_of(first[4]), keywords=("kept",))
    more = [Block(BlockKind.PARAGRAPH, words(30, f"new{index}x")) for index in range(3)]
    second = chunk_document(
        ParsedDocument("text/plain", "", (*more, *blocks)), COUNTER, settings={"max_tokens": max_tokens}
    )
    result = apply(second, edit, max_tokens=400)
    if max_tokens == 40:
        assert result.placed == ("e1",)
        assert [chunk.text for chunk in result.chunks if chunk.keywords] == [first[4].text]
    else:
        assert result.unplaced == ("e1",)
        assert list(result.chunks) == second
