from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankingOptions, rank_candidates, term_coverage
from corpusmesh_core.ranking.scoring import similarities
from corpusmesh_core.ranking.signals import term_density
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import Alternative, QueryTerms, analyze_query

TERMS = analyze_query("red car price")
WEIGHTS = np.ones(len(TERMS.fine))


def _candidate(text: str, *, keywords: str = "", cosine: float | None = None) -> Candidate:
    record = Record(text, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text)
    return Candidate(record, text, keyword_terms=keywords, script="spaced", lexical_score=0.0, cosine=cosine)


def _coverage(terms: QueryTerms, *texts: str) -> list[float]:
    candidates = [_candidate(text) for text in texts]
    return [float(value) for value in term_coverage(terms, WEIGHTS, candidates, bigram_share=0.0)]


def test_an_alternative_covers_the_terms_it_stands_for_at_its_weight() -> None:
    terms = replace(
        TERMS,
        alternatives=(Alternative(("car",), ("motor", "vehicl"), 0.5), Alternative(("red", "car"), ("rc",), 0.25)),
    )
    found = _coverage(terms, "red motor vehicl", "red vehicl motor", "car motor vehicl", "rc", "x")
    assert found == pytest.approx([1.5 / 3, 1 / 3, 1 / 3, 0.5 / 3, 0.0])


def test_an_alternative_of_a_term_that_was_cut_changes_nothing() -> None:
    terms = replace(TERMS, alternatives=(Alternative(("gone",), ("red",), 0.5), Alternative(("car",), (), 1.0)))
    assert _coverage(terms, "red", "x") == _coverage(TERMS, "red", "x")


def test_emphasis_weighs_terms_beside_their_rarity() -> None:
    terms = replace(TERMS, emphasis={"red": 2.0, "price": 0.5})
    assert _coverage(terms, "red", "car", "price") == pytest.approx([2 / 3.5, 1 / 3.5, 0.5 / 3.5])


def test_density_is_the_share_of_a_records_terms_that_were_asked_for() -> None:
    texts = ["red car price", "red x", "x y", ""]
    found = term_density(TERMS, WEIGHTS, [_candidate(text) for text in texts])
    assert list(found) == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert list(term_density(analyze_query(""), np.zeros(0), [_candidate("x")])) == [0.0]


def test_bare_similarities_are_those_of_the_explained_order() -> None:
    rng = np.random.default_rng(20261130)
    words = ["red", "car", "price", "x", "y", "颜色"]
    for _ in range(30):
        items = tuple(
            _candidate(
                " ".join(dict.fromkeys([*rng.choice(words, size=3), f"n{place}"])),
                cosine=None if rng.random() < 0.2 else float(rng.uniform(0.6, 1.0)),
            )
            for place in range(8)
        )
        found = Candidates(items, has_vector_leg=True)
        bare = dict(
            zip((item.record.record_id for item in items), similarities(found, TERMS, RankingOptions()), strict=True)
        )
        for item in rank_candidates(found, TERMS, RankingOptions()):
            assert bare[item.candidate.record.record_id] == pytest.approx(item.similarity)
    assert similarities(Candidates(()), TERMS, RankingOptions()).shape == (0,)
