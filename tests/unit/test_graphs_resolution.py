"""Which names are one entity: the rules, the pairs that are compared, and how names are joined."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.blocking import MAX_PAIRS, NameIndex, candidate_pairs, pack_index, unpack_index
from corpusmesh_core.graphs.keys import entity_key, pair_of
from corpusmesh_core.graphs.name_rules import SimilarityRule, is_similar
from corpusmesh_core.graphs.names import NamedEntity, edit_distance
from corpusmesh_core.graphs.resolution import (
    ResolutionMethod,
    ResolvedPair,
    components,
    confirm_by_model,
    confirm_by_vectors,
    joined_pairs,
    judge,
    pack_pairs,
    pairs_that_hold,
    unpack_pairs,
)

_FIRST = ("Johann", "Johan", "Jakob", "Jacob", "Maria", "Marie", "Dr. Johann", "J.", "Catherine", "I.B.M", "IBM")
_LAST = ("Bernoulli", "Bernouli", "Euler", "Works", "Work", "Inc.", "Ltd", "II", "III", "of Basel", "")
_name = st.one_of(
    st.tuples(st.sampled_from(_FIRST), st.sampled_from(_LAST)).map(lambda parts: " ".join(parts).strip()),
    st.text("约翰伯努利欧拉公司一二 ·", min_size=1, max_size=6),
    st.text(max_size=8),
)
_entity = st.builds(NamedEntity, _name, st.sampled_from(["", "person", "organization", "category"]))
_pair = st.tuples(st.integers(1, 9), st.integers(1, 9)).filter(lambda pair: pair[0] < pair[1])


def _named(*names: str, kind: str = "") -> dict[int, NamedEntity]:
    return {entity_key(name): NamedEntity(name, kind) for name in names}


def _pairs(*pairs: tuple[int, int], score: float = 0.9) -> list[ResolvedPair]:
    return [ResolvedPair(a, b, "spelling", score) for a, b in pairs]


@pytest.mark.parametrize(
    ("one", "other", "kind", "reason"),
    [
        ("I.B.M.", "IBM", "organization", "same letters"),
        ("Wal-Mart Stores", "Walmart Stores", "", "same letters"),
        ("IL-6", "IL6", "", "same letters"),
        ("達·文西", "達文西", "person", "same letters"),
        ("Bernoulli, Johann", "Johann Bernoulli", "person", "same words in another order"),
        ("Jacob Bernoulli", "Jakob Bernoulli", "person", "spelling"),
        ("Johan Bernoulli", "Johann Bernoulli", "person", "spelling"),
        ("Rudolf Österreicher", "Rudolf Oesterreicher", "person", "spelling"),
        ("Fred Finkelhoffe", "Fred Finklehoffe", "person", "spelling"),
        ("randomised trial", "randomized trial", "category", "spelling"),
        ("haematopoietic cells", "hematopoietic cells", "", "spelling"),
        ("neural network", "neural networks", "", "singular and plural"),
        ("technology", "technologies", "category", "singular and plural"),
        ("Airspeed Limited", "Airspeed Ltd.", "organization", "legal form"),
        ("Tesla", "Tesla, Inc.", "organization", "legal form"),
        ("中國郵政", "中國郵政集團公司", "organization", "legal form"),
        ("Dr. John Smith", "John Smith", "person", "title of a person"),
        ("博米尔·弗尔奇科斯基", "博米尔·弗尔奇科夫斯基", "person", "transcription"),
    ],
)
def test_names_that_differ_in_how_they_are_written_are_one(one: str, other: str, kind: str, reason: str) -> None:
    verdict = is_similar(NamedEntity(one, kind), NamedEntity(other, kind))
    assert (verdict.similar, verdict.reason) == (True, reason)
    names = _named(one, other, kind=kind)
    assert len(judge(names, candidate_pairs(names)).same) == 1


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("Johann Bernoulli", "Jakob Bernoulli", "person"),
        ("Maria Schmidt", "Marie Schmidt", "person"),
        ("World War I", "World War II", "event"),
        ("Henry IV", "Henry V", "person"),
        ("First Symphony", "Second Symphony", ""),
        ("Windows 95", "Windows 98", ""),
        ("version 1.1", "version 11", ""),
        ("North Korea", "South Korea", "geo"),
        ("Monterey", "Monterrey", "geo"),
        ("Iran", "Iraq", "geo"),
        ("Austria", "Australia", "geo"),
        ("Slovakia", "Slovenia", "geo"),
        ("George Lloyd", "Lloyd George", "person"),
        ("George Eliot", "George Elliott", "person"),
        ("George W. Bush", "George Bush", "person"),
        ("Michael Herr", "Michel Herr", "person"),
        ("Mrs. John Wood", "John Wood", "person"),
        ("King of Metz", "Bishop of Metz", "person"),
        ("princess", "princes", "category"),
        ("Coffee Company", "Coffee", ""),
        ("World Record", "World Records", ""),
        ("The Drive", "drives", ""),
        ("I'm", "IM", ""),
        ("Fr", "F. R.", ""),
        ("II-IV", "III-V", ""),
        ("北京大学", "南京大学", "organization"),
        ("上海市第一人民医院", "上海市第二人民医院", "organization"),
        ("史蒂芬·霍金", "史蒂芬·金", "person"),
        ("河南省", "湖南省", "geo"),
        ("张伟", "张伟明", "person"),
        ("法國傳教士", "法國教士", ""),
        ("...", "!!!", ""),
    ],
)
def test_names_of_different_things_are_not_joined_without_confirmation(one: str, other: str, kind: str) -> None:
    assert not is_similar(NamedEntity(one, kind), NamedEntity(other, kind)).similar


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("Johann Bernoulli", "Jakob Bernoulli", True),
        ("World War I", "World War II", True),
        ("Windows 95", "Windows 98", False),
        ("abcdef", "abcxyz", True),
        ("abcdef", "abwxyz", False),
        ("上海市第一人民医院", "上海市第二人民医院", True),
        ("北京大学", "南京大学", False),
        ("河南省", "湖南省", True),
        ("张三", "李四", False),
    ],
)
def test_the_rule_of_the_seed_is_there_as_it_is(one: str, other: str, is_one: bool) -> None:
    assert is_similar(NamedEntity(one), NamedEntity(other), SimilarityRule.SEED).similar == is_one


def test_the_rule_of_the_seed_keeps_to_types() -> None:
    one, other = NamedEntity("Jordan", "person"), NamedEntity("Jordan", "geo")
    assert not is_similar(one, other, SimilarityRule.SEED).similar
    assert not is_similar(one, other).similar
    assert is_similar(one, NamedEntity("Jordan")).similar


@pytest.mark.parametrize(
    ("one", "other", "is_doubtful"),
    [
        ("IBM", "International Business Machines", True),
        ("George W. Bush", "George Bush", True),
        ("Lloyd George", "George Lloyd", True),
        ("Johann Bernoulli", "Johannes Bernoulli", True),
        ("Johann Bernoulli", "Jakob Bernoulli", False),
        ("Duke of Bourbon", "Duke of Burgundy", False),
        ("World War I", "World War II", False),
        ("North Korea", "South Korea", False),
        ("apple", "orange", False),
    ],
)
def test_names_that_may_be_one_are_left_to_vectors_or_a_model(one: str, other: str, is_doubtful: bool) -> None:
    names = _named(one, other)
    judgement = judge(names, [pair_of(*names)])
    assert judgement.same == ()
    assert bool(judgement.doubtful) == is_doubtful
    if is_doubtful:
        assert candidate_pairs(names) == [pair_of(*names)]


@given(_entity, _entity, st.sampled_from(SimilarityRule))
@settings(deadline=None)
def test_it_does_not_matter_which_name_comes_first(one: NamedEntity, other: NamedEntity, rule: SimilarityRule) -> None:
    assert is_similar(one, other, rule) == is_similar(other, one, rule)


@given(st.text("abc ", max_size=12), st.text("abc ", max_size=12), st.integers(0, 12))
@settings(deadline=None)
def test_edit_distance_counts_changes(one: str, other: str, at_most: int) -> None:
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row = row, [at]
        for place, counterpart in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[place] + 1, before[place - 1] + (letter != counterpart)))
    assert edit_distance(one, other, at_most) == min(row[-1], at_most + 1)


@given(st.lists(_entity, max_size=25), st.randoms())
@settings(deadline=None)
def test_what_is_resolved_does_not_depend_on_the_order_of_names(
    entities: list[NamedEntity], dice: random.Random
) -> None:
    named = [(entity_key(entity.name), entity) for entity in entities if entity_key(entity.name)]
    names = dict(sorted(named, key=lambda item: (item[0], item[1].name, item[1].type)))
    shuffled = list(names.items())
    dice.shuffle(shuffled)
    pairs = candidate_pairs(names)
    assert candidate_pairs(dict(shuffled)) == pairs
    assert all(a < b for a, b in pairs)
    judgement = judge(names, pairs)
    assert judge(dict(shuffled), [(b, a) for a, b in reversed(pairs)]) == judgement
    assert components(judgement.same, names) == components(list(reversed(judgement.same)), set(names))


@given(st.lists(_entity, max_size=14))
@settings(deadline=None)
def test_no_name_that_the_rule_joins_is_lost_for_want_of_comparison(entities: list[NamedEntity]) -> None:
    names = {entity_key(entity.name): entity for entity in entities if entity_key(entity.name)}
    every = judge(names, list(itertools.combinations(sorted(names), 2))).same
    # Chains suffice: a name may have more variants than it is compared with.
    if all(sum(key in (pair.a, pair.b) for pair in every) <= 3 for key in names):
        found = judge(names, candidate_pairs(names)).same
        assert components(found, names) == components(every, names)


@given(st.lists(_entity, min_size=1, max_size=40), st.integers(0, 39))
@settings(deadline=None)
def test_a_new_name_has_a_bounded_number_of_pairs(entities: list[NamedEntity], split: int) -> None:
    names = {entity_key(entity.name): entity for entity in entities if entity_key(entity.name)}
    new = sorted(names)[split:]
    index = NameIndex.of({key: names[key] for key in sorted(names)[:split]}).joined(
        NameIndex.of({key: names[key] for key in new})
    )
    pairs = index.pairs(new)
    assert pairs == candidate_pairs(names, new)
    assert all(set(pair) & set(new) for pair in pairs)
    assert len(pairs) <= MAX_PAIRS * len(new)


def test_the_number_of_pairs_of_a_new_name_does_not_grow_with_the_number_of_names() -> None:
    rng = np.random.default_rng(5)
    syllables = ["ka", "ro", "mi", "ten", "sol", "ber", "nou", "li", "eu", "ler", "ba", "sel"]
    counts = []
    for count in (500, 5000):
        names = _named(
            *(f"{''.join(rng.choice(syllables, 2))} {''.join(rng.choice(syllables, 3))}".title() for _ in range(count))
        )
        new = sorted(names)[:50]
        counts.append(len(candidate_pairs(names, new)) / len(new))
    assert max(counts) <= MAX_PAIRS


def test_an_index_without_names_that_are_gone_is_as_if_they_had_never_been() -> None:
    names = _named("Jakob Bernoulli", "Jacob Bernoulli", "Johann Bernoulli", "Leonhard Euler", "欧拉")
    gone = entity_key("Jacob Bernoulli")
    rest = {key: entity for key, entity in names.items() if key != gone}
    left = NameIndex.of(names).limited_to(np.array(sorted(rest), dtype=np.uint64))
    assert left.pairs() == NameIndex.of(rest).pairs()
    assert pack_index(left) == pack_index(NameIndex.of(rest))
    read = unpack_index(pack_index(left))
    assert read.pairs() == left.pairs()
    with pytest.raises(InvalidArgumentError):
        unpack_index(pack_index(left)[:-4])


@given(st.lists(_pair, max_size=12), st.sets(st.integers(1, 9)), st.lists(_pair, max_size=4))
@settings(deadline=None)
def test_names_are_joined_by_what_is_visible_alone(
    pairs: list[tuple[int, int]], visible: set[int], apart: list[tuple[int, int]]
) -> None:
    joined = components(_pairs(*pairs), visible, apart)
    assert set(joined) <= visible
    seen = [pair for pair in pairs if set(pair) <= visible]
    assert components(_pairs(*seen), visible, [pair for pair in apart if set(pair) <= visible]) == joined
    for key, first in joined.items():
        assert first == min(other for other, its in joined.items() if its == joined[key])
    for a, b in apart:
        if {a, b} <= visible:
            assert joined.get(a, a) != joined.get(b, b)
    if not apart:
        assert all(joined.get(a, a) == joined.get(b, b) for a, b in seen)


def test_of_two_pairs_that_cannot_both_join_the_surer_one_does() -> None:
    pairs = [*_pairs((1, 2), score=0.8), *_pairs((2, 3), score=0.9)]
    assert components(pairs, range(10), [(1, 3)]) == {2: 2, 3: 2}
    assert joined_pairs(pairs[::-1], range(10), [(1, 3)]) == [(2, 3)]


def test_a_hidden_name_joins_nothing_and_keeps_nothing_apart() -> None:
    pairs = _pairs((1, 2), (2, 3))
    assert components(pairs, {1, 3}) == {}
    assert components(pairs, {1, 2, 3}) == {1: 1, 2: 1, 3: 1}
    assert components(pairs, {1, 2}, [(1, 3)]) == {1: 1, 2: 1}


def test_vectors_confirm_pairs_that_are_similar() -> None:
    vectors = {1: np.array([1.0, 0.0]), 2: np.array([0.99, 0.1]), 3: np.array([0.0, 1.0]), 4: np.zeros(2)}
    found = confirm_by_vectors([(1, 3), (1, 2), (1, 4), (1, 5)], vectors)
    assert [(pair.a, pair.b, pair.method) for pair in found] == [(1, 2, ResolutionMethod.EMBEDDING)]
    assert found[0].score == pytest.approx(0.995, abs=1e-3)


def test_a_model_that_says_nothing_joins_nothing() -> None:
    found = confirm_by_model([(3, 4), (1, 2), (5, 6)], [None, True, False])
    assert [(pair.a, pair.b, pair.method) for pair in found] == [(1, 2, ResolutionMethod.LLM)]


def test_pairs_of_an_earlier_build_hold_while_both_names_are_there_and_may_be_one() -> None:
    names = _named("Jakob Bernoulli", "Jacob Bernoulli", "J. Bernoulli", kind="person")
    jakob, jacob, initial = names
    rule = ResolvedPair(*pair_of(jakob, jacob), "spelling", 0.8)
    asked = ResolvedPair(*pair_of(jakob, initial), "a language model says so", 0.9, ResolutionMethod.LLM)
    wrong = ResolvedPair(*pair_of(jacob, initial), "spelling", 0.8)
    assert pairs_that_hold([rule, asked, wrong], names) == (rule, asked)
    assert pairs_that_hold([rule, asked], {key: names[key] for key in (jakob, initial)}) == (asked,)
    other_types = names | {jacob: NamedEntity("Jacob Bernoulli", "organization")}
    assert pairs_that_hold([rule], other_types) == ()


@given(
    st.lists(
        st.builds(
            ResolvedPair,
            st.integers(1, 2**64 - 2),
            st.just(2**64 - 1),
            st.sampled_from(["spelling", "same letters", "理由"]),
            st.floats(0, 1),
            st.sampled_from(ResolutionMethod),
        ),
        max_size=8,
    )
)
@settings(deadline=None)
def test_pairs_are_read_as_they_were_written(pairs: list[ResolvedPair]) -> None:
    packed = pack_pairs(pairs)
    assert list(unpack_pairs(packed)) == sorted(pairs)
    assert pack_pairs(pairs[::-1]) == packed
    with pytest.raises(InvalidArgumentError):
        unpack_pairs(packed[:-2])
