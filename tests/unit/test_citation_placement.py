"""Every sentence of an answer against its evidence: which citations stay, go and are put in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.citation import (
    MAX_CITATIONS_PER_SENTENCE,
    CheckSettings,
    CitableText,
    EvidenceChecker,
    EvidenceVectors,
    check_answer,
    place_citations,
    split_segments,
)
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


def test_a_sentence_without_citation_gets_one_though_its_neighbour_has_one() -> None:
    answer = "The upload limit is 512 MiB for each file [ID:1111]. A snapshot is a bitmap of published ordinals."
    assert place_citations(answer, EVIDENCE)[0].endswith("published ordinals[ID:2222].")


def test_a_chinese_sentence_is_placed_by_its_character_pairs() -> None:
    placed, cited = place_citations("回滚会把知识库的指针换回较早的快照。天气很好，适合出门散步。", EVIDENCE)
    assert placed == "回滚会把知识库的指针换回较早的快照[ID:3333]。天气很好，适合出门散步。"
    assert cited == (3333,)


@pytest.mark.parametrize(
    "answer",
    [
        "The upload limit is 900 MiB for each file.",
        "The upload limit is 900 MiB for each file [ID:1111].",
        "The upload limit is 900 MiB for each file. [ID:1111]",
        "The upload limit of Globex is 512 MiB for each file [ID:1111].",
        "Bananas are yellow and grow in the tropics [ID:2222].",
    ],
)
def test_a_sentence_that_its_evidence_does_not_bear_out_keeps_no_citation(answer: str) -> None:
    (sentence,) = check_answer(answer, EVIDENCE)
    assert "[ID:" not in sentence.text
    assert sentence.text == answer.replace(" [ID:1111]", "").replace(" [ID:2222]", "")
    assert len(sentence.removed) == answer.count("[ID:")
    assert sentence.statement is not None
    assert sentence.statement.labels == ()


def test_what_is_missing_is_named_and_lowers_the_support() -> None:
    (good,) = check_answer("The upload limit is 512 MiB for each file [ID:1111].", EVIDENCE)
    (bad,) = check_answer("The upload limit is 900 MiB for each file [ID:1111].", EVIDENCE)
    assert good.statement is not None
    assert bad.statement is not None
    assert (good.statement.missing, bad.statement.missing) == ((), ("900",))
    assert bad.statement.support < 0.6 * good.statement.support


def test_a_wrong_citation_gives_way_to_the_right_one() -> None:
    (sentence,) = check_answer("The upload limit is 512 MiB for each file [ID:2222].", EVIDENCE)
    assert sentence.text == "The upload limit is 512 MiB for each file[ID:1111]."
    assert (sentence.removed, sentence.placed) == ((2222,), (1111,))


def test_numbers_of_several_citations_count_together() -> None:
    evidence = (CitableText(1, "Alpha weighs 10 kg."), CitableText(2, "Beta weighs 20 kg."))
    (sentence,) = check_answer("Alpha weighs 10 kg and Beta weighs 20 kg [ID:1][ID:2].", evidence)
    assert sentence.text.endswith("[ID:1][ID:2].")


@pytest.mark.parametrize(
    ("statement", "evidence"),
    [
        ("The mesh has 3 services.", "The mesh has three services."),
        ("The mesh costs 1,000 euros.", "The mesh costs 1000 euros."),
        ("The share is 12.5 percent of it.", "The share is 12.50 percent of it."),
        ("1. The mesh keeps every snapshot.", "The mesh keeps every snapshot."),
        ("网格有３个服务节点。", "网格有三个服务节点。"),
    ],
)
def test_a_number_may_be_spelt_otherwise(statement: str, evidence: str) -> None:
    assert place_citations(statement, [CitableText(7, evidence)])[1] == (7,)


@pytest.mark.parametrize(
    ("statement", "question", "context", "is_cited"),
    [
        ("The founder of it is called Ada Lovelace.", "", "", False),
        ("The founder of it is called Ada Lovelace.", "Is Ada Lovelace the founder of it?", "", True),
        ("The founder of it is called Ada Lovelace.", "", "Ada Lovelace.md", True),
        ("Der Gründer der Firma heißt Müller.", "", "", False),
    ],
)
def test_a_name_must_be_in_the_evidence_its_document_or_the_question(
    statement: str, question: str, context: str, is_cited: bool
) -> None:
    evidence = [CitableText(7, "The founder of it is called by her name.", context)]
    (sentence,) = check_answer(statement, evidence, question=question, settings=CheckSettings(min_support=0.35))
    assert ("[ID:7]" in sentence.text) == is_cited


def test_what_nothing_supports_gets_no_citation() -> None:
    answer = "Bananas are yellow and grow in the tropics."
    assert place_citations(answer, EVIDENCE) == (answer, ())


def test_headings_code_questions_and_lead_ins_state_nothing() -> None:
    answer = (
        "# The upload limit of each file\n\n```\nupload limit file = 512\n```\n\nWhat is the upload limit of files?\n"
        "The upload limit of each file:"
    )
    checked = check_answer(answer, EVIDENCE)
    assert "".join(sentence.text for sentence in checked) == answer
    assert all(sentence.statement is None for sentence in checked)


def test_a_sentence_has_at_most_four_citations() -> None:
    same = tuple(CitableText(1000 + number, "The upload limit is 512 MiB for each file.") for number in range(9))
    assert place_citations("The upload limit is 512 MiB.", same)[1] == (1000, 1001, 1002, 1003)
    given_all = "The upload limit is 512 MiB " + "".join(f"[ID:{1000 + number}]" for number in range(9)) + "."
    assert len(place_citations(given_all, same)[1]) == MAX_CITATIONS_PER_SENTENCE


def test_vectors_carry_a_paraphrase_that_shares_few_words_and_hold_back_a_false_friend() -> None:
    answer = "Each file of an upload may have 512 MiB at most."
    parts = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    settings = CheckSettings(min_support=0.6)

    def cited(vector: list[float]) -> tuple[int, ...]:
        checker = EvidenceChecker(EVIDENCE, vectors=EvidenceVectors((0, 1, 2), parts), settings=settings)
        return checker.check(answer, np.array(vector, dtype=np.float32)).placed

    assert (cited([1.0, 0.0]), cited([0.0, 1.0])) == ((1111,), ())


def test_a_sentence_in_another_language_stands_by_its_vector_alone() -> None:
    parts = np.eye(3, dtype=np.float32)
    checker = EvidenceChecker(EVIDENCE, vectors=EvidenceVectors((0, 1, 2), parts))
    assert checker.check("Readers see the earlier version of it at once.", parts[2]).placed == (3333,)
    assert checker.check("Readers see the earlier version of it at once.").placed == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "上传的每个文件最多只能有 512 MiB [ID:1111]。",
        "Die Obergrenze beim Hochladen beträgt 512 MiB je Datei [ID:1111].",
        "La limite du téléversement vaut 512 MiB par fichier [ID:1111].",
    ],
)
def test_what_a_model_cites_in_another_language_stays_though_no_word_is_shared(sentence: str) -> None:
    (kept,) = check_answer(sentence, EVIDENCE)
    assert kept.text == sentence
    (wrong,) = check_answer(sentence.replace("512", "900"), EVIDENCE)
    assert "[ID:" not in wrong.text


def test_vectors_that_do_not_fit_are_refused() -> None:
    vectors = np.ones((1, 2), dtype=np.float32)
    with pytest.raises(InvalidArgumentError):
        check_answer("One. Two.", EVIDENCE, sentence_vectors=vectors)
    for positions in ((0, 1), (3,), (-1,)):
        with pytest.raises(InvalidArgumentError):
            EvidenceChecker(EVIDENCE, vectors=EvidenceVectors(positions, vectors))


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
    assert placed.count("[ID:") <= MAX_CITATIONS_PER_SENTENCE * len(split_segments(answer))
