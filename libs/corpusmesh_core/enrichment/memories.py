"""Memory without a model: what a document is about, topic by topic, with the key sentences on each.

MemoRAG (seed `003_67b62910d2d3a085.txt`) keeps pairs of topic and details as a global memory; a vague question finds a
pair, and its words and chunks lead on. Here a topic is what a heading says, or the best keywords where there is none,
and the details are its section's most central sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.headings import topic_of
from corpusmesh_core.enrichment.keywords import extract_keywords
from corpusmesh_core.enrichment.lines import one_line
from corpusmesh_core.enrichment.statements import centrality, is_running_text, pick_central, statements_of
from corpusmesh_core.enrichment.summaries import join_sentences
from corpusmesh_core.ports.embedding import TextTokenizer

MAX_TOPIC_CHARACTERS: Final = 200
MAX_DETAILS_CHARACTERS: Final = 1000
_MAX_DETAIL_TOKENS: Final = 96
_MAX_CHUNKS: Final = 8
"""Chunks of one topic; a longer section is several topics of the same name."""
_TOPIC_KEYWORDS: Final = 2


@dataclass(frozen=True, slots=True)
class MemoryPair:
    """A topic and what is said of it.

    Attributes:
        topic: A few words.
        details: A few sentences.
        chunks: Positions of the chunks it was made from, ascending.
    """

    topic: str
    details: str
    chunks: tuple[int, ...]

    @property
    def text(self) -> str:
        """Both, as they are searched and embedded."""
        return f"{self.topic}: {self.details}"


def extract_memories(chunks: Sequence[Chunk], counter: TextTokenizer, *, title: str = "") -> list[MemoryPair]:
    """Make the memory of a document.

    Args:
        chunks: Its chunks of role TEXT by position.
        counter: Counts tokens.
        title: The document's title.

    Returns:
        Pairs in reading order, one for each section, or several for a long one; none for a section without a sentence
        that says something.
    """
    prose = [chunk for chunk in chunks if is_running_text(chunk)]
    unnamed = [chunk for chunk in prose if not chunk.heading_path]
    named = extract_keywords(unnamed, count=_TOPIC_KEYWORDS, title=title)
    keywords = {chunk.position: ", ".join(words) for chunk, words in zip(unnamed, named, strict=True)}
    pairs: list[MemoryPair] = []
    for path, group in groupby(prose, key=lambda chunk: chunk.heading_path):
        section = list(group)
        for start in range(0, len(section), _MAX_CHUNKS):
            part = section[start : start + _MAX_CHUNKS]
            if not path:
                # Without a heading each chunk is a topic of its own: two neighbours may have nothing in common.
                pairs.extend(pair for chunk in part if (pair := _pair(keywords[chunk.position], (), [chunk], counter)))
            elif pair := _pair(topic_of(path[-1]) or title or one_line(path[-1]), path[-2:], part, counter):
                pairs.append(pair)
    return pairs


def _pair(topic: str, towards: Sequence[str], chunks: Sequence[Chunk], counter: TextTokenizer) -> MemoryPair | None:
    sentences = list(
        dict.fromkeys(sentence for chunk in chunks for sentence in statements_of(chunk.text, chunk.heading_path))
    )
    if not topic or not sentences:
        return None
    picked = pick_central(
        sentences, centrality(sentences, towards=towards), counter.count_tokens(sentences), _MAX_DETAIL_TOKENS
    )
    details = join_sentences(sentences[place] for place in picked)
    if not details:
        return None
    return MemoryPair(topic[:MAX_TOPIC_CHARACTERS], details, tuple(chunk.position for chunk in chunks))
