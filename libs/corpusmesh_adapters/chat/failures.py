"""From HTTP answers of a language model to the error tree; nothing that the service wrote reaches a caller.

A service's error text can hold the prompt (document text) or the key that it refused, so only its type is kept.
"""

import json
import re

import httpx

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OverloadedError,
    UnavailableError,
)

_CODE = re.compile(r"[a-z_]{1,40}")


def unavailable() -> UnavailableError:
    """Say that the service does not answer or broke off.

    Returns:
        The error.
    """
    return UnavailableError("CHAT_UNAVAILABLE", "the language model does not answer or broke off; try again")


def busy() -> OverloadedError:
    """Say that too many calls wait here.

    Returns:
        The error.
    """
    return OverloadedError("CHAT_OVERLOADED", "too many calls wait for the language model; try again")


def deadline_exceeded() -> DeadlineExceededError:
    """Say that the time is over.

    Returns:
        The error.
    """
    return DeadlineExceededError("CHAT_DEADLINE", "the language model did not finish within the time given")


def is_retryable(error: CorpusMeshError) -> bool:
    """Tell whether the same request may succeed later.

    Args:
        error: What an attempt raised.

    Returns:
        True for a busy or absent service.
    """
    return isinstance(error, UnavailableError | OverloadedError)


def from_response(response: httpx.Response, start: bytes) -> CorpusMeshError:
    """Translate a refusal.

    Args:
        response: Its status and headers.
        start: The beginning of its body.

    Returns:
        The error to raise.
    """
    status = response.status_code
    code = _error_code(start)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return OverloadedError(
            "CHAT_OVERLOADED",
            "the language model refuses more calls for now; try again",
            retry_after_seconds=_retry_after_seconds(response),
        )
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        return FailedPreconditionError(
            "CHAT_ACCESS_DENIED", "the language model refuses the configured key", status=status
        )
    if status == httpx.codes.NOT_FOUND:
        return FailedPreconditionError(
            "CHAT_MODEL_UNKNOWN", "the service does not know the configured model or address", status=status
        )
    if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return UnavailableError(
            "CHAT_UNAVAILABLE",
            "the language model does not answer; try again",
            status=status,
            retry_after_seconds=_retry_after_seconds(response),
        )
    return InvalidArgumentError(
        "CHAT_REFUSED",
        f"the language model refuses the request ({status}{f', {code}' if code else ''}); it may be too long",
        status=status,
        code=code,
    )


def _retry_after_seconds(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    return float(value) if re.fullmatch(r"\d{1,5}(\.\d{1,3})?", value) else 0.0


def _error_code(start: bytes) -> str:
    try:
        error = json.loads(start).get("error")
    except (ValueError, AttributeError):
        return ""
    value = (error.get("code") or error.get("type")) if isinstance(error, dict) else None
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""
