"""Fetches a document from the web without letting its address reach anything private."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from corpusmesh_adapters.connectors.web.addresses import (
    REDIRECTS,
    Allow,
    Resolver,
    check_packing,
    check_url,
    display_name,
    is_public,
    redirect_target,
    request,
    resolve_by_system,
)
from corpusmesh_core.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

_PIECE_BYTES = 256 * 1024
_USER_AGENT = "corpusmesh"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of a fetch.

    Attributes:
        max_bytes: Largest document.
        timeout_seconds: Time over all redirects.
        connect_timeout_seconds: Time of one connection.
        max_redirects: Redirects followed.
    """

    max_bytes: int = 256 * 1024 * 1024
    timeout_seconds: float = 300.0
    connect_timeout_seconds: float = 15.0
    max_redirects: int = 5


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A document that was fetched.

    Attributes:
        path: Where it lies.
        display_name: Name made from its address; data only, never a path.
        media_type: Media type that the server gave; "" if none.
        final_url: Address after all redirects.
        size_bytes: Its size.
    """

    path: Path
    display_name: str
    media_type: str
    final_url: str
    size_bytes: int


async def fetch(
    url: str,
    folder: Path,
    *,
    limits: FetchLimits | None = None,
    resolve: Resolver | None = None,
    allow: Allow = is_public,
) -> FetchedFile:
    """Fetch a document.

    Args:
        url: Its http or https URL.
        folder: Where to put it.
        limits: Bounds; None for the defaults.
        resolve: Gives all addresses of a host; None to ask the system.
        allow: Tells whether an address may be connected to.

    Returns:
        The document.

    Raises:
        CorpusMeshError: If the URL is refused, the server does not give the document, or a bound was reached.
    """
    bounds = limits or FetchLimits()
    lookup = resolve or resolve_by_system
    current = url
    try:
        async with asyncio.timeout(bounds.timeout_seconds), _http_client(bounds) as client:
            for _ in range(bounds.max_redirects + 1):
                target, address = await check_url(current, lookup, allow)
                _forbid_downgrade(url, current)
                async with request(client, target, address) as response:
                    if response.status_code not in REDIRECTS:
                        return await _save(response, target, folder, bounds)
                    current = redirect_target(response, target)
    except TimeoutError as error:
        raise DeadlineExceededError(
            "URL_TIMEOUT", f"{url} took longer than {bounds.timeout_seconds:.0f} seconds", url=url
        ) from error
    except httpx.HTTPError as error:
        raise UnavailableError(
            "URL_UNREACHABLE", f"{current} cannot be fetched ({type(error).__name__})", url=current
        ) from error
    raise InvalidArgumentError(
        "URL_REDIRECTS", f"{url} redirects more than {bounds.max_redirects} times", field="url", url=url
    )


def _http_client(bounds: FetchLimits) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        trust_env=False,  # a proxy would resolve the name again, out of reach of the check
        follow_redirects=False,
        timeout=httpx.Timeout(bounds.timeout_seconds, connect=bounds.connect_timeout_seconds),
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={"User-Agent": _USER_AGENT, "Accept": "*/*"},
    )


def _forbid_downgrade(first: str, current: str) -> None:
    if first.lower().startswith("https:") and not current.lower().startswith("https:"):
        raise PermissionDeniedError(
            "URL_DOWNGRADE",
            f"{first} redirects from https to plain http; give the final URL if you trust it",
            url=first,
        )


async def _save(response: httpx.Response, target: httpx.URL, folder: Path, bounds: FetchLimits) -> FetchedFile:
    if response.status_code != httpx.codes.OK:
        cls = NotFoundError if response.status_code in (404, 410) else UnavailableError
        raise cls(
            "URL_STATUS", f"{target} answered {response.status_code}", url=target, status_code=response.status_code
        )
    check_packing(response, target)
    media_type = response.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    path = folder / "document"
    size = 0
    started = time.monotonic()
    with path.open("wb") as file:
        async for piece in response.aiter_bytes(_PIECE_BYTES):
            size += len(piece)
            if size > bounds.max_bytes:  # counted after decompression
                raise InvalidArgumentError(
                    "URL_TOO_LARGE",
                    f"{target} is larger than {bounds.max_bytes} bytes",
                    field="url",
                    url=target,
                    limit=bounds.max_bytes,
                )
            if time.monotonic() - started > bounds.timeout_seconds:
                raise TimeoutError
            await asyncio.to_thread(file.write, piece)
    return FetchedFile(path, display_name(target, media_type), media_type, str(target), size)
