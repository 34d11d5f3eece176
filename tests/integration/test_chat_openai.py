"""The OpenAI-compatible chat client against a real loopback server that behaves as told."""

import asyncio
import socket
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatRole, ChatUsage, FinishReason
from tests.support.stub_chat import BreakOff, CutJson, ErrorInStream, Never, Refuse, Say, StubChat

QUESTION = (ChatMessage(ChatRole.SYSTEM, "Be brief."), ChatMessage(ChatRole.USER, "secret-prompt 你好"))


def model_for(base_url: str, **settings: Any) -> OpenAIChatModel:
    return OpenAIChatModel(
        OpenAIChatSettings(base_url, "stub", first_backoff_seconds=0.01, **settings), jitter=lambda: 0.5
    )


async def ask(model: OpenAIChatModel, timeout_seconds: float = 10.0) -> list[ChatDelta]:
    stream = model.stream(QUESTION, max_token_count=50, timeout_seconds=timeout_seconds)
    return [delta async for delta in stream]


def text_of(deltas: list[ChatDelta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_stream_hands_over_text_finish_reason_and_usage() -> None:
    with StubChat([Say("Hello, 世界 [ID:1203]. 🎉", piece_characters=1)]) as stub:
        model = model_for(stub.base_url)
        deltas = await ask(model)
        await model.close()
    assert text_of(deltas) == "Hello, 世界 [ID:1203]. 🎉"
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == [FinishReason.STOP]
    assert [delta.usage for delta in deltas if delta.usage] == [ChatUsage(6, 5)]
    request = stub.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"][1] == {"role": "user", "content": "secret-prompt 你好"}
    assert (request.body["max_tokens"], request.body["stream"]) == (50, True)
    assert "authorization" not in {name.lower() for name in request.headers}


async def test_the_key_is_read_from_its_file_before_every_call(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("first\n")
    with StubChat([Say("ok")]) as stub:
        model = model_for(stub.base_url, api_key_file=key_file)
        await ask(model)
        key_file.write_text("second\n")
        await ask(model)
        await model.close()
    assert [request.headers["Authorization"] for request in stub.requests] == ["Bearer first", "Bearer second"]


async def test_a_missing_key_file_says_what_is_wrong(tmp_path: Path) -> None:
    with StubChat([Say("ok")]) as stub:
        model = model_for(stub.base_url, api_key_file=tmp_path / "absent")
        with pytest.raises(FailedPreconditionError):
            await ask(model)
        await model.close()
    assert stub.requests == []


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_busy_service_is_asked_again(status: int) -> None:
    with StubChat([Refuse(status), Refuse(status), Say("third time")]) as stub:
        model = model_for(stub.base_url)
        assert text_of(await ask(model)) == "third time"
        await model.close()
    assert len(stub.requests) == 3


@pytest.mark.parametrize(
    ("status", "kind", "reason", "attempt_count"),
    [
        (429, OverloadedError, "CHAT_OVERLOADED", 3),
        (500, UnavailableError, "CHAT_UNAVAILABLE", 3),
        (401, FailedPreconditionError, "CHAT_ACCESS_DENIED", 1),
        (404, FailedPreconditionError, "CHAT_MODEL_UNKNOWN", 1),
        (400, InvalidArgumentError, "CHAT_REFUSED", 1),
        (307, InvalidArgumentError, "CHAT_REFUSED", 1),
    ],
)
async def test_a_refusal_is_typed_bounded_and_holds_neither_key_nor_prompt(
    tmp_path: Path, status: int, kind: type[CorpusMeshError], reason: str, attempt_count: int
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("canary-key")
    with StubChat([Refuse(status)]) as stub:
        model = model_for(stub.base_url, api_key_file=key_file)
        with pytest.raises(kind) as caught:
            await ask(model)
        await model.close()
    assert caught.value.reason == reason
    assert len(stub.requests) == attempt_count
    shown = f"{caught.value!r} {dict(caught.value.metadata)}"
    assert "canary-key" not in shown
    assert "secret-prompt" not in shown


async def test_a_service_that_asks_for_more_time_than_there_is_is_not_asked_again() -> None:
    with StubChat([Refuse(429, retry_after="15"), Say("too late")]) as stub:
        model = model_for(stub.base_url)
        with pytest.raises(OverloadedError):
            await ask(model, timeout_seconds=5)
        await model.close()
    assert len(stub.requests) == 1


@pytest.mark.parametrize("behaviour", [BreakOff("half"), CutJson("half"), ErrorInStream("half")])
async def test_a_stream_that_breaks_is_an_error_after_the_text_that_came_and_is_not_repeated(
    behaviour: BreakOff | CutJson | ErrorInStream,
) -> None:
    with StubChat([behaviour]) as stub:
        model = model_for(stub.base_url)
        seen: list[str] = []

        async def collect() -> None:
            async for delta in model.stream(QUESTION, max_token_count=50, timeout_seconds=10):
                seen.append(delta.text)  # noqa: PERF401 - what came before the error must be kept

        with pytest.raises(UnavailableError):
            await collect()
        await model.close()
    assert "".join(seen) == "half"
    assert len(stub.requests) == 1


async def test_a_service_that_never_answers_ends_at_the_deadline_and_is_left() -> None:
    with StubChat([Never()]) as stub:
        model = model_for(stub.base_url)
        with pytest.raises(DeadlineExceededError):
            await ask(model, timeout_seconds=0.3)
        assert await asyncio.to_thread(stub.left_early.wait, 5)
        await model.close()


async def test_a_slow_service_ends_at_the_deadline_in_the_middle_of_the_text() -> None:
    with StubChat([Say("x" * 1000, piece_characters=1, pause_seconds=0.05)]) as stub:
        model = model_for(stub.base_url)
        with pytest.raises(DeadlineExceededError):
            await ask(model, timeout_seconds=0.4)
        assert await asyncio.to_thread(stub.left_early.wait, 5)
        await model.close()


@pytest.mark.parametrize("how", ["aclose", "cancel"])
async def test_leaving_early_ends_the_request_at_the_service(how: str) -> None:
    with StubChat([Say("x" * 1000, piece_characters=1, pause_seconds=0.05)]) as stub:
        model = model_for(stub.base_url)
        if how == "aclose":
            await first_text(model)
        else:
            begun = asyncio.Event()
            task = asyncio.create_task(read_forever(model, begun))
            await asyncio.wait_for(begun.wait(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.to_thread(stub.left_early.wait, 5)
        await model.close()


async def first_text(model: OpenAIChatModel) -> str:
    stream = model.stream(QUESTION, max_token_count=50, timeout_seconds=30)
    async with aclosing(stream):
        async for delta in stream:
            if delta.text:
                return delta.text
    raise AssertionError("no text came")


async def read_forever(model: OpenAIChatModel, begun: asyncio.Event) -> None:
    async for _ in model.stream(QUESTION, max_token_count=50, timeout_seconds=30):
        begun.set()


async def test_calls_beyond_the_limit_wait_and_beyond_the_queue_are_refused() -> None:
    with StubChat([Say("abcd", piece_characters=1, pause_seconds=0.05)]) as stub:
        model = model_for(stub.base_url, max_concurrent_count=2, max_waiting_count=3)
        results = await asyncio.gather(*(ask(model) for _ in range(9)), return_exceptions=True)
        await model.close()
    refused = [result for result in results if isinstance(result, BaseException)]
    assert [type(error) for error in refused] == [OverloadedError] * len(refused)
    assert len(refused) == 4
    assert stub.most_at_once == 2


async def test_a_runaway_text_is_broken_off() -> None:
    with StubChat([Say("x" * 5000, piece_characters=100)]) as stub:
        model = model_for(stub.base_url, max_answer_characters=1000)
        deltas = await ask(model)
        await model.close()
    assert text_of(deltas) == "x" * 1000
    assert deltas[-1].finish_reason is FinishReason.LENGTH


async def test_a_service_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = model_for(f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
        with pytest.raises(UnavailableError):
            await ask(model)
        await model.close()


async def test_an_event_without_end_is_refused_before_it_fills_memory() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ")
        try:
            for _ in range(64):
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        model = model_for(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        with pytest.raises(UnavailableError):
            await ask(model)
        await model.close()
