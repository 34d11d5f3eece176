"""Segments: what goes in comes out, whatever it is split and merged into, and hostile bytes are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, merge_segments, pack_segment
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph
from tests.support.graph_strategies import documents, ordinals_of, segments_of, splits

_QUICK = settings(deadline=None, max_examples=30)


def _entity(name: str, *positions: int, weight: float = 1.0) -> EntityFragment:
    return EntityFragment(entity_key(name), name, mentions=tuple(Mention(place, weight) for place in positions))


def _one(subgraph: Subgraph) -> list[SegmentDocument]:
    return [SegmentDocument(1, 2, subgraph)]


@_QUICK
@given(st.data())
def test_any_split_merged_in_any_order_gives_the_bytes_of_the_whole(data: st.DataObject) -> None:
    items = data.draw(documents())
    first, second, third = segments_of(data.draw(splits(items)))
    whole = pack_segment(items)
    assert merge_segments([first, second, third], None) == whole
    assert merge_segments([third, first, second], None) == whole
    inner = Segment.open(merge_segments([second, third], None))
    assert merge_segments([first, inner], None) == whole


@_QUICK
@given(st.data())
def test_what_is_left_out_of_a_merge_leaves_no_byte_behind(data: st.DataObject) -> None:
    items = data.draw(documents())
    kept = [item for item in items if data.draw(st.booleans())]
    merged = merge_segments(segments_of(data.draw(splits(items))), [item.publisher for item in kept])
    assert merged == pack_segment(kept)


@_QUICK
@given(documents())
def test_a_document_shows_where_version_and_publisher_are_visible(items: list[SegmentDocument]) -> None:
    segment = Segment.open(pack_segment(items))
    assert segment.shows(ordinals_of(items)).all()
    assert not segment.shows(FrozenBitMap([item.version for item in items])).any()
    assert not segment.shows(FrozenBitMap([item.publisher for item in items])).any()
    assert not segment.shows(FrozenBitMap()).any()


def test_a_publisher_that_two_segments_hold_counts_once() -> None:
    items = _one(Subgraph((_entity("Euler", 0),)))
    assert merge_segments(segments_of([items, items]), None) == pack_segment(items)


@pytest.mark.parametrize(
    "subgraph",
    [
        Subgraph((_entity("Euler", -1),)),
        Subgraph((_entity("Euler", 2**31),)),
        Subgraph((_entity("Euler", 0, weight=0.0),)),
        Subgraph((_entity("Euler", 0, weight=float("nan")),)),
        Subgraph((_entity("Euler", 0), _entity("Euler", 1))),
        Subgraph((_entity("Euler", 3, 3),)),
        Subgraph((EntityFragment(0, "nothing"),)),
        Subgraph((EntityFragment(2**64, "large"),)),
        Subgraph((EntityFragment(1, "sure", confidence=1.5),)),
        Subgraph((_entity("Euler", 0),), (RelationFragment(entity_key("Euler"), entity_key("Bernoulli")),)),
        Subgraph((_entity("Euler", 0),), (RelationFragment(entity_key("Euler"), entity_key("Euler")),)),
    ],
)
def test_a_subgraph_that_breaks_its_promises_is_refused(subgraph: Subgraph) -> None:
    with pytest.raises(InvalidArgumentError):
        pack_segment(_one(subgraph))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_damaged_and_hostile_files_are_refused_and_never_read_past(data: st.DataObject) -> None:
    content = bytearray(pack_segment(data.draw(documents(min_size=1))))
    match data.draw(st.integers(0, 3)):
        case 0:
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        case 1:
            content += b"\0"
        case 2:
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        case _:
            content = bytearray(data.draw(st.binary(max_size=400)))
    with pytest.raises(InvalidArgumentError) as refused:
        Segment.open(bytes(content))
    assert refused.value.reason == "GRAPH_FILE_INVALID"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("entity_name", 9_999),
        ("relation_source", 9_999),
        ("relation_target", 0),
        ("entity_mentions", 9_999),
        ("document_entities", -1),
        ("mention_weight", np.nan),
        ("document_publisher", 0),
        ("entity_key", 0),
    ],
)
def test_a_file_with_good_sums_and_bad_places_is_refused(column: str, value: float) -> None:
    from corpusmesh_core.graphs.columns import pack_columns
    from corpusmesh_core.graphs.segment import LAYOUT, MAGIC, VERSION

    euler, bernoulli = sorted((_entity("Euler", 0), _entity("Bernoulli", 0)), key=lambda item: item.key)
    related = Subgraph((euler, bernoulli), (RelationFragment(euler.key, bernoulli.key, mentions=(Mention(0),)),))
    segment = Segment.open(pack_segment([SegmentDocument(1, 2, related), SegmentDocument(3, 4, related)]))
    columns = {name: np.array(getattr(segment, name)) for name, _ in LAYOUT}
    columns[column][1] = value
    with pytest.raises(InvalidArgumentError):
        Segment.open(pack_columns(MAGIC, VERSION, LAYOUT, columns))
