from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import RULE_BY_KIND, RecordKind, VisibilityRule
from corpusmesh_core.visibility import (
    MAX_ORDINAL,
    SINGLE_SOURCE_KINDS,
    Visibility,
    VisibilityFilter,
    build_filter,
    check_sources,
    decode_bitmap,
    encode_bitmap,
    is_visible,
)

_UNIVERSE = 24
_ordinals = st.sets(st.integers(0, _UNIVERSE - 1))


def _passes(filter_: VisibilityFilter, kind: RecordKind, publisher: int, sources: set[int]) -> bool:
    """Judge a record by the neutral filter, as an index does."""
    for clause in filter_.clauses:
        if kind not in clause.kinds:
            continue
        tests: list[Callable[[], bool]] = []
        if clause.publisher_in is not None:
            tests.append(lambda clause=clause: publisher in clause.publisher_in)
        if clause.source_in is not None:
            tests.append(lambda clause=clause: any(source in clause.source_in for source in sources))
        if clause.source_not_in is not None:
            tests.append(lambda clause=clause: not any(source in clause.source_not_in for source in sources))
        if clause.source_below is not None:
            tests.append(lambda clause=clause: all(source < clause.source_below for source in sources))
        return all(test() for test in tests)
    return False


@given(
    visible=_ordinals,
    kind=st.sampled_from(list(RecordKind)),
    publisher=st.integers(0, _UNIVERSE + 3),
    sources=st.sets(st.integers(0, _UNIVERSE + 3), min_size=1, max_size=5),
    asked=st.sets(st.sampled_from(list(RecordKind))),
)
def test_filter_equals_the_rule(
    visible: set[int], kind: RecordKind, publisher: int, sources: set[int], asked: set[RecordKind]
) -> None:
    if kind in SINGLE_SOURCE_KINDS:
        sources = {publisher}
    visibility = Visibility.of("s", visible, _UNIVERSE)
    expected = kind in asked and is_visible(publisher, sources, RULE_BY_KIND[kind], visibility)
    assert _passes(build_filter(visibility, asked), kind, publisher, sources) is expected


def test_empty_visibility_matches_nothing() -> None:
    assert build_filter(Visibility.of("s", (), 10), RecordKind).matches_nothing
    assert build_filter(Visibility.of("s", (1,), 10), ()).matches_nothing


def test_kinds_with_one_source_need_one_bitmap() -> None:
    (clause,) = build_filter(Visibility.of("s", (1, 2), 10), [RecordKind.CHUNK]).clauses
    assert (clause.publisher_in, clause.source_not_in, clause.source_below) == (None, None, None)
    assert clause.source_in == FrozenBitMap([1, 2])


def test_every_kind_has_a_clause_of_its_rule() -> None:
    filter_ = build_filter(Visibility.of("s", (1,), 3), RecordKind)
    assert set(filter_.kinds) == set(RecordKind)
    assert len(filter_.kinds) == len(RecordKind)


def test_a_summary_is_hidden_when_one_of_its_sources_is() -> None:
    visibility = Visibility.of("s", (1, 2, 9), 10)
    assert is_visible(9, (1, 2), VisibilityRule.ALL, visibility)
    assert not is_visible(9, (1, 3), VisibilityRule.ALL, visibility)
    assert is_visible(9, (1, 3), VisibilityRule.ANY, visibility)
    assert not is_visible(8, (1,), VisibilityRule.ANY, visibility), "its build is not published"


@given(a=_ordinals, b=_ordinals)
def test_narrowing_never_shows_more(a: set[int], b: set[int]) -> None:
    narrowed = Visibility.of("s", a, _UNIVERSE).narrow(FrozenBitMap(b))
    assert set(narrowed.ordinals) == a & b
    assert narrowed.snapshot_id == "s"


@given(st.sets(st.integers(0, MAX_ORDINAL), max_size=50))
def test_bitmap_survives_its_wire_form(ordinals: set[int]) -> None:
    assert decode_bitmap(encode_bitmap(FrozenBitMap(ordinals))) == FrozenBitMap(ordinals)


def test_contiguous_ordinals_stay_small_on_the_wire() -> None:
    assert len(encode_bitmap(FrozenBitMap(range(500_000)))) < 300


@pytest.mark.parametrize("text", ["", "!", "AAAA", "Zm9vYmFy"])
def test_broken_bitmap_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        decode_bitmap(text)


@pytest.mark.parametrize(("ordinals", "universe_size"), [((5,), 5), ((), -1), ((), MAX_ORDINAL + 2)])
def test_ordinals_outside_the_universe_are_refused(ordinals: tuple[int, ...], universe_size: int) -> None:
    with pytest.raises(InvalidArgumentError):
        Visibility.of("s", ordinals, universe_size)


@pytest.mark.parametrize(
    ("kind", "publisher", "sources"),
    [
        (RecordKind.CHUNK, 1, ()),
        (RecordKind.CHUNK, 1, (2,)),
        (RecordKind.CHUNK, 1, (1, 2)),
        (RecordKind.SUMMARY, -1, (1,)),
        (RecordKind.SUMMARY, 1, (MAX_ORDINAL + 1,)),
    ],
)
def test_record_that_a_filter_could_not_judge_is_refused(
    kind: RecordKind, publisher: int, sources: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidArgumentError):
        check_sources(kind, publisher, sources)
