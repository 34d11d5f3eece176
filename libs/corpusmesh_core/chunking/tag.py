"""Template `tag`: the examples of a tag set, each a description with its tags."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group
from corpusmesh_core.chunking.rows import SourceRow, find_column, read_rows
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate, bounded_warnings
from corpusmesh_core.documents import Block, BlockKind, ChunkRole, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_DESCRIPTION_COLUMNS = frozenset(
    {
        "description",
        "question",
        "descriptionquestion",
        "text",
        "content",
        "example",
        "描述",
        "问题",
        "描述问题",
        "内容",
        "文本",
    }
)
_TAG_COLUMNS = frozenset(
    {"tag", "tags", "category", "categories", "label", "labels", "标签", "分类", "类别", "標籤", "关键词"}
)
_SEAMS = re.compile(r"[,，;；、\n]+")
_MAX_TAGS = 32
_MAX_TAG_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class TagChunkSettings(BudgetSettings):
    """Settings of the template `tag`, those of `BudgetSettings`.

    Attributes:
        contextual_header: Off: a description is compared as it stands.
    """

    contextual_header: bool = False


def chunk_tag(document: ParsedDocument, counter: TextTokenizer, settings: TagChunkSettings) -> ChunkResult:
    """Make tag examples of a table with two columns, or of lines with one tab.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        One chunk of role TAG_EXAMPLE a row: the description as text, the tags (parted by commas) with weight 1. Rows
        without a description or without tags, and text outside of rows, are left out, and warnings say which.
    """
    blocks: list[Block] = []
    groups: list[Group] = []
    warnings: list[str] = []
    outside = 0
    for source in document.blocks:
        rows = read_rows(source)
        outside += not rows and source.kind not in HEADING_KINDS and bool(source.text.strip())
        if rows:
            _add_rows(rows, blocks, groups, warnings)
    result = chunk_groups(document, blocks, groups, counter, settings)
    if outside:
        warnings.append(f"{outside} blocks of text lie outside of rows and were left out.")
    return ChunkResult(result.chunks, bounded_warnings([*warnings, *result.warnings]))


def _add_rows(rows: Sequence[SourceRow], blocks: list[Block], groups: list[Group], warnings: list[str]) -> None:
    description, tags = (find_column(rows[0].cells, names) for names in (_DESCRIPTION_COLUMNS, _TAG_COLUMNS))
    named = description >= 0 and tags >= 0
    if not named:
        description, tags = 0, 1
    for row in rows[1:] if named else rows:
        text, names = (row.cells[column] if column < len(row.cells) else "" for column in (description, tags))
        kept = [name.strip()[:_MAX_TAG_CHARACTERS] for name in _SEAMS.split(names) if name.strip()][:_MAX_TAGS]
        if not text or not kept:
            where = f" on page {row.page}" if row.page else ""
            warnings.append(f"Row {row.number} of a table{where} has no description or no tag and was left out.")
            continue
        groups.append(
            Group([len(blocks)], role=ChunkRole.TAG_EXAMPLE, tags=dict.fromkeys(kept, 1.0), block_kind=BlockKind.TABLE)
        )
        blocks.append(row.block(BlockKind.PARAGRAPH, text))


TEMPLATE = ChunkTemplate(
    name="tag",
    summary="Examples of a tag set from two columns, a description and its tags.",
    settings_type=TagChunkSettings,
    chunk=chunk_tag,
)
