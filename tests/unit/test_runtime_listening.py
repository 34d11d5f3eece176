"""Listening to a model: to the end, or until it has said far more than it may; what came is known in any case."""

from collections.abc import AsyncIterator, Sequence

import pytest

from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatUsage
from corpusmesh_runtime.listening import CHARACTERS_PER_TOKEN, Heard, listen


class Speaker:
    """Says pieces, and fails behind them if it is told to."""

    model = "speaker"

    def __init__(self, pieces: Sequence[ChatDelta], failure: Exception | None = None) -> None:
        self._pieces = pieces
        self._failure = failure
        self.is_closed = False
        self.said_count = 0

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncIterator[ChatDelta]:
        try:
            for piece in self._pieces:
                self.said_count += 1
                yield piece
            if self._failure is not None:
                raise self._failure
        finally:
            self.is_closed = True


async def hear(speaker: Speaker, heard: Heard | None = None, *, tokens: int = 10) -> str:
    return await listen(speaker, (), max_token_count=tokens, timeout_seconds=5.0, heard=heard)


async def test_the_whole_text_and_the_usage_are_heard() -> None:
    heard = Heard()
    usage = ChatUsage(7, 3)
    speaker = Speaker([ChatDelta("It ran "), ChatDelta("on coal."), ChatDelta("", usage=usage)])
    assert await hear(speaker, heard) == heard.text == "It ran on coal."
    assert heard.usage == usage
    assert speaker.is_closed


async def test_what_came_before_a_failure_is_known() -> None:
    heard = Heard()
    speaker = Speaker([ChatDelta("It ran")], UnavailableError("CHAT_UNAVAILABLE", "gone"))
    with pytest.raises(UnavailableError):
        await hear(speaker, heard)
    assert heard.text == "It ran"
    assert speaker.is_closed


async def test_a_runaway_text_is_broken_off_and_its_request_ended() -> None:
    speaker = Speaker([ChatDelta("x" * CHARACTERS_PER_TOKEN)] * 1000)
    text = await hear(speaker, tokens=10)
    assert len(text) == 11 * CHARACTERS_PER_TOKEN
    assert speaker.said_count == 11
    assert speaker.is_closed
