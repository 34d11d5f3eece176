"""Pages of lists: sizes within bounds, and tokens that fit the listing alone that they came from."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from corpusmesh_core.errors import InvalidArgumentError

_DEFAULT_PAGE_SIZE = 50
_DIGEST_CHARACTERS = 8
_MAX_TOKEN_CHARACTERS = 256
_MAX_PIN_CHARACTERS = 24
_KEY = re.compile(r"[A-Za-z0-9._-]{1,128}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_MAX_PAGE_BYTES = 3 * 1024 * 1024
_Entry = TypeVar("_Entry", bound=Message)


def checked_page_size(page_size: int, *, max_page_size: int) -> int:
    """Read a page size.

    Args:
        page_size: The request's.
        max_page_size: Most entries of a page.

    Returns:
        50 for 0, at most `max_page_size`.

    Raises:
        InvalidArgumentError: If it is negative.
    """
    if page_size < 0:
        raise InvalidArgumentError("PAGE_SIZE_INVALID", "page_size must not be negative", field="page_size")
    return min(page_size or _DEFAULT_PAGE_SIZE, max_page_size)


def within_page(entries: Iterable[_Entry]) -> list[_Entry]:
    """Take as many entries as a response holds; one always does.

    Args:
        entries: Entries of a page, made as they are asked for.

    Returns:
        The first of them.
    """
    page: list[_Entry] = []
    byte_count = 0
    for entry in entries:
        byte_count += entry.ByteSize()
        if page and byte_count > _MAX_PAGE_BYTES:
            break
        page.append(entry)
    return page


def make_page_token(listing: str, key: str) -> str:
    """Make the token of the next page.

    Args:
        listing: What is listed, such as method and parent.
        key: Last key of this page, 1 to 128 letters, digits, dots, dashes and underlines.

    Returns:
        An opaque token.
    """
    return base64.urlsafe_b64encode(f"{_digest(listing)}{key}".encode()).decode().rstrip("=")


def read_page_token(listing: str, token: str) -> str:
    """Read a token.

    Args:
        listing: What is listed.
        token: What `make_page_token` made for the same listing; "" for the first page.

    Returns:
        The key after which the page begins; "" for the first page.

    Raises:
        InvalidArgumentError: If it is no token of this listing.
    """
    if not token:
        return ""
    if len(token) > _MAX_TOKEN_CHARACTERS:
        raise page_token_invalid()
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise page_token_invalid() from error
    # Anybody can make a token, so its key is as untrusted as any other input.
    if not text.startswith(_digest(listing)) or not _KEY.fullmatch(text[_DIGEST_CHARACTERS:]):
        raise page_token_invalid()
    return text[_DIGEST_CHARACTERS:]


def read_page_number(listing: str, token: str, *, first: int = 0) -> int:
    """Read the token of a listing whose keys are numbers.

    Args:
        listing: What is listed.
        token: What `make_page_token` made for the same listing; "" for the first page.
        first: Number of the first page.

    Returns:
        The number at which the page begins, as the listing counts.

    Raises:
        InvalidArgumentError: If it is no token of this listing.
    """
    key = read_page_token(listing, token)
    if not key:
        return first
    if not _NUMBER.fullmatch(key):
        raise page_token_invalid()
    return int(key)


def make_pinned_token(listing: str, snapshot_id: int, start: int) -> str:
    """Make the token of the next page of a listing whose pages are all of one snapshot.

    Args:
        listing: What is listed, such as method and parent.
        snapshot_id: The snapshot.
        start: Place of the first entry of the next page in the whole list.

    Returns:
        An opaque token.
    """
    return make_page_token(listing, f"{snapshot_id}.{start}")


def read_pinned_token(listing: str, token: str) -> tuple[int | None, int]:
    """Read the token of a listing whose pages are all of one snapshot.

    Args:
        listing: What is listed.
        token: What `make_pinned_token` made for the same listing; "" for the first page.

    Returns:
        The snapshot, None for the first page; and the place of the first entry.

    Raises:
        InvalidArgumentError: If it is no token of this listing.
    """
    key = read_page_token(listing, token)
    if not key:
        return None, 0
    snapshot, _, start = key.partition(".")
    if not (snapshot.isdecimal() and start.isdecimal() and len(key) <= _MAX_PIN_CHARACTERS):
        raise page_token_invalid()
    return int(snapshot), int(start)


def page_token_invalid() -> InvalidArgumentError:
    """Refuse a token.

    Returns:
        PAGE_TOKEN_INVALID.
    """
    return InvalidArgumentError(
        "PAGE_TOKEN_INVALID",
        "page_token must be the next_page_token of the same listing; leave it empty for the first page",
        field="page_token",
    )


def _digest(listing: str) -> str:
    return hashlib.sha256(listing.encode()).hexdigest()[:_DIGEST_CHARACTERS]
