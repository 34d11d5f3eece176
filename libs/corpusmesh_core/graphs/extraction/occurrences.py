"""Where the names and nouns of a document stand, sentence by sentence, within bounds."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.extraction.aliases import bare_title
from corpusmesh_core.graphs.extraction.phrases import noun_phrases
from corpusmesh_core.graphs.extraction.sentences import sentence_spans
from corpusmesh_core.graphs.extraction.spelled_names import Found, capitalised_inside, spelled_names
from corpusmesh_core.graphs.extraction.unspaced_names import QUOTED, UNSPACED, unspaced_names
from corpusmesh_core.graphs.extraction.wordlists import GENERIC_HEADINGS
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS
from corpusmesh_core.graphs.values import GraphChunk

MAX_CHUNK_CHARACTERS: Final = 20_000
"""Of a longer chunk only the beginning is read."""
MAX_SENTENCE_NAMES: Final = 24
"""Of more names in a sentence, as in a list of thousands, the first are taken."""
MAX_CHUNK_SENTENCES: Final = 400
_MAX_GAZETTEER: Final = 8
_MAX_TITLE_WORDS: Final = 10
_MAX_UNSPACED_TITLE: Final = 24
_MAX_PHRASES: Final = 24
_MIN_NOUN_CHARACTERS: Final = 2
_NUMBERING: Final = re.compile(
    r"^(?:(?:\d{1,3}(?:\.\d{1,3})+\.?|\d{1,3}[.)]|[A-Z]\.\d{1,3}(?:\.\d{1,3})*\.?"
    r"|(?:chapter|section|part|appendix|annex|article)\s+[\dIVXLC.]{1,8}[.:]?)\s+"
    r"|(?:第[\d一二三四五六七八九十百零〇]{1,6}[章节節条條部分篇编編款项項]|[一二三四五六七八九十]{1,3}、)\s*)(?=\S)",
    re.IGNORECASE,
)
"""What counts headings: section 3.1 on traces is about traces."""
_MIN_RARE_NOUN_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name or noun at a place of a sentence.

    Attributes:
        name: As it is written.
        start: First character in the text of the chunk.
        end: Position behind its last.
        is_name: Whether it is a name rather than a noun.
        is_part: Whether it stands inside a longer name.
        tag: What the dictionary of the Chinese segmenter says of it, "" where it says nothing.
    """

    name: str
    start: int
    end: int
    is_name: bool = True
    is_part: bool = False
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with what stands in it.

    Attributes:
        position: Chunk that it stands in.
        text: Text of the chunk.
        start: Where it begins.
        end: Where it ends.
        occurrences: What stands in it, by place; longer names before their parts.
    """

    position: int
    text: str
    start: int
    end: int
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A chunk that was read.

    Attributes:
        chunk: The chunk.
        sentences: Its sentences.
        subjects: What the chunk is about by title and headings, the most general first.
    """

    chunk: GraphChunk
    sentences: tuple[Sentence, ...]
    subjects: tuple[str, ...]


def read_chunks(chunks: Sequence[GraphChunk]) -> list[ReadChunk]:
    """Find names and nouns in the chunks of a document.

    Args:
        chunks: Chunks of one document, by position.

    Returns:
        What was found; of nouns, those of which the document speaks more than once or that a title names.
    """
    split = [list(sentence_spans(chunk.text[:MAX_CHUNK_CHARACTERS]))[:MAX_CHUNK_SENTENCES] for chunk in chunks]
    known: set[str] = set()
    for chunk, spans in zip(chunks, split, strict=True):
        known.update(capitalised_inside(chunk.text, spans))
        for title in (chunk.title, *chunk.heading_path):
            known.update(title[:MAX_NAME_CHARACTERS].lower().split())
    found: list[list[tuple[tuple[int, int], list[Occurrence]]]] = []
    counts: Counter[str] = Counter()
    for chunk, spans in zip(chunks, split, strict=True):
        subjects = subjects_of(chunk)
        found.append([])
        for start, end in spans:
            occurrences = list(_in_sentence(chunk.text, start, end, known, subjects))
            counts.update({item.name.lower() for item in occurrences if not item.is_name})
            found[-1].append(((start, end), occurrences))
    read: list[ReadChunk] = []
    for chunk, sentences in zip(chunks, found, strict=True):
        above = " ".join((chunk.title, *chunk.heading_path)).lower()
        kept = tuple(
            Sentence(chunk.position, chunk.text, start, end, _kept(occurrences, counts, above))
            for (start, end), occurrences in sentences
        )
        read.append(ReadChunk(chunk, kept, subjects_of(chunk)))
    return read


def subjects_of(chunk: GraphChunk) -> tuple[str, ...]:
    """Say what a chunk is about.

    Args:
        chunk: The chunk.

    Returns:
        Title and headings that are names, outermost first, the forms without an addition in brackets behind them.
    """
    listed: dict[str, None] = {}
    # Titles keep their numbers: "1. FC Nürnberg" is a name.
    for title in (chunk.title, *(_NUMBERING.sub("", heading, count=1) for heading in chunk.heading_path[-2:])):
        cleaned = " ".join(title.split()).strip("*_# ")
        for form in (cleaned, bare_title(cleaned)):
            if _is_name_like(form):
                listed[form] = None
    return tuple(listed)


def _is_name_like(title: str) -> bool:
    if not title or len(title) > MAX_NAME_CHARACTERS or title.lower().strip(" .:0123456789") in ("", *GENERIC_HEADINGS):
        return False
    if title.endswith((".", "?", "!", "。", "？")) and len(title.split()) > 3:
        return False
    return len(title) <= _MAX_UNSPACED_TITLE if UNSPACED.search(title) else len(title.split()) <= _MAX_TITLE_WORDS


def _in_sentence(text: str, start: int, end: int, known: set[str], subjects: Sequence[str]) -> Iterator[Occurrence]:
    for subject in subjects[:_MAX_GAZETTEER]:
        place = text.find(subject, start, end)
        if place >= 0 and _is_whole(text, place, place + len(subject)):
            yield Occurrence(subject, place, place + len(subject))
    sentence = text[start:end]
    if UNSPACED.search(sentence) is not None:
        for word in unspaced_names(text, start, end):
            yield Occurrence(word.name[:MAX_NAME_CHARACTERS], word.start, word.end, word.is_name, tag=word.tag)
    else:
        for match in QUOTED.finditer(text, start, end):
            yield Occurrence(match.group(1).strip(), match.start(1), match.end(1))
    for name in spelled_names(text, start, end, known):
        yield _occurrence(name, is_name=True)
    for phrase in noun_phrases(text, start, end):
        yield _occurrence(phrase, is_name=False)


def _occurrence(found: Found, *, is_name: bool) -> Occurrence:
    return Occurrence(found.name, found.start, found.end, is_name, found.is_part)


def _is_whole(text: str, start: int, end: int) -> bool:
    if UNSPACED.match(text[start]) is not None:
        return True
    return not (start and text[start - 1].isalnum()) and not (end < len(text) and text[end].isalnum())


def _kept(occurrences: Sequence[Occurrence], counts: Counter[str], above: str) -> tuple[Occurrence, ...]:
    """Keep all names and the nouns that matter, within bounds, each place once."""
    names: dict[tuple[int, int], Occurrence] = {}
    for item in occurrences:
        if item.is_name and len(names) < MAX_SENTENCE_NAMES:
            names.setdefault((item.start, item.end), item)
    covered = {place for start, end in names for place in (start, end - 1)}
    nouns: dict[tuple[int, int], Occurrence] = {}
    for item in occurrences:
        if item.is_name or (item.start, item.end) in names or len(nouns) >= _MAX_PHRASES:
            continue
        if item.start in covered and not UNSPACED.match(item.name):
            continue
        if _is_topic(item, counts, above):
            nouns.setdefault((item.start, item.end), item)
    return tuple(sorted((*names.values(), *nouns.values()), key=lambda item: (item.start, -item.end)))


def _is_topic(item: Occurrence, counts: Counter[str], above: str) -> bool:
    if UNSPACED.match(item.name) is not None:
        return len(item.name) >= _MIN_RARE_NOUN_CHARACTERS or (
            len(item.name) >= _MIN_NOUN_CHARACTERS and (counts[item.name.lower()] > 1 or item.name in above)
        )
    return counts[item.name.lower()] > 1 or (" " in item.name and item.name.lower() in above)
