"""Segments, neighbours, and the one record that is made of several chunks."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.assembly import (
    MERGED_INTO_NEIGHBOUR,
    MERGED_INTO_SEGMENT,
    SegmentSettings,
    join_records,
    join_spans,
    join_texts,
    missing_chunks,
    plan_neighbours,
    plan_segments,
)
from corpusmesh_core.documents import Box
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from tests.support.candidates import chunk, ids, ranked, reasons

SETTINGS = SegmentSettings()


def _segments(items: Sequence[RankedCandidate], *others: Record) -> tuple[RankedCandidate, ...]:
    spans = plan_segments(items, SETTINGS)
    read = {record.record_id: record for record in others if record.record_id in missing_chunks(items, spans)}
    return join_spans(items, spans, read, reason=MERGED_INTO_SEGMENT, max_token_count=1_500)


def test_sentences_that_a_chunk_repeats_stand_once() -> None:
    first = "A range query reads pages. The leaf pages are linked. They hold rows in order."
    second = "The leaf pages are linked.\nThey hold rows in order. So one page follows another."
    assert join_texts([first, second]) == f"{first}\nSo one page follows another."
    assert join_texts(["叶子页按顺序链接。它们保存整行数据。", "它们保存整行数据。因此适合范围查询。"]) == (
        "叶子页按顺序链接。它们保存整行数据。\n因此适合范围查询。"
    )


def test_what_only_looks_alike_is_not_cut() -> None:
    assert join_texts(["See the table. Total: 5.", "Total: 6. See the table."]) == (
        "See the table. Total: 5.\nTotal: 6. See the table."
    )
    assert join_texts(["It ends with yes.", "Yes."]) == "It ends with yes.\nYes."
    assert join_texts(["same words in all", "same words in all"]) == "same words in all"


def test_a_joined_record_stands_where_all_its_chunks_stand() -> None:
    members = [
        chunk(3, "one two three", headings=["Indexes", "B+ tree"], page=4),
        chunk(4, "four five", headings=["Indexes", "B+ tree", "Leaves"], page=4),
        replace(chunk(5, "six", headings=["Indexes", "Hash"], page=5), boxes=(Box(5, 1, 2, 3, 4),)),
    ]
    joined = join_records(members, members[1])
    assert joined.record_id == "7-4"
    assert joined.text == "one two three\nfour five\nsix"
    assert joined.heading_path == ("Indexes",)
    assert (joined.page, joined.position, joined.token_count) == (4, 3, 6)
    assert [box.page for box in joined.boxes] == [4, 5]
    assert joined.boxes[0].top <= 300.0
    assert joined.boxes[0].bottom >= 490.0
    assert joined.boxes[1] == Box(5, 1, 2, 3, 4)


def test_hits_that_stand_together_become_one_segment_with_the_gap_between_them() -> None:
    items = [
        ranked(chunk(4, "four"), 0.9),
        ranked(chunk(0, "other", version=8), 0.85),
        ranked(chunk(6, "six"), 0.8),
        ranked(chunk(30, "far"), 0.7),
    ]
    left = _segments(items, chunk(5, "five"))
    assert ids(left) == ["7-4", "8-0", "7-30"]
    assert left[0].candidate.record.text == "four\nfive\nsix"
    assert left[0].merged_record_ids == ("7-5", "7-6")
    assert left[0].similarity == 0.9
    assert reasons(left) == {"7-6": MERGED_INTO_SEGMENT}


def test_a_gap_that_costs_more_than_the_next_hit_gains_is_not_bridged() -> None:
    near = [ranked(chunk(0, "a"), 0.9), ranked(chunk(2, "b"), 0.8)]
    assert len(plan_segments(near, SETTINGS)) == 1
    weak = [ranked(chunk(0, "a"), 0.9), ranked(chunk(6, "b"), 0.4)]
    assert plan_segments(weak, SETTINGS) == []


def test_a_segment_never_grows_beyond_its_bounds() -> None:
    items = [ranked(chunk(i, "word " * 300), 0.9 - i / 1000) for i in range(20)]
    spans = plan_segments(items, SETTINGS)
    assert all(span.last - span.first < SETTINGS.max_chunk_count for span in spans)
    left = join_spans(items, spans, {}, reason=MERGED_INTO_SEGMENT, max_token_count=1_500)
    assert max(item.candidate.record.token_count for item in left) <= 1_500
    covered = [
        name for item in left if item.is_kept for name in (item.candidate.record.record_id, *item.merged_record_ids)
    ]
    assert sorted(covered) == sorted(item.candidate.record.record_id for item in items), "no hit is lost"


def test_a_segment_ends_where_a_chunk_is_not_to_be_seen() -> None:
    items = [ranked(chunk(4, "four"), 0.9), ranked(chunk(6, "six"), 0.8), ranked(chunk(7, "seven"), 0.8)]
    left = _segments(items)
    assert ids(left) == ["7-4", "7-6", "7-7"]


def test_a_chunk_below_the_threshold_is_text_between_two_hits_and_no_hit() -> None:
    items = [ranked(chunk(4, "four"), 0.9), ranked(chunk(6, "six"), 0.8), ranked(chunk(5, "five"), 0.1, dropped=True)]
    left = _segments(items)
    assert left[0].candidate.record.text == "four\nfive\nsix"
    assert ids(left) == ["7-4"]


def test_hits_get_what_stands_beside_them() -> None:
    items = [ranked(chunk(4, "four"), 0.9), ranked(chunk(0, "zero"), 0.5)]
    spans = plan_neighbours(items, count=1, window=10)
    assert missing_chunks(items, spans) == ("7-3", "7-5", "7-1")
    read = {f"7-{i}": chunk(i, f"n{i}") for i in (3, 5)}
    left = join_spans(items, spans, read, reason=MERGED_INTO_NEIGHBOUR, max_token_count=500)
    assert left[0].candidate.record.text == "n3\nfour\nn5"
    assert left[0].merged_record_ids == ("7-3", "7-5")
    assert left[1].candidate.record.text == "zero", "before the first chunk there is nothing"


def test_a_lesser_hit_within_reach_becomes_part_of_the_better_one_and_no_chunk_stands_twice() -> None:
    items = [ranked(chunk(4, "four"), 0.9), ranked(chunk(5, "five"), 0.8), ranked(chunk(7, "seven"), 0.7)]
    spans = plan_neighbours(items, count=1, window=10)
    read = {f"7-{i}": chunk(i, f"n{i}") for i in (3, 6, 8)}
    left = join_spans(items, spans, read, reason=MERGED_INTO_NEIGHBOUR, max_token_count=500)
    assert [item.candidate.record.text for item in left if item.is_kept] == ["n3\nfour\nfive", "n6\nseven\nn8"]
    assert reasons(left) == {"7-5": MERGED_INTO_NEIGHBOUR}


def test_what_is_no_single_chunk_has_no_neighbours_and_what_was_joined_is_not_joined_again() -> None:
    items = [
        ranked(replace(chunk(0, "p"), record_id="7-parent-0", kind=RecordKind.PARENT), 0.9),
        ranked(replace(chunk(0, "w"), record_id="web", document_id="", kind=RecordKind.WEB_PAGE), 0.8),
        ranked(replace(chunk(3, "s"), record_id="7-summary-3", kind=RecordKind.SUMMARY), 0.7),
        ranked(chunk(10, "ten"), 0.6),
        ranked(chunk(11, "eleven"), 0.6),
    ]
    once = _segments(items)
    assert ids(once)[-1] == "7-10"
    assert plan_neighbours(once, count=2, window=10) == []
    assert _segments(once) == once


def test_a_hit_beside_a_joined_one_takes_nothing_that_is_told_there_already() -> None:
    joined = _segments([ranked(chunk(10, "ten"), 0.9), ranked(chunk(11, "eleven"), 0.85)])
    spans = plan_neighbours([*joined[:1], ranked(chunk(12, "twelve"), 0.5)], count=2, window=10)
    assert [(span.first, span.last) for span in spans] == [(12, 14)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 25)), min_size=1, max_size=30, unique=True),
    st.integers(0, 5),
)
def test_however_hits_lie_every_one_is_told_once(places: list[tuple[int, int]], count: int) -> None:
    items = [
        ranked(chunk(position, f"text {version} {position}", version=version), 0.9 - i / 100)
        for i, (version, position) in enumerate(places)
    ]
    spans = plan_neighbours(items, count=count, window=40) if count else plan_segments(items, SETTINGS)
    read = {
        name: chunk(int(name.split("-")[1]), f"text {name.replace('-', ' ')}", version=int(name.split("-")[0]))
        for name in missing_chunks(items, spans)
    }
    left = join_spans(items, spans, read, reason=MERGED_INTO_NEIGHBOUR, max_token_count=10_000)
    told = [
        name for item in left if item.is_kept for name in (item.candidate.record.record_id, *item.merged_record_ids)
    ]
    assert len(told) == len(set(told))
    assert {item.candidate.record.record_id for item in items} <= set(told)
    lines = [line for item in left if item.is_kept for line in item.candidate.record.text.splitlines()]
    assert len(lines) == len(set(lines)) == len(told)
