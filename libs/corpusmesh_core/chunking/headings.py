"""Headings that a parser could not see: numbered lines, entries of the outline, and the paths that follow from them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

from corpusmesh_core.chunking.groups import HEADING_KINDS
from corpusmesh_core.chunking.places import boxes_of_range
from corpusmesh_core.documents import Block, BlockKind, OutlineEntry

MAX_TITLE_CHARACTERS = 100
"""A longer line is text, however it begins."""

_HAN_NUMBER = "零〇一二三四五六七八九十百千两"
_NUMBER = f"[{_HAN_NUMBER}0-9０-９]{{1,9}}"
_SENTENCE_END = tuple("。；，,;：:、！!？?")
_TEXT_KINDS = frozenset({BlockKind.PARAGRAPH, BlockKind.LIST_ITEM})
_MAX_WORDS_BEFORE_DOT = 3  # "Article 1." is a heading, a short sentence is none
_MIN_HITS = 2
_TRUSTED_SHARE = 3
"""How many headings of the parser's there may be to one numbered line, for the numbers to be the order of the text."""


@dataclass(frozen=True, slots=True)
class NumberingFamily:
    """One way to number the parts of a text.

    Attributes:
        name: For people.
        levels: One pattern a level, outermost first; matched at a line's beginning.
        counts_numbers: Whether the level is how many numbers the first pattern's group holds ("2.1.3" is level 3).
        in_lists: Whether a list item can be a heading of this family.
    """

    name: str
    levels: tuple[re.Pattern[str], ...]
    counts_numbers: bool = False
    in_lists: bool = False

    def level(self, line: str) -> int:
        """Read a line's level.

        Args:
            line: One line without white space at its beginning.

        Returns:
            The level from 1; 0 where the line is not numbered this way.
        """
        for number, pattern in enumerate(self.levels, 1):
            match = pattern.match(line)
            if match is not None:
                return match.group(1).count(".") + 1 if self.counts_numbers else number
        return 0


def _family(name: str, *patterns: str, in_lists: bool = False, counts_numbers: bool = False) -> NumberingFamily:
    return NumberingFamily(name, tuple(map(re.compile, patterns)), counts_numbers, in_lists)


NUMBERING_FAMILIES = (
    _family(
        "第…章",
        f"第{_NUMBER}(?:分?编|部分?|篇|卷)",
        f"第{_NUMBER}章",
        f"第{_NUMBER}节",
        f"第{_NUMBER}条",
        in_lists=True,
    ),
    _family(
        "Chapter",
        r"(?i:part|book|volume)\s+(?:[IVXLC]+|\d+|one|two|three|four|five|six)\b",
        r"(?i:chapter|appendix)\s+(?:[IVXLC]+|\d+|[A-Z])\b",
        r"(?i:section)\s+\d+",
        r"(?i:article)\s+(?:[IVXLC]+|\d+)\b",
        in_lists=True,
    ),
    _family("1.1.1", r"(\d{1,3}(?:\.\d{1,3}){0,4})[.、．]?[ \t\u3000]+(?=[^\W\d_a-z])", counts_numbers=True),
    _family("一、", f"[{_HAN_NUMBER}]{{1,4}}、", f"[（(]{_NUMBER}[）)]"),
    _family("#", *(rf"{'#' * depth}[ \t]+(?=\S)" for depth in range(1, 7))),
)
"""The families, in the order in which one of two with as many hits is taken."""


def looks_like_title(text: str) -> bool:
    """Say whether a line can be a heading by its shape.

    Args:
        text: One block's text.

    Returns:
        True for a single short line that does not end as a sentence does.
    """
    text = text.strip()
    if not text or len(text) > MAX_TITLE_CHARACTERS or "\n" in text or text.endswith(_SENTENCE_END):
        return False
    return not text.endswith(".") or len(text.split()) <= _MAX_WORDS_BEFORE_DOT


def split_lines(blocks: Sequence[Block], begins: Callable[[str, str], bool]) -> list[Block]:
    """Part text blocks before some of their lines: plain text often has no empty line between its paragraphs.

    Args:
        blocks: Blocks in reading order.
        begins: Whether a part begins at a line, given the line before and the line.

    Returns:
        Blocks in reading order with the same text but the line breaks at the seams; boxes and line numbers follow.
    """
    result: list[Block] = []
    for block in blocks:
        if block.kind not in _TEXT_KINDS or "\n" not in block.text:
            result.append(block)
            continue
        seams = [0]
        begin = 0
        lines = block.text.split("\n")
        for before, line in pairwise(lines):
            begin += len(before) + 1
            if begins(before.strip(), line.strip()):
                seams.append(begin)
        if len(seams) == 1:
            result.append(block)
            continue
        for start, end in zip(seams, [*seams[1:], len(block.text) + 1], strict=True):
            text = block.text[start : end - 1]
            line_number = block.line + block.text.count("\n", 0, start) if block.line else 0
            result.append(
                replace(block, text=text, boxes=boxes_of_range(block, start, start + len(text)), line=line_number)
            )
    return result


def with_levels(
    blocks: Sequence[Block], levels: Mapping[int, int], labels: Mapping[int, tuple[int, str]] = MappingProxyType({})
) -> list[Block]:
    """Make headings of some blocks, and write every block's heading path anew.

    Args:
        blocks: Blocks in reading order.
        levels: Level from 1 of each block that is a heading, by index; a heading without one keeps its own.
        labels: Level and name of each block that begins a section and is text itself ("第一条 …"), by index; its own
            path has the name too.

    Returns:
        As many blocks.
    """
    result: list[Block] = []
    path: list[tuple[int, str]] = []
    for index, block in enumerate(blocks):
        # A title is the document's and stands above no path, as in what parsers give.
        level = levels.get(index, block.level if block.kind is BlockKind.HEADING else -1)
        label = labels.get(index)
        opened = label[0] if label is not None else level
        while opened >= 0 and path and path[-1][0] >= opened:
            path.pop()
        if label is not None:
            path.append(label)
        above = tuple(text for _, text in path)
        if level < 0:
            result.append(block if block.heading_path == above else replace(block, heading_path=above))
            continue
        result.append(replace(block, kind=BlockKind.HEADING, level=level, heading_path=above))
        path.append((level, " ".join(block.text.split())))
    return result


def number_headings(blocks: Sequence[Block]) -> list[Block]:
    """Find headings by their numbers, where the parser found none or not all.

    The family with most hits among short lines counts, with at least two, and one to three headings of the parser's.

    Args:
        blocks: Blocks in reading order.

    Returns:
        Blocks with the headings and their paths; the same blocks where no family fits, or where every numbered line is
        a heading already: the parser then knows its level better.
    """
    family = find_family(blocks)
    if family is None:
        return list(blocks)
    parted = split_lines(blocks, lambda before, line: _is_numbered(family, before) or _is_numbered(family, line))
    found = {
        index: family.level(block.text.strip())
        for index, block in enumerate(parted)
        if _can_be_heading(block, family) and _is_numbered(family, block.text.strip())
    }
    parsed = sum(block.kind in HEADING_KINDS for block in blocks)
    if all(parted[index].kind in HEADING_KINDS for index in found) or _TRUSTED_SHARE * len(found) < parsed:
        return list(blocks)
    ranks = {level: rank for rank, level in enumerate(sorted(set(found.values())), 1)}
    return with_levels(parted, _all_levels(parted, {index: ranks[level] for index, level in found.items()}))


def find_family(blocks: Sequence[Block]) -> NumberingFamily | None:
    """Find how a document numbers its parts.

    Args:
        blocks: Its blocks.

    Returns:
        The family with most hits; None where none has two.
    """
    hits = dict.fromkeys(range(len(NUMBERING_FAMILIES)), 0)
    for block in blocks:
        if block.kind not in HEADING_KINDS and block.kind not in _TEXT_KINDS:
            continue
        lines = [line.strip() for line in block.text.split("\n")]
        for number, family in enumerate(NUMBERING_FAMILIES):
            if block.kind is not BlockKind.LIST_ITEM or family.in_lists:
                hits[number] += sum(_is_numbered(family, line) for line in lines)
    best = max(hits, key=lambda number: (hits[number], -number))
    return NUMBERING_FAMILIES[best] if hits[best] >= _MIN_HITS else None


def outline_headings(blocks: Sequence[Block], outline: Sequence[OutlineEntry]) -> list[Block] | None:
    """Give headings the levels of the document's own table of contents.

    Args:
        blocks: Blocks in reading order.
        outline: The entries.

    Returns:
        Blocks with the headings and their paths; None where fewer than two entries are found in the text.
    """
    entries: dict[str, list[OutlineEntry]] = {}
    for entry in outline:
        entries.setdefault(_bare(entry.title), []).append(entry)
    found: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if block.kind not in HEADING_KINDS and (block.kind not in _TEXT_KINDS or not looks_like_title(block.text)):
            continue
        waiting = entries.get(_bare(block.text), [])
        for entry in waiting:
            if entry.page == block.page or not entry.page or not block.page or block.kind in HEADING_KINDS:
                found[index] = max(entry.level, 1)
                waiting.remove(entry)
                break
    if len(found) < _MIN_HITS:
        return None
    return with_levels(blocks, _all_levels(blocks, found))


def _all_levels(blocks: Sequence[Block], found: Mapping[int, int]) -> dict[int, int]:
    """Add levels for headings that were not found.

    One alone before the first found one is the document's name, above all; several are parts beside the others. Later
    ones stand with the found ones that the parser gave the same level, else below the one before.
    """
    first = min(found)
    ahead = sum(block.kind is BlockKind.HEADING for block in blocks[:first])
    shift = 1 if ahead == 1 else 0
    alike: dict[int, int] = {}
    for index, level in found.items():
        if blocks[index].kind is BlockKind.HEADING:
            parsed = blocks[index].level
            alike[parsed] = min(level + shift, alike.get(parsed, level + shift))
    levels: dict[int, int] = {}
    last = 0
    for index, block in enumerate(blocks):
        if index in found:
            last = levels[index] = found[index] + shift
        elif block.kind is BlockKind.HEADING:
            levels[index] = alike.get(block.level, last + 1) if index > first else 1
    return levels


def _can_be_heading(block: Block, family: NumberingFamily) -> bool:
    return (
        block.kind in HEADING_KINDS
        or block.kind is BlockKind.PARAGRAPH
        or (block.kind is BlockKind.LIST_ITEM and family.in_lists)
    )


def _is_numbered(family: NumberingFamily, line: str) -> bool:
    return looks_like_title(line) and family.level(line) > 0


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
