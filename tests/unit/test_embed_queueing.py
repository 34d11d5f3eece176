"""The queue of a lane."""

from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.ports.embedding import EmbedRole
from corpusmesh_embed.queueing import LaneQueue, QueuedText


def item(sequence: int, token_count: int, role: EmbedRole = EmbedRole.PASSAGE) -> QueuedText:
    return QueuedText(sequence, None, 0, "text", role, token_count, 0.0)


def filled(*token_counts: int) -> LaneQueue:
    queue = LaneQueue()
    for sequence, token_count in enumerate(token_counts):
        queue.add(item(sequence, token_count))
    return queue


def test_take_gives_the_oldest_text_with_those_nearest_in_length() -> None:
    queue = filled(100, 10, 95, 300, 105, 98)
    batch = queue.take(max_tokens=420, max_texts=64)
    assert [queued.token_count for queued in batch] == [95, 98, 100, 105]
    assert len(queue) == 2


def test_take_never_exceeds_the_token_budget_with_padding() -> None:
    batch = filled(50, 50, 50, 60).take(max_tokens=150, max_texts=64)
    assert [queued.token_count for queued in batch] == [50, 50, 50]


def test_take_gives_a_text_longer_than_the_budget_alone() -> None:
    queue = filled(900, 10)
    assert [queued.token_count for queued in queue.take(max_tokens=512, max_texts=64)] == [900]


def test_take_never_mixes_roles() -> None:
    queue = LaneQueue()
    queue.add(item(0, 10, EmbedRole.QUERY))
    queue.add(item(1, 10, EmbedRole.PASSAGE))
    queue.add(item(2, 10, EmbedRole.QUERY))
    assert [queued.sequence for queued in queue.take(max_tokens=512, max_texts=64)] == [0, 2]
    assert [queued.sequence for queued in queue.take(max_tokens=512, max_texts=64)] == [1]


def test_take_does_not_pad_a_short_text_to_a_much_longer_one() -> None:
    assert [queued.token_count for queued in filled(10, 400).take(max_tokens=4096, max_texts=64)] == [10]


def test_remove_takes_out_one_text_and_says_whether_it_was_there() -> None:
    queue = LaneQueue()
    kept, removed = item(0, 7), item(1, 7)
    queue.add(kept)
    queue.add(removed)
    assert queue.remove(removed)
    assert not queue.remove(removed)
    assert queue.take(max_tokens=512, max_texts=64) == [kept]
    assert (len(queue), queue.token_count) == (0, 0)


@given(
    st.lists(st.tuples(st.integers(1, 600), st.sampled_from(list(EmbedRole)), st.booleans()), max_size=60),
    st.integers(64, 2048),
    st.integers(1, 32),
)
def test_every_text_is_taken_once_and_the_oldest_is_never_passed_over(
    texts: list[tuple[int, EmbedRole, bool]], max_tokens: int, max_texts: int
) -> None:
    queue = LaneQueue()
    items = [item(sequence, tokens, role) for sequence, (tokens, role, _) in enumerate(texts)]
    for queued in items:
        queue.add(queued)
    for queued, (_, _, is_removed) in zip(items, texts, strict=True):
        if is_removed:
            assert queue.remove(queued)
    waiting = {
        queued.sequence: queued for queued, (_, _, is_removed) in zip(items, texts, strict=True) if not is_removed
    }
    while waiting:
        assert queue.token_count == sum(queued.token_count for queued in waiting.values())
        batch = queue.take(max_tokens=max_tokens, max_texts=max_texts)
        assert min(waiting) in [queued.sequence for queued in batch]
        assert len({queued.role for queued in batch}) == 1
        assert len(batch) <= max_texts
        assert len(batch) == 1 or len(batch) * max(queued.token_count for queued in batch) <= max_tokens
        for queued in batch:
            del waiting[queued.sequence]
    assert queue.take(max_tokens=max_tokens, max_texts=max_texts) == []
    assert (len(queue), queue.token_count) == (0, 0)
