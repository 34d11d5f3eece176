"""Entities and relations that are found without a model."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.extraction import (
    extract_entities,
    from_triples,
    merge_subgraphs,
    names_in,
    sentences,
)
from corpusmesh_core.graphs.extraction.occurrences import subjects_of
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import EntityFragment, GraphChunk, Mention, RelationFragment, Subgraph, Triple

SETTINGS = GraphSettings(methods=(GraphMethod.NER,))
TEUTBERGA = (
    "Teutberga (died 11 November 875) was a queen of Lotharingia by marriage to Lothair II. She was a daughter of "
    "Boso the Elder and sister of Hucbert."
)


def extracted(*texts: str, title: str = "") -> Subgraph:
    return extract_entities([GraphChunk(place, text, title) for place, text in enumerate(texts)], SETTINGS)


def names_of(graph: Subgraph) -> dict[str, EntityFragment]:
    return {entity.name: entity for entity in graph.entities}


def relation_of(graph: Subgraph, first: str, second: str) -> RelationFragment | None:
    pair = pair_of(entity_key(first), entity_key(second))
    return next((found for found in graph.relations if pair_of(found.source, found.target) == pair), None)


def test_names_of_english_begin_and_end_where_they_should() -> None:
    names = names_of(extracted(TEUTBERGA))
    assert {"Teutberga", "Lotharingia", "Lothair II", "Boso the Elder", "Hucbert"} <= names.keys()
    assert not {"She", "November", "A"} & names.keys()


def test_what_a_text_begins_by_explaining_is_what_it_is_about() -> None:
    names = names_of(extracted(TEUTBERGA))
    assert names["Teutberga"].mentions[0].weight > 2 * names["Lothair II"].mentions[0].weight
    assert names["Teutberga"].type == "person"


def test_a_relation_keeps_its_sentence_and_says_how() -> None:
    relation = relation_of(extracted(TEUTBERGA), "Teutberga", "Boso the Elder")
    assert relation is not None
    assert relation.sentence.startswith("She was a daughter of Boso the Elder")
    assert relation.predicate == "She was a daughter of"


def test_names_and_nouns_of_chinese_are_found() -> None:
    names = names_of(extracted("高畑勋毕业于东京大学。埃尔南·科尔特斯率领军队到达浙江省嘉兴市海盐县。"))
    assert {"高畑勋", "东京大学", "埃尔南·科尔特斯", "浙江省嘉兴市海盐县"} <= names.keys()
    assert names["东京大学"].type == "organization"


def test_a_short_form_is_a_mention_of_the_full_name() -> None:
    graph = extracted("Leonhard Euler lived in Basel.", "Later Euler moved to Berlin.")
    names = names_of(graph)
    assert "Euler" not in names
    assert [mention.position for mention in names["Leonhard Euler"].mentions] == [0, 1]


def test_an_acronym_in_brackets_is_an_alias() -> None:
    graph = extracted("The World Health Organization (WHO) is in Geneva. In 1950 WHO opened an office.")
    assert "WHO" in names_of(graph)["World Health Organization"].aliases


def test_a_noble_title_is_no_part_of_the_key() -> None:
    key = entity_key("Eric XIV of Sweden")
    for text in ("She married King Eric XIV of Sweden.", "She married Eric XIV of Sweden."):
        assert key in {entity.key for entity in extracted(text).entities}


def test_a_title_with_an_addition_leads_from_its_bare_form_too() -> None:
    keys = {entity.key for entity in extracted("It was directed by Tim Burton.", title="Planet (2001 film)").entities}
    assert {entity_key("Planet (2001 film)"), entity_key("Planet")} <= keys


def test_no_chunk_has_more_relations_than_the_settings_allow() -> None:
    text = " ".join(f"Anna Berg{place} met Otto Klein{place} and Karl Gross{place}." for place in range(50))
    graph = extract_entities([GraphChunk(0, text)], GraphSettings(methods=(GraphMethod.NER,), max_chunk_relations=5))
    assert 0 < len(graph.relations) <= 5


def test_ends_of_relations_are_entities_and_order_is_by_key() -> None:
    graph = extracted(TEUTBERGA, "Hucbert fled to Boso the Elder.", title="Teutberga")
    keys = [entity.key for entity in graph.entities]
    assert keys == sorted(set(keys))
    assert all(found.source in keys and found.target in keys for found in graph.relations)
    pairs = [pair_of(found.source, found.target) for found in graph.relations]
    assert pairs == sorted(set(pairs))


def test_the_order_of_chunks_changes_nothing() -> None:
    chunks = [GraphChunk(place, text) for place, text in enumerate((TEUTBERGA, "Hucbert met Boso the Elder."))]
    assert extract_entities(chunks, SETTINGS) == extract_entities(chunks[::-1], SETTINGS)


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"Anna{place} Berg{place}," for place in range(10_000)),
        "Abcd efgh " * 100_000,
        "." * 1_000_000,
        "《" * 200_000,
        "A" * 1_000_000,
        "约·" * 200_000,
        "\n" * 500_000 + "Ab",
    ],
    ids=["names", "no stop", "dots", "quotes", "one word", "dotted", "lines"],
)
def test_hostile_texts_give_little(text: str) -> None:
    graph = extracted(text)
    assert len(graph.entities) <= 24
    assert len(graph.relations) <= SETTINGS.max_chunk_relations
    assert len(names_in(text)) <= 1_000


@given(st.text(max_size=400), st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_any_text_gives_a_sound_graph(text: str, title: str) -> None:
    graph = extracted(text, title=title)
    keys = {entity.key for entity in graph.entities}
    assert 0 not in keys
    for entity in graph.entities:
        assert entity.name
        assert entity.mentions
    for relation in graph.relations:
        assert relation.source != relation.target
        assert {relation.source, relation.target} <= keys
        assert relation.weight > 0.0


def test_sentences_do_not_end_at_abbreviations() -> None:
    assert sentences("Dr. Smith met J. R. Doe. They left!") == ("Dr. Smith met J. R. Doe.", "They left!")
    assert sentences("他来了。她走了！") == ("他来了。", "她走了！")


def test_a_question_gives_its_names_before_its_rows() -> None:
    names = names_in("Who is the father of Hermann II of Hesse?")
    assert names[0] == "Hermann II of Hesse"
    assert "father of Hermann II" in names
    assert "欧拉" in names_in("欧拉的老师是谁")


def test_facts_of_the_user_stand_where_their_passage_stands() -> None:
    chunks = [GraphChunk(0, "Nothing here."), GraphChunk(1, "Jakob was the older brother of Johann Bernoulli.")]
    graph = from_triples([Triple("Jakob", "older brother of", "Johann Bernoulli", "the older brother of")], chunks)
    assert [relation.mentions for relation in graph.relations] == [(Mention(1),)]
    assert graph.relations[0].description == "Jakob older brother of Johann Bernoulli"
    assert {entity.name for entity in graph.entities} == {"Jakob", "Johann Bernoulli"}


def test_a_fact_that_stands_nowhere_can_still_be_cited() -> None:
    graph = from_triples([Triple("A1", "knows", "B1"), Triple("", "knows", "B1")], [GraphChunk(3, "Other words.")])
    assert graph.relations[0].mentions == (Mention(3),)
    assert len(graph.relations) == 1


def parts() -> list[Subgraph]:
    triples = [
        Triple("Teutberga", "wife of", "Lothair II"),
        Triple("Lothair II", "king of", "Lotharingia", "", "person"),
    ]
    return [
        extracted(TEUTBERGA),
        extracted(TEUTBERGA, "Lothair II met Hucbert.", title="Teutberga"),
        from_triples(triples, [GraphChunk(0, TEUTBERGA)]),
        Subgraph(),
    ]


def test_merging_is_commutative_associative_and_idempotent() -> None:
    given_parts = parts()
    whole = merge_subgraphs(given_parts)
    dice = random.Random(7)
    for _ in range(20):
        dice.shuffle(given_parts)
        cut = dice.randrange(len(given_parts) + 1)
        first, second = merge_subgraphs(given_parts[:cut]), merge_subgraphs(given_parts[cut:])
        assert merge_subgraphs([first, second]) == whole
    assert merge_subgraphs([whole, whole]) == whole


def test_merging_keeps_the_methods_of_all() -> None:
    merged = names_of(merge_subgraphs(parts()))
    assert merged["Teutberga"].methods == (GraphMethod.NER, GraphMethod.TRIPLES)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("3.1 Traces", "Traces"),
        ("3.6.6 Activating RCAC", "Activating RCAC"),
        ("7. Evaluation Setup", "Evaluation Setup"),
        ("Chapter 2: Row Permissions", "Row Permissions"),
        ("A.2 Proof Trees", "Proof Trees"),
        ("第三章 货物运输", "货物运输"),
        ("二、合同责任", "合同责任"),
        ("Apollo 11", "Apollo 11"),
    ],
)
def test_what_counts_a_heading_is_no_part_of_the_name_of_what_it_is_about(heading, name):
    assert subjects_of(GraphChunk(0, "x", heading_path=(heading,))) == (name,)


def test_a_title_keeps_the_number_that_it_begins_with():
    assert subjects_of(GraphChunk(0, "x", title="1. FC Nürnberg")) == ("1. FC Nürnberg",)
