"""Contents pages: lists of headings and page numbers that say again what the headings say."""

import re
from collections.abc import Sequence

from corpusmesh_core.chunking.groups import HEADING_KINDS
from corpusmesh_core.chunking.pieces import SKIPPED_KINDS
from corpusmesh_core.documents import Block

_NAMES = frozenset(
    {
        "contents",
        "tableofcontents",
        "目录",
        "目次",
        "目錄",
        "inhalt",
        "inhaltsverzeichnis",
        "tabledesmatières",
        "índice",
    }
)
_DOT = "[.·…‥․]"
# Only the first dot of a run begins a match: a long run of dots would be read once for each of them.
_LEADER = re.compile(
    rf"(?<!{_DOT})(?<!{_DOT}\s)(?:{_DOT}\s?){{4,}}+\s*(?:\d{{1,4}}|[ivxlc]{{1,6}})\b|(?<![…·])[…·]{{2,}}+\s*\d{{1,4}}\b"
)
_GAP = re.compile(r"(?:\s{3,}+|\t\s*)(?:\d{1,4}|[ivxlc]{1,6})\Z")
_PAGE_AT_END = re.compile(r"\S\s+(?:\d{1,4}|[ivxlc]{1,6})\s*\Z")
_MIN_ENTRIES = 3
_MAX_ENTRY_CHARACTERS = 240


def contents_blocks(blocks: Sequence[Block]) -> frozenset[int]:
    """Find the contents pages of a document.

    Args:
        blocks: Its blocks in reading order.

    Returns:
        Indexes of a heading that names a contents page with the entries below it, and of any run of at least three
        lines with leader dots and a page number. A heading with no entries below it is not one.
    """
    titles = {_bare(block.text) for block in blocks if block.kind in HEADING_KINDS}
    found: set[int] = set()
    index = 0
    while index < len(blocks):
        named = _bare(blocks[index].text) in _NAMES
        end = index + 1 if named else index
        entries = 0
        last = end
        while end < len(blocks):
            lines = _entries(blocks[end], titles if named else frozenset(), named)
            # A contents page has running heads and feet like any other.
            if not lines and blocks[end].kind not in SKIPPED_KINDS:
                break
            entries += lines
            end += 1
            last = end if lines else last
        if entries >= _MIN_ENTRIES:
            found.update(range(index, last))
        index = max(end, index + 1)
    return frozenset(found)


def _entries(block: Block, titles: set[str] | frozenset[str], named: bool) -> int:
    """Count the entries of a block; 0 where any of its lines is none."""
    if block.table is not None:
        rows = [row for row in block.table.rows if any(row)]
        numbered = sum(row[-1].strip().isdigit() for row in rows)
        return len(rows) if named and 2 * numbered >= len(rows) else 0
    leaders = len(_LEADER.findall(block.text))
    if leaders and len(block.text) <= _MAX_ENTRY_CHARACTERS * leaders:
        # Parsers join lines: the entries of a whole page may be one paragraph.
        return leaders
    if block.kind in HEADING_KINDS:
        return 0
    lines = [line.strip() for line in block.text.split("\n") if line.strip()]
    for line in lines:
        if len(line) > _MAX_ENTRY_CHARACTERS:
            return 0
        if not (_GAP.search(line) or (named and (_PAGE_AT_END.search(line) or _bare(line) in titles))):
            return 0
    return len(lines)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text[:_MAX_ENTRY_CHARACTERS]).casefold()
