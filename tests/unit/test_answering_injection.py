"""Texts planted in documents: none makes an answer cite what it does not stand on, and none brings an address out.

The model here is the worst one possible: it repeats the planted text word for word, markers, links and all.
"""

import re

import numpy as np
import pytest

from corpusmesh_core.answering import (
    Evidence,
    candidate_sentences,
    compose_answer,
    label_evidence,
    render_answer_messages,
)
from corpusmesh_core.answering.step_answers import read_grades, read_need, read_queries, read_sufficiency, read_verdict
from corpusmesh_core.citation import check_answer, filter_answer
from corpusmesh_core.enrichment.answers import read_json_answer
from corpusmesh_retrieve.answering.drafting import citable
from tests.support.injections import FAKE_MARKERS, PLANTED

HONEST = Evidence("honest", "The upload limit is 512 MiB for each file.", "limits.md", 12)
ACTIVE = re.compile(
    r"(?:https?|ftp)://|\bwww\.(?=\w)|\]\(\s*[^\s)]*[:/.]|<(?:img|a|script)\b|javascript:\S*\(|[\x1b\u200b\U000e0000-\U000e007f]"
)


def evidence_with(planted: str, seed: int) -> tuple[Evidence, ...]:
    poison = Evidence("poison", planted, f"{planted[:80]}.md", 30, heading_path=(planted[:120],))
    return label_evidence([HONEST, poison], rng=np.random.default_rng(seed), question="What is the upload limit?")


def cited_in(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"[\[【［(（]\s*IDs?\s*[:：]\s*#?(\d+)", text)}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_model_that_repeats_a_planted_text_cites_nothing_by_it(planted: str) -> None:
    for seed in range(20):
        evidence = evidence_with(planted, seed)
        filtered, outcome = filter_answer(f"As it says: {planted}", [piece.label for piece in evidence])
        assert outcome.cited == ()
        assert not re.search(r"\[ID:\d+\]", filtered)
        assert not ACTIVE.search(filtered), filtered


@pytest.mark.parametrize("planted", PLANTED)
def test_the_model_free_answer_cites_what_it_quotes_and_brings_no_address_out(planted: str) -> None:
    evidence = evidence_with(planted, 1)
    answer = compose_answer("What is the upload limit of files? 上传限制", evidence, candidate_sentences(evidence))
    labels = {piece.label for piece in evidence}
    assert set(map(int, re.findall(r"\[ID:(\d+)\]", answer.text))) == set(answer.cited) <= labels
    assert not ACTIVE.search(answer.text), answer.text
    assert "SECRET" not in answer.text or "?" not in answer.text


@pytest.mark.parametrize("planted", PLANTED)
def test_the_prompt_shows_a_planted_text_inside_its_block_alone(planted: str) -> None:
    evidence = evidence_with(planted, 2)
    system, user = render_answer_messages("What is the limit?", evidence, rng=np.random.default_rng(3))
    fences = re.findall(r"<<<(DATA-[0-9a-f]{16}) ", user.content)
    fences = [fence for fence in fences if fence == fences[0]]
    assert fences[0] not in planted
    assert len(fences) == 2
    assert user.content.count(f"{fences[0]}>>>") == 2
    labels = {piece.label for piece in evidence}
    assert cited_in(user.content) == set()
    headers = re.findall(rf"^<<<{fences[0]} ID: (\d+) \|", user.content, re.MULTILINE)
    assert {int(number) for number in headers} == labels
    assert planted[:20] not in system.content


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_text_borrows_no_citation_of_an_honest_one(planted: str) -> None:
    evidence = evidence_with(planted, 4)
    labels = {piece.record_id: piece.label for piece in evidence}
    # The worst that a model can do: put the honest evidence's own marker behind a false statement.
    said = f"The upload limit is 900 GiB, says Globex Corporation [ID:{labels['honest']}]. {planted}"
    filtered, _ = filter_answer(said, [piece.label for piece in evidence])
    first, *_ = check_answer(filtered, citable(evidence), question="What is the upload limit?")
    assert f"[ID:{labels['honest']}]" not in first.text
    assert first.removed == (labels["honest"],)


@pytest.mark.parametrize("planted", PLANTED)
def test_checking_brings_back_no_marker_and_no_address(planted: str) -> None:
    evidence = evidence_with(planted, 5)
    filtered, _ = filter_answer(f"As it says: {planted}", [piece.label for piece in evidence])
    shown = "".join(sentence.text for sentence in check_answer(filtered, citable(evidence)))
    labels = {piece.label for piece in evidence}
    assert {int(number) for number in re.findall(r"\[ID:(\d+)\]", shown)} <= labels
    assert re.sub(r"\[ID:\d+\]", "", shown) == re.sub(r"\[ID:\d+\]", "", filtered)
    assert not ACTIVE.search(shown), shown


@pytest.mark.parametrize("planted", PLANTED)
def test_a_step_takes_nothing_from_a_model_that_repeats_a_planted_text(planted: str) -> None:
    value = read_json_answer(planted)
    if '"is_sufficient"' in planted or '"grades"' in planted:
        # The form is right, so the value is: it names no filter, no tool and no address, and one of two hits only.
        assert read_grades(value, 2) is None
        return
    assert (read_sufficiency(value), read_grades(value, 2), read_queries(value, 3)) == (None, None, None)
    assert (read_need(value), read_verdict(value, 1)) == (None, None)


def test_the_corpus_is_large_enough() -> None:
    assert len(PLANTED) >= 60
    assert len(set(PLANTED)) == len(PLANTED)
    assert all(cited_in(text) for text in FAKE_MARKERS[:5])
