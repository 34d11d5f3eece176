"""The pure part of a research: tree, budget, order of evidence, sufficiency and decomposition by rule."""

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.research.budget import ResearchBudget, share_budget
from corpusmesh_core.research.chains import asks_by_way_of_another
from corpusmesh_core.research.decomposition import bridging_names, next_questions
from corpusmesh_core.research.evidence import merge_findings
from corpusmesh_core.research.outgoing import MAX_OUTGOING_CHARACTERS, outgoing_query
from corpusmesh_core.research.sufficiency import FoundPassage, check_sufficiency
from corpusmesh_core.research.tree import QuestionState, QuestionTree
from corpusmesh_core.text import analyze


def passage(text: str, cosine: float | None = None) -> FoundPassage:
    return FoundPassage(frozenset(analyze(text).fine), cosine)


def test_a_question_with_the_terms_of_another_is_not_asked_again_anywhere_in_the_tree() -> None:
    tree = QuestionTree("Who built the bridge?", ResearchBudget())
    first, second = tree.add_children(
        "1", ["When was the bridge built?", "Bridge engineer", "the engineer (bridge)", " "]
    )
    assert (first.node_id, second.node_id) == ("1.1", "1.2")
    again = ["the BRIDGE, built by who?", "engineer of the bridge", "when was the bridge built", "bridge opening"]
    assert [node.text for node in tree.add_children("1.1", again)] == ["bridge opening"]
    assert [node.node_id for node in tree.nodes] == ["1", "1.1", "1.1.1", "1.2"]


def test_the_tree_holds_no_more_levels_children_and_questions_than_its_budget() -> None:
    tree = QuestionTree("root", ResearchBudget(max_depth=2, max_children=2, max_questions=9))
    assert len(tree.add_children("1", ["alpha", "beta", "gamma"])) == 2
    assert tree.add_children("1", ["gamma"]) == ()
    assert not tree.is_full, "a bound of children is not the end of the budget"
    assert tree.add_children("1.1", ["delta"]) == ()
    assert not tree.may_grow("1.1")
    small = QuestionTree("root", ResearchBudget(max_questions=2))
    assert len(small.add_children("1", ["alpha", "beta"])) == 1
    assert small.is_full
    with pytest.raises(InvalidArgumentError):
        tree.add_children("9", ["zeta"])


def test_what_is_too_long_is_no_question() -> None:
    assert QuestionTree("root", ResearchBudget()).add_children("1", ["word " * 100]) == ()


def test_open_questions_are_leaves_that_nothing_answers() -> None:
    tree = QuestionTree("root", ResearchBudget())
    tree.add_children("1", ["alpha", "beta"])
    tree.update("1", state=QuestionState.DECOMPOSED)
    tree.update("1.1", state=QuestionState.SUFFICIENT)
    tree.update("1.2", state=QuestionState.STOPPED)
    assert [node.text for node in tree.open_questions()] == ["beta"]


@pytest.mark.parametrize(
    "field", ["max_depth", "max_questions", "max_children", "max_concurrency", "max_calls", "max_tokens", "max_seconds"]
)
@pytest.mark.parametrize("value", [-1, 0, 10_000_000])
def test_a_budget_out_of_range_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ResearchBudget(**{field: value})
    assert caught.value.field == f"budget.{field}"


@pytest.mark.parametrize("max_tokens", [1_000, 1_200, 2_000, 8_000, 60_000, 1_000_000])
@pytest.mark.parametrize("max_seconds", [2, 30, 1_800])
@pytest.mark.parametrize("with_model", [True, False])
def test_steps_and_answer_together_stay_within_the_budget(max_tokens: int, max_seconds: int, with_model: bool) -> None:
    budget = ResearchBudget(max_tokens=max_tokens, max_seconds=max_seconds, max_calls=5)
    shares = share_budget(budget, evidence_tokens=8000, answer_tokens=700, answer_seconds=60, with_model=with_model)
    assert 0 < shares.search_seconds < max_seconds
    assert shares.evidence_tokens >= 100
    if shares.answer_by_model:
        assert shares.step_tokens + shares.evidence_tokens + 700 < max_tokens
        assert shares.step_calls == 4
        assert shares.step_tokens >= shares.evidence_tokens
    else:
        assert not with_model or max_tokens < 1_400


def test_one_call_is_for_the_answer() -> None:
    shares = share_budget(
        ResearchBudget(max_calls=1), evidence_tokens=1000, answer_tokens=500, answer_seconds=10, with_model=True
    )
    assert (shares.step_calls, shares.answer_by_model) == (0, True)


def test_every_question_has_its_best_before_any_has_its_second() -> None:
    merged = merge_findings([["a", "b", "c"], [], ["d", "a"], ["e"]], str)
    assert merged == ("a", "d", "e", "b", "c")


def test_a_passage_with_the_words_and_the_meaning_of_a_question_is_enough() -> None:
    question = "What is the notice period of a trial contract?"
    near_miss = "The canteen has a trial menu; the kitchen gives notice of changes."
    answer = "During the trial the contract has a notice period of two weeks."
    others = [passage(near_miss, 0.8), passage("Parking is free.", 0.78)]
    assert check_sufficiency(question, [passage(answer, 0.9), *others]).is_sufficient
    judged = check_sufficiency(question, others)
    assert not judged.is_sufficient
    assert "contract" in judged.missing
    assert not check_sufficiency(question, [passage(answer, 0.75)]).is_sufficient, "words without the meaning"


def test_every_part_of_a_comparison_must_be_borne_out() -> None:
    question = "Compare the Falcon and the Heron in price"
    falcon = passage("The price of the Falcon is 900 euros.")
    judged = check_sufficiency(question, [falcon])
    assert (judged.is_sufficient, judged.missing) == (False, ("Heron price",))
    assert check_sufficiency(question, [falcon, passage("The price of the Heron is 1200 euros.")]).is_sufficient


@pytest.mark.parametrize(
    ("question", "has_two_steps"),
    [
        ("Who is the director of Winter Harbour?", False),
        ("Who is Anna Quill's father?", False),
        ("Where was Anna Quill born?", False),
        ("What is the notice period of a trial contract?", False),
        ("Where was the director of Winter Harbour born?", True),
        ("When did Anna Quill's husband die?", True),
        ("Who is the spouse of the composer of Winter Harbour?", True),
        ("How many people live in the city where Anna Quill was born?", True),
        ("《海港》的导演是谁？", False),
        ("《海港》的导演的妻子是谁？", True),
    ],
)
def test_a_question_by_way_of_another_thing_is_told_by_its_structure(question: str, has_two_steps: bool) -> None:
    assert asks_by_way_of_another(question) is has_two_steps


def test_such_a_question_needs_a_passage_about_what_the_first_one_names() -> None:
    question = "Where was the director of Winter Harbour born?"
    film = "Winter Harbour is a film of 1974, born of an idea of its director Żaneta Quill."
    first = FoundPassage(frozenset(analyze(film).fine), 0.95, "Winter Harbour", film)
    other = "Żaneta Quill came from Lyon."
    second = FoundPassage(frozenset(analyze(other).fine), 0.8, "Żaneta Quill", other)
    unrelated = FoundPassage(frozenset(analyze(other).fine), 0.8, "Director", other)
    assert not check_sufficiency(question, [first, unrelated]).is_sufficient
    assert check_sufficiency(question, [first, second]).is_sufficient


def test_nothing_found_is_not_enough_whatever_is_asked() -> None:
    assert check_sufficiency("Who?", []).missing == ("Who?",)
    assert not check_sufficiency("", []).is_sufficient


def test_missing_parts_are_asked_next() -> None:
    question = "Compare the Falcon and the Heron in price"
    assert next_questions(question, ("Heron price",), [], max_count=4) == ("Heron price",)


def test_a_name_that_the_best_passage_brings_in_leads_on() -> None:
    question = "Where did the director of Winter Harbour study?"
    text = "Winter Harbour is a film of 1974. The director was Żaneta de la Cruz, born in Lyon."
    assert next_questions(question, ("study",), [text], max_count=2)[0] == "Żaneta de la Cruz study"
    assert bridging_names("《海港》的导演是谁？", ["《海港》与《冬天的海》齐名。"], max_count=3) == ("冬天的海",)


def test_a_date_leads_nowhere() -> None:
    assert bridging_names("What changed?", ["The text of 2023-03-01 is by Anna Berg."], max_count=3) == ("Anna Berg",)


def test_names_are_neither_words_at_the_beginning_of_a_sentence_nor_of_the_question() -> None:
    text = "Bananas are yellow. The Winter Harbour shop sells them. Then Anna came."
    assert bridging_names("What does the Winter Harbour shop sell?", [text], max_count=5) == ("Anna",)


@pytest.mark.parametrize(
    ("question", "asked", "sent"),
    [
        ("Who directed the film?", "Who directed the film?", "Who directed the film"),
        ("salary of Maria Quill 84000", "What does the chief earn, and what is the salary of others?", "salary of"),
        ("Heron price per kilometre", "Compare the Heron's price", "Heron price"),
        ("年假可以休几天，密码是什么", "员工的年假有几天？", "年假 几天"),
        ("sk-live-123456 and the password", "who?", ""),
        ("", "anything", ""),
    ],
)
def test_only_words_of_the_user_leave_the_installation(question: str, asked: str, sent: str) -> None:
    assert outgoing_query(question, asked) == sent


def test_what_leaves_is_bounded() -> None:
    text = " ".join(f"word{number}" for number in range(5_000))
    assert len(outgoing_query(text, text)) <= MAX_OUTGOING_CHARACTERS
    assert len(outgoing_query("年" * 20_000, "年" * 20_000)) <= 2_000
