"""Sections of a table of contents, and sentences of evidence: what is chosen for a question."""

from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_core.assembly import candidate_of
from corpusmesh_core.assembly.compression import (
    CompressionSettings,
    choose_sentences,
    compress_records,
    long_records,
    mix_sentence_cosines,
    record_sentences,
    sentence_scores,
    sentences_to_embed,
)
from corpusmesh_core.assembly.toc import (
    TocSection,
    TocSettings,
    apply_toc,
    best_version,
    chunk_scores,
    mix_title_cosines,
    pick_sections,
    sections_of,
    title_scores,
    toc_record_ids,
)
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.text import analyze
from tests.support.candidates import chunk, ids, ranked, unit

TITLES = [
    TocSection("Indexes", (), 1, ("7-0",)),
    TocSection("B+ tree index", ("Indexes",), 2, ("7-1", "7-2")),
    TocSection("Full-text index", ("Indexes",), 2, ("7-3",)),
    TocSection("Backup and recovery", (), 1, ("7-4",)),
]
SHORT = CompressionSettings(min_token_count=5)


def _compressed(question: str, *texts: str, settings: CompressionSettings = SHORT) -> dict[str, str]:
    records = [chunk(i, text) for i, text in enumerate(texts)]
    sentences = record_sentences(records)
    chosen = choose_sentences(records, sentences, sentence_scores(question, sentences), settings)
    return compress_records(records, sentences, chosen)


def test_the_best_document_is_that_with_the_largest_sum_not_that_of_the_best_hit() -> None:
    items = [
        ranked(chunk(0, "a", version=1), 0.9),
        ranked(chunk(0, "b", version=2), 0.6),
        ranked(chunk(1, "c", version=2), 0.5),
        ranked(chunk(2, "d", version=1), 0.9, dropped=True),
    ]
    best = best_version(items)
    assert best is not None
    assert best.candidate.record.record_id == "2-0"
    assert best_version([]) is None
    assert best_version([ranked(replace(chunk(0, "w"), document_id=""), 0.9)]) is None


def test_ids_of_entries_are_those_under_which_they_are_written() -> None:
    names = toc_record_ids(Ordinal(7))
    assert names[:2] == ("7-toc-00000", "7-toc-00001")
    assert len(names) == 1_000


def test_sections_are_read_from_records_of_contents_alone() -> None:
    record = replace(
        chunk(0, "B+ tree index", headings=["Indexes"]),
        record_id="7-toc-00001",
        kind=RecordKind.TOC,
        links=("7-1", "7-2"),
    )
    assert sections_of([record, replace(record, links=()), chunk(1, "no entry")]) == [TITLES[1]]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("why is the B+ tree good for ranges", [1]),
        ("how do I recover from a backup", [3]),
        ("what is a full-text index", [2]),
        ("who painted the ceiling", []),
        ("", []),
    ],
)
def test_titles_that_name_what_is_asked_are_chosen(question: str, wanted: list[int]) -> None:
    assert list(pick_sections(title_scores(question, TITLES), TocSettings())) == wanted


def test_titles_in_chinese_are_chosen_by_their_pairs_of_characters() -> None:
    titles = [TocSection(title, (), 1, ()) for title in ("概述", "B+树索引", "全文索引", "备份与恢复")]
    assert next(iter(pick_sections(title_scores("全文索引怎么用？", titles), TocSettings()))) == 2


def test_vectors_choose_where_no_word_is_shared() -> None:
    scores = title_scores("数据丢失了怎么办", TITLES)
    assert not pick_sections(scores, TocSettings())
    mixed = mix_title_cosines(scores, {0: 0.75, 1: 0.74, 3: 0.97}, floor=0.7)
    assert list(pick_sections(mixed, TocSettings())) == [3]


def test_chunks_of_chosen_sections_gain_and_missing_ones_come_in_by_their_own_score() -> None:
    scores = chunk_scores(TITLES, {1: 1.0, 2: 0.5})
    assert scores == {"7-1": 1.0, "7-2": 1.0, "7-3": 0.5}
    items = [ranked(chunk(9, "z"), 0.60), ranked(chunk(1, "b"), 0.55), ranked(chunk(8, "y"), 0.50)]
    added = [ranked(chunk(2, "c"), 0.42), ranked(chunk(3, "d"), 0.40, dropped=True), ranked(chunk(9, "z"), 0.9)]
    found = apply_toc(items, scores, added, gain=0.1)
    assert ids(found) == ["7-1", "7-9", "7-2", "7-8"]
    assert [item.similarity for item in found] == pytest.approx([0.65, 0.60, 0.52, 0.50])


def test_a_record_that_was_read_by_id_is_scored_like_one_that_was_recalled() -> None:
    record = replace(
        chunk(0, "Leaf pages hold rows", headings=["Title 7", "Storage"], vector=[1, 1]),
        keywords=("clustered",),
        questions=("where are rows",),
        context="Table 3",
    )
    found = candidate_of(record, query_vector=unit([1, 0]))
    assert found.content_terms == " ".join(
        (*analyze("Title 7\nStorage").fine, *analyze("Table 3").fine, *analyze("Leaf pages hold rows").fine)
    )
    assert (found.keyword_terms, found.question_terms, found.script) == ("cluster", "where are row", "spaced")
    assert found.cosine == pytest.approx(2**-0.5)
    assert found.record.vector is None
    assert candidate_of(record, query_vector=None).cosine is None


def test_the_sentences_that_name_what_is_asked_stay_in_their_order_word_for_word() -> None:
    text = (
        "Cats sleep and dream of mice all day long. The leaf pages of the index are linked in order."
        " Dogs bark at night. A range query follows the links of the leaf pages. Soup needs salt."
    )
    found = _compressed("why does the leaf order help a range query", text)
    assert found == {
        "7-0": "The leaf pages of the index are linked in order.\n\nA range query follows the links of the leaf pages."
    }
    assert all(part in text for part in found["7-0"].split("\n\n"))


def test_a_sentence_that_leans_on_the_one_before_brings_it_along() -> None:
    text = (
        "Cats sleep a lot and dream of mice. The engine keeps rows in leaf pages. It therefore answers a range query by"
        " reading on. Soup needs salt and time. Dogs bark at night."
    )
    assert _compressed("range query", text)["7-0"] == (
        "The engine keeps rows in leaf pages. It therefore answers a range query by reading on."
    )


def test_at_least_one_sentence_stays_of_every_record_and_a_whole_one_is_not_named() -> None:
    found = _compressed(
        "range query", "Cats sleep all day. Dogs bark at night.", "A range query is one sentence alone."
    )
    assert list(found) == ["7-0"]
    assert found["7-0"] == "Cats sleep all day."


def test_short_records_and_those_beyond_the_page_stay_as_they_are() -> None:
    items = [ranked(chunk(0, "short"), 0.9), ranked(chunk(1, "long " * 80), 0.8), ranked(chunk(2, "long " * 80), 0.7)]
    assert [record.position for record in long_records(items, count=2, settings=CompressionSettings())] == [1]


def test_only_so_many_sentences_are_embedded_best_first() -> None:
    scores = np.array([0.1, 0.9, 0.0, 0.9, 0.3])
    assert sentences_to_embed(scores, CompressionSettings(max_embedded_count=3)) == [1, 3, 4]
    assert mix_sentence_cosines(scores, {}) is scores
    mixed = mix_sentence_cosines(scores, {1: 0.8, 3: 0.9, 4: 0.85})
    assert mixed.tolist() == pytest.approx([0.05, 0.45, 0.0, 0.95, 0.4])


def test_the_share_that_stays_is_bounded() -> None:
    record: Record = chunk(0, " ".join(f"The range query number {i} reads pages." for i in range(40)))
    sentences = record_sentences([record])
    scores = sentence_scores("range query", sentences)
    chosen = choose_sentences([record], sentences, scores, CompressionSettings(max_share=0.5))
    assert 0.3 * len(record.text) < len(compress_records([record], sentences, chosen)["7-0"]) <= 0.52 * len(record.text)


def test_a_share_of_every_record_stays_even_where_its_sentences_say_none_of_the_words() -> None:
    """The fact that is asked for often stands in a sentence that shares no word with the question."""
    text = " ".join(f"Fact {name} is told here." for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"))
    records = [chunk(0, "A range query reads pages. Nothing else."), chunk(1, text)]
    sentences = record_sentences(records)
    scores = sentence_scores("range query", sentences)
    least = CompressionSettings(min_share=0.5)
    short = compress_records(records, sentences, choose_sentences(records, sentences, scores, least))
    assert 0.5 <= len(short["7-1"]) / len(text) <= 0.7
    none = CompressionSettings(min_share=0.0)
    short = compress_records(records, sentences, choose_sentences(records, sentences, scores, none))
    assert short["7-1"] == "Fact alpha is told here."
