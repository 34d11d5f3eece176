"""What a model answers in a step of understanding is read strictly: what does not fit is no answer."""

from collections.abc import Callable

import pytest

from corpusmesh_core.query.understanding import common_fields
from corpusmesh_core.query.understanding.answers import (
    read_clues,
    read_conditions,
    read_general,
    read_keywords,
    read_parts,
    read_passage,
    read_question,
    read_translations,
)

QUESTION = "How long is the notice period for contractors of ACME in 2023?"
FIELDS = common_fields(
    [
        {
            "metadata_schema": {
                "fields": [
                    {"name": "year", "type": "number"},
                    {"name": "issued", "type": "date"},
                    {"name": "company", "type": "text"},
                    {"name": "kind", "type": "enum", "values": ["law", "notice"]},
                    {"name": "final", "type": "boolean"},
                ]
            }
        }
    ]
)
PASSAGE = "Contractors of ACME can end their contract with a notice period of thirty days to the end of a month."


def test_good_answers_are_taken() -> None:
    assert read_question("And it?")({"question": " How long\n is it? "}) == "How long is it?"
    assert read_general(QUESTION)({"question": "What is a notice period?"}) == "What is a notice period?"
    assert read_general(QUESTION)({"question": None}) == read_general(QUESTION)({"question": QUESTION.upper()}) == ""
    assert read_parts(QUESTION)({"questions": ["What is A?", "What is B?", "what is a?"]}) == (
        "What is A?",
        "What is B?",
    )
    assert read_parts(QUESTION)({"questions": []}) == read_parts(QUESTION)({"questions": [QUESTION]}) == ()
    assert read_translations(QUESTION, ["zh", "de"])({"translations": {"zh": "通知期多长？", "de": "Wie lang?"}}) == (
        ("zh", "通知期多长？"),
        ("de", "Wie lang?"),
    )
    assert read_keywords(QUESTION)({"keywords": ["Notice Period", "salary", "the", "ACME"]}) == (
        "Notice Period",
        "ACME",
    )
    assert read_passage({"passage": PASSAGE}) == PASSAGE
    assert read_clues(QUESTION)({"clues": ["thirty days"], "questions": ["When does it end?"]}) == (
        "When does it end?",
        "thirty days",
    )
    assert read_clues(QUESTION)({"clues": [], "questions": []}) == ()


READERS: list[Callable[[object], object]] = [
    read_question(QUESTION),
    read_general(QUESTION),
    read_parts(QUESTION),
    read_translations(QUESTION, ["zh"]),
    read_keywords(QUESTION),
    read_passage,
    read_clues(QUESTION),
    read_conditions(QUESTION, FIELDS),
]
NO_ANSWERS: list[object] = [
    None,
    [],
    {},
    "text",
    7,
    [{"question": "x"}],
    {"question": 7, "questions": "a", "translations": [], "keywords": "a", "passage": 1, "clues": 1, "conditions": "a"},
    {"question": {"a": 1}, "questions": {}, "translations": "zh", "keywords": {}, "passage": [], "conditions": {}},
]  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_other_shapes_are_no_answer(reader: Callable[[object], object], answer: object) -> None:
    assert reader(answer) is None


BAD_TEXTS = [
    "",
    "   ",
    "?!",
    "a" * 50_000,
    "see https://evil.example/x",
    "<script>alert(1)</script> what is it",
    "![x](y) what is it",
    "what [is](it) ever",
    "ignore `this` one",
    "what\x1b[31m is it",
    "what \u202e is it",
    "Sure! Here is the question",
    "Here are the questions: one",
    "As an AI I cannot answer",
]


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_texts_that_no_question_holds_are_no_answer(text: str) -> None:
    assert read_question(QUESTION)({"question": text}) is None
    assert read_general(QUESTION)({"question": text}) is None
    assert read_parts(QUESTION)({"questions": [text, text]}) is None
    assert read_translations(QUESTION, ["de"])({"translations": {"de": text}}) is None
    assert read_keywords(QUESTION)({"keywords": [text]}) is None
    assert read_passage({"passage": text}) is None
    assert read_clues(QUESTION)({"clues": [text], "questions": [text]}) is None


def test_markup_of_the_question_itself_is_no_markup_of_an_answer() -> None:
    assert read_question("And `List<int>`?")({"question": "How is `List<int>` sorted?"}) == "How is `List<int>` sorted?"
    assert read_question("And `List<int>`?")({"question": "How is `List<b>` sorted?"}) is None


def test_lists_are_bounded() -> None:
    many = [f"What is thing {number}?" for number in range(60)]
    parts, clues = read_parts(QUESTION)({"questions": many}), read_clues(QUESTION)({"clues": many, "questions": many})
    assert parts is not None
    assert len(parts) == 6
    assert clues is not None
    assert len(clues) <= 8
    assert read_parts(QUESTION)({"questions": many * 1000}) is None


def test_a_translation_must_be_written_in_its_language_and_be_asked_for() -> None:
    read = read_translations(QUESTION, ["zh"])
    assert read({"translations": {"zh": "How long is it?"}}) is None
    assert read({"translations": {"fr": "Combien de temps ?"}}) is None
    assert read({"translations": {"zh": QUESTION}}) is None


def test_conditions_are_those_of_the_schema_with_fitting_values() -> None:
    read = read_conditions(QUESTION, FIELDS)
    made = read(
        {
            "conditions": [
                {"field": "year", "operator": "gte", "values": ["2023"]},
                {"field": "kind", "operator": "ne", "values": ["LAW"]},
                {"field": "issued", "operator": "eq", "values": [2023]},
                {"field": "company", "values": "acme"},
                {"field": "final", "operator": "eq", "values": [True]},
            ]
        }
    )
    assert made is not None
    assert [condition.key for condition in made] == ["year", "kind", "issued", "issued", "company", "final"]
    assert made[1].texts == ("law",)
    assert made[1].negated
    assert made[2].moments[0].year == 2023
    assert made[3].moments[0].year == 2024


@pytest.mark.parametrize(
    "condition",
    [
        {"field": "tenant_id", "operator": "eq", "values": ["other"]},
        {"field": "year", "operator": "eq", "values": ["soon"]},
        {"field": "year", "operator": "between", "values": [1, 2]},
        {"field": "year", "operator": "lt", "values": [1, 2]},
        {"field": "kind", "operator": "eq", "values": ["memo"]},
        {"field": "kind", "operator": "gt", "values": ["law"]},
        {"field": "issued", "operator": "gte", "values": ["someday"]},
        {"field": "issued", "operator": "ne", "values": ["2023"]},
        {"field": "company", "operator": "eq", "values": ["Globex"]},
        {"field": "company", "operator": "eq", "values": [["ACME"]]},
        {"field": "company", "operator": "eq", "values": []},
        {"field": ["company"], "operator": {}, "values": ["ACME"]},
        {"field": "company", "operator": "eq", "values": ["ACME"] * 17},
        "company = ACME",
        None,
    ],
)
def test_a_condition_that_does_not_fit_is_dropped_and_the_others_stand(condition: object) -> None:
    good = {"field": "kind", "operator": "eq", "values": ["notice"]}
    made = read_conditions(QUESTION, FIELDS)({"conditions": [condition, good]})
    assert made is not None
    assert [(found.key, found.texts) for found in made] == [("kind", ("notice",))]
