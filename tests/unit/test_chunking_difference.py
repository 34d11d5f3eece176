"""What changed between two versions' chunks."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import ChangeKind, diff_chunks
from corpusmesh_core.chunking.similarity import word_similarity
from corpusmesh_core.documents import Chunk, ChunkRole


def chunks(*texts):
    return [Chunk(position, text, (), 0, (), 1) for position, text in enumerate(texts)]


def kinds(before, after):
    return [(change.kind.value, change.before, change.after) for change in diff_chunks(before, after)]


def test_equal_versions_are_unchanged():
    both = chunks("a b", "c d", "a b")
    assert kinds(both, both) == [("unchanged", 0, 0), ("unchanged", 1, 1), ("unchanged", 2, 2)]


def test_added_removed_and_changed_chunks_stand_where_they_are():
    before = chunks("one two three four", "five six", "seven eight nine ten", "end")
    after = chunks("one two three four", "seven eight nine eleven", "new words here", "end")
    assert kinds(before, after) == [
        ("unchanged", 0, 0),
        ("removed", 1, None),
        ("changed", 2, 1),
        ("added", None, 2),
        ("unchanged", 3, 3),
    ]
    assert [change.similarity for change in diff_chunks(before, after)] == [1.0, 0.0, 0.75, 0.0, 1.0]


def test_a_chunk_at_another_place_has_moved():
    assert kinds(chunks("a", "b", "c", "d"), chunks("d", "a", "b", "c")) == [
        ("moved", 3, 0),
        ("unchanged", 0, 1),
        ("unchanged", 1, 2),
        ("unchanged", 2, 3),
    ]


def test_changes_in_chinese_are_seen_by_character():
    (change,) = diff_chunks(chunks("第一条为了保护公民的权利"), chunks("第一条为了保护公民的义务"))
    assert change.kind is ChangeKind.CHANGED
    assert change.similarity > 0.8


def test_parents_are_left_out():
    parent = replace(chunks("a b c")[0], role=ChunkRole.PARENT)
    assert kinds([parent, *chunks("a")], chunks("a")) == [("unchanged", 0, 0)]


def test_empty_versions():
    assert kinds([], chunks("a")) == [("added", None, 0)]
    assert kinds(chunks("a"), []) == [("removed", 0, None)]
    assert diff_chunks([], []) == ()


def test_large_versions_are_compared_without_comparing_all_pairs(monkeypatch):
    dice = random.Random(5)
    old = [" ".join(dice.choice("abcdefghij") for _ in range(30)) for _ in range(3_000)]
    new = [f"{text} changed" if index % 3 else text for index, text in enumerate(old)]
    calls = Counter()

    def counted(first, second):
        calls["count"] += 1
        return word_similarity(first, second)

    monkeypatch.setattr("corpusmesh_core.chunking.difference.word_similarity", counted)
    found = Counter(change.kind for change in diff_chunks(chunks(*old), chunks(*new)))
    assert found == {ChangeKind.UNCHANGED: 1_000, ChangeKind.CHANGED: 2_000}
    assert calls["count"] <= 4_000


TEXTS = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5).map(" ".join), max_size=12)


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_every_chunk_of_both_versions_is_named_once(before, after):
    old, new = chunks(*before), chunks(*after)
    changes = diff_chunks(old, new)
    assert sorted(change.before for change in changes if change.before is not None) == list(range(len(old)))
    assert [change.after for change in changes if change.after is not None] == list(range(len(new)))
    unchanged = [change.before for change in changes if change.kind is ChangeKind.UNCHANGED]
    assert unchanged == sorted(unchanged)
    for change in changes:
        both = change.before is not None and change.after is not None
        assert both == (change.kind not in (ChangeKind.ADDED, ChangeKind.REMOVED))
        if change.kind in (ChangeKind.UNCHANGED, ChangeKind.MOVED):
            assert old[change.before].text == new[change.after].text
        if change.kind is ChangeKind.CHANGED:
            assert old[change.before].text != new[change.after].text
            assert 0.5 <= change.similarity < 1.0
    # As many equal texts are matched as can be.
    same = sum((Counter(before) & Counter(after)).values())
    assert same == sum(change.kind in (ChangeKind.UNCHANGED, ChangeKind.MOVED) for change in changes)
    assert changes == diff_chunks(old, new)
