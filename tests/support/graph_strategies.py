"""Random graphs: documents that name entities out of a small world, so that documents speak of the same ones."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from corpusmesh_core.graphs.compiled import compiled_parts
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.resolution import ResolvedPair
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.values import EntityFragment, Mention, RelationFragment, Subgraph
from corpusmesh_core.graphs.view import GraphView

NAMES = (*(f"Name {letter}" for letter in "ABCDEFGHIJKL"), "欧拉", "伯努利")
KEYS = tuple(map(entity_key, NAMES))
_WEIGHTS = st.sampled_from((0.5, 1.0, 2.0, 3.25))
_CONFIDENCES = st.sampled_from((0.0, 0.5, 0.8, 1.0))
_METHODS = st.sampled_from(((GraphMethod.NER,), (GraphMethod.LIGHT, GraphMethod.NER), (GraphMethod.TRIPLES,)))


@st.composite
def mentions(draw: st.DrawFn) -> tuple[Mention, ...]:
    positions = draw(st.sets(st.integers(0, 4), min_size=1, max_size=3))
    return tuple(Mention(position, draw(_WEIGHTS)) for position in sorted(positions))


@st.composite
def subgraphs(draw: st.DrawFn) -> Subgraph:
    chosen = sorted(draw(st.sets(st.integers(0, len(NAMES) - 1), max_size=6)), key=lambda place: KEYS[place])
    entities = tuple(
        EntityFragment(
            KEYS[place],
            draw(st.sampled_from((NAMES[place], NAMES[place].upper()))),
            draw(st.sampled_from(("", "person", "geo"))),
            aliases=tuple(draw(st.lists(st.sampled_from((*NAMES, "Alias One", "Alias Two")), max_size=2))),
            mentions=draw(mentions()),
            methods=draw(_METHODS),
            confidence=draw(_CONFIDENCES),
        )
        for place in chosen
    )
    pairs = [(a.key, b.key) for number, a in enumerate(entities) for b in entities[number + 1 :]]
    related = sorted(draw(st.sets(st.sampled_from(pairs), max_size=5))) if pairs else []
    relations = tuple(
        RelationFragment(
            *(pair if draw(st.booleans()) else pair[::-1]),
            mentions=draw(mentions()),
            weight=draw(_WEIGHTS),
            methods=draw(_METHODS),
            confidence=draw(_CONFIDENCES),
        )
        for pair in related
    )
    return Subgraph(entities, relations)


@st.composite
def documents(draw: st.DrawFn, *, min_size: int = 0, max_size: int = 6) -> list[SegmentDocument]:
    """Documents of ascending ordinals: version, then publisher."""
    parts = draw(st.lists(subgraphs(), min_size=min_size, max_size=max_size))
    return [SegmentDocument(10 * number + 1, 10 * number + 5, part) for number, part in enumerate(parts)]


@st.composite
def splits(draw: st.DrawFn, items: Sequence[SegmentDocument]) -> list[list[SegmentDocument]]:
    """The same documents in any order and any number of segments."""
    order = draw(st.permutations(items))
    places = [draw(st.integers(0, 2)) for _ in order]
    return [[item for item, place in zip(order, places, strict=True) if place == number] for number in range(3)]


@st.composite
def resolved_pairs(draw: st.DrawFn) -> list[ResolvedPair]:
    pairs = st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)).filter(lambda pair: pair[0] != pair[1])
    chosen = sorted({pair_of(*pair) for pair in draw(st.lists(pairs, max_size=5))})
    return [ResolvedPair(*pair, "rule", draw(st.sampled_from((0.8, 0.9, 1.0)))) for pair in chosen]


def segments_of(groups: Sequence[Sequence[SegmentDocument]]) -> list[Segment]:
    return [Segment.open(pack_segment(group)) for group in groups]


def ordinals_of(items: Sequence[SegmentDocument]) -> FrozenBitMap:
    return FrozenBitMap([ordinal for item in items for ordinal in (item.version, item.publisher)])


def all_of(view: GraphView) -> tuple[object, ...]:
    """Everything that a view tells, bit by bit; places of strings are read, since they depend on the segments."""
    graph = view.graph
    columns = {
        name: getattr(graph, name)
        for name in graph.__slots__
        if name not in ("fragment_name", "fragment_type", "document_version", "document_publisher")
    }
    arrays: list[object] = []
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            arrays.append((name, column.dtype.str, column.shape, column.tobytes()))
        else:
            parts = (column.offsets, column.columns, column.values)
            arrays.append((name, column.width, *(part.tobytes() for part in parts)))
    texts = [
        (view.name(place), view.type(place), view.names(place), view.entity_records(place), view.versions_of(place))
        for place in range(len(view.entity_keys))
    ]
    records = [view.relation_records(place) for place in range(len(view.relation_ends))]
    return (*arrays, *texts, *records, view.page_rank.tobytes())


def file_of(view: GraphView) -> bytes:
    return b"".join(compiled_parts(view.graph))
