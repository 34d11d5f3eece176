"""Server-sent events of the OpenAI chat protocol, read within bounds."""

import json
from collections.abc import AsyncIterator
from typing import Any

from corpusmesh_core.ports.chat import ChatDelta, ChatUsage, FinishReason

MAX_EVENT_BYTES = 1 << 20
_MAX_TOKENS = 100_000_000


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Cut a byte stream into the data of its events.

    Args:
        pieces: Body of the response, cut anywhere, also inside a character.

    Yields:
        Data of each event that has any.

    Raises:
        ValueError: If an event is longer than 1 MiB.
    """
    pending = b""
    lines: list[bytes] = []
    async for piece in pieces:
        pending += piece
        if len(pending) > MAX_EVENT_BYTES:
            raise ValueError("an event is too long")
        *complete, pending = pending.replace(b"\r\n", b"\n").split(b"\n")
        for line in complete:
            if line.startswith(b"data:"):
                lines.append(line[5:].strip())
            elif not line and lines:
                yield b"\n".join(lines).decode("utf-8", errors="replace")
                lines.clear()
    if pending.startswith(b"data:"):
        lines.append(pending[5:].strip())
    if lines:
        yield b"\n".join(lines).decode("utf-8", errors="replace")


def parse_event(data: str) -> ChatDelta:
    """Read one chunk of a completion.

    Args:
        data: JSON of the chunk.

    Returns:
        Its text, finish reason and usage; fields of other kinds are passed over.

    Raises:
        ValueError: If it is not JSON, not an object, or reports an error.
    """
    chunk = json.loads(data)
    if not isinstance(chunk, dict) or "error" in chunk:
        raise ValueError("the service reports an error inside the stream")
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    inner = choice.get("delta")
    content = inner.get("content") if isinstance(inner, dict) else None
    return ChatDelta(
        content if isinstance(content, str) else "",
        _finish_reason(choice.get("finish_reason")),
        _usage(chunk.get("usage")),
    )


def _finish_reason(value: Any) -> FinishReason | None:
    if not isinstance(value, str):
        return None
    return FinishReason(value) if value in set(FinishReason) else FinishReason.OTHER


def _usage(value: Any) -> ChatUsage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    # What no call can cost is not believed: it would be taken off what a tenant has spent, or fit into no column.
    if not (0 <= prompt <= _MAX_TOKENS and 0 <= completion <= _MAX_TOKENS):
        return None
    return ChatUsage(prompt, completion)
