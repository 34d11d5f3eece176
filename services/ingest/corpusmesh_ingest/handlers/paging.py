"""Pages of the service's lists: sizes within bounds, in entries and in bytes."""

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from corpusmesh_runtime.page_tokens import checked_page_size, make_page_token, read_page_number, read_page_token

_MAX_PAGE_SIZE = 500
_MAX_PAGE_BYTES = 3 * 1024 * 1024
_Entry = TypeVar("_Entry", bound=Message)

__all__ = ["make_page_token", "page_size_of", "read_page_number", "read_page_token", "within_page"]


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


def page_size_of(page_size: int) -> int:
    """Read a page size.

    Args:
        page_size: The request's.

    Returns:
        50 for 0, at most 500.

    Raises:
        InvalidArgumentError: If it is negative.
    """
    return checked_page_size(page_size, max_page_size=_MAX_PAGE_SIZE)
