"""What a language model is sent for the summary of a node, and what of its answer is the summary."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np

from corpusmesh_core.answering.fences import draw_fence, fenced_block, header_text, visible_text
from corpusmesh_core.citation.answer_filter import filter_answer
from corpusmesh_core.citation.labels import defuse_markers
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.citation.thought import LeadingThought
from corpusmesh_core.enrichment.lines import one_line
from corpusmesh_core.ports.chat import ChatMessage, ChatRole
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.tree_summary_v1 import TREE_SUMMARY_TOPIC, TREE_SUMMARY_V1, TREE_SUMMARY_WISH
from corpusmesh_core.trees.clauses import cut_to_clause

_CHINESE: Final = "Chinese, in the characters of the passages (simplified or traditional)"
_MAIN_LANGUAGE: Final = "the language that most of the passages are written in"
_WORDS_PER_TOKEN: Final = 0.7
_IDEOGRAPHS_PER_TOKEN: Final = 1.2
_LETTERS_PER_IDEOGRAPH: Final = 3
_MIN_SHARE: Final = 0.25
_MIN_JAPANESE_SHARE: Final = 0.1
_MIN_LETTERS: Final = 12
_MAX_REFUSAL_CHARACTERS: Final = 400
_THOUGHT: Final = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT: Final = re.compile(r"</?(?:think|thinking|reasoning)>", re.IGNORECASE)
_CODE: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r"DATA-[0-9a-f]{8,}|<<<|>>>|\bpassage \d+ of \d+\b")
_CONTROL: Final = re.compile(
    r"<\|\w|</?(?:tool_call|function)\b|\[/?INST\]|<</?SYS>>|\"(?:tool_calls|role|arguments)\"\s*:", re.IGNORECASE
)
"""What steers models and tools: no summary has it, but one by a model that obeys a passage."""
_PROMPT_WORDS: Final = 8
_PREAMBLE: Final = re.compile(
    r"\A\s*(?:(?:sure|certainly|of course|okay|ok|absolutely|here(?:['’]s| is| are)|below is|this is|the following is|"
    r"in summary|to summari[sz]e|好的|当然|可以|以下|下面|这是|根据|综上)[^\n:：]{0,120}[:：][*_ ]*\n*|"
    r"(?:sure|certainly|of course|okay|absolutely|好的|当然)[^\n.!。！]{0,80}[.!。！]\s+|"
    r"[*_#\s]{0,6}(?:summary|abstract|overview|摘要|总结|概要|概述|內容摘要|内容摘要)[*_\s]{0,4}[:：\n][*_ ]*\n*)",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"(?:\n|(?<=[.!。！]) )(?:let me know|i hope|please (?:let me|note)|note:|希望|如(?:果)?需)[^\n]*\Z", re.IGNORECASE
)
_LINE_MARK: Final = re.compile(r"^\s*(?:[-*+•]\s+|\d{1,2}[.)]\s+|>\s*)")
_EMPHASIS: Final = re.compile(r"\*\*(.+?)\*\*|__(.+?)__|`([^`\n]+)`")
_REFUSAL: Final = re.compile(
    r"\A[\W_]*(?:i(?:['’]m| am) (?:sorry|unable|not able)|i (?:can(?:not|['’]t)|won['’]t|"
    r"do(?:n['’]t| not) (?:have|see))|"
    r"sorry\b|unfortunately,? i\b|as an ai\b|unable to\b|(?:there (?:is|are)|the (?:passages?|text)s? (?:do(?:es)? not|"
    r"is|are) )(?:no|not|empty|contain)|no (?:passages?|text|content)\b|"
    r"(?:很|非常)?抱歉|对不起|對不起|我(?:无法|不能|沒|没|無法)|无法|無法|作为(?:一个|一名)?(?:ai|人工智能|语言模型)|未提供|没有提供)",
    re.IGNORECASE,
)
_TERMINATORS: Final = ".!?。！？…”\"'’）)」』"


class WritingSystem(StrEnum):
    """What letters a text is written in."""

    CHINESE = "Chinese"
    JAPANESE = "Japanese"
    KOREAN = "Korean"
    LATIN = "Latin"
    OTHER = "other"


def writing_shares(texts: Iterable[str]) -> Counter[WritingSystem]:
    """Tell what letters texts are written in.

    Args:
        texts: Any texts.

    Returns:
        Share by writing system, an ideograph or a syllable as three letters; empty where there is no letter.
    """
    counts: Counter[WritingSystem] = Counter()
    for text in texts:
        for character in text:
            if (system := _system_of(character)) is not None:
                counts[system] += 1 if system in (WritingSystem.LATIN, WritingSystem.OTHER) else _LETTERS_PER_IDEOGRAPH
    if counts[WritingSystem.JAPANESE] > _MIN_JAPANESE_SHARE * counts[WritingSystem.CHINESE]:
        # Kana make a text Japanese, and its ideographs with it.
        counts[WritingSystem.JAPANESE] += counts.pop(WritingSystem.CHINESE, 0)
    total = sum(counts.values())
    return Counter({system: count / total for system, count in counts.items() if count}) if total else Counter()


def _system_of(character: str) -> WritingSystem | None:
    code = ord(character)
    if code < 0x250:
        return WritingSystem.LATIN if character.isalpha() else None
    if 0x3400 <= code <= 0x9FFF or 0x20000 <= code <= 0x3134F:
        return WritingSystem.CHINESE
    if 0x3041 <= code <= 0x30FF:
        return WritingSystem.JAPANESE
    if 0xAC00 <= code <= 0xD7A3:
        return WritingSystem.KOREAN
    return WritingSystem.OTHER if character.isalpha() else None


def summary_instructions(texts: Sequence[str], *, wish: str, max_tokens: int) -> str:
    """Write the instructions of one summary.

    Args:
        texts: The children.
        wish: What the knowledge base's editors ask for besides; "" for nothing.
        max_tokens: Longest summary.

    Returns:
        The system message.
    """
    shares = writing_shares(texts)
    is_chinese = bool(shares) and shares.most_common(1)[0][0] is WritingSystem.CHINESE
    system = TREE_SUMMARY_V1.format(
        max_words=int(_WORDS_PER_TOKEN * max_tokens),
        max_characters=int(_IDEOGRAPHS_PER_TOKEN * max_tokens),
        language=_CHINESE if is_chinese else _MAIN_LANGUAGE,
    )
    if wish.strip():
        system += "\n\n" + TREE_SUMMARY_WISH.format(wish=visible_text(wish.strip()))
    return system


def render_summary_messages(
    instructions: str, texts: Sequence[str], *, topic: str, block_count: int, rng: np.random.Generator
) -> tuple[ChatMessage, ...]:
    """Write the messages of one summary.

    Args:
        instructions: From `summary_instructions`.
        texts: The children, cut so that they fit.
        topic: Heading that they stand under; "" for none.
        block_count: Blocks that they are quoted in, 1 to the number of texts; see `child_budget.block_count`.
        rng: The dice for the delimiters.

    Returns:
        A system and a user message.
    """
    fence = draw_fence(rng, [*texts, topic, instructions])
    ends = [round(number * len(texts) / block_count) for number in range(block_count + 1)]
    blocks = [
        fenced_block(fence, f"passage {number} of {block_count}", "\n\n".join(texts[start:end]))
        for number, (start, end) in enumerate(pairwise(ends), 1)
    ]
    if topic.strip():
        blocks.insert(0, TREE_SUMMARY_TOPIC + "\n" + fenced_block(fence, "heading", header_text(topic)))
    return (ChatMessage(ChatRole.SYSTEM, instructions), ChatMessage(ChatRole.USER, "\n\n".join(blocks)))


def read_summary(answer: str, texts: Sequence[str], counter: TextTokenizer, *, max_tokens: int) -> str | None:
    """Find the summary in what a language model said.

    Args:
        answer: All that it said.
        texts: What it was to summarize.
        counter: Counts tokens.
        max_tokens: Longest summary; what is longer is cut at the end of a sentence.

    Returns:
        Plain text in lines without Markdown, thoughts and introductions; None for what is no summary: nothing, a
        refusal, delimiters of the prompt, a text in letters that the passages are not written in.
    """
    said = _OPEN_THOUGHT.sub("", _THOUGHT.sub("", LeadingThought().feed(answer, is_final=True))).strip()
    if (code := _CODE.search(said)) is not None and len(code.group(1)) > len(said) / 2:
        said = code.group(1)
    for _ in range(2):
        said = _PREAMBLE.sub("", said, count=1)
    # A passage may have told the model to write an address that carries other passages out (EchoLeak).
    text = _plain(filter_answer(_CLOSING.sub("", said), ())[0])
    if not text or _FENCE.search(text) or _CONTROL.search(text) or _repeats_prompt(text, texts):
        return None
    if len(text) <= _MAX_REFUSAL_CHARACTERS and _REFUSAL.match(text):
        return None
    if not _is_written_like(text, texts):
        return None
    return _whole_sentences(text, counter, max_tokens)


def _repeats_prompt(text: str, texts: Sequence[str]) -> bool:
    """Tell whether a run of words is of the instructions, and of nothing that was to be summarized."""
    said, known, order = (f" {' '.join(one.casefold().split())} " for one in (text, " ".join(texts), TREE_SUMMARY_V1))
    words = said.split()
    runs = (f" {' '.join(words[start : start + _PROMPT_WORDS])} " for start in range(len(words) - _PROMPT_WORDS + 1))
    return any(run in order and run not in known for run in runs)


def _plain(text: str) -> str:
    """Take Markdown out: headings go, marks of lines and emphasis too."""
    lines: list[str] = []
    for line in visible_text(unicodedata.normalize("NFC", text)).splitlines():
        if line.lstrip().startswith(("#", "```", "---", "===")):
            continue
        bare = _EMPHASIS.sub(lambda found: next(group for group in found.groups() if group), _LINE_MARK.sub("", line))
        if flat := one_line(bare):
            lines.append(flat)
    return defuse_markers("\n".join(lines)).strip()


def _is_written_like(text: str, texts: Sequence[str]) -> bool:
    own = writing_shares([text])
    source = writing_shares(texts)
    letters = sum(_system_of(character) is not None for character in text)
    if not own or letters < _MIN_LETTERS // (1 if own[WritingSystem.LATIN] else _LETTERS_PER_IDEOGRAPH):
        return False
    return not source or source[own.most_common(1)[0][0]] >= _MIN_SHARE


def _whole_sentences(text: str, counter: TextTokenizer, max_tokens: int) -> str | None:
    """Cut at the end of a sentence; an unfinished last one goes where another is left."""
    spans = split_sentences(text)
    ends = [span.end for span in spans]
    if len(ends) > 1 and text[ends[-1] - 1] not in _TERMINATORS:
        ends.pop()
    text = text[: ends[-1]]
    offsets = counter.token_offsets(text)
    if len(offsets) <= max_tokens:
        return text
    limit = offsets[max_tokens][0]
    end = max((end for end in ends if end <= limit), default=0)
    return text[:end].rstrip() if end else cut_to_clause(one_line(text), counter, max_tokens) or None
