"""Pages of lists: sizes within bounds, and tokens that fit the listing alone that they came from."""

import base64
import binascii
import hashlib
import re

from corpusmesh_core.errors import InvalidArgumentError

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200
_DIGEST_CHARACTERS = 8
_MAX_DIGITS = 9
_KEY = re.compile(r"[a-z0-9-]{1,63}")


def list_size_of(page_size: int) -> int:
    """Read the size of a page.

    Args:
        page_size: The request's.

    Returns:
        50 for 0, at most 200.

    Raises:
        InvalidArgumentError: If it is negative.
    """
    if page_size < 0:
        raise InvalidArgumentError("PAGE_SIZE_INVALID", "page_size must not be negative", field="page_size")
    return min(page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def make_list_token(listing: str, key: str) -> str:
    """Make the token of the next page.

    Args:
        listing: What is listed, such as method and parent.
        key: Last key of this page.

    Returns:
        An opaque token.
    """
    return base64.urlsafe_b64encode(f"{_digest(listing)}{key}".encode()).decode().rstrip("=")


def read_list_token(listing: str, token: str) -> str:
    """Read a token.

    Args:
        listing: What is listed.
        token: What `make_list_token` made for the same listing; "" for the first page.

    Returns:
        The key behind which the page begins; "" for the first page.

    Raises:
        InvalidArgumentError: If it is no token of this listing.
    """
    if not token:
        return ""
    try:
        text = base64.urlsafe_b64decode(token[:200] + "=" * (-len(token[:200]) % 4)).decode()
    except (binascii.Error, ValueError):
        text = ""
    digest, key = text[:_DIGEST_CHARACTERS], text[_DIGEST_CHARACTERS:]
    if digest != _digest(listing) or not _KEY.fullmatch(key):
        raise _invalid()
    return key


def read_list_number(listing: str, token: str) -> int | None:
    """Read a token of a listing by number.

    Args:
        listing: What is listed.
        token: What `make_list_token` made for the same listing; "" for the first page.

    Returns:
        The number behind which the page begins; None for the first page.

    Raises:
        InvalidArgumentError: If it is no token of this listing.
    """
    key = read_list_token(listing, token)
    if key and (not key.isdigit() or len(key) > _MAX_DIGITS):
        raise _invalid()
    return int(key) if key else None


def _invalid() -> InvalidArgumentError:
    return InvalidArgumentError(
        "PAGE_TOKEN_INVALID",
        "page_token must be the next_page_token of the same listing; leave it empty for the first page",
        field="page_token",
    )


def _digest(listing: str) -> str:
    return hashlib.sha256(listing.encode()).hexdigest()[:_DIGEST_CHARACTERS]
