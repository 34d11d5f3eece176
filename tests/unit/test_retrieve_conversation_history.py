"""The history of a question: newest messages first, within a budget, with what they were made from."""

from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens
from corpusmesh_retrieve.conversing import History, HistoryBounds, PastMessage, select_history


def messages(*texts: str) -> list[PastMessage]:
    """Newest first; the answers (every second) have their place as source."""
    return [
        PastMessage(True, text) if place % 2 else PastMessage(False, text, (place + 1,), (f"kb-{place}",))
        for place, text in enumerate(texts)
    ]


def test_history_is_oldest_first_and_names_what_it_was_made_from() -> None:
    history = select_history(messages("a2", "q2", "a1", "q1"), HistoryBounds())
    turns, sources = history.turns, history.sources
    assert [(turn.text, turn.is_user) for turn in turns] == [("q1", True), ("a1", False), ("q2", True), ("a2", False)]
    assert sources == (1, 3)
    assert history.knowledge_base_ids == ("kb-0", "kb-2")


def test_messages_without_text_are_passed_over_and_leave_no_source() -> None:
    history = select_history(messages("", "q2", "a1", "q1"), HistoryBounds())
    turns, sources = history.turns, history.sources
    assert [turn.text for turn in turns] == ["q1", "a1", "q2"]
    assert sources == (3,)


def test_the_newest_turns_stay_within_both_bounds() -> None:
    history = select_history(messages("a2", "q2", "a1", "q1"), HistoryBounds(max_turns=2))
    turns, sources = history.turns, history.sources
    assert [turn.text for turn in turns] == ["q2", "a2"]
    assert sources == (1,)
    assert select_history(messages("a2", "q2"), HistoryBounds(max_turns=0)) == History()
    assert select_history(messages("a2", "q2"), HistoryBounds(max_tokens=0)) == History()


def test_a_long_message_is_cut_where_a_useful_part_is_left_and_dropped_otherwise() -> None:
    long = "词" * 100
    turns = select_history(messages("ok", long, "older"), HistoryBounds(max_tokens=61)).turns
    assert [turn.text for turn in turns] == ["词" * 60, "ok"]
    history = select_history(messages("ok", long, "older"), HistoryBounds(max_tokens=31))
    turns, sources = history.turns, history.sources
    assert [turn.text for turn in turns] == ["ok"]
    assert sources == (1,)


def test_markers_of_former_answers_are_left_out() -> None:
    turns = select_history(messages("It is blue [ID:7]. [ID:12]", "is [ID:1] blue?"), HistoryBounds()).turns
    assert [turn.text for turn in turns] == ["is [ID:1] blue?", "It is blue."]


def test_tokens_are_estimated_by_script() -> None:
    assert estimate_tokens("abcdefgh") == 2
    assert estimate_tokens("a") == 1
    assert estimate_tokens("聚簇索引") == 4
    assert estimate_tokens("") == 0
    for text in ("abcdefghi", "聚簇 abc 索引", ""):
        for count in range(8):
            cut = cut_to_tokens(text, count)
            assert text.startswith(cut)
            assert estimate_tokens(cut) <= count
