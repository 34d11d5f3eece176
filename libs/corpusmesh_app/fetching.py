"""Fetches a document from the web without letting its address reach anything private.

A name is resolved here, every address that it has is checked, and the connection is made to a checked address: a name
that resolves differently the next time gains nothing. Every redirect goes through the same gate.
"""

import asyncio
import ipaddress
import re
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import httpx

from corpusmesh_core.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

Resolver = Callable[[str, int], Awaitable[list[str]]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Allow = Callable[[Address], bool]

_SCHEMES = frozenset({"http", "https"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_URL_CHARACTERS = 4096
_PIECE_BYTES = 256 * 1024
_USER_AGENT = "corpusmesh"
# Public by number, but answered by the platform that a machine runs on; and special networks that Python's own table
# lacks in some releases.
_REFUSED_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "100::/64", "5f00::/16")
)
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_NAT64_NETWORKS = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE_NETWORK = ipaddress.ip_network("::/96")
_SUFFIX_BY_MEDIA_TYPE = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
}


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


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to the public internet.

    Args:
        address: The address; one that carries another (mapped, compatible, 6to4, NAT64) is judged by that one too.

    Returns:
        False for loopback, private, link-local, shared, reserved, multicast, documentation and platform addresses, and
        for tunnels whose far end cannot be known.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.teredo is not None or any(address in network for network in _NAT64_NETWORKS[1:]):
            return False
        inner = _carried(address)
        if inner is not None:
            return is_public(inner)
    refused = any(address.version == network.version and address in network for network in _REFUSED_NETWORKS)
    return address.is_global and not address.is_multicast and not refused


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64_NETWORKS[0] or (address in _COMPATIBLE_NETWORK and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


async def check_url(url: str, resolve: Resolver, allow: Allow = is_public) -> tuple[httpx.URL, str]:
    """Check where a URL leads.

    Args:
        url: The URL.
        resolve: Gives all addresses of a host name and port.
        allow: Tells whether an address may be connected to.

    Returns:
        The URL, and the address to connect to.

    Raises:
        InvalidArgumentError: If it is no http or https URL, or carries a user name or password.
        PermissionDeniedError: If any address of its host is not public.
        NotFoundError: If its host has no address.
    """
    parsed = _parse(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    host = parsed.raw_host.decode("ascii").strip("[]")
    addresses = await resolve(host, port)
    if not addresses:
        raise NotFoundError("URL_HOST_UNKNOWN", f"the host {parsed.host} has no address; check the URL", url=url)
    for text in addresses:
        address = ipaddress.ip_address(text.split("%", 1)[0])
        if "%" in text or not allow(address):
            raise PermissionDeniedError(
                "URL_ADDRESS_FORBIDDEN",
                f"the host {parsed.host} leads to {address}, which is not on the public internet; "
                "save the document and ingest the file",
                url=url,
                address=address,
            )
    return parsed, addresses[0]


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
                async with client.stream(
                    "GET",
                    target.copy_with(host=address),
                    headers={"Host": target.netloc.decode("ascii")},
                    extensions={"sni_hostname": target.raw_host.decode("ascii").strip("[]")},
                ) as response:
                    if response.status_code not in _REDIRECTS:
                        return await _save(response, target, folder, bounds)
                    current = _redirect_target(response, target)
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


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Ask the system for all addresses of a host.

    Args:
        host: Host name or address.
        port: Port.

    Returns:
        Its addresses, in the order to try them; empty if it is not known.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _http_client(bounds: FetchLimits) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        trust_env=False,  # a proxy would resolve the name again, out of reach of the check
        follow_redirects=False,
        timeout=httpx.Timeout(bounds.timeout_seconds, connect=bounds.connect_timeout_seconds),
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={"User-Agent": _USER_AGENT, "Accept": "*/*"},
    )


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise _invalid(url, "it cannot be understood") from error
    if len(url) > _MAX_URL_CHARACTERS:
        raise _invalid(url, f"it is longer than {_MAX_URL_CHARACTERS} characters")
    if parsed.scheme not in _SCHEMES or not parsed.host:
        raise _invalid(url, "it is not an http or https URL")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise _invalid(url, "its port is none")
    if _HOST.fullmatch(parsed.raw_host.decode("ascii").strip("[]")) is None:
        raise _invalid(url, "its host is none")
    if parsed.userinfo:
        raise _invalid(url, "it carries a user name or password")
    return parsed


def _invalid(url: str, why: str) -> InvalidArgumentError:
    shown = url[:200]
    return InvalidArgumentError("URL_INVALID", f"{shown!r} is refused: {why}", field="url", url=shown)


def _forbid_downgrade(first: str, current: str) -> None:
    if first.lower().startswith("https:") and not current.lower().startswith("https:"):
        raise PermissionDeniedError(
            "URL_DOWNGRADE",
            f"{first} redirects from https to plain http; give the final URL if you trust it",
            url=first,
        )


def _redirect_target(response: httpx.Response, target: httpx.URL) -> str:
    location = response.headers.get("location", "")
    if not location:
        raise UnavailableError("URL_REDIRECT_EMPTY", f"{target} redirects to nowhere", url=target)
    try:
        return str(target.join(location))
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise _invalid(location, "it cannot be understood") from error


async def _save(response: httpx.Response, target: httpx.URL, folder: Path, bounds: FetchLimits) -> FetchedFile:
    if response.status_code != httpx.codes.OK:
        cls = NotFoundError if response.status_code in (404, 410) else UnavailableError
        raise cls(
            "URL_STATUS", f"{target} answered {response.status_code}", url=target, status_code=response.status_code
        )
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
    return FetchedFile(path, _display_name(target, media_type), media_type, str(target), size)


def _display_name(target: httpx.URL, media_type: str) -> str:
    name = PurePosixPath(unquote(target.path)).name
    name = re.sub(r"[\x00-\x1f\x7f/\\]+", "_", name).strip() or target.host
    suffix = _SUFFIX_BY_MEDIA_TYPE.get(media_type, "")
    has_suffix = re.search(r"\.[A-Za-z0-9]{1,5}$", name) is not None and name != target.host
    return (name if has_suffix else name + suffix)[:255]
