"""Where a URL leads, decided before anything is connected to.

A name is resolved here, every address that it has is checked, and the connection is made to a checked address: a name
that resolves differently the next time gains nothing. Every redirect goes through the same gate.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import PurePosixPath
from urllib.parse import unquote

import httpx

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError, UnavailableError

Resolver = Callable[[str, int], Awaitable[list[str]]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Allow = Callable[[Address], bool]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SCHEMES = frozenset({"http", "https"})
# Of what the HTTP library unpacks on its own: a piece of deflate grows to a thousandfold at most, one of zstd to what
# fills the memory, and packings within packings multiply.
_PACKINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_MAX_URL_CHARACTERS = 4096
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


def request(
    client: httpx.AsyncClient, target: httpx.URL, address: str, headers: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[httpx.Response]:
    """Ask a checked address for a document, under the name of its host.

    Args:
        client: Must not follow redirects, nor use proxies of the environment.
        target: What `check_url` gave.
        address: The address that it gave with it.
        headers: Further headers.

    Returns:
        A context manager that gives the answer, its body unread.
    """
    return client.stream(
        "GET",
        target.copy_with(host=address),
        headers={**(headers or {}), "Host": target.netloc.decode("ascii"), "Accept-Encoding": "gzip"},
        extensions={"sni_hostname": target.raw_host.decode("ascii").strip("[]")},
    )


def check_packing(response: httpx.Response, target: httpx.URL) -> None:
    """Refuse a body whose pieces may unpack to more than memory holds before anything can count them.

    Args:
        response: The answer, its body unread.
        target: What was asked for.

    Raises:
        InvalidArgumentError: URL_PACKING_REFUSED if it is packed otherwise than was asked for, or twice.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in _PACKINGS:
        raise InvalidArgumentError(
            "URL_PACKING_REFUSED", f"{target} answers in a packing that was not asked for", field="url", url=target
        )


def redirect_target(response: httpx.Response, target: httpx.URL) -> str:
    """Tell where a redirect leads.

    Args:
        response: The answer.
        target: What was asked for.

    Returns:
        The next URL, not yet checked.

    Raises:
        UnavailableError: If the answer names none.
        InvalidArgumentError: If it cannot be understood.
    """
    location = response.headers.get("location", "")
    if not location:
        raise UnavailableError("URL_REDIRECT_EMPTY", f"{target} redirects to nowhere", url=target)
    try:
        return str(target.join(location))
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise _invalid(location, "it cannot be understood") from error


def display_name(target: httpx.URL, media_type: str) -> str:
    """Name a document after its address.

    Args:
        target: Its address.
        media_type: What the server says it is.

    Returns:
        A file name, data only, at most 255 characters.
    """
    name = PurePosixPath(unquote(target.path)).name
    name = re.sub(r"[\x00-\x1f\x7f/\\]+", "_", name).strip() or target.host
    suffix = _SUFFIX_BY_MEDIA_TYPE.get(media_type, "")
    has_suffix = re.search(r"\.[A-Za-z0-9]{1,5}$", name) is not None and name != target.host
    return (name if has_suffix else name + suffix)[:255]


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
