"""Whether hits and citations are gold; every value is worked out by hand."""

import pytest

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation import (
    AnswerOutcome,
    FoundText,
    GoldItem,
    holds,
    judge_hits,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    summarise_answers,
)

QUOTE = GoldItem("d1", quote="the notice period is three months")
OTHER_QUOTE = GoldItem("d1", quote="it may be agreed otherwise in writing")


def found(record_id: str, document_id: str, text: str = "", *pages: int) -> FoundText:
    return FoundText(record_id, document_id, text, frozenset(pages))


def test_a_quote_is_found_over_line_breaks_case_and_width() -> None:
    text = "§ 4  The notice\nperiod  is\u3000ＴＨＲＥＥ months."
    assert holds(found("1-0", "d1", text), QUOTE)
    assert not holds(found("1-0", "d2", text), QUOTE)
    assert not holds(found("1-0", "d1", "The notice period is four months."), QUOTE)


def test_half_of_a_long_quote_is_enough_and_half_of_a_short_one_is_not() -> None:
    long = GoldItem(
        "d1", quote="Whoever leaves the company returns the laptop, the badge and the keys on the last day."
    )
    assert holds(found("1-0", "d1", "Whoever leaves the company returns the laptop, the badge and"), long)
    assert holds(found("1-1", "d1", "ge and the keys on the last day. Then"), long) is False
    assert holds(found("1-1", "d1", "returns the laptop, the badge and the keys on the last day. Then"), long)
    assert not holds(found("1-0", "d1", "the notice period"), QUOTE)


def test_a_page_must_be_one_that_the_text_stands_on() -> None:
    assert holds(found("1-0", "d1", "", 3, 4), GoldItem("d1", page=4))
    assert not holds(found("1-0", "d1", "", 3, 4), GoldItem("d1", page=5))
    assert not holds(found("1-0", "d1"), GoldItem("d1", page=1))


def test_whole_documents_rank_where_their_best_hit_ranks() -> None:
    hits = [found("9-0", "d9"), found("9-1", "d9"), found("1-0", "d1"), found("1-1", "d1"), found("2-0", "d2")]
    outcome = judge_hits(hits, [GoldItem("d1"), GoldItem("d2"), GoldItem("d3")])
    assert outcome.ranked == ("other/d9", "gold/0", "gold/1")
    assert recall_at(outcome.ranked, outcome.gold, 2) == pytest.approx(1 / 3)
    assert recall_at(outcome.ranked, outcome.gold, 5) == pytest.approx(2 / 3)
    assert reciprocal_rank(outcome.ranked, outcome.gold) == 0.5


def test_places_of_one_document_are_told_apart() -> None:
    hits = [
        found("1-0", "d1", "Nothing of the kind."),
        found("1-1", "d1", "The notice period is three months."),
        found("1-2", "d1", "As said, the notice period is three months."),
        found("1-3", "d1", "It may be agreed otherwise in writing."),
    ]
    outcome = judge_hits(hits, [QUOTE, OTHER_QUOTE])
    # The second hit with the same place takes none.
    assert outcome.ranked == ("other/1-0", "gold/0", "gold/1")
    # (1/log2(3) + 1/log2(4)) / (1/log2(2) + 1/log2(3)) = (0.63093 + 0.5) / (1 + 0.63093)
    assert ndcg_at(outcome.ranked, outcome.gold, 10) == pytest.approx(1.13093 / 1.63093, abs=1e-5)


def test_a_hit_with_two_places_takes_two() -> None:
    both = found("1-0", "d1", "The notice period is three months; it may be agreed otherwise in writing.")
    outcome = judge_hits([both, found("2-0", "d2")], [QUOTE, OTHER_QUOTE])
    assert outcome.ranked == ("gold/0", "gold/1", "other/2-0")


def test_measures_of_answers_are_those_worked_out_by_hand() -> None:
    good, bad = found("1-0", "d1", "The notice period is three months."), found("2-0", "d2", "Cats sleep.")
    outcomes = [
        # Precision 1/2, recall 1/2, right.
        AnswerOutcome("Three months [ID:1].", (good, bad), False, (QUOTE, OTHER_QUOTE), ("three  months",)),
        # Abstains although there is gold: recall 0, wrong, no precision.
        AnswerOutcome("I cannot say: three months?", (), True, (QUOTE,), ("three months",)),
        # Abstains rightly.
        AnswerOutcome("That is not said.", (), True, ()),
        # Answers what cannot be answered.
        AnswerOutcome("Cats.", (bad,), False, ()),
        # Cites nothing: precision 0, recall 0.
        AnswerOutcome("Four.", (), False, (QUOTE,)),
    ]
    quality = summarise_answers(outcomes)
    assert quality.citation_precision == pytest.approx((0.5 + 0.0) / 2)
    assert quality.citation_recall == pytest.approx((0.5 + 0.0 + 0.0) / 3)
    assert quality.abstention_accuracy == pytest.approx(3 / 5)
    assert quality.answer_accuracy == pytest.approx(1 / 2)
    assert quality.abstained_count == 2


def test_answers_without_expected_texts_have_no_accuracy() -> None:
    assert summarise_answers([AnswerOutcome("x", (), True, ())]).answer_accuracy is None
    with pytest.raises(InvalidArgumentError) as raised:
        summarise_answers([])
    assert raised.value.reason == "EVALUATION_EMPTY"
