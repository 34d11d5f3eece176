"""What engines have in common: one bounded request, and a strict reading of what comes back.

The engine's address is the operator's, so it may be a private one; the addresses of its results are a stranger's.
Nothing that an engine says of a failure reaches a caller or a log: it may repeat the query or the key.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.web_search import WebResult

_CONNECT_SECONDS = 3.0
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_MAX_URL_CHARACTERS = 2048
_MAX_TITLE_CHARACTERS = 300
_MAX_SNIPPET_CHARACTERS = 2_000
_MAX_CONTENT_CHARACTERS = 200_000
MAX_QUERY_CHARACTERS = 400
"""Engines refuse, or read only the beginning of, longer queries."""


def engine_client(base_url: str) -> httpx.AsyncClient:
    """Make the client of an engine.

    Args:
        base_url: Where it answers.

    Returns:
        A client that follows no redirect, so that a key and a query go nowhere else.
    """
    return httpx.AsyncClient(
        base_url=base_url.rstrip("/") + "/",
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
        headers={"User-Agent": "corpusmesh", "Accept": "application/json"},
    )


async def ask_engine(client: httpx.AsyncClient, request: httpx.Request, *, timeout_seconds: float) -> object:
    """Send one request and read its JSON.

    Args:
        client: From `engine_client`.
        request: The request.
        timeout_seconds: Deadline of all of it.

    Returns:
        The JSON value.

    Raises:
        UnavailableError: WEB_SEARCH_UNAVAILABLE if it does not answer, WEB_SEARCH_REFUSED if it refuses.
        OverloadedError: WEB_SEARCH_BUSY if it asks to wait.
        DeadlineExceededError: WEB_SEARCH_DEADLINE if the time is over.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await client.send(request, stream=True)
            try:
                if response.status_code != httpx.codes.OK:
                    raise _refusal(response.status_code)
                content = await _read(response)
            finally:
                await response.aclose()
        return json.loads(content)
    except TimeoutError as error:
        raise DeadlineExceededError(
            "WEB_SEARCH_DEADLINE", "the web search did not finish within the time given"
        ) from error
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise UnavailableError("WEB_SEARCH_UNAVAILABLE", "the web search does not answer as it should") from error


async def _read(response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)  # counted after decompression
        if size > _MAX_ANSWER_BYTES:
            raise UnavailableError("WEB_SEARCH_UNAVAILABLE", "the web search answers with more than anyone reads")
        parts.append(piece)
    return b"".join(parts)


def _refusal(status: int) -> CorpusMeshError:
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return OverloadedError("WEB_SEARCH_BUSY", "the web search refuses more queries for now; try again")
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return UnavailableError("WEB_SEARCH_UNAVAILABLE", "the web search does not answer; try again", status=status)
    return UnavailableError(
        "WEB_SEARCH_REFUSED",
        f"the web search refuses the query ({status}); check its address, its key, and that it answers with JSON",
        status=status,
    )


def read_results(value: object, *, snippet: str, content: str, max_results: int) -> tuple[WebResult, ...]:
    """Read the results of an engine's answer.

    Args:
        value: The JSON value.
        snippet: Name of the field that holds what the engine shows.
        content: Name of the field that holds the page's text; "" for none.
        max_results: Where to stop.

    Returns:
        Results with an address of http or https, each once, in order; what is no result is left out.

    Raises:
        UnavailableError: WEB_SEARCH_UNAVAILABLE if it is no answer at all.
    """
    entries = value.get("results") if isinstance(value, dict) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise UnavailableError("WEB_SEARCH_UNAVAILABLE", "the web search does not answer as it should")
    found: dict[str, WebResult] = {}
    for entry in entries:
        if len(found) == max_results:
            break
        url = _text(entry, "url", _MAX_URL_CHARACTERS + 1) if isinstance(entry, dict) else ""
        if not url.lower().startswith(("http://", "https://")) or len(url) > _MAX_URL_CHARACTERS:
            continue
        found.setdefault(
            url,
            WebResult(
                url=url,
                title=_text(entry, "title", _MAX_TITLE_CHARACTERS),
                snippet=_text(entry, snippet, _MAX_SNIPPET_CHARACTERS),
                content=_text(entry, content, _MAX_CONTENT_CHARACTERS) if content else "",
            ),
        )
    return tuple(found.values())


def _text(entry: Mapping[str, Any], name: str, max_characters: int) -> str:
    value = entry.get(name)
    return value.strip()[:max_characters] if isinstance(value, str) else ""
