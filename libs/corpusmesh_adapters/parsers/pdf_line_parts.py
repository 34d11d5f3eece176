"""Lines of PDF pages that PDFium gives in parts, and lines that stand upright."""

import re
from dataclasses import replace

from corpusmesh_adapters.parsers.pdf_frames import Line
from corpusmesh_core.documents import Box

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_MAX_LAST_CELL_CHARACTERS = 12


def is_vertical_cjk(lines: list[Line]) -> bool:
    """Say whether a page is written in columns from top to bottom, right to left.

    Args:
        lines: Lines of a page.

    Returns:
        True if most characters stand in tall lines of Chinese or Japanese.
    """
    # Most pages have no tall line at all.
    standing = [line for line in lines if line.box.bottom - line.box.top > 2 * (line.box.right - line.box.left)]
    if not standing:
        return False
    tall = sum(len(line.text) for line in standing if _is_tall(line))
    return 2 * tall > sum(len(line.text) for line in lines)


def _is_tall(line: Line) -> bool:
    return len(line.text) >= 3 and len(_CJK.findall(line.text)) * 2 > len(line.text)


def continues(line: Line, following: Line) -> bool:
    """Say whether a line goes on in what PDFium takes for another one.

    Args:
        line: Any line.
        following: The next one in the file, to its right.

    Returns:
        True if both stand on one base line without a gap.
    """
    # A superscript ends PDFium's line; what follows on the same base line belongs to it.
    if line.direction or following.direction or line.hyphenated:
        return False
    first, second = line.box, following.box
    shared = min(first.bottom, second.bottom) - max(first.top, second.top)
    low = min(first.bottom - first.top, second.bottom - second.top)
    gap = second.left - first.right
    return shared > 0.5 * low and -0.3 * line.size < gap < 0.8 * max(line.size, following.size)


def is_last_cell(line: Line, following: Line) -> bool:
    """Say whether a line is the last cell of the line before.

    Args:
        line: A line that is parted into cells.
        following: The next one in the file.

    Returns:
        True if it is short and stands to its right.
    """
    # PDFium starts a new line before a cell of one character.
    first, second = line.box, following.box
    shared = min(first.bottom, second.bottom) - max(first.top, second.top)
    low = min(first.bottom - first.top, second.bottom - second.top)
    is_short = len(following.text) <= _MAX_LAST_CELL_CHARACTERS and not following.cells
    return is_short and following.direction == 0 and second.left > first.right and shared > 0.5 * low


def with_cell(line: Line, following: Line) -> Line:
    """Add a last cell to a line.

    Args:
        line: A line that is parted into cells.
        following: The cell.

    Returns:
        One line.
    """
    both = joined(line, following)
    return replace(both, text=f"{line.text} {following.text}", cells=(*line.cells, (following.text, following.box)))


def joined(line: Line, following: Line) -> Line:
    """Join two parts of one line.

    Args:
        line: The first part.
        following: What continues it.

    Returns:
        One line without cells.
    """
    first, second = line.box, following.box
    space = " " if second.left - first.right > 0.15 * line.size and following.text[0].isalnum() else ""
    return replace(
        line,
        text=line.text + space + following.text,
        box=Box(
            first.page,
            min(first.left, second.left),
            min(first.top, second.top),
            max(first.right, second.right),
            max(first.bottom, second.bottom),
        ),
        size=max(line.size, following.size),
        bold=line.bold and following.bold,
        hyphenated=following.hyphenated,
        cells=(),
    )
