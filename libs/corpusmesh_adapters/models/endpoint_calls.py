"""What clients of model endpoints have in common: connections, keys, and waiting where an endpoint asks to."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import httpx

from corpusmesh_core.errors import FailedPreconditionError, OverloadedError, UnavailableError

_CONNECT_TIMEOUT_SECONDS: Final = 3.0
_SECONDS: Final = re.compile(r"\d{1,5}(\.\d{1,3})?")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and after what, a call is tried again.

    Attributes:
        max_attempt_count: Attempts, the first included.
        first_backoff_seconds: Wait before the second attempt at the most; it doubles with each further one.
        longest_backoff_seconds: Longest wait, whatever the endpoint asks for.
    """

    max_attempt_count: int
    first_backoff_seconds: float
    longest_backoff_seconds: float


def with_retries(
    attempt: Callable[[], _Value],
    retries: Retries,
    *,
    jitter: Callable[[], float],
    sleep: Callable[[float], None],
) -> _Value:
    """Call an endpoint until it answers; blocks its thread.

    Args:
        attempt: One call.
        retries: How often.
        jitter: Draws from [0, 1), so that refused callers do not come back together.
        sleep: Waits between attempts.

    Returns:
        What the call gave.

    Raises:
        UnavailableError: If the last attempt failed too.
        OverloadedError: If the last attempt was refused too.
    """
    number = 1
    while True:
        try:
            return attempt()
        except (UnavailableError, OverloadedError) as error:
            if number >= retries.max_attempt_count:
                raise
            wait = retries.first_backoff_seconds * 2.0 ** (number - 1) * jitter()
            asked = float(error.metadata.get("retry_after_seconds", 0.0))
            sleep(min(max(wait, asked), retries.longest_backoff_seconds))
        number += 1


def endpoint_client(base_url: str, *, timeout_seconds: float) -> httpx.Client:
    """Make the client of an endpoint.

    Args:
        base_url: Where it answers.
        timeout_seconds: Longest wait for any part of an answer.

    Returns:
        A client that follows no redirect, which would carry the key to another host.
    """
    return httpx.Client(
        base_url=base_url.rstrip("/") + "/",
        timeout=httpx.Timeout(timeout_seconds, connect=_CONNECT_TIMEOUT_SECONDS),
        follow_redirects=False,
    )


def key_headers(path: Path | None, unreadable: FailedPreconditionError) -> dict[str, str]:
    """Read the key of an endpoint anew, so that it can be changed while the service runs.

    Args:
        path: File with the key; None for none.
        unreadable: What to raise where the file cannot be read.

    Returns:
        Headers of a request.

    Raises:
        FailedPreconditionError: `unreadable`.
    """
    if path is None:
        return {}
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise unreadable from error
    return {"Authorization": f"Bearer {key}"}


def retry_after_seconds_of(response: httpx.Response) -> float:
    """Read how long an endpoint asks to wait.

    Args:
        response: Its refusal.

    Returns:
        Seconds; 0 where it does not say, or names a date.
    """
    after = response.headers.get("retry-after", "")
    return float(after) if _SECONDS.fullmatch(after) else 0.0
