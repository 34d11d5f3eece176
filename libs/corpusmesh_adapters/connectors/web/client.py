"""Requests to one site: at its pace, bounded, with a second try, and never to a private address."""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO

import httpx

from corpusmesh_adapters.connectors.settings import WebSettings
from corpusmesh_adapters.connectors.web.addresses import (
    REDIRECTS,
    Address,
    Allow,
    Resolver,
    check_packing,
    check_url,
    redirect_target,
    request,
)
from corpusmesh_adapters.connectors.web.pages import same_origin
from corpusmesh_core.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
)

_USER_AGENT = "corpusmesh/1.0 (documents of a knowledge base)"
_PIECE_BYTES = 256 * 1024
_SPOOL_BYTES = 4 * 1024 * 1024
_CONNECT_SECONDS = 10.0
_MAX_REDIRECTS = 5
_FIRST_PAUSE_SECONDS = 0.5
_BUSY = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What a site answered.

    Attributes:
        url: Address after redirects.
        status_code: Status of the last answer; a redirect where it leads to another site.
        is_moved_for_good: Whether every redirect on the way was a permanent one.
        headers: Headers of the last answer, names in lower case.
        body: The content, at its beginning; to be closed.
        size_bytes: Its length.
        sha256: Its digest, hexadecimal.
    """

    url: httpx.URL
    status_code: int
    is_moved_for_good: bool
    headers: Mapping[str, str]
    body: IO[bytes]
    size_bytes: int
    sha256: str

    @property
    def media_type(self) -> str:
        """Its media type, lower case, without parameters; "" if none."""
        return self.headers.get("content-type", "").split(";", 1)[0].strip().lower()


@dataclass(slots=True)
class WebClient:
    """Requests to a site, one at a time.

    Attributes:
        settings: Pace and bounds.
        resolve: Gives all addresses of a host.
        allow: Tells whether an address may be connected to.
        client: Connections.
        delay_seconds: Least time between two requests.
        received_bytes: Bytes of all bodies so far.
        allows: Tells whether the site's rules let a path be read; asked of redirects within the site.
    """

    settings: WebSettings
    resolve: Resolver
    allow: Allow
    client: httpx.AsyncClient
    delay_seconds: float
    received_bytes: int = 0
    allows: Callable[[str], bool] | None = None
    _last_request_at: float = field(default=-1e9)

    def slow_down(self, delay_seconds: float) -> None:
        """Keep the pace that a site asks for, within the configured bounds."""
        wanted = min(delay_seconds, self.settings.max_delay_seconds)
        self.delay_seconds = max(self.delay_seconds, wanted)

    async def get(
        self, url: str, *, origin: httpx.URL | None = None, headers: Mapping[str, str] | None = None, max_bytes: int
    ) -> WebAnswer:
        """Fetch a document; a busy site, or one that does not answer, is asked again.

        Args:
            url: Its URL.
            origin: Site that redirects must stay on; None for any.
            headers: Further headers, such as conditions.
            max_bytes: Longest body.

        Returns:
            The answer, whatever its status.

        Raises:
            UnavailableError: URL_UNREACHABLE if the site does not answer, or URL_REDIRECTS if it redirects in circles.
            InvalidArgumentError: URL_TOO_LARGE if the body is longer.
            DeadlineExceededError: URL_TIMEOUT if it takes too long.
            CorpusMeshError: If the address is refused.
        """
        pause_seconds = _FIRST_PAUSE_SECONDS
        for attempt in range(1, self.settings.max_attempts + 1):
            is_last = attempt == self.settings.max_attempts
            try:
                answer = await self._get_once(url, origin, headers or {}, max_bytes)
            except (UnavailableError, DeadlineExceededError):
                if is_last:
                    raise
            else:
                if answer.status_code not in _BUSY or is_last:
                    return answer
                answer.body.close()
                pause_seconds = max(pause_seconds, _seconds(answer.headers.get("retry-after", "")))
            await asyncio.sleep(min(pause_seconds, self.settings.max_delay_seconds))
            pause_seconds *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _get_once(
        self, url: str, origin: httpx.URL | None, headers: Mapping[str, str], max_bytes: int
    ) -> WebAnswer:
        current, for_good = url, True
        try:
            async with asyncio.timeout(self.settings.request_timeout_seconds):
                for _ in range(_MAX_REDIRECTS + 1):
                    target, address = await check_url(current, self.resolve, self.allow)
                    await self._keep_pace()
                    async with request(self.client, target, address, headers) as response:
                        following = self._following(response, target, url, origin)
                        if not following:
                            return await self._read(response, target, for_good, max_bytes)
                        for_good = for_good and response.status_code in (301, 308)
                        current = following
        except TimeoutError as error:
            raise DeadlineExceededError(
                "URL_TIMEOUT", f"{url} took longer than {self.settings.request_timeout_seconds:.0f} seconds", url=url
            ) from error
        except httpx.HTTPError as error:
            raise UnavailableError(
                "URL_UNREACHABLE", f"{current} cannot be fetched ({type(error).__name__})", url=current
            ) from error
        raise UnavailableError("URL_REDIRECTS", f"{url} redirects more than {_MAX_REDIRECTS} times", url=url)

    def _following(self, response: httpx.Response, target: httpx.URL, first: str, origin: httpx.URL | None) -> str:
        """Tell where to go on; "" to take the answer as it is."""
        if response.status_code not in REDIRECTS:
            return ""
        following = redirect_target(response, target)
        try:
            parsed = httpx.URL(following)
        except (httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise InvalidArgumentError("URL_INVALID", f"{first} redirects to what is no URL", url=first) from error
        is_downgrade = target.scheme == "https" and parsed.scheme != "https"
        leaves = origin is not None and not same_origin(parsed, origin)
        is_forbidden = (
            origin is not None
            and self.allows is not None
            and not self.allows(parsed.raw_path.decode("ascii", "replace"))
        )
        return "" if is_downgrade or leaves or is_forbidden else following

    async def _keep_pace(self) -> None:
        wait = self._last_request_at + self.delay_seconds - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        self._last_request_at = time.monotonic()

    async def _read(self, response: httpx.Response, target: httpx.URL, for_good: bool, max_bytes: int) -> WebAnswer:
        check_packing(response, target)
        body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - handed on
        digest = hashlib.sha256()
        size = 0
        is_whole = False
        try:
            async for piece in response.aiter_bytes(_PIECE_BYTES):
                size += len(piece)  # counted after decompression
                self.received_bytes += len(piece)
                if size > max_bytes:
                    raise InvalidArgumentError(
                        "URL_TOO_LARGE",
                        f"{target} is larger than {max_bytes} bytes",
                        field="url",
                        url=target,
                        limit=max_bytes,
                    )
                digest.update(piece)
                await asyncio.to_thread(body.write, piece)
            is_whole = True
        finally:
            if not is_whole:
                body.close()
        body.seek(0)
        return WebAnswer(
            url=target,
            status_code=response.status_code,
            is_moved_for_good=for_good,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
            size_bytes=size,
            sha256=digest.hexdigest(),
        )


@asynccontextmanager
async def open_web_client(settings: WebSettings, resolve: Resolver, public: Allow) -> AsyncIterator[WebClient]:
    """Open a client for one site.

    Args:
        settings: Pace and bounds.
        resolve: Gives all addresses of a host.
        public: Tells whether an address is public.

    Yields:
        The client.
    """
    async with httpx.AsyncClient(
        trust_env=False,  # a proxy would resolve the name again, out of reach of the check
        follow_redirects=False,
        timeout=httpx.Timeout(settings.request_timeout_seconds, connect=_CONNECT_SECONDS),
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={"User-Agent": _USER_AGENT, "Accept": "*/*"},
    ) as client:
        yield WebClient(settings, resolve, _allow(settings, public), client, settings.min_delay_seconds)


def _allow(settings: WebSettings, public: Allow) -> Allow:
    def check(address: Address) -> bool:
        return public(address) or any(
            network.version == address.version and address in network for network in settings.allowed_networks
        )

    return check


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) <= 6 else 0.0
