"""Tokens of search pages: they pin the snapshots of the first page and fit one query alone."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.index import MAX_WINDOW

_MAX_TOKEN_CHARACTERS = 4096
_MAX_NUMBER = 2**31


@dataclass(frozen=True, slots=True)
class SearchPosition:
    """Where a page begins.

    Attributes:
        offset: Hits of the pages before.
        snapshots: Snapshot by knowledge base, 0 where nothing was published; empty for the current ones.
        window: Candidates of each leg on the first page, so that a page of another size cuts the same order; 0 for the
            request's own.
    """

    offset: int
    snapshots: Mapping[str, int]
    window: int = 0


def fingerprint_of(request: bytes) -> str:
    """Digest what a token must fit.

    Args:
        request: The serialised request without page token and page size.

    Returns:
        A short digest.
    """
    return hashlib.sha256(request).hexdigest()[:16]


def make_search_token(fingerprint: str, position: SearchPosition) -> str:
    """Make the token of the next page.

    Args:
        fingerprint: What the token fits.
        position: Where the page begins.

    Returns:
        An opaque token.
    """
    place = [fingerprint, position.offset, dict(position.snapshots), position.window]
    text = json.dumps(place, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_search_token(fingerprint: str, token: str) -> SearchPosition:
    """Read a token.

    Args:
        fingerprint: What the token must fit.
        token: What `make_search_token` made for the same query.

    Returns:
        Where the page begins.

    Raises:
        InvalidArgumentError: If it is no token of this query.
    """
    try:
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise ValueError
        own, offset, snapshots, window = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if own != fingerprint or type(offset) is not int or offset < 0 or not isinstance(snapshots, dict):
            raise ValueError
        if type(window) is not int or not 0 <= window <= MAX_WINDOW:
            raise ValueError
        if not all(type(value) is int and 0 <= value < _MAX_NUMBER for value in (offset, *snapshots.values())):
            raise ValueError
        return SearchPosition(offset, snapshots, window)
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise InvalidArgumentError(
            "PAGE_TOKEN_INVALID",
            "page_token must be the next_page_token of the same query; leave it empty for the first page",
            field="page_token",
        ) from error
