"""Puts the parts of a page into reading order: a recursive cut at the white between them.

An XY-cut (Nagy and Seth, 1984) that looks for columns first and joins the bands which share a gutter, so that
paragraph gaps that happen to lie level do not slice columns. Where what lies beside each other is narrow, as in forms
and lists, it is read across.
"""

from collections.abc import Sequence
from typing import Final

from corpusmesh_adapters.parsers.recognition.layout import Bounds

_COLUMN_SHARE: Final = 0.15
"""Of the page's width: what the widest part of a column of running text has at least."""

_COLUMN_HEIGHTS: Final = 1.5
"""In heights of a line: what the wide parts of a column have together at least."""

_GUTTER_HEIGHTS: Final = 0.45
_SHRINK_HEIGHTS: Final = 0.2
_MAX_DEPTH: Final = 12


def reading_order(parts: Sequence[Bounds], *, page_width: float, line_height: float) -> list[int]:
    """Order the parts of a page.

    Args:
        parts: Rectangles in pixels.
        page_width: Pixels.
        line_height: Height of most lines of text, in pixels.

    Returns:
        Indices of the parts in reading order.
    """
    # Lines were grown to hold every stroke; neighbours overlap by a little.
    shrink = _SHRINK_HEIGHTS * line_height
    shrunk = []
    for left, top, right, bottom in parts:
        inset = min(shrink, (bottom - top) / 3)
        shrunk.append((left + inset, top + inset, max(right - inset, left + inset + 1), bottom - inset))
    return _Cutter(shrunk, page_width, line_height).order(list(range(len(parts))), 0)


class _Cutter:
    def __init__(self, parts: list[Bounds], page_width: float, line_height: float) -> None:
        self._parts = parts
        self._page_width = page_width
        self._line_height = line_height

    def order(self, indices: list[int], depth: int) -> list[int]:
        if len(indices) < 2 or depth > _MAX_DEPTH:
            return self._across(indices)
        ordered: list[int] = []
        groups = self._groups(self._bands(indices))
        for group in groups:
            gutter = self._gutter(group, needs_text=True)
            if gutter is not None:
                left = [index for index in group if self._parts[index][0] < gutter]
                right = [index for index in group if self._parts[index][0] >= gutter]
                ordered += self.order(left, depth + 1) + self.order(right, depth + 1)
            elif len(groups) > 1 and len(group) > 1:
                ordered += self.order(group, depth + 1)
            else:
                ordered += self._across(group)
        return ordered

    def _bands(self, indices: list[int]) -> list[list[int]]:
        """Cut at every level gap."""
        bands: list[list[int]] = []
        bottom = float("-inf")
        for index in sorted(indices, key=lambda index: self._parts[index][1]):
            if self._parts[index][1] >= bottom:
                bands.append([])
            bands[-1].append(index)
            bottom = max(bottom, self._parts[index][3])
        return bands

    def _groups(self, bands: list[list[int]]) -> list[list[int]]:
        """Join bands that one gutter runs through."""
        groups: list[list[int]] = []
        for band in bands:
            if groups and self._gutter(groups[-1] + band, needs_text=False) is not None:
                groups[-1] += band
            else:
                groups.append(list(band))
        return groups

    def _gutter(self, indices: list[int], *, needs_text: bool) -> float | None:
        """Find the widest upright gap: where its right side begins."""
        best: tuple[float, float] | None = None
        right = float("-inf")
        for index in sorted(indices, key=lambda index: self._parts[index][0]):
            left = self._parts[index][0]
            gap = left - right
            fits = right > float("-inf") and gap >= _GUTTER_HEIGHTS * self._line_height
            if fits and (best is None or gap > best[0]) and (not needs_text or self._parts_text(indices, left)):
                best = gap, left
            right = max(right, self._parts[index][2])
        return best[1] if best is not None else None

    def _parts_text(self, indices: list[int], gutter: float) -> bool:
        left = [index for index in indices if self._parts[index][0] < gutter]
        right = [index for index in indices if self._parts[index][0] >= gutter]
        return self._is_running(left) and self._is_running(right)

    def _is_running(self, indices: list[int]) -> bool:
        wide = [
            self._parts[index]
            for index in indices
            if self._parts[index][2] - self._parts[index][0] >= _COLUMN_SHARE * self._page_width
        ]
        return sum(part[3] - part[1] for part in wide) >= _COLUMN_HEIGHTS * self._line_height

    def _across(self, indices: list[int]) -> list[int]:
        """Order by rows, each from left to right."""
        rows: list[list[int]] = []
        for index in sorted(indices, key=lambda index: self._parts[index][1] + self._parts[index][3]):
            if rows:
                last, part = self._parts[rows[-1][-1]], self._parts[index]
                shared = min(last[3], part[3]) - max(last[1], part[1])
                if shared > 0.5 * min(last[3] - last[1], part[3] - part[1]):
                    rows[-1].append(index)
                    continue
            rows.append([index])
        return [index for row in rows for index in sorted(row, key=lambda index: self._parts[index][0])]


def columns_order(parts: Sequence[Bounds], *, line_height: float) -> list[int]:
    """Order columns of CJK written downwards: from right to left, tier by tier.

    Args:
        parts: Rectangles of columns.
        line_height: Width of a column, in pixels.

    Returns:
        Indices in reading order.
    """
    order = sorted(range(len(parts)), key=lambda index: parts[index][1])
    tiers: list[list[int]] = [[]]
    bottom = float("-inf")
    for index in order:
        if tiers[-1] and parts[index][1] > bottom + 0.5 * line_height:
            tiers.append([])
        tiers[-1].append(index)
        bottom = max(bottom, parts[index][3])
    return [
        index
        for tier in tiers
        for index in sorted(tier, key=lambda index: (-(parts[index][0] + parts[index][2]), parts[index][1]))
    ]


def row_groups(parts: Sequence[Bounds]) -> list[list[int]]:
    """Group parts in reading order that follow each other on one row.

    Args:
        parts: Rectangles in reading order.

    Returns:
        Indices, each group from left to right.
    """
    groups: list[list[int]] = []
    for index in range(len(parts)):
        if groups and _follows_on_row(parts[groups[-1][-1]], parts[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _follows_on_row(first: Bounds, second: Bounds) -> bool:
    shared = min(first[3], second[3]) - max(first[1], second[1])
    return shared > 0.5 * min(first[3] - first[1], second[3] - second[1]) and second[0] >= (first[0] + first[2]) / 2


def around(parts: Sequence[Bounds]) -> Bounds:
    """Find the rectangle around rectangles.

    Args:
        parts: At least one.

    Returns:
        Left, top, right, bottom.
    """
    lefts, tops, rights, bottoms = zip(*parts, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
