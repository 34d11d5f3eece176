"""The first layer of trees by page or by heading: what the document itself has put together.

A summary stands for a page or a section, and leads to its chunks: the two levels of hierarchical indices (seed
`003_67b62910d2d3a085.txt`). Only the first layer is the document's. Above it the watershed goes on; that is the
business of what grows the tree layer by layer.

Groups are contiguous. The summary of a page or section of one chunk says the same again, so lone chunks are put
together with their like where the document allows it; what comes out has seldom more than half as many groups as
chunks.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.settings import TreeMethod
from corpusmesh_core.trees.values import Leaf
from corpusmesh_core.trees.watershed import split_oversized

MIN_GROUP_TOKENS: Final = 200
"""A lone chunk of fewer tokens is not summarized alone: its summary would be a copy."""
_NO_KIN: Final = -1
_MAX_SHARE: Final = 0.5
"""Groups against chunks above which lone chunks are put together whatever their length."""


@dataclass(frozen=True, slots=True)
class Section:
    """Chunks that the document has put together.

    Attributes:
        title: Headings above all of them, joined by " > ", or their pages; "" where they have nothing in common.
        places: Their places, ascending and contiguous.
    """

    title: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring chunks: headings above them, places from `first` up to `end`, and their tokens."""

    path: tuple[str, ...]
    first: int
    end: int
    token_count: int

    @property
    def is_lone(self) -> bool:
        return self.end - self.first == 1


def group_leaves(
    leaves: Sequence[Leaf], method: TreeMethod, *, max_size: int = 64, cosines: NDArray[np.float32] | None = None
) -> tuple[Section, ...]:
    """Group chunks by page or by heading.

    Chunks of a format without pages are one group, as are those without headings; a chunk that has no page amid others
    that have goes with the page before it.

    Args:
        leaves: Chunks of one document, in reading order.
        method: PAGE or SECTION.
        max_size: Most chunks of a group, at least 4; larger ones are cut, and the parts share their title.
        cosines: How alike neighbours are, shape (n - 1,): large groups are cut where they are least so; without it, in
            halves.

    Returns:
        Groups in order; every chunk is in one of them.
    """
    if not leaves:
        return ()
    by_page = method is TreeMethod.PAGE
    groups = _join_short_pages(_page_runs(leaves)) if by_page else _join_siblings(_heading_runs(leaves))
    groups = _join_lone(groups, max_tokens=MIN_GROUP_TOKENS - 1, among_kin=True)
    if len(groups) > _MAX_SHARE * len(leaves):
        groups = _join_lone(groups, max_tokens=None, among_kin=False)
    sections: list[Section] = []
    for group in groups:
        title = page_label(leaf.page for leaf in leaves[group.first : group.end]) if by_page else " > ".join(group.path)
        sections += [Section(title, tuple(range(*bounds))) for bounds in _cut(group, max_size, cosines)]
    return tuple(sections)


def page_label(pages: Iterable[int]) -> str:
    """Name the pages that texts stand on.

    Args:
        pages: Their pages from 1; 0 where the format has none.

    Returns:
        The first and the last, such as "pages 3–5"; "" where there is none.
    """
    numbers = [page for page in pages if page]
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"page {low}" if low == high else f"pages {low}–{high}"


def _page_runs(leaves: Sequence[Leaf]) -> list[_Group]:
    pages: list[int] = []
    for leaf in leaves:
        pages.append(leaf.page or (pages[-1] if pages else 0))
    return _runs(leaves, [(str(page),) for page in pages])


def _heading_runs(leaves: Sequence[Leaf]) -> list[_Group]:
    return _runs(leaves, [leaf.heading_path for leaf in leaves])


def _runs(leaves: Sequence[Leaf], paths: Sequence[tuple[str, ...]]) -> list[_Group]:
    groups: list[_Group] = []
    for path, run in itertools.groupby(range(len(leaves)), key=paths.__getitem__):
        places = list(run)
        tokens = sum(leaves[place].token_count for place in places)
        groups.append(_Group(path, places[0], places[-1] + 1, tokens))
    return groups


def _join_siblings(groups: list[_Group]) -> list[_Group]:
    """Put lone chunks together that stand side by side under one heading, from the deepest headings up."""
    for depth in range(max(len(group.path) for group in groups) - 1, -1, -1):
        joined: list[_Group] = []
        open_ended = False
        for group in groups:
            if open_ended and group.is_lone and _kinship(joined[-1], group) == depth:
                joined[-1] = _join(joined[-1], group, group.path[:depth])
            else:
                joined.append(group)
                open_ended = group.is_lone
        groups = joined
    return groups


def _join_short_pages(groups: list[_Group]) -> list[_Group]:
    """Put lone chunks of neighbouring pages together until there is something to summarize."""
    joined: list[_Group] = []
    open_ended = False
    for group in groups:
        if open_ended and group.is_lone and joined[-1].token_count < MIN_GROUP_TOKENS:
            joined[-1] = _join(joined[-1], group, group.path)
        else:
            joined.append(group)
            open_ended = group.is_lone
    return joined


def _join_lone(groups: list[_Group], *, max_tokens: int | None, among_kin: bool) -> list[_Group]:
    """Give each lone chunk to the neighbour that it has most headings in common with.

    Args:
        groups: Groups in order.
        max_tokens: Lone chunks of more tokens stay alone; None lets none stay.
        among_kin: Whether the neighbour must be a sibling, parent or child by its headings.
    """
    joined: list[_Group] = []
    carried: _Group | None = None
    for index, found in enumerate(groups):
        group = found if carried is None else _join(carried, found, _title_path(carried, found))
        carried = None
        if group.is_lone and (max_tokens is None or group.token_count <= max_tokens):
            # Of equal kin the lone one is taken: pairs come of it, where the one before would grow and grow.
            back = _rank(joined[-1] if joined else None, group, among_kin)
            ahead = _rank(groups[index + 1] if index + 1 < len(groups) else None, group, among_kin)
            if ahead > back:
                carried = group
                continue
            if back[0] > _NO_KIN:
                joined[-1] = _join(joined[-1], group, _title_path(joined[-1], group))
                continue
        joined.append(group)
    return joined


def _join(first: _Group, second: _Group, path: tuple[str, ...]) -> _Group:
    return _Group(path, first.first, second.end, first.token_count + second.token_count)


def _title_path(first: _Group, second: _Group) -> tuple[str, ...]:
    """Name two groups that are joined: by what both stand under, or by the one that is more than a lone chunk."""
    if first.is_lone == second.is_lone:
        return first.path[: _shared(first, second)]
    return second.path if first.is_lone else first.path


def _rank(neighbour: _Group | None, group: _Group, among_kin: bool) -> tuple[int, bool]:
    if neighbour is None:
        return _NO_KIN, False
    return _kinship(neighbour, group, among_kin=among_kin), neighbour.is_lone


def _kinship(first: _Group, second: _Group, *, among_kin: bool = True) -> int:
    """Count the headings that two groups share; `_NO_KIN` where they are no siblings and neither is above the other."""
    shared = _shared(first, second)
    if among_kin and shared < max(len(first.path), len(second.path)) - 1:
        return _NO_KIN
    return shared


def _shared(first: _Group, second: _Group) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first.path, second.path, strict=False))
    return sum(1 for _pair in pairs)


def _cut(group: _Group, max_size: int, cosines: NDArray[np.float32] | None) -> list[tuple[int, int]]:
    """Cut a group that is too large."""
    size = group.end - group.first
    links = np.zeros(size - 1, dtype=np.float32) if cosines is None else cosines[group.first : group.end - 1]
    starts = split_oversized(np.zeros(1, dtype=np.int64), links, max_size) + group.first
    return list(itertools.pairwise([*starts.tolist(), group.end]))
