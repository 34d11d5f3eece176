"""Where a part of a block stands on its page."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from corpusmesh_core.documents import Block, Box

MAX_BOXES_PER_CHUNK = 24
"""Beyond this a chunk carries one box per page: a highlight needs no more, and the index stays small."""

_LINE_GAP = 1.2
_MIN_OVERLAP = 0.5


def boxes_of_range(block: Block, start: int, end: int) -> tuple[Box, ...]:
    """Find the boxes of a stretch of a block's text.

    A parser gives one box per line and no character offsets; characters are laid over the lines in proportion to the
    lines' widths, so a stretch may take in one line too many at either end and never one too few.

    Args:
        block: The block.
        start: First character of the stretch.
        end: One past its last character.

    Returns:
        The boxes of the lines it touches, in order.
    """
    boxes = block.boxes
    if len(boxes) < 2 or (start <= 0 and end >= len(block.text)):
        return boxes
    bounds = list(accumulate([max(box.right - box.left, 1.0) for box in boxes]))
    scale = bounds[-1] / max(len(block.text), 1)
    first = min(bisect_right(bounds, start * scale - 0.5 * scale), len(boxes) - 1)
    last = min(bisect_right(bounds, (end - 1) * scale + 0.5 * scale), len(boxes) - 1)
    return boxes[first : last + 1]


def merge_boxes(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Unite the boxes of neighbouring lines: one box per column of a page, as a reader would mark it.

    Args:
        boxes: Line boxes in reading order.

    Returns:
        Fewer boxes that cover the same lines, in the same order, at most `MAX_BOXES_PER_CHUNK` unless the text runs
        over more pages.
    """
    merged: list[Box] = []
    last: _Union | None = None
    for box in boxes:
        if last is not None and last.takes(box):
            continue
        if last is not None:
            merged[-1] = last.box()
        if box not in merged:
            merged.append(box)
            last = _Union(box)
        else:
            # A copy of an earlier line: it is marked already, and what follows goes on from the last box.
            last = _Union(merged[-1])
    if last is not None:
        merged[-1] = last.box()
    if len(merged) <= MAX_BOXES_PER_CHUNK:
        return tuple(merged)
    return _one_per_page(merged)


class _Union:
    """A box that grows line by line; a value a line would cost more than all else here."""

    __slots__ = ("bottom", "first", "is_grown", "left", "page", "right", "top")

    def __init__(self, box: Box) -> None:
        self.first = box
        self.is_grown = False
        self.page, self.left, self.top, self.right, self.bottom = box.page, box.left, box.top, box.right, box.bottom

    def takes(self, box: Box) -> bool:
        """Take a box in if it adjoins; say whether it did."""
        if box.page != self.page:
            return False
        left, top, right, bottom = box.left, box.top, box.right, box.bottom
        narrower = right - left if right - left < self.right - self.left else self.right - self.left
        shared = (right if right < self.right else self.right) - (left if left > self.left else self.left)
        height = bottom - top
        # Lines of one column follow each other downwards; a jump up is the next column or a figure's label.
        if shared < _MIN_OVERLAP * narrower or not self.top - height <= top <= self.bottom + _LINE_GAP * height:
            return False
        if left < self.left:
            self.left = left
        if top < self.top:
            self.top = top
        if right > self.right:
            self.right = right
        if bottom > self.bottom:
            self.bottom = bottom
        self.is_grown = True
        return True

    def box(self) -> Box:
        """Give the box as a value."""
        if not self.is_grown:
            return self.first
        return Box(self.page, self.left, self.top, self.right, self.bottom)


def _union(first: Box, second: Box) -> Box:
    return Box(
        first.page,
        min(first.left, second.left),
        min(first.top, second.top),
        max(first.right, second.right),
        max(first.bottom, second.bottom),
    )


def _one_per_page(boxes: Sequence[Box]) -> tuple[Box, ...]:
    by_page: dict[int, Box] = {}
    for box in boxes:
        by_page[box.page] = _union(by_page[box.page], box) if box.page in by_page else box
    return tuple(by_page.values())
