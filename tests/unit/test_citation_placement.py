"""Citations put in where the model gave none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.citation import MAX_CITATIONS_PER_SENTENCE, CitableText, place_citations, split_sentences
from corpusmesh_core.errors import InvalidArgumentError

EVIDENCE = (
    CitableText(1111, "The upload limit is 512 MiB for each file. Larger files are refused with RESOURCE_EXHAUSTED."),
    CitableText(2222, "A snapshot is a roaring bitmap of the ordinals that a knowledge base publishes."),
    CitableText(3333, "回滚把知识库的指针换回较早的快照，读者立即看到旧的版本。"),
)


def test_each_sentence_gets_the_evidence_that_says_it() -> None:
    answer = "The upload limit is 512 MiB for each file. A snapshot is a bitmap of published ordinals."
    placed, cited = place_citations(answer, EVIDENCE)
    assert placed == (
        "The upload limit is 512 MiB for each file[ID:1111]. A snapshot is a bitmap of published ordinals[ID:2222]."
    )
    assert cited == (1111, 2222)


def test_a_chinese_sentence_is_placed_by_its_character_pairs() -> None:
    placed, cited = place_citations("回滚会把知识库的指针换回较早的快照。天气很好，适合出门散步。", EVIDENCE)
    assert placed == "回滚会把知识库的指针换回较早的快照[ID:3333]。天气很好，适合出门散步。"
    assert cited == (3333,)


def test_a_number_that_the_evidence_does_not_have_gets_no_citation() -> None:
    assert place_citations("The upload limit is 900 MiB for each file.", EVIDENCE)[1] == ()


def test_what_nothing_supports_gets_no_citation() -> None:
    answer = "Bananas are yellow and grow in the tropics."
    assert place_citations(answer, EVIDENCE) == (answer, ())


def test_headings_code_and_lead_ins_get_no_citation() -> None:
    answer = "# The upload limit of each file\n\n```\nupload limit file = 512\n```\n\nThe upload limit of each file:"
    assert place_citations(answer, EVIDENCE) == (answer, ())


def test_a_sentence_has_at_most_four_citations() -> None:
    same = tuple(CitableText(1000 + number, "The upload limit is 512 MiB for each file.") for number in range(9))
    assert place_citations("The upload limit is 512 MiB.", same)[1] == (1000, 1001, 1002, 1003)


def test_vectors_carry_a_paraphrase_that_shares_few_words_and_hold_back_a_false_friend() -> None:
    answer = "Each file of an upload may have 512 MiB at most."
    close = np.array([[1.0, 0.0]], dtype=np.float32)
    evidence_vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    near = place_citations(answer, EVIDENCE, sentence_vectors=close, evidence_vectors=evidence_vectors, threshold=0.6)
    far = place_citations(
        answer, EVIDENCE, sentence_vectors=close, evidence_vectors=1 - evidence_vectors, threshold=0.6
    )
    assert (near[1], far[1]) == ((1111,), ())


def test_vectors_that_do_not_fit_are_refused() -> None:
    vectors = np.ones((1, 2), dtype=np.float32)
    with pytest.raises(InvalidArgumentError):
        place_citations("One. Two.", EVIDENCE, sentence_vectors=vectors, evidence_vectors=vectors)


PARTS = st.sampled_from([*(piece.text for piece in EVIDENCE), "Other words here.", "\n\n", "- item "])


@given(st.lists(PARTS, max_size=8))
def test_placing_adds_markers_and_changes_nothing_else(parts: list[str]) -> None:
    answer = " ".join(parts)
    placed, cited = place_citations(answer, EVIDENCE)
    stripped = placed
    for piece in EVIDENCE:
        stripped = stripped.replace(f"[ID:{piece.label}]", "")
    assert stripped == answer
    assert set(cited) <= {piece.label for piece in EVIDENCE}
    assert placed.count("[ID:") <= MAX_CITATIONS_PER_SENTENCE * len(split_sentences(answer))
