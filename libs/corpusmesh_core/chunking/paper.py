"""Template `paper`: title, authors and abstract together, sections at the main heading level, references apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group, most_frequent_level, runs
from corpusmesh_core.chunking.settings import (
    MAX_BREAK_TOKENS,
    MIN_BUDGET_TOKENS,
    RunningTextSettings,
    require_choice,
    require_range,
)
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_REFERENCES = ("apart", "drop")
_MAX_KEYWORDS = 20
_MAX_KEYWORD_CHARACTERS = 80
_MAX_FRONT_BLOCKS = 60
_NUMBERED = re.compile(r"(?:\d+(?:\.\d+)*|[IVX]+|[一二三四五六七八九十]+)[.、．:\s]*")
_INTRODUCTION = re.compile(r"(?:introduction|background|motivation|引言|绪论|前言|导论|緒論)\b", re.IGNORECASE)
_ABSTRACT = re.compile(r"(?:abstract|summary|摘\s*要)(?=\W|\Z|—)", re.IGNORECASE)
_FRONT = re.compile(
    r"(?:abstract|summary|key\s*words?|index terms|categories and subject|general terms|ccs concepts|acm reference|"
    r"authors?|affiliations?|摘\s*要|关键词|關鍵詞|中图分类号|作者)",
    re.IGNORECASE,
)
_BACK = re.compile(r"(?:references|bibliography|literature cited|works cited|参考文献|參考文獻)\W*\Z", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"(?:key\s*words?(?:\s+and\s+phrases)?|index\s+terms|关键词|關鍵詞|关键字)\s*(?:[:：—–-]+\s*|\n|\Z)",
    re.IGNORECASE,
)
_KEYWORD_SEAMS = re.compile(r"[,;，；、·•\n]+")


@dataclass(frozen=True, slots=True)
class PaperChunkSettings(RunningTextSettings):
    """Settings of the template `paper`, with those of `RunningTextSettings`.

    Attributes:
        abstract_max_tokens: Budget of the chunk with title, authors and abstract, which should stay whole.
        level: Sections begin at headings of this level or one further out; 0 takes the level that most headings have.
        min_tokens: Below that level a heading starts a new chunk only once the running one holds this many tokens.
        references: "apart" keeps the list of references in chunks of its own (attribute `section` = "references"),
            "drop" leaves it out.
    """

    abstract_max_tokens: int = 480
    level: int = 0
    min_tokens: int = 200
    references: str = "apart"

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_range("abstract_max_tokens", self.abstract_max_tokens, MIN_BUDGET_TOKENS, 1 << 20)
        require_range("level", self.level, 0, 9)
        require_range("min_tokens", self.min_tokens, 0, MAX_BREAK_TOKENS)
        require_choice("references", self.references, _REFERENCES)


def chunk_paper(document: ParsedDocument, counter: TextTokenizer, settings: PaperChunkSettings) -> ChunkResult:
    """Cut a paper.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Level, budgets, references.

    Returns:
        Chunks in reading order, those of the front matter with the paper's keywords and the attribute `section` =
        "abstract". No text is lost but references that the settings drop.
    """
    blocks = document.blocks
    level = settings.level or most_frequent_level(blocks)
    front = _front_end(blocks, level)
    groups: list[Group] = []
    if front:
        groups.append(
            Group(
                range(front),
                break_level=0,
                max_tokens=settings.abstract_max_tokens,
                keywords=_keywords(blocks[:front]),
                attributes={"section": "abstract"},
            )
        )
    for part, is_reference in _sections(blocks, front, level):
        if is_reference and settings.references == "drop":
            continue
        attributes = {"section": "references"} if is_reference else {}
        groups.append(Group(part, break_tokens=settings.min_tokens, attributes=attributes))
    return chunk_groups(document, blocks, groups, counter, settings)


def _sections(blocks: Sequence[Block], front: int, level: int) -> list[tuple[list[int], bool]]:
    references = _reference_blocks(blocks, front)
    parts = runs(
        blocks,
        lambda index, block: (
            (index in references) is not (index - 1 in references)
            or (block.kind in HEADING_KINDS and block.level <= level)
        ),
        first=front,
    )
    return [(part, part[-1] in references) for part in parts]


def _reference_blocks(blocks: Sequence[Block], front: int) -> set[int]:
    found: set[int] = set()
    level = -1
    for index in range(front, len(blocks)):
        block = blocks[index]
        is_heading = block.kind in HEADING_KINDS
        if _BACK.match(_unnumbered(block.text)):
            level = block.level if is_heading else 99
        elif is_heading and level >= 0 and block.level <= level:
            level = -1
        if level >= 0:
            found.add(index)
    return found


def _front_end(blocks: Sequence[Block], level: int) -> int:
    """Find where title, authors, abstract and keywords end: before the introduction, or the first other section."""
    seen_abstract = False
    for index, block in enumerate(blocks[:_MAX_FRONT_BLOCKS]):
        bare = _unnumbered(block.text)
        if block.kind not in HEADING_KINDS:
            seen_abstract = seen_abstract or _ABSTRACT.match(bare) is not None
            continue
        if _INTRODUCTION.match(bare):
            return index
        if _FRONT.match(bare):
            seen_abstract = True
        elif index and (seen_abstract or block.text != bare or block.level > blocks[0].level) and block.level <= level:
            return index
    return 0


def _keywords(blocks: Sequence[Block]) -> tuple[str, ...]:
    for index, block in enumerate(blocks):
        for line in re.finditer(r"[^\n]+", block.text):
            match = _KEYWORDS.match(line.group().lstrip())
            if match is None:
                continue
            text = block.text[line.start() :].lstrip()[match.end() :].strip()
            if not text and index + 1 < len(blocks):
                text = blocks[index + 1].text
            words = (word.strip(" .。\t") for word in _KEYWORD_SEAMS.split(text))
            kept = [word for word in words if 0 < len(word) <= _MAX_KEYWORD_CHARACTERS]
            return tuple(dict.fromkeys(kept))[:_MAX_KEYWORDS]
    return ()


def _unnumbered(text: str) -> str:
    match = _NUMBERED.match(text)
    return text[match.end() :] if match is not None else text


TEMPLATE = ChunkTemplate(
    name="paper",
    summary="Title, authors and abstract together with their keywords, sections at the main level, references apart.",
    settings_type=PaperChunkSettings,
    chunk=chunk_paper,
)
