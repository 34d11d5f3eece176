"""Pages of the service's lists: sizes within bounds, in entries and in bytes."""

from corpusmesh_runtime.page_tokens import (
    checked_page_size,
    make_page_token,
    read_page_number,
    read_page_token,
    within_page,
)

_MAX_PAGE_SIZE = 500

__all__ = ["make_page_token", "page_size_of", "read_page_number", "read_page_token", "within_page"]


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
