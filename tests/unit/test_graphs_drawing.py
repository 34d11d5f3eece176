"""Drawings of neighbourhoods: every entity once, every relation once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.drawing import DrawnEntity, DrawnRelation, draw_neighbourhood

HARBOUR = [
    DrawnEntity("a", "Anna Berg", "person"),
    DrawnEntity("b", "Harbour Board", "organization", 1),
    DrawnEntity("c", "Carl Dahl", "", 1),
    DrawnEntity("q", "North Quay", "geo", 2),
]


def test_a_drawing_leads_from_the_middle_outwards_over_the_strongest_relations() -> None:
    relations = [
        DrawnRelation("a", "b", "chairs", 2.0),
        DrawnRelation("c", "a", "met", 1.0),
        DrawnRelation("b", "q", "", 0.5),
        DrawnRelation("c", "b", "advises", 0.1),
    ]
    assert [str(line) for line in draw_neighbourhood(HARBOUR, relations)] == [
        "Anna Berg (person)",
        "├─ chairs → Harbour Board (organization)",
        "│  └─ – North Quay (geo)",
        "└─ ← met Carl Dahl",
        "Carl Dahl – advises → Harbour Board",
    ]


def test_an_entity_alone_is_drawn_alone_and_nothing_as_nothing() -> None:
    assert [str(line) for line in draw_neighbourhood(HARBOUR[:1], [DrawnRelation("a", "b")])] == ["Anna Berg (person)"]
    assert draw_neighbourhood([], []) == []


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[DrawnEntity], list[DrawnRelation]]:
    hops = [0, *sorted(draw(st.lists(st.integers(1, 4), max_size=12)))]
    # No hop is left out: whatever is reached was reached over something nearer.
    levels = {hop: place for place, hop in enumerate(sorted(set(hops)))}
    entities = [DrawnEntity(f"k{place}", f"Name {place}", hops=levels[hop]) for place, hop in enumerate(hops)]
    relations = []
    for entity in entities[1:]:
        near = draw(st.sampled_from([one for one in entities if one.hops == entity.hops - 1]))
        relations.append(DrawnRelation(near.key, entity.key, draw(st.sampled_from(["", "knows"]))))
    pairs = {frozenset({one.source, one.target}) for one in relations}
    for _ in range(draw(st.integers(0, 8))):
        ends = (
            draw(st.lists(st.sampled_from(entities), min_size=2, max_size=2, unique_by=lambda one: one.key))
            if len(entities) > 1
            else []
        )
        key = frozenset(one.key for one in ends)
        if len(ends) == 2 and key not in pairs and abs(ends[0].hops - ends[1].hops) <= 1:
            pairs.add(key)
            relations.append(DrawnRelation(ends[0].key, ends[1].key, weight=draw(st.floats(0.1, 9))))
    return entities, draw(st.permutations(relations))


@settings(deadline=None)
@given(graphs())
def test_every_entity_and_every_relation_is_drawn_once(graph: tuple[list[DrawnEntity], list[DrawnRelation]]) -> None:
    entities, relations = graph
    lines = draw_neighbourhood(entities, relations)
    assert len(lines) == 1 + len(relations)
    in_tree = [line for line in lines if line.guide or not line.weight]
    assert sorted(line.text for line in in_tree) == sorted(one.title for one in entities)
