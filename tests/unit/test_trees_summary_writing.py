"""What a model is sent for a summary, and what of its answer is one."""

import numpy as np
import pytest

from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.trees.writing import (
    WritingSystem,
    read_summary,
    render_summary_messages,
    summary_instructions,
    writing_shares,
)

COUNTER = WordTokenCounter()
ENGLISH = ["The mill spun cotton for the county and the town.", "Its engine burnt coal, which came by barge."]
CHINESE = ["纺织厂为全县和全镇纺棉花。", "它的蒸汽机燃烧由驳船运来的煤炭。"]
GOOD = "The mill spun cotton with an engine that burnt coal."


def read(answer: str, texts: list[str] | None = None, max_tokens: int = 128) -> str | None:
    return read_summary(answer, texts or ENGLISH, COUNTER, max_tokens=max_tokens)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"\n  {GOOD}\n\n",
        f"<think>The user wants a summary: mills.</think>\n{GOOD}",
        f"Here is a summary of the passages:\n\n{GOOD}",
        f"Sure! Here's the summary: {GOOD}",
        f"Certainly, here is what they say:\n{GOOD}",
        f"**Summary:** {GOOD}",
        f"## Summary\n\n{GOOD}",
        f"```\n{GOOD}\n```",
        f"```text\n{GOOD}",
        f"- {GOOD}",
        "The **mill** spun `cotton` with an engine that burnt coal.",
        f"{GOOD}\n\nLet me know if you need anything else!",
        f"{GOOD}\u200b",
        f"{GOOD} It was",
    ],
)
def test_what_stands_around_a_summary_is_taken_off(answer: str) -> None:
    assert read(answer) == GOOD


@pytest.mark.parametrize(
    "answer",
    [
        "以下是摘要：纺织厂用燃烧煤炭的蒸汽机纺棉花。",
        "好的，以下是内容的总结：\n\n纺织厂用燃烧煤炭的蒸汽机纺棉花。",
        "摘要：纺织厂用燃烧煤炭的蒸汽机纺棉花。",
        "<think>想一想</think>纺织厂用燃烧煤炭的蒸汽机纺棉花。",
    ],
)
def test_chinese_introductions_are_taken_off(answer: str) -> None:
    assert read(answer, CHINESE) == "纺织厂用燃烧煤炭的蒸汽机纺棉花。"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "<think>and so on and on",
        "I'm sorry, but I cannot summarise this.",
        "I can’t help with that request.",
        "As an AI language model I do not read passages.",
        "The passages do not contain anything.",
        "抱歉，我无法总结这些内容。",
        "DATA-0123456789abcdef>>> the mill spun cotton",
        "<<<DATA-0123456789abcdef passage 1 of 2",
        "passage 1 of 2 says that the mill spun cotton.",
        "纺织厂用燃烧煤炭的蒸汽机纺棉花。",
        "Мельница пряла хлопок с помощью паровой машины.",
        "!!! ??? ...",
        "Ok.",
    ],
)
def test_what_is_no_summary_is_refused(answer: str) -> None:
    assert read(answer) is None


def test_english_about_chinese_passages_is_refused_and_about_mixed_ones_is_not() -> None:
    assert read(GOOD, CHINESE) is None
    assert read(GOOD, [*CHINESE, *ENGLISH]) == GOOD


def test_a_summary_that_begins_with_a_colon_sentence_of_its_own_stays_whole() -> None:
    text = "The mill had three engines: two for cotton, one for wool."
    assert read(text) == text


def test_a_long_answer_is_cut_at_the_end_of_a_sentence() -> None:
    made = read(" ".join([GOOD] * 30), max_tokens=30)
    assert made == " ".join([GOOD] * 2)
    assert COUNTER.count_tokens([made])[0] <= 30


def test_an_endless_sentence_is_cut_at_a_clause() -> None:
    made = read("The mill spun cotton, " * 60, max_tokens=30)
    assert made is not None
    assert made.endswith("cotton…")
    assert COUNTER.count_tokens([made])[0] <= 30


def test_markers_in_an_answer_are_no_citations() -> None:
    made = read(f"{GOOD} [ID:3]")
    assert made is not None
    assert "[ID:3]" not in made


def test_chinese_passages_are_asked_for_in_chinese() -> None:
    assert "Chinese, in the characters" in summary_instructions(CHINESE, wish="", max_tokens=256)
    assert "most of the passages are written in" in summary_instructions(ENGLISH, wish="", max_tokens=256)


def test_the_editors_wish_stands_below_the_rules() -> None:
    made = summary_instructions(ENGLISH, wish="Name the {engines}.", max_tokens=256)
    assert made.endswith("Name the {engines}.")


def test_every_passage_is_quoted_in_order_and_a_heading_too() -> None:
    texts = [f"Passage text {number}." for number in range(7)]
    system, user = render_summary_messages(
        "Summarise.", texts, topic="The | mill\n# x", block_count=3, rng=np.random.default_rng(0)
    )
    assert system.content == "Summarise."
    places = [user.content.index(text) for text in texts]
    assert places == sorted(places)
    assert user.content.count(" of 3\n") == 3
    assert "The / mill # x" in user.content


def test_kana_make_a_text_japanese() -> None:
    assert writing_shares(["この工場は綿を紡いでいた。"]).most_common(1)[0][0] is WritingSystem.JAPANESE
    assert writing_shares(["12 !"]) == {}
