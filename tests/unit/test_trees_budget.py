"""How a context is shared among children: within it, in order, and none vanishes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.trees.child_budget import (
    BLOCK_TOKENS,
    answer_tokens,
    block_count,
    cut_children,
    readable_tokens,
    share_tokens,
)
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings

COUNTER = WordTokenCounter()
COUNTS = st.lists(st.integers(min_value=0, max_value=5000), min_size=1, max_size=64)


def test_what_short_texts_leave_goes_to_long_ones() -> None:
    assert share_tokens([10, 1000, 50, 1000], 460) == [10, 200, 50, 200]


def test_texts_that_fit_are_not_cut() -> None:
    assert share_tokens([10, 20, 30], 60) == [10, 20, 30]


@given(COUNTS, st.integers(min_value=0, max_value=20_000))
def test_shares_stay_within_the_budget_and_use_it(counts: list[int], budget: int) -> None:
    shares = share_tokens(counts, budget)
    assert sum(shares) <= budget
    assert sum(shares) >= min(budget - len(counts), sum(counts))
    assert all(0 <= share <= count for share, count in zip(shares, counts, strict=True))
    if budget >= len(counts):
        assert all(share > 0 for share, count in zip(shares, counts, strict=True) if count)


@given(COUNTS, st.integers(min_value=64, max_value=20_000))
def test_no_text_gets_less_than_a_shorter_one(counts: list[int], budget: int) -> None:
    shares = share_tokens(counts, budget)
    by_size = [share for _, share in sorted(zip(counts, shares, strict=True))]
    assert by_size == sorted(by_size)


SENTENCE = st.sampled_from(
    [
        "The mill spun cotton.",
        "蒸汽机驱动工厂。",
        "It ran on coal, of which there was plenty.",
        "See 3.14!",
        "Endless " * 30,
    ]
)


@given(
    st.lists(st.lists(SENTENCE, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12),
    st.integers(min_value=0, max_value=400),
)
def test_cut_children_fit_keep_their_order_and_none_vanishes(texts: list[str], extra: int) -> None:
    budget = len(texts) + extra
    counts = COUNTER.count_tokens(texts)
    cut = cut_children(texts, counts, COUNTER, budget)
    assert len(cut) == len(texts)
    assert sum(COUNTER.count_tokens(cut)) <= budget
    for whole, part in zip(texts, cut, strict=True):
        assert part
        assert whole.startswith(part.removesuffix("…").rstrip())


def test_a_text_is_cut_at_the_end_of_a_sentence() -> None:
    text = "The mill spun cotton. It ran on coal. Coal came by barge."
    assert cut_children([text], COUNTER.count_tokens([text]), COUNTER, 12) == ["The mill spun cotton. It ran on coal."]


@given(
    st.integers(min_value=1, max_value=512),
    st.integers(min_value=1024, max_value=200_000),
    st.integers(min_value=0, max_value=3000),
)
def test_prompt_children_delimiters_and_answer_stay_within_the_context(
    child_count: int, context: int, prompt_tokens: int
) -> None:
    settings = TreeSettings(summaries=SummaryMethod.LLM, context_tokens=context)
    blocks = block_count(settings, child_count, prompt_tokens)
    room = readable_tokens(settings, child_count, prompt_tokens)
    assert 1 <= blocks <= child_count
    if room >= child_count:
        assert room + BLOCK_TOKENS * blocks + prompt_tokens + answer_tokens(settings) <= context


@pytest.mark.parametrize(("child_count", "blocks"), [(3, 3), (64, 41), (500, 41)])
def test_many_children_share_blocks(child_count: int, blocks: int) -> None:
    settings = TreeSettings(summaries=SummaryMethod.LLM)
    assert block_count(settings, child_count, 450) == blocks
