"""One page of an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from corpusmesh_core.errors import InvalidArgumentError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of an order.

    Attributes:
        items: The items of this page.
        next_offset: Where the next page begins; None at the end.
        total_count: Items of the whole order.
    """

    items: tuple[T, ...]
    next_offset: int | None
    total_count: int


def page_of(items: Sequence[T], *, offset: int, page_size: int) -> Page[T]:
    """Cut one page.

    Args:
        items: The whole order.
        offset: Items to pass over, at least 0; beyond the end gives an empty last page.
        page_size: Items per page, at least 1.

    Returns:
        The page; pages laid end to end are the order, each item once.

    Raises:
        InvalidArgumentError: If offset or size is out of range.
    """
    if offset < 0:
        raise InvalidArgumentError("OFFSET_INVALID", "offset must not be negative", field="offset", value=offset)
    if page_size < 1:
        raise InvalidArgumentError(
            "PAGE_SIZE_INVALID", "page_size must be positive", field="page_size", value=page_size
        )
    end = offset + page_size
    return Page(tuple(items[offset:end]), end if end < len(items) else None, len(items))
