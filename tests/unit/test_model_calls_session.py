"""What builds share in asking a language model: kept answers, places, failures in a row, and when to stop."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.errors import FailedPreconditionError, OverloadedError, UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatRole, FinishReason
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_runtime.model_calls import CallOrder, CallSession, DeskSettings, ModelDesk, Reply, Spent
from tests.support.item_chat import MemoryCompletions
from tests.support.tree_summaries import MemoryUsage


class ScriptedChat:
    """Answers each question as it asks to be answered: its text is the answer, or an error."""

    model = "scripted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_token_count: int, timeout_seconds: float, temperature: float = 0.0
    ) -> AsyncGenerator[ChatDelta, None]:
        text = messages[-1].content
        self.asked.append(text)
        await asyncio.sleep(0)
        if text == "away":
            raise UnavailableError("CHAT_UNAVAILABLE", "away")
        if text == "wrong key":
            raise FailedPreconditionError("CHAT_ACCESS_DENIED", "wrong key")
        yield ChatDelta(text, FinishReason.STOP)


class Bench:
    """A desk and what it stands on."""

    def __init__(self, calls_in_flight: int = 1, **bounds: int) -> None:
        self.chat = ScriptedChat()
        self.usage = MemoryUsage()
        self.cache = MemoryCompletions()
        self.outcomes: list[tuple[str, str]] = []
        self.bill = TreeCost()
        self.desk = ModelDesk(
            self.chat,
            self.cache,
            self.usage,
            WordTokenCounter(),
            DeskSettings("test", "BUDGET", "TIME", calls_in_flight, 5.0, 60.0, 0, tolerated=frozenset({"tolerated"})),
            count_outcome=lambda task, outcome: self.outcomes.append((task, outcome)),
        )
        self.bounds = {"max_model_calls": 0, "max_model_tokens": 0, **bounds}

    def open(self, *, spent: Spent | None = None, closed: str = "") -> CallSession:
        return self.desk.open(
            tenant_id="t",
            run_id="r",
            bill=self.bill,
            max_model_calls=self.bounds["max_model_calls"],
            max_model_tokens=self.bounds["max_model_tokens"],
            spent=spent,
            closed=closed,
        )


def order(text: str, key: str = "") -> CallOrder:
    """Ask for a text; "bad" and "tolerated" are answers that the check refuses."""

    def check(answer: str) -> tuple[str, str]:
        return ("", answer) if answer in ("bad", "tolerated") else (answer, "")

    def render(_: object) -> tuple[ChatMessage, ...]:
        return (ChatMessage(ChatRole.USER, text),)

    return CallOrder((key or text).encode().ljust(32, b"\0"), (7,), render, check, 10, "task")


async def ask(session: CallSession, *texts: str, max_errors: int = 3, in_a_row: bool = True) -> dict[int, Reply]:
    scope = session.scope(max_errors, in_a_row=in_a_row)
    orders = [order(text, f"{number} {text}") for number, text in enumerate(texts)]
    return await scope.ask(orders, asyncio.get_running_loop().time() + 10)


async def test_answers_come_by_place_and_outcomes_are_told_by_task() -> None:
    bench = Bench()
    replies = await ask(bench.open(), "one", "bad", "away")
    assert replies[0] == Reply("one", "", True)
    assert replies[1] == Reply("", "bad", True)
    assert replies[2] == Reply("", "unreachable", False)
    assert bench.outcomes == [("task", "answered"), ("task", "bad"), ("task", "lost")]
    assert (bench.bill.model_call_count, bench.bill.failed_call_count) == (3, 2)


async def test_what_was_answered_is_kept_and_what_was_not_is_asked_again() -> None:
    bench = Bench()
    await ask(bench.open(), "one", "bad")
    replies = await ask(bench.open(), "one", "bad")
    assert bench.chat.asked == ["one", "bad", "bad"]
    assert replies[0] == Reply("one")
    assert [kept.sources for kept in bench.cache.kept.values()] == [(7,)]


@pytest.mark.parametrize(("in_a_row", "asked"), [(True, 7), (False, 4)])
async def test_failures_end_a_scope_in_a_row_or_in_all(in_a_row: bool, asked: int) -> None:
    bench = Bench()
    await ask(bench.open(), "bad", "one", "bad", "bad", "two", "bad", "three", max_errors=3, in_a_row=in_a_row)
    assert len(bench.chat.asked) == asked


async def test_a_scope_that_is_given_up_closes_no_other() -> None:
    bench = Bench()
    session = bench.open()
    await ask(session, "bad", "bad", "bad", "one", max_errors=2)
    assert len(bench.chat.asked) == 2
    assert (await ask(session, "two"))[0].text == "two"
    assert session.closed == ""


async def test_what_is_tolerated_is_counted_and_ends_nothing() -> None:
    bench = Bench()
    await ask(bench.open(), *["tolerated"] * 5, "one", max_errors=1)
    assert bench.chat.asked[-1] == "one"
    assert bench.bill.failed_call_count == 5


async def test_a_wrong_key_and_a_spent_budget_close_the_whole_session() -> None:
    bench = Bench()
    session = bench.open()
    await ask(session, "wrong key", "one")
    assert (await ask(session, "two"), session.closed) == ({}, "MODEL_MISCONFIGURED")
    bounded = Bench(max_model_calls=2)
    first = bounded.open(spent=Spent(1))
    await ask(first, "one", "two", "three")
    assert (await ask(first, "four"), first.closed) == ({}, "BUDGET")
    assert bounded.chat.asked == ["one"]


async def test_a_session_that_was_closed_before_still_gives_what_is_kept() -> None:
    bench = Bench()
    await ask(bench.open(), "one")
    replies = await ask(bench.open(closed="BUDGET"), "one", "two")
    assert {place: reply.text for place, reply in replies.items()} == {0: "one"}
    assert bench.chat.asked == ["one"]


async def test_a_cache_that_is_away_is_never_worth_a_failure() -> None:
    class Away(MemoryCompletions):
        async def get(self, *_: object, **__: object) -> dict[bytes, str]:
            raise UnavailableError("POSTGRES_UNAVAILABLE", "away")

        async def put(self, *_: object, **__: object) -> None:
            raise OverloadedError("POSTGRES_OVERLOADED", "busy")

    bench = Bench()
    bench.desk._cache = Away()
    assert (await ask(bench.open(), "one"))[0].text == "one"


async def test_time_that_is_over_before_a_place_is_free_closes_the_scope_alone() -> None:
    bench = Bench()
    session = bench.open()
    scope = session.scope(3, in_a_row=True)
    now = asyncio.get_running_loop().time()
    assert await scope.ask([order("one")], now + 0.1) == {0: Reply(failure="TIME")}
    assert (scope.closed, session.closed) == ("TIME", "")
    assert not bench.chat.asked


async def test_many_scopes_share_the_places_of_a_desk() -> None:
    bench = Bench(calls_in_flight=4)
    session = bench.open()
    found = await asyncio.gather(*(ask(session, *(f"{scope} {number}" for number in range(5))) for scope in range(20)))
    assert sum(len(replies) for replies in found) == 100
    assert bench.bill.model_call_count == bench.usage.calls == 100
