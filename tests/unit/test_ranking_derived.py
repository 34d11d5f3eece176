import pytest

from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import (
    RankingOptions,
    derived_kinds,
    lift_by_derived,
    links_to_fetch,
    rank_candidates,
)
from corpusmesh_core.ranking.derived import PENALTY_BY_KIND
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze, analyze_query

OPTIONS = RankingOptions()
TERMS = analyze_query("alpha beta")


def _candidate(
    record_id: str,
    cosine: float | None,
    *,
    kind: RecordKind = RecordKind.CHUNK,
    links: tuple[str, ...] = (),
    text: str = "gamma",
) -> Candidate:
    record = Record(record_id, kind, "kb", Ordinal(1), (Ordinal(1),), text, links=links)
    return Candidate(record, text, script="spaced", lexical_score=0.0, cosine=cosine)


CHUNKS = rank_candidates(Candidates(tuple(_candidate(f"c{i}", 0.9 - i / 100) for i in range(5))), TERMS, OPTIONS)


def test_a_statement_lifts_its_chunk_and_is_named() -> None:
    made = rank_candidates(
        Candidates((_candidate("p", 0.96, kind=RecordKind.PROPOSITION, links=("c4",)),)), TERMS, OPTIONS
    )
    lifted = lift_by_derived(CHUNKS, made, OPTIONS)
    assert lifted[0].candidate.record.record_id == "c4"
    assert lifted[0].via_record_ids == ("p",)
    assert lifted[0].similarity == pytest.approx(made[0].similarity)
    assert [item.candidate.record.record_id for item in lifted[1:]] == ["c0", "c1", "c2", "c3"]
    assert all(item.via_record_ids == () for item in lifted[1:])


def test_a_question_is_worth_less_than_its_similarity() -> None:
    made = rank_candidates(
        Candidates((_candidate("q", 0.92, kind=RecordKind.QUESTION, links=("c4",)),)), TERMS, OPTIONS
    )
    own = next(item.similarity for item in CHUNKS if item.candidate.record.record_id == "c4")
    assert made[0].similarity > own
    lifted = lift_by_derived(CHUNKS, made, OPTIONS)
    [chunk] = [item for item in lifted if item.candidate.record.record_id == "c4"]
    assert chunk.similarity == pytest.approx(max(own, made[0].similarity - PENALTY_BY_KIND[RecordKind.QUESTION]))


def test_a_summary_lifts_the_chunk_that_fits_best_and_the_others_half_as_much_each() -> None:
    made = rank_candidates(
        Candidates((_candidate("s", 1.0, kind=RecordKind.SUMMARY, links=("c3", "c1", "c2")),)), TERMS, OPTIONS
    )
    own = {item.candidate.record.record_id: item.similarity for item in CHUNKS}
    score = made[0].similarity - PENALTY_BY_KIND[RecordKind.SUMMARY]
    lifted = {item.candidate.record.record_id: item for item in lift_by_derived(CHUNKS, made, OPTIONS)}
    for record_id, share in (("c1", 1.0), ("c2", 0.5), ("c3", 0.25)):
        expected = own[record_id] + share * (score - own[record_id])
        assert lifted[record_id].similarity == pytest.approx(expected)
        assert lifted[record_id].via_record_ids == ("s",)
    assert lifted["c0"] == CHUNKS[0]


def test_a_poor_derived_record_changes_nothing() -> None:
    made = rank_candidates(
        Candidates((_candidate("p", 0.75, kind=RecordKind.PROPOSITION, links=("c0", "unknown")),)), TERMS, OPTIONS
    )
    assert lift_by_derived(CHUNKS, made, OPTIONS) == CHUNKS


def test_only_chunks_that_nothing_else_found_are_read() -> None:
    made = rank_candidates(
        Candidates(
            (
                _candidate("p", 0.96, kind=RecordKind.PROPOSITION, links=("new",)),
                _candidate("known", 0.95, kind=RecordKind.PROPOSITION, links=("c1",)),
                _candidate("s", 0.94, kind=RecordKind.SUMMARY, links=("c1", "beside")),
                _candidate("far", 0.9, kind=RecordKind.SUMMARY, links=tuple(f"far{i}" for i in range(9))),
            )
        ),
        TERMS,
        OPTIONS,
    )
    known = {item.candidate.record.record_id for item in CHUNKS}
    assert links_to_fetch(made, known, max_count=10) == ("new", "far0", "far1", "far2", "far3")
    assert links_to_fetch(made, known, max_count=2) == ("new", "far0")


def test_kinds_that_are_asked_for_are_returned_as_themselves() -> None:
    assert set(derived_kinds([RecordKind.CHUNK])) == set(PENALTY_BY_KIND)
    assert RecordKind.SUMMARY not in derived_kinds([RecordKind.CHUNK, RecordKind.SUMMARY])
    assert derived_kinds([RecordKind.QUESTION]) == ()


def test_words_alone_do_not_make_a_record_without_a_vector_equal_to_the_question() -> None:
    terms = analyze_query("annual leave")
    entry = " ".join(analyze("Handbook of the company: annual leave of people who work part time").fine)
    toc = _candidate("toc", None, kind=RecordKind.TOC, text=entry)
    chunk = _candidate("chunk", 0.93, text=" ".join(analyze("Annual leave is 25 days").fine))
    for items in ((toc, chunk), (toc,)):
        found = rank_candidates(Candidates(items, has_vector_leg=True), terms, OPTIONS)
        [entry_found] = [item for item in found if item.candidate.record.record_id == "toc"]
        assert entry_found.explanation.lexical.similarity == pytest.approx(1.0)
        assert entry_found.similarity < 0.7
        assert found[-1] is entry_found
    equal = _candidate("toc", None, kind=RecordKind.TOC, text=" ".join(terms.fine))
    assert rank_candidates(Candidates((equal,), has_vector_leg=True), terms, OPTIONS)[0].similarity == pytest.approx(1)
