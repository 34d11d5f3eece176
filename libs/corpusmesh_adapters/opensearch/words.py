"""Full-text queries of a question: of terms alone, never of query syntax."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from corpusmesh_adapters.opensearch.filters import Query
from corpusmesh_core.text import Alternative, QueryTerms

_FIELD_WEIGHTS = (
    # Fine terms carry the recall, words add precision, and a title counts a second time (bench/fusion_study.py).
    ("content_fine", "fine", 1.0),
    ("content_coarse", "coarse", 0.5),
    ("title_fine", "fine", 0.2),
    ("keywords_fine", "fine", 0.5),
    ("questions_fine", "fine", 0.5),
)
_HELD_IN = ("content_fine", "keywords_fine", "questions_fine")
"""Where a term counts as held, as in `corpusmesh_core.ranking.signals`; the content has the title too."""
_MAX_PREFIX_TERMS = 3
_PAIR_BOOST = 2.0
_MAX_PAIRS = 32
_MAX_ALTERNATIVES = 32


def lexical_query(terms: QueryTerms, *, proximity: bool = False) -> Query:
    """Make the BM25 query of a question.

    Args:
        terms: Bounded terms, at least one.
        proximity: Whether neighbouring terms that stand side by side count beside the terms themselves.

    Returns:
        A scoring query.
    """
    clauses = [
        {"match": {field: {"query": " ".join(group), "boost": boost * factor}}}
        for field, form, boost in _FIELD_WEIGHTS
        for factor, group in _by_emphasis(terms.fine if form == "fine" else terms.coarse, terms.emphasis)
    ]
    clauses += [{"match_phrase": {"content_fine": {"query": " ".join(phrase)}}} for phrase in terms.phrases]
    clauses += [
        _phrase_query(field, alternative.phrase, boost * alternative.weight)
        for alternative in _usable(terms.alternatives)
        for field, form, boost in _FIELD_WEIGHTS
        if form == "fine"
    ]
    if proximity:
        # The seed writes `"first second"^2` for every pair of neighbours.
        clauses += [_phrase_query("content_fine", pair, _PAIR_BOOST) for pair in terms.bigrams[:_MAX_PAIRS]]
    if len(terms.fine) <= _MAX_PREFIX_TERMS:
        # One character of a script without spaces is a term only where it stands alone; elsewhere it begins a pair.
        clauses += [
            {"prefix": {"content_fine": {"value": term, "rewrite": "top_terms_32"}}}
            for term in terms.fine
            if len(term) == 1 and ord(term) > 0x0E00
        ]
    return {"bool": {"should": clauses, "minimum_should_match": 1}}


def titles_query(titles: Sequence[tuple[str, ...]]) -> Query:
    """Make the query for records whose title or headings hold one of some names.

    Args:
        titles: Names as their fine terms, at least one.

    Returns:
        A scoring query: the rarer the name and the shorter the title, the better, so that the many titles that hold a
        common name do not crowd out the one that is another name.
    """
    return {"dis_max": {"queries": [_phrase_query("title_fine", title) for title in titles]}}


def admission_query(terms: QueryTerms, share: float) -> Query:
    """Make the condition that a record holds a share of the terms.

    Args:
        terms: Bounded terms, at least one.
        share: 0 to 1; at least one term must be held whatever the share.

    Returns:
        A query for a filter context.
    """
    alternatives: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for alternative in _usable(terms.alternatives):
        for term in alternative.replaced:
            alternatives[term].append(alternative.phrase)
    clauses: list[Query] = [
        {
            "bool": {
                "should": [
                    _phrase_query(field, phrase) for phrase in ((term,), *alternatives[term]) for field in _HELD_IN
                ]
            }
        }
        for term in terms.fine
    ]
    return {"bool": {"should": clauses, "minimum_should_match": max(1, int(share * len(clauses)))}}


def _by_emphasis(terms: Sequence[str], emphasis: Mapping[str, float]) -> Iterator[tuple[float, list[str]]]:
    """Group terms by their factor: BM25 adds up terms, so a group with one boost is the sum of its terms."""
    groups: dict[float, list[str]] = {}
    for term in terms:
        groups.setdefault(round(emphasis.get(term, 1.0), 2), []).append(term)
    yield from groups.items()


def _usable(alternatives: Sequence[Alternative]) -> Sequence[Alternative]:
    return [item for item in alternatives if item.phrase and item.weight > 0.0][:_MAX_ALTERNATIVES]


def _phrase_query(field: str, phrase: Sequence[str], boost: float = 1.0) -> Query:
    if len(phrase) == 1:
        return {"term": {field: {"value": phrase[0], "boost": boost}}}
    return {"match_phrase": {field: {"query": " ".join(phrase), "boost": boost}}}
