"""Template `laws`: one chunk an article, under the parts and chapters that it stands in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group, runs
from corpusmesh_core.chunking.headings import looks_like_title, split_lines, with_levels
from corpusmesh_core.chunking.settings import RunningTextSettings
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_NUMBER = "[零〇一二三四五六七八九十百千两0-9０-９]{1,9}"
_ARTICLES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"第{_NUMBER}条(?:之{_NUMBER})?",
        r"(?i:article|art\.)[ \t\u00a0]+(?:\d{1,4}[a-z]?|[IVXLC]{1,7})\b",
        r"§{1,2}[ \t\u00a0]*\d{1,5}(?:[.\-:]\d{1,5})*[a-z]?\b",
        r"(?i:section|sec\.)[ \t\u00a0]+\d{1,5}(?:[.\-]\d{1,5})*[a-z]?\b",
        rf"第{_NUMBER}條(?:之{_NUMBER})?",
    )
)
_STRUCTURE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"第{_NUMBER}(?:编|編|部分)|(?i:part|book|title)\s+(?:[IVXLC]+|\d+|[A-Z])\b",
        rf"第{_NUMBER}分[编編]|(?i:subtitle|division)\s+(?:[IVXLC]+|\d+|[A-Z])\b",
        rf"第{_NUMBER}章|(?i:chapter)\s+(?:[IVXLC]+|\d+|[A-Z])\b",
        rf"第{_NUMBER}[节節]|(?i:section|subpart|subchapter)\s+(?:[IVXLC]+|\d+|[A-Z])\b",
    )
)
_TEXT_KINDS = frozenset({BlockKind.PARAGRAPH, BlockKind.LIST_ITEM})


@dataclass(frozen=True, slots=True)
class LawsChunkSettings(RunningTextSettings):
    """Settings of the template `laws`, with those of `RunningTextSettings`.

    An article is never merged with another one, however short; one over the budget is split, and each of its parts
    carries its number in `heading_path` and context.
    """


def chunk_laws(document: ParsedDocument, counter: TextTokenizer, settings: LawsChunkSettings) -> ChunkResult:
    """Cut a law or contract into its articles (第N条, Article N, § N, Section N).

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        Chunks in reading order, tables in chunks of their own; no text is lost. A document without articles is cut at
        its headings, and a warning says so.
    """
    article = _article_pattern(document.blocks)
    if article is None:
        parts = runs(document.blocks, lambda _, block: block.kind in HEADING_KINDS)
        result = chunk_groups(document, document.blocks, [Group(part) for part in parts], counter, settings)
        return replace(result, warnings=("No numbered articles were found; it was cut at headings.", *result.warnings))
    blocks, articles = _article_blocks(document.blocks, article)
    parts = runs(
        blocks,
        lambda index, block: (
            index in articles
            or block.kind in HEADING_KINDS
            or block.table is not None
            or (index > 0 and blocks[index - 1].table is not None)
        ),
    )
    return chunk_groups(document, blocks, [Group(part) for part in parts], counter, settings)


def _article_pattern(blocks: Sequence[Block]) -> re.Pattern[str] | None:
    """Find how this law names its articles: the pattern that begins most lines, at least two."""
    hits = [0] * len(_ARTICLES)
    for block in blocks:
        if block.kind in HEADING_KINDS or block.kind in _TEXT_KINDS:
            for line in block.text.split("\n"):
                for number, pattern in enumerate(_ARTICLES):
                    hits[number] += pattern.match(line.lstrip()) is not None
    best = max(range(len(hits)), key=lambda number: (hits[number], -number))
    return _ARTICLES[best] if hits[best] >= 2 else None


def _article_blocks(blocks: Sequence[Block], article: re.Pattern[str]) -> tuple[list[Block], set[int]]:
    parted = split_lines(
        blocks,
        lambda before, line: bool(article.match(line) or _structure_level(line) or _structure_level(before)),
    )
    levels: dict[int, int] = {}
    labels: dict[int, tuple[int, str]] = {}
    articles: set[int] = set()
    depth = len(_STRUCTURE) + 2
    for index, block in enumerate(parted):
        if block.kind not in HEADING_KINDS and block.kind not in _TEXT_KINDS:
            continue
        text = block.text.strip()
        match = article.match(text)
        if match is not None:
            articles.add(index)
            following = parted[index + 1].text.strip() if index + 1 < len(parted) else ""
            has_body = following and not article.match(following) and not _structure_level(following)
            if has_body and (block.kind in HEADING_KINDS or looks_like_title(text)):
                levels[index] = depth
            else:
                # An article of one line, or with its text on the line of its number.
                parted[index] = replace(block, kind=BlockKind.PARAGRAPH, level=0)
                labels[index] = (depth, match.group())
        elif level := _structure_level(text):
            levels[index] = level + 1
        elif block.kind is BlockKind.HEADING:
            # The law's own name, or a heading without a number inside of an article.
            levels[index] = depth + 1 if articles else 1
    return with_levels(parted, levels, labels), articles


def _structure_level(line: str) -> int:
    if not looks_like_title(line):
        return 0
    return next((level for level, pattern in enumerate(_STRUCTURE, 1) if pattern.match(line)), 0)


TEMPLATE = ChunkTemplate(
    name="laws",
    summary="One chunk an article (第N条, Article N, § N, Section N) under its parts and chapters; tables apart.",
    settings_type=LawsChunkSettings,
    chunk=chunk_laws,
)
