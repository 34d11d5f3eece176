"""Corrections of graphs: what they say, how they are written, and how they act in order."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.corrections import (
    Correction,
    Corrections,
    DeleteEntity,
    DeleteRelation,
    EditEntity,
    EditRelation,
    KeepApart,
    MergeEntities,
    RenameEntity,
    SplitEntity,
    correction_from_plain,
    correction_to_plain,
    pack_corrections,
    unpack_corrections,
)
from corpusmesh_core.graphs.edits import DELETED, EntityTexts, GraphEdits, RelationTexts, edits_of
from corpusmesh_core.graphs.keys import entity_key

ONE, TWO, THREE, FOUR = 1, 2, 3, 4
DOCUMENTS = {"d1": (10, 11), "d2": (20,)}
_NAMES = ("One", "Two", "Three", "Four", "Five")
_KEYS = tuple(map(entity_key, _NAMES))
_key = st.sampled_from(_KEYS)
_two = st.lists(_key, min_size=2, max_size=2, unique=True)


@st.composite
def _corrections(draw: st.DrawFn) -> Correction:
    first, second = draw(_two)
    name = draw(st.sampled_from(_NAMES))
    keys = tuple(draw(st.lists(_key.filter(lambda key: key != second), min_size=1, max_size=3, unique=True)))
    options: list[Correction] = [
        MergeEntities(keys, second),
        SplitEntity(keys, tuple(draw(st.sets(st.sampled_from(sorted(DOCUMENTS)), min_size=1))), name),
        KeepApart(first, second),
        RenameEntity(first, name),
        EditEntity(first, type=name.lower(), description=draw(st.sampled_from(["", "said", None]))),
        DeleteEntity(keys),
        EditRelation(first, second, predicate=name, keywords=(name,)),
        DeleteRelation(first, second),
    ]
    return draw(st.sampled_from(options))


def _edits(*items: Correction) -> GraphEdits:
    return edits_of(Corrections(items, DOCUMENTS))


@given(st.lists(_corrections(), max_size=8))
@settings(deadline=None, max_examples=50)
def test_a_correction_is_read_as_it_was_written(items: list[Correction]) -> None:
    for item in items:
        assert correction_from_plain(json.loads(json.dumps(correction_to_plain(item)))) == item
    corrections = Corrections(tuple(items), DOCUMENTS)
    assert unpack_corrections(pack_corrections(corrections)) == corrections


@given(st.lists(_corrections(), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_the_same_correction_twice_in_a_row_is_one(items: list[Correction]) -> None:
    once, twice = _edits(*items), _edits(*items, items[-1])
    numbers = {key: place for place, key in enumerate(_KEYS)}
    assert (twice.moved, twice.merged, twice.apart, twice.aliases) == (
        once.moved,
        once.merged,
        once.apart,
        once.aliases,
    )
    assert twice.entity_texts(numbers.get) == once.entity_texts(numbers.get)
    assert twice.relation_texts(numbers.get) == once.relation_texts(numbers.get)


@given(st.lists(_corrections(), max_size=8), _corrections())
@settings(deadline=None, max_examples=50)
def test_the_last_correction_holds_whatever_was_said_before(items: list[Correction], last: Correction) -> None:
    edits = _edits(*items, last)
    match last:
        case MergeEntities(keys, target):
            assert {edits.key_of(99, key) for key in keys} == {edits.key_of(99, target)} != {DELETED}
        case KeepApart(key, other):
            ends = edits.key_of(99, key), edits.key_of(99, other)
            assert ends[0] != ends[1] or DELETED in ends
            assert DELETED in ends or tuple(sorted(ends)) in edits.apart
        case DeleteEntity(keys):
            assert {edits.key_of(99, key) for key in keys} == {DELETED}
        case SplitEntity(keys, document_ids, name):
            target = entity_key(name)
            for key in keys:
                for version in DOCUMENTS[document_ids[0]]:
                    if target not in keys and target not in edits.merged:
                        assert edits.key_of(version, key) == target
        case RenameEntity(key, name):
            assert edits.entity_texts(lambda found: found)[edits.key_of(99, key)].name == name
        case _:
            pass


@given(st.lists(_corrections(), max_size=8))
@settings(deadline=None, max_examples=50)
def test_a_key_stands_for_one_that_stands_for_itself(items: list[Correction]) -> None:
    edits = _edits(*items)
    for key in _KEYS:
        for version in (10, 20, 99):
            found = edits.key_of(version, key)
            assert found == DELETED or edits.merged.get(found, found) == found
    for pair in edits.apart:
        assert all(edits.merged.get(end, end) == end for end in pair)
        assert pair[0] < pair[1]


@given(st.lists(_corrections(), max_size=6), st.lists(st.tuples(st.sampled_from([10, 20, 99]), _key), max_size=12))
@settings(deadline=None, max_examples=50)
def test_many_keys_at_once_stand_for_what_each_does(items: list[Correction], named: list[tuple[int, int]]) -> None:
    edits = _edits(*items)
    versions = np.array([version for version, _ in named], dtype=np.int64)
    keys = np.array([key for _, key in named], dtype=np.uint64)
    assert edits.keys_of(versions, keys).tolist() == [edits.key_of(*each) for each in named]


def test_merges_are_followed_and_turned_round_by_a_later_one() -> None:
    assert _edits(MergeEntities((ONE,), TWO), MergeEntities((TWO,), THREE)).merged == {ONE: THREE, TWO: THREE}
    turned = _edits(MergeEntities((ONE,), TWO), MergeEntities((TWO,), THREE), MergeEntities((THREE,), ONE))
    assert turned.merged == {TWO: ONE, THREE: ONE}
    assert _edits(MergeEntities((ONE,), TWO), MergeEntities((ONE,), THREE)).merged == {ONE: THREE}


def test_keeping_apart_takes_a_merge_back_and_a_merge_takes_that_back() -> None:
    apart = _edits(MergeEntities((ONE,), TWO), KeepApart(ONE, TWO))
    assert not apart.merged
    assert apart.apart == {(ONE, TWO)}
    again = _edits(MergeEntities((ONE,), TWO), KeepApart(ONE, TWO), MergeEntities((ONE,), TWO))
    assert again.merged == {ONE: TWO}
    assert not again.apart


def test_the_first_of_two_kept_apart_leaves_what_both_were_merged_into() -> None:
    assert _edits(MergeEntities((ONE, TWO), THREE), KeepApart(ONE, TWO)).merged == {TWO: THREE}


def test_ten_thousand_corrections_hold_without_looking_through_one_another() -> None:
    count = 2_500
    merged = [MergeEntities((key + 1,), key) for key in range(1, count + 1)]
    apart = [KeepApart(key, key + 20_000) for key in range(1, count + 1)]
    forward = [MergeEntities((30_000 + key,), 30_001 + key) for key in range(count)]
    splits = [SplitEntity((30_000 + key,), ("d1",), f"name {key}") for key in range(0, count, 500)]
    edits = _edits(*merged, *apart, *forward, *splits)
    assert {edits.merged[key] for key in range(2, count + 2)} == {1}
    assert edits.merged[30_000] == 30_000 + count
    assert edits.apart >= {(1, key + 20_000) for key in range(1, count + 1)}
    # A split takes along whatever hangs on the name, however far away.
    assert {edits.key_of(10, 30_000 + key) for key in range(count - 499)} == {
        entity_key(f"name {key}") for key in range(count - 500, count, 500)
    }


def test_a_split_moves_what_certain_documents_say_in_all_their_versions() -> None:
    engineer = entity_key("John Smith (engineer)")
    edits = _edits(SplitEntity((ONE,), ("d1",), "John Smith (engineer)"))
    assert [edits.key_of(version, ONE) for version in (10, 11, 20)] == [engineer, engineer, ONE]
    assert edits.apart == {tuple(sorted((ONE, engineer)))}


def test_a_split_takes_along_what_was_merged_into_the_entity() -> None:
    edits = _edits(MergeEntities((TWO,), ONE), SplitEntity((ONE,), ("d2",), "Another"))
    assert edits.key_of(20, TWO) == entity_key("Another")
    assert edits.key_of(10, TWO) == ONE


def test_a_split_to_the_name_itself_takes_an_earlier_one_back() -> None:
    name = "John Smith"
    key = entity_key(name)
    edits = _edits(SplitEntity((key, ONE), ("d1",), "Another"), SplitEntity((key, ONE), ("d1",), name))
    assert not edits.moved


def test_what_was_merged_into_a_deleted_entity_goes_with_it() -> None:
    edits = _edits(MergeEntities((ONE,), TWO), DeleteEntity((TWO,)))
    assert edits.key_of(10, ONE) == edits.key_of(10, TWO) == DELETED
    assert edits.key_of(10, THREE) == THREE


def test_a_name_given_later_brings_a_deleted_entity_back() -> None:
    assert _edits(DeleteEntity((ONE,)), RenameEntity(ONE, "One")).key_of(10, ONE) == ONE
    assert _edits(RenameEntity(ONE, "One"), DeleteEntity((ONE,))).key_of(10, ONE) == DELETED


def test_an_entity_is_found_by_the_name_that_it_was_given() -> None:
    edits = _edits(MergeEntities((ONE,), TWO), RenameEntity(ONE, "Given"))
    assert edits.aliases == {entity_key("Given"): TWO}


def test_texts_of_an_entity_are_what_was_said_last_of_any_of_its_names() -> None:
    same = {ONE: 7, TWO: 7, THREE: 8}
    edits = _edits(
        EditEntity(ONE, type="person", description="first"),
        RenameEntity(TWO, "Name"),
        EditEntity(TWO, description="second"),
        EditEntity(FOUR, type="unseen"),
    )
    assert edits.entity_texts(same.get) == {7: EntityTexts("Name", "person", "second")}
    taken_back = _edits(EditEntity(ONE, description="first"), EditEntity(ONE, description=""))
    assert taken_back.entity_texts(same.get) == {7: EntityTexts()}


def test_a_relation_is_deleted_and_brought_back_whichever_end_is_named_first() -> None:
    numbers = {ONE: 0, TWO: 1, THREE: 1}
    edits = _edits(EditRelation(ONE, TWO, predicate="knows"), DeleteRelation(THREE, ONE))
    assert edits.relation_texts(numbers.get) == {(0, 1): RelationTexts(deleted=True)}
    back = _edits(DeleteRelation(ONE, TWO), EditRelation(TWO, ONE, description="said"))
    assert back.relation_texts(numbers.get) == {(0, 1): RelationTexts(description="said")}
    assert not _edits(DeleteRelation(TWO, THREE)).relation_texts(numbers.get)


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({}, "kind"),
        ({"kind": "other"}, "kind"),
        ({"kind": "merge", "keys": ["0" * 15 + "1"]}, "target"),
        ({"kind": "merge", "keys": [], "target": "0" * 15 + "1"}, "keys"),
        ({"kind": "merge", "keys": "0" * 15 + "1", "target": "0" * 15 + "1"}, "keys"),
        ({"kind": "merge", "keys": ["0" * 15 + "1"], "target": "0" * 15 + "1"}, "target"),
        ({"kind": "merge", "keys": ["xyz"], "target": "0" * 15 + "1"}, "keys"),
        ({"kind": "delete", "keys": ["0" * 16]}, "keys"),
        ({"kind": "delete", "keys": ["0" * 15 + "1"], "more": 1}, "more"),
        ({"kind": "rename", "key": "0" * 15 + "1", "name": "..."}, "name"),
        ({"kind": "rename", "key": "0" * 15 + "1", "name": 5}, "name"),
        ({"kind": "rename", "key": "0" * 15 + "1", "name": "x" * 129}, "name"),
        ({"kind": "split", "keys": ["0" * 15 + "1"], "document_ids": [], "name": "A"}, "document_ids"),
        ({"kind": "keep_apart", "key": "0" * 15 + "1", "other": "0" * 15 + "1"}, "other"),
        ({"kind": "edit", "key": "0" * 15 + "1"}, "type"),
        ({"kind": "edit", "key": "0" * 15 + "1", "description": "x" * 4001}, "description"),
        ({"kind": "edit_relation", "source": "0" * 15 + "1", "target": "0" * 15 + "2"}, "predicate"),
        ({"kind": "delete_relation", "source": "0" * 15 + "1", "target": "0" * 15 + "1"}, "target"),
    ],
)
def test_a_correction_that_says_nothing_sensible_is_refused_with_its_field(
    plain: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        correction_from_plain(plain)
    assert (refused.value.reason, refused.value.field) == ("GRAPH_CORRECTION_INVALID", field)


@pytest.mark.parametrize(
    "artefact", [b"", b"nothing", b"[]", b'{"format": 2}', b'{"format": 1, "items": [1]}', b"\xff"]
)
def test_an_artefact_that_is_none_is_refused(artefact: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        unpack_corrections(artefact)
