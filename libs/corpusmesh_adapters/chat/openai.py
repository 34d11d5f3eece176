"""`ChatModel` on any service that speaks the OpenAI chat protocol: vLLM, a gateway, a hosted one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import httpx

from corpusmesh_adapters.chat.failures import busy, deadline_exceeded, from_response, is_retryable, unavailable
from corpusmesh_adapters.chat.sse import parse_event, read_events
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason

_MAX_ERROR_BYTES = 4096
_MAX_RETRY_AFTER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class OpenAIChatSettings:
    """Where the model is and how hard to try.

    Attributes:
        base_url: Up to and with the version, as `http://127.0.0.1:8000/v1`.
        model: Name that the service knows the model by.
        api_key_file: File with the key, read before every call so that a rotated key works at once; None for no key.
        max_concurrent_count: Calls under way at once.
        max_waiting_count: Calls that may wait for a place before CHAT_OVERLOADED.
        connect_timeout_seconds: Bound of one connection attempt.
        silence_timeout_seconds: Longest wait for the next bytes of a stream.
        max_attempt_count: Attempts of one call, the first included; only before the first text has come.
        first_backoff_seconds: Mean wait before the second attempt; it doubles from there.
        max_answer_characters: Where a runaway text is broken off as FinishReason.LENGTH.
    """

    base_url: str
    model: str
    api_key_file: Path | None = None
    max_concurrent_count: int = 8
    max_waiting_count: int = 64
    connect_timeout_seconds: float = 3.0
    silence_timeout_seconds: float = 30.0
    max_attempt_count: int = 3
    first_backoff_seconds: float = 0.5
    max_answer_characters: int = 200_000


class OpenAIChatModel:
    """Streams answers; see `corpusmesh_core.ports.chat.ChatModel` for the contract."""

    def __init__(self, settings: OpenAIChatSettings, *, jitter: Callable[[], float]) -> None:
        """Make the client; nothing is sent yet.

        Args:
            settings: Where and how.
            jitter: Draws from [0, 1), so that refused callers do not come back together.
        """
        self._settings = settings
        self._jitter = jitter
        self._places = asyncio.Semaphore(settings.max_concurrent_count)
        self._waiting_count = 0
        # The environment's proxies and certificates are an operator's decision for the whole process.
        self._client = httpx.AsyncClient(
            base_url=settings.base_url.rstrip("/") + "/",
            timeout=httpx.Timeout(settings.silence_timeout_seconds, connect=settings.connect_timeout_seconds),
            limits=httpx.Limits(max_connections=settings.max_concurrent_count),
            headers={"Accept-Encoding": "identity"},  # a stream is small, and must not unpack into something large
            follow_redirects=False,  # a redirect would carry the key to another host
        )

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._settings.model

    async def close(self) -> None:
        """Close idle connections."""
        await self._client.aclose()

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncGenerator[ChatDelta, None]:
        """Ask the model and hand over its text as it comes; see the port."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        body = {
            "model": self._settings.model,
            "messages": [{"role": message.role.value, "content": message.content} for message in messages],
            "max_tokens": max_token_count,
            "temperature": temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        await self._enter(deadline)
        try:
            response = await self._open(body, deadline)
            try:
                async with aclosing(self._deltas(response, deadline)) as deltas:
                    async for delta in deltas:
                        yield delta
            finally:
                # Leaving early closes the connection, which is how these services learn to stop.
                await response.aclose()
        finally:
            self._places.release()

    async def _enter(self, deadline: float) -> None:
        if self._waiting_count >= self._settings.max_waiting_count:
            raise busy()
        self._waiting_count += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError as error:
            raise deadline_exceeded() from error
        finally:
            self._waiting_count -= 1

    async def _open(self, body: dict[str, object], deadline: float) -> httpx.Response:
        """Send the request until a stream opens or the attempts are used up."""
        attempt = 1
        while True:
            try:
                return await self._attempt(body, deadline)
            except CorpusMeshError as error:
                if attempt >= self._settings.max_attempt_count or not is_retryable(error):
                    raise
                wait = self._wait_seconds(attempt, error)
                if asyncio.get_running_loop().time() + wait >= deadline:
                    raise
            attempt += 1
            await asyncio.sleep(wait)

    async def _attempt(self, body: dict[str, object], deadline: float) -> httpx.Response:
        request = self._client.build_request("POST", "chat/completions", json=body, headers=await self._headers())
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._client.send(request, stream=True)
                if response.status_code == httpx.codes.OK:
                    return response
                try:
                    raise from_response(response, await _read_start(response))
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise deadline_exceeded() from error
        except httpx.HTTPError as error:
            raise unavailable() from error

    def _wait_seconds(self, attempt: int, error: CorpusMeshError) -> float:
        # Full jitter around a doubling mean; what the service asks for is the least.
        wait = self._settings.first_backoff_seconds * 2.0 ** (attempt - 1) * 2 * self._jitter()
        asked = float(error.metadata.get("retry_after_seconds", 0.0))
        return max(wait, min(asked, _MAX_RETRY_AFTER_SECONDS))

    async def _headers(self) -> dict[str, str]:
        path = self._settings.api_key_file
        if path is None:
            return {}
        try:
            key = (await asyncio.to_thread(path.read_text, encoding="utf-8")).strip()
        except OSError as error:
            raise FailedPreconditionError(
                "CHAT_ACCESS_DENIED", "the file with the key of the language model cannot be read"
            ) from error
        return {"Authorization": f"Bearer {key}"}

    async def _deltas(self, response: httpx.Response, deadline: float) -> AsyncGenerator[ChatDelta, None]:
        events = read_events(response.aiter_bytes())
        character_count = 0
        is_finished = False
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    event = await anext(events, None)
            except TimeoutError as error:
                raise deadline_exceeded() from error
            except (httpx.HTTPError, ValueError) as error:
                raise unavailable() from error
            if event is None or event == "[DONE]":
                break
            try:
                delta = parse_event(event)
            except ValueError as error:
                # One event cut in the middle means that the rest cannot be trusted either.
                raise unavailable() from error
            character_count += len(delta.text)
            if character_count > self._settings.max_answer_characters:
                yield ChatDelta("", FinishReason.LENGTH)
                return
            is_finished = is_finished or delta.finish_reason is not None
            yield delta
        if not is_finished:
            raise unavailable()


async def _read_start(response: httpx.Response) -> bytes:
    """Read the beginning of an error's body; no more, whatever is sent."""
    start = b""
    async for piece in response.aiter_bytes(_MAX_ERROR_BYTES):
        start += piece
        if len(start) >= _MAX_ERROR_BYTES:
            break
    return start[:_MAX_ERROR_BYTES]
