"""Views: what a caller sees of a graph is what the visible documents alone would give, bit by bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from corpusmesh_core.graphs.compiled import open_compiled
from corpusmesh_core.graphs.corrections import (
    Correction,
    Corrections,
    DeleteEntity,
    DeleteRelation,
    KeepApart,
    MergeEntities,
    RenameEntity,
    SplitEntity,
)
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.resolution import ResolvedPair
from corpusmesh_core.graphs.segments import SegmentDocument, pools_of
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph
from corpusmesh_core.graphs.view import UNKNOWN, GraphView, compile_view
from tests.support.graph_strategies import (
    KEYS,
    NAMES,
    all_of,
    documents,
    file_of,
    ordinals_of,
    resolved_pairs,
    segments_of,
    splits,
)

_QUICK = settings(deadline=None, max_examples=30)
_CORRECTIONS: st.SearchStrategy[list[Correction]] = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS))
        .filter(lambda pair: pair[0] != pair[1])
        .flatmap(
            lambda pair: st.sampled_from((MergeEntities((pair[0],), pair[1]), KeepApart(*pair), DeleteRelation(*pair)))
        ),
        st.builds(lambda key: DeleteEntity((key,)), st.sampled_from(KEYS)),
        st.builds(RenameEntity, st.sampled_from(KEYS), st.sampled_from(("New Name", *NAMES))),
        st.builds(
            lambda key, name: SplitEntity((key,), ("doc-0", "doc-2"), name),
            st.sampled_from(KEYS),
            st.sampled_from(("Other Thing", *NAMES)),
        ),
    ),
    max_size=4,
)


def _corrected(items: list[Correction], given_documents: list[SegmentDocument]) -> Corrections:
    return Corrections(tuple(items), {f"doc-{number}": (item.version,) for number, item in enumerate(given_documents)})


def _fragment(name: str, *positions: int, aliases: tuple[str, ...] = ()) -> EntityFragment:
    return EntityFragment(entity_key(name), name, aliases=aliases, mentions=tuple(map(Mention, positions)))


def _document(number: int, *fragments: EntityFragment, related: tuple[tuple[str, str], ...] = ()) -> SegmentDocument:
    relations = tuple(RelationFragment(entity_key(a), entity_key(b), mentions=(Mention(0),)) for a, b in related)
    return SegmentDocument(number, 100 + number, Subgraph(fragments, relations))


def _view(
    *items: SegmentDocument, resolved: tuple[ResolvedPair, ...] = (), corrections: tuple[Correction, ...] = ()
) -> GraphView:
    versions = {f"doc-{item.version}": (item.version,) for item in items}
    return compile_view(segments_of([items]), ordinals_of(items), resolved, Corrections(corrections, versions))


def _place(view: GraphView, name: str) -> int:
    return int(view.find([entity_key(name)])[0])


@_QUICK
@given(st.data())
def test_a_masked_view_is_bit_by_bit_that_of_the_visible_documents_alone(data: st.DataObject) -> None:
    items = data.draw(documents())
    visible = [item for item in items if data.draw(st.booleans())]
    pairs, corrections = data.draw(resolved_pairs()), _corrected(data.draw(_CORRECTIONS), items)
    # Half of a document is nothing: a version without its subgraph, and a subgraph without its version.
    hidden = [item for item in items if item not in visible]
    halves = [item.version if data.draw(st.booleans()) else item.publisher for item in hidden]
    mask = FrozenBitMap(ordinals_of(visible) | FrozenBitMap(halves))
    masked = compile_view(segments_of(data.draw(splits(items))), mask, pairs, corrections)
    alone = compile_view(segments_of([visible]), ordinals_of(items), pairs, corrections)
    assert all_of(masked) == all_of(alone)
    assert masked.graph.document_publisher.tolist() == [item.publisher for item in visible]


@_QUICK
@given(st.data())
def test_the_union_of_segments_is_one_view_in_any_order_and_any_split(data: st.DataObject) -> None:
    items, pairs = data.draw(documents()), data.draw(resolved_pairs())
    everything = ordinals_of(items)
    one = compile_view(segments_of(data.draw(splits(items))), everything, pairs)
    other = compile_view(segments_of(data.draw(splits(items))), everything, pairs[::-1])
    assert all_of(one) == all_of(other)


@_QUICK
@given(st.data())
def test_adding_a_document_and_removing_it_restores_the_view(data: st.DataObject) -> None:
    items, pairs = data.draw(documents(min_size=1)), data.draw(resolved_pairs())
    added = data.draw(st.sampled_from(items))
    rest = [item for item in items if item is not added]
    before = compile_view(segments_of([rest]), ordinals_of(rest), pairs)
    after = compile_view(segments_of([rest, [added]]), ordinals_of(rest), pairs)
    assert all_of(after) == all_of(before)


@_QUICK
@given(st.data())
def test_a_view_from_its_file_is_the_view(data: st.DataObject) -> None:
    items, pairs = data.draw(documents()), data.draw(resolved_pairs())
    segments = segments_of(data.draw(splits(items)))
    view = compile_view(segments, ordinals_of(items), pairs)
    assert all_of(GraphView(open_compiled(file_of(view)), pools_of(segments))) == all_of(view)


@_QUICK
@given(st.data())
def test_nothing_in_a_view_outlives_its_sources(data: st.DataObject) -> None:
    items = data.draw(documents())
    view = compile_view(segments_of([items]), ordinals_of(items), data.draw(resolved_pairs()))
    assert (view.mentions.sum(axis=1) > 0).all()
    assert (view.document_frequency > 0).all()
    assert (view.relation_weights > 0).all()
    written = {fragment.name for item in items for fragment in item.subgraph.entities}
    versions = {item.version for item in items}
    for place in range(len(view.entity_keys)):
        assert set(view.names(place)) <= written
        assert set(view.versions_of(place)) <= versions
        assert view.versions_of(place)
    assert {int(version) for version in view.passages[:, 0]} <= versions
    assert (view.adjacency != view.adjacency.T).nnz == 0


def test_names_are_not_joined_over_a_bridge_that_is_hidden() -> None:
    items = [
        _document(1, _fragment("Euler", 0)),
        _document(2, _fragment("L. Euler", 0)),
        _document(3, _fragment("Leonhard", 0)),
    ]
    pairs = [
        ResolvedPair(*pair_of(entity_key("Euler"), entity_key("L. Euler")), "rule", 1.0),
        ResolvedPair(*pair_of(entity_key("L. Euler"), entity_key("Leonhard")), "rule", 1.0),
    ]
    whole = compile_view(segments_of([items]), ordinals_of(items), pairs)
    assert len(whole.entity_keys) == 1
    without_bridge = compile_view(segments_of([items]), ordinals_of([items[0], items[2]]), pairs)
    assert len(without_bridge.entity_keys) == 2
    assert without_bridge.find([entity_key("L. Euler")]).tolist() == [UNKNOWN]


def test_an_alias_leads_to_the_entity_that_most_passages_name_but_a_name_to_its_own() -> None:
    items = (
        _document(1, _fragment("Leonhard Euler", 0, 1, aliases=("Euler", "Master"))),
        _document(2, _fragment("Kate Euler", 0, aliases=("Euler",))),
        _document(3, _fragment("Master", 0)),
    )
    view = _view(*items)
    assert _place(view, "Euler") == _place(view, "Leonhard Euler")
    assert view.name(_place(view, "Master")) == "Master"
    assert view.find([entity_key("unknown")]).tolist() == [UNKNOWN]


def test_corrections_merge_split_delete_and_rename() -> None:
    items = (
        _document(1, _fragment("Euler", 0), _fragment("Basel", 0), related=(("Euler", "Basel"),)),
        _document(2, _fragment("Euler", 0), _fragment("L. Euler", 1)),
    )
    merged = _view(*items, corrections=(MergeEntities((entity_key("L. Euler"),), entity_key("Euler")),))
    assert _place(merged, "L. Euler") == _place(merged, "Euler") != UNKNOWN
    assert merged.entity_records(_place(merged, "Euler"))[-1].startswith("102-entity-")
    records = merged.entity_records(_place(merged, "Euler"))
    assert [merged.entity_records(_place(merged, "Euler"), most) for most in (1, 2, 9)] == [
        records[:1],
        records[:2],
        records,
    ]
    assert [len(merged.relation_records(0, most)) for most in (0, 1, 9)] == [0, 1, 1]
    split = _view(*items, corrections=(SplitEntity((entity_key("Euler"),), ("doc-2",), "Euler (firm)"),))
    assert split.versions_of(_place(split, "Euler")) == (1,)
    assert split.versions_of(_place(split, "Euler (firm)")) == (2,)
    deleted = _view(*items, corrections=(DeleteEntity((entity_key("Basel"),)),))
    assert _place(deleted, "Basel") == UNKNOWN
    assert len(deleted.relation_ends) == 0
    unrelated = _view(*items, corrections=(DeleteRelation(entity_key("Basel"), entity_key("Euler")),))
    assert _place(unrelated, "Basel") != UNKNOWN
    assert len(unrelated.relation_ends) == 0
    renamed = _view(*items, corrections=(RenameEntity(entity_key("Basel"), "City of Basel"),))
    assert renamed.name(_place(renamed, "City of Basel")) == "City of Basel"


def test_a_person_keeps_apart_what_a_rule_would_join() -> None:
    items = (_document(1, _fragment("Euler", 0)), _document(2, _fragment("Eulers", 0)))
    pair = ResolvedPair(*pair_of(entity_key("Euler"), entity_key("Eulers")), "rule", 1.0)
    assert len(_view(*items, resolved=(pair,)).entity_keys) == 1
    apart = (KeepApart(entity_key("Euler"), entity_key("Eulers")),)
    assert len(_view(*items, resolved=(pair,), corrections=apart).entity_keys) == 2


def test_relations_weigh_more_the_less_by_chance_their_ends_meet() -> None:
    common, rare, other = "Common", "Rare", "Other"
    items = [
        _document(
            1, _fragment(common, 0), _fragment(rare, 0), _fragment(other, 0), related=((common, other), (rare, other))
        )
    ]
    items += [_document(number, _fragment(common, 0)) for number in range(2, 30)]
    view = _view(*items)
    weak, strong = (view.find_relations([(_place(view, name), _place(view, other))])[0] for name in (common, rare))
    assert view.relation_weights[strong] > 3 * view.relation_weights[weak] > 0


def test_records_and_passages_are_named_as_the_index_names_them() -> None:
    view = _view(_document(7, _fragment("Euler", 0, 4), _fragment("Basel", 0), related=(("Euler", "Basel"),)))
    assert [view.passage_record_id(place) for place in range(2)] == ["7-0", "7-4"]
    assert view.find_passages(["7-4", "7-1", "x", "7-parent-0", "9" * 30 + "-1", "-", "7-0"]).tolist() == [
        1,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        0,
    ]
    [record] = view.relation_records(0)
    low, high = sorted((entity_key("Euler"), entity_key("Basel")))
    assert record == f"107-relation-{low:016x}{high:016x}"
    assert np.array_equal(view.relations_of(0), [0])


def test_a_view_of_nothing_answers_every_question() -> None:
    view = compile_view([], FrozenBitMap())
    assert view.mentions.shape == (0, 0)
    assert view.find([1]).tolist() == [UNKNOWN]
    assert view.find_passages(["1-1"]).tolist() == [UNKNOWN]
    assert view.find_relations([(0, 1)]).tolist() == [UNKNOWN]
    assert len(view.page_rank) == 0
