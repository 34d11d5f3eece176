"""The answer without a model: quotations with citations, or a plain no."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.answering import (
    Evidence,
    ExtractiveSettings,
    candidate_sentences,
    compose_answer,
    label_evidence,
)
from corpusmesh_core.errors import InvalidArgumentError

LIMITS = Evidence(
    "limits",
    "Limits protect the mesh. An upload is limited to 512 MiB for each file. An administrator can raise this limit.",
    "limits.xlsx",
    30,
    page=2,
    heading_path=("Limits", "Uploads"),
)
ROLLBACK = Evidence(
    "rollback",
    "A rollback points the knowledge base at an earlier snapshot. Readers see the earlier versions at once. "
    "Nothing is parsed again.",
    "publish.md",
    30,
)
CHINESE = Evidence("zh", "回滚把知识库指向较早的快照。读者立即看到以前的版本。不需要重新解析文档。", "手册.docx", 30)
EVIDENCE = label_evidence([LIMITS, ROLLBACK, CHINESE], rng=np.random.default_rng(3))
LABEL = {piece.record_id: piece.label for piece in EVIDENCE}


def answer(question: str, **arguments: object):  # type: ignore[no-untyped-def]
    return compose_answer(question, EVIDENCE, candidate_sentences(EVIDENCE), **arguments)  # type: ignore[arg-type]


def test_an_english_question_is_answered_by_the_sentence_that_says_it() -> None:
    given_answer = answer("What is an upload limited to for each file?")
    assert not given_answer.is_abstained
    assert given_answer.text.startswith(f"An upload is limited to 512 MiB for each file. [ID:{LABEL['limits']}]")


def test_a_chinese_question_is_answered_by_the_chinese_sentence() -> None:
    given_answer = answer("回滚会把知识库指向哪里？")
    assert not given_answer.is_abstained
    assert given_answer.text.startswith(f"回滚把知识库指向较早的快照。 [ID:{LABEL['zh']}]")
    assert given_answer.cited[0] == LABEL["zh"]


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        ("Who won the world cup in 1998?", "The evidence found does not answer this question."),
        ("一九九八年谁赢得了世界杯冠军？", "检索到的资料没有直接回答这个问题。"),
    ],
)
def test_a_question_that_the_evidence_does_not_carry_gets_a_plain_no_and_what_was_found(
    question: str, lead: str
) -> None:
    given_answer = answer(question)
    assert given_answer.is_abstained
    assert given_answer.text.startswith(lead)
    assert len(given_answer.quotations) == 1
    assert f"[ID:{given_answer.cited[0]}]" in given_answer.text


@pytest.mark.parametrize("question", ["anything", "什么"])
def test_no_evidence_is_said_plainly(question: str) -> None:
    given_answer = compose_answer(question, (), ())
    assert given_answer.is_abstained
    assert given_answer.cited == ()
    assert "[ID:" not in given_answer.text


def test_vectors_carry_a_question_in_another_language() -> None:
    sentences = candidate_sentences(EVIDENCE)
    question = "¿Cuál es el tamaño máximo?"
    vectors = np.eye(len(sentences), dtype=np.float32)
    given_answer = answer(question, question_vector=vectors[1], sentence_vectors=vectors)
    assert answer(question).is_abstained
    assert not given_answer.is_abstained
    assert given_answer.quotations[0].text == "An upload is limited to 512 MiB for each file."


def test_vectors_that_do_not_fit_are_refused() -> None:
    vectors = np.eye(2, dtype=np.float32)
    with pytest.raises(InvalidArgumentError):
        answer("q", question_vector=vectors[0], sentence_vectors=vectors)


def test_the_same_sentence_from_two_sources_is_quoted_once() -> None:
    twins = label_evidence(
        [Evidence(str(number), "The upload limit is 512 MiB.", f"{number}.md", 9) for number in range(3)],
        rng=np.random.default_rng(0),
    )
    given_answer = compose_answer("What is the upload limit?", twins, candidate_sentences(twins))
    assert given_answer.text.count("512 MiB") == 1


def test_two_figures_are_two_statements() -> None:
    texts = ("Hotels may cost up to 140 euros a night.", "Hotels may cost up to 180 euros a night.")
    pieces = label_evidence(
        [Evidence(str(place), text, f"{place}.md", 9) for place, text in enumerate(texts)], rng=np.random.default_rng(0)
    )
    given_answer = compose_answer("What may a hotel cost a night?", pieces, candidate_sentences(pieces))
    assert [quotation.text for quotation in given_answer.quotations] == list(texts)


@pytest.mark.parametrize("text", ["26 3.6.6 Activating RCAC .", "activation, airspeed disagree alert, and"])
def test_lines_of_contents_and_cut_off_items_are_no_candidates(text: str) -> None:
    piece = Evidence("1", f"{text}\n\nThe limit is 512 MiB.", "a", 9)
    assert [sentence.text for sentence in candidate_sentences([piece])] == ["The limit is 512 MiB."]


def test_what_only_says_the_question_again_is_not_quoted_but_for_a_yes() -> None:
    echo = Evidence("echo", "Upload limit for each file.", "echo.md", 9)
    fact = Evidence("fact", "The upload limit is 512 MiB for each file.", "fact.md", 9)
    evidence = label_evidence([echo, fact], rng=np.random.default_rng(0))
    sentences = candidate_sentences(evidence)
    asked = compose_answer("What is the upload limit for each file?", evidence, sentences)
    assert asked.quotations[0].text == fact.text
    yes = compose_answer("Is there an upload limit for each file?", evidence, sentences)
    assert yes.quotations[0].text == echo.text


def test_headings_questions_and_fragments_are_no_candidates() -> None:
    piece = Evidence(
        "1", "Uploads\nWhat is the limit?\n# Heading\nok\nThe limit is 512 MiB.", "a", 9, heading_path=("Uploads",)
    )
    assert [sentence.text for sentence in candidate_sentences([piece])] == ["The limit is 512 MiB."]


def test_fragments_are_candidates_where_there_is_nothing_else() -> None:
    piece = Evidence("1", "Uploads\n512 MiB", "a", 9, heading_path=("Uploads",))
    assert [sentence.text for sentence in candidate_sentences([piece])] == ["Uploads", "512 MiB"]


SENTENCES = [
    "The upload limit is 512 MiB.",
    "快照是一个位图。",
    "Readers see one snapshot.",
    "limit | 4",
    "e.g. this. ",
]


@given(
    st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5), min_size=1, max_size=5),
    st.sampled_from(["upload limit?", "快照是什么", "snapshot readers", "???", ""]),
    st.integers(40, 400),
)
def test_every_word_is_quoted_and_every_quotation_cited(
    texts: list[list[str]], question: str, max_characters: int
) -> None:
    evidence = label_evidence(
        [Evidence(str(number), "\n".join(parts), f"{number}.md", 10) for number, parts in enumerate(texts)],
        rng=np.random.default_rng(0),
    )
    sentences = candidate_sentences(evidence)
    given_answer = compose_answer(
        question, evidence, sentences, settings=ExtractiveSettings(max_characters=max_characters)
    )
    assert sum(len(quotation.text) for quotation in given_answer.quotations) <= max(max_characters, 30)
    rest = given_answer.text
    for quotation in given_answer.quotations:
        source = evidence[quotation.evidence_position]
        assert source.text[quotation.start : quotation.end] == quotation.text
        assert f"{quotation.text} [ID:{source.label}]" in rest
        rest = rest.replace(f"{quotation.text} [ID:{source.label}]", "", 1)
    assert rest.strip() in {
        "",
        "The evidence found does not answer this question. What comes closest:",
        "检索到的资料没有直接回答这个问题。最接近的内容是：",
    }
