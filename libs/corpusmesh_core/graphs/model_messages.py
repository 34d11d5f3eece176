"""What a language model is sent for graphs: instructions, and document text between delimiters that it cannot know."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.answering.fences import draw_fence, fenced_block, header_text, visible_text
from corpusmesh_core.graphs.batches import chunk_tokens, entity_limit
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.ports.chat import ChatMessage, ChatRole
from corpusmesh_core.prompts.graph_confirm_v1 import GRAPH_CONFIRM_V1
from corpusmesh_core.prompts.graph_describe_v1 import GRAPH_DESCRIBE_V1
from corpusmesh_core.prompts.graph_extract_general_v1 import (
    GRAPH_EXTRACT_GENERAL_V1,
    GRAPH_EXTRACT_GENERAL_VERSION,
)
from corpusmesh_core.prompts.graph_extract_light_v1 import GRAPH_EXTRACT_LIGHT_V1, GRAPH_EXTRACT_LIGHT_VERSION
from corpusmesh_core.prompts.graph_glean_v1 import GRAPH_GLEAN_V1
from corpusmesh_core.prompts.graph_prompt import GRAPH_DATA_RULES, GRAPH_WISH
from corpusmesh_core.prompts.graph_report_v1 import GRAPH_REPORT_V1
from corpusmesh_core.trees.writing import WritingSystem, writing_shares

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_CHINESE: Final = "Chinese, in the characters of the passages (simplified or traditional)"
_MAIN_LANGUAGE: Final = "the language of the passages"
_WORDS_PER_TOKEN: Final = 0.7
_IDEOGRAPHS_PER_TOKEN: Final = 1.2
_MAX_KNOWN_NAMES: Final = 100
EXTRACTION_PROMPTS: Final[Mapping[GraphMethod, tuple[str, str]]] = {
    GraphMethod.LIGHT: (GRAPH_EXTRACT_LIGHT_VERSION, GRAPH_EXTRACT_LIGHT_V1),
    GraphMethod.GENERAL: (GRAPH_EXTRACT_GENERAL_VERSION, GRAPH_EXTRACT_GENERAL_V1),
}
"""Version and text of the prompt of each method that asks a model."""


@dataclass(frozen=True, slots=True)
class Block:
    """One quoted text.

    Attributes:
        name: What it is, such as "passages"; may hold a document's title.
        text: The text.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one call says, before delimiters are drawn for it.

    Attributes:
        instructions: What the model is to do.
        blocks: What is quoted, in order.
    """

    instructions: str
    blocks: tuple[Block, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """All that decides the answer, for the key under which it is kept."""
        return (self.instructions, *(part for block in self.blocks for part in (block.name, block.text)))

    def messages(self, rng: np.random.Generator) -> tuple[ChatMessage, ...]:
        """Write the messages.

        Args:
            rng: The dice for the delimiters.

        Returns:
            A system and a user message.
        """
        fence = draw_fence(rng, self.parts)
        body = "\n\n".join(fenced_block(fence, header_text(block.name), block.text) for block in self.blocks)
        return (ChatMessage(ChatRole.SYSTEM, self.instructions), ChatMessage(ChatRole.USER, body))


def extraction_sheet(method: GraphMethod, chunks: Sequence[GraphChunk], settings: GraphSettings) -> Sheet:
    """Write the question for entities and relations.

    Args:
        method: LIGHT or GENERAL.
        chunks: Neighbours of one document, at least one.
        settings: How the graph is made.

    Returns:
        The sheet.
    """
    prompt = EXTRACTION_PROMPTS[method][1]
    parameters = {
        "types": ", ".join(header_text(name) for name in settings.entity_types),
        "max_entities": str(entity_limit(sum(map(chunk_tokens, chunks)))),
        "language": language_of([chunk.text for chunk in chunks]),
    }
    return Sheet(_instructions(prompt, parameters, settings.prompt), (_passages(chunks),))


def gleaning_sheet(extraction: Sheet, names: Sequence[str]) -> Sheet:
    """Write the question for what was missed.

    Args:
        extraction: The first question.
        names: Names that were found.

    Returns:
        The sheet.
    """
    known = "\n".join(names[:_MAX_KNOWN_NAMES])
    return Sheet(f"{extraction.instructions}\n\n{GRAPH_GLEAN_V1}", (*extraction.blocks, Block("names", known)))


def description_sheet(name: str, fragments: Sequence[str], settings: GraphSettings, *, max_tokens: int) -> Sheet:
    """Write the question for one description made of many.

    Args:
        name: What is described.
        fragments: Descriptions, cut so that they fit.
        settings: How the graph is made.
        max_tokens: Longest description.

    Returns:
        The sheet.
    """
    parameters = {**_lengths(max_tokens), "language": language_of(fragments)}
    instructions = _instructions(GRAPH_DESCRIBE_V1, parameters, settings.prompt)
    return Sheet(instructions, (Block("name", name), Block("passages", "\n\n".join(fragments))))


def confirmation_sheet(pairs: Sequence[tuple[str, str, str]]) -> Sheet:
    """Write the question which names stand for one thing.

    Args:
        pairs: Two names and their type, "" where unknown; numbered from 1 in the question.

    Returns:
        The sheet.
    """
    lines = [
        " | ".join((str(number), *((header_text(kind),) if kind else ()), header_text(first), header_text(second)))
        for number, (first, second, kind) in enumerate(pairs, 1)
    ]
    return Sheet(f"{GRAPH_CONFIRM_V1}\n{GRAPH_DATA_RULES}", (Block("pairs", "\n".join(lines)),))


def report_sheet(lines: Sequence[str], settings: GraphSettings, *, max_tokens: int) -> Sheet:
    """Write the question for the report on a community.

    Args:
        lines: Entities, relations and sentences, cut so that they fit.
        settings: How the graph is made.
        max_tokens: Longest summary.

    Returns:
        The sheet.
    """
    parameters = {**_lengths(max_tokens), "language": language_of(lines).replace("passages", "block")}
    return Sheet(_instructions(GRAPH_REPORT_V1, parameters, settings.prompt), (Block("community", "\n".join(lines)),))


def language_of(texts: Sequence[str]) -> str:
    """Name the language in which a model is to write.

    Args:
        texts: What it reads.

    Returns:
        A noun phrase: models leave Chinese unless it is named; another language they find by themselves.
    """
    shares = writing_shares(texts)
    is_chinese = bool(shares) and shares.most_common(1)[0][0] is WritingSystem.CHINESE
    return _CHINESE if is_chinese else _MAIN_LANGUAGE


def _instructions(prompt: str, parameters: Mapping[str, str], wish: str) -> str:
    # In one pass: a value that looks like a parameter stays what it is.
    task = _PARAMETER.sub(lambda found: parameters[found.group(1)], prompt)
    text = f"{task}\n{GRAPH_DATA_RULES}"
    return f"{text}\n\n{GRAPH_WISH.format(wish=visible_text(wish.strip()))}" if wish.strip() else text


def _lengths(max_tokens: int) -> dict[str, str]:
    return {
        "max_words": str(int(_WORDS_PER_TOKEN * max_tokens)),
        "max_characters": str(int(_IDEOGRAPHS_PER_TOKEN * max_tokens)),
    }


def _passages(chunks: Sequence[GraphChunk]) -> Block:
    """Quote chunks in one block: delimiters of their own would cost as much as a short chunk."""
    parts: list[str] = []
    headings: tuple[str, ...] = ()
    for chunk in chunks:
        if chunk.heading_path and chunk.heading_path != headings:
            parts.append(f"[{header_text(' / '.join(chunk.heading_path))}]")
        headings = chunk.heading_path
        parts.append(chunk.text.strip())
    title = chunks[0].title
    return Block(f"passages of {title}" if title else "passages", "\n\n".join(parts))
