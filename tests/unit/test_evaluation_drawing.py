"""Questions drawn from passages."""

import time
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh_core.enrichment.golden_questions import (
    DrawnQuestion,
    Passage,
    distinct_questions,
    question_by_rule,
    read_question,
    spread_passages,
)
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_retrieve.evaluating.drawing import Drawer
from corpusmesh_runtime.context import CallContext
from tests.support.golden_shelf import Shelf

TEXT = "Sources differ. The Ems Gauge was founded in 1911 in Leer. It has four rooms."


def passage(document_id: str, place: int = 0, text: str = TEXT) -> Passage:
    return Passage(f"{document_id}-{place}", document_id, 1, text)


def test_passages_of_every_document_come_before_a_second_one_of_any() -> None:
    passages = [passage("a", n) for n in range(5)] + [passage("b"), passage("c")]
    order = spread_passages(passages, rng=np.random.default_rng(1))
    assert {item.document_id for item in order[:3]} == {"a", "b", "c"}
    assert [item.document_id for item in order[3:]] == ["a"] * 4
    assert len({item.record_id for item in order}) == 7


def test_the_same_seed_gives_the_same_order_whatever_order_they_came_in() -> None:
    passages = [passage(name, n) for name in "abcd" for n in range(3)]
    orders = [spread_passages(items, rng=np.random.default_rng(5)) for items in (passages, list(reversed(passages)))]
    assert orders[0] == orders[1]
    assert orders[0] != spread_passages(passages, rng=np.random.default_rng(6))


def test_a_rule_asks_for_what_a_sentence_says_and_quotes_it() -> None:
    drawn = question_by_rule(passage("a"))
    assert drawn is not None
    assert drawn.question == "When was the Ems Gauge founded?"
    assert drawn.quote == "The Ems Gauge was founded in 1911 in Leer."


def test_a_rule_asks_in_chinese() -> None:
    drawn = question_by_rule(passage("a", text="中国科学院成立于1949年11月。它有很多研究所。"))
    assert drawn is not None
    assert drawn.question == "中国科学院是什么时候成立的？"


def test_a_passage_without_a_plain_statement_gives_no_question() -> None:
    assert question_by_rule(passage("a", text="Perhaps so. And then it rained, they said.")) is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"question": "When was the Ems Gauge founded?"},
        {"question": "When was the Ems Gauge founded?", "quote": 1911},
        {"question": "When was the Ems Gauge founded?", "quote": "founded in 1912 in Leer"},
        {"question": "When?", "quote": "was founded in 1911"},
        {"question": "It has four rooms", "quote": "was founded in 1911"},
        {"question": "x" * 301, "quote": "was founded in 1911"},
    ],
)
def test_a_bad_answer_of_a_model_is_no_question(answer: object) -> None:
    assert read_question(passage("a"), answer) is None


def test_a_good_answer_of_a_model_is_a_question_with_its_quote() -> None:
    answer = {"question": " In which year\nwas the Ems Gauge set up? ", "quote": "founded in  1911"}
    drawn = read_question(passage("a"), answer)
    assert drawn == DrawnQuestion("In which year was the Ems Gauge set up?", "founded in  1911", passage("a"))


def test_a_question_that_two_passages_answer_is_left_out() -> None:
    questions = [
        DrawnQuestion("What is it?", "q", passage("a")),
        DrawnQuestion("Where is Leer?", "q", passage("a")),
        DrawnQuestion("what is IT?", "q", passage("b")),
    ]
    assert [entry.question for entry in distinct_questions(questions)] == ["Where is Leer?"]


async def test_what_is_drawn_from_are_documents_and_no_nodes_of_a_tree() -> None:
    nodes = set(range(500, 900))
    shelf = Shelf({10: TEXT}, {1: {10} | nodes}, builds=(BitMap(nodes).serialize(),))
    settings = EvaluationSettings(max_drawn_documents=1)
    drawer = Drawer(cast("Any", shelf), cast("Any", shelf), settings)
    call = CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)
    session = ModelSession(None, lambda: np.random.default_rng(1), None)
    drawn = await drawer.draw(call, "kb", session, count=1, seed=1)
    assert [item.document_id for question in drawn.questions for item in question.gold] == ["d1"]
