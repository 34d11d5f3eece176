"""Sentences of chunks that say something by themselves, and how central each is to its neighbours."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.citation.weights import telling_terms, term_weights
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.enrichment.headings import is_list_heading
from corpusmesh_core.enrichment.lines import one_line

MAX_SENTENCES: Final = 300
"""Most sentences that are compared with each other; of more, the ones with the weightiest terms are taken."""
IDEOGRAPH: Final = re.compile(r"[\u3400-\u9fff]")
_MIN_IDEOGRAPHS: Final = 6
_MIN_WORDS: Final = 4
_MAX_CHARACTERS: Final = 500
_TERMINATORS: Final = ".!。！；;…”\"'’）)」』"
_LEAD: Final = re.compile(
    r"^(?:\s*(?:[-*+•·▪►]|\d{1,3}[.)、](?!\d)|[(（][\d一二三四五六七八九十a-z]{1,3}[)）]|[①-⑳]|#{1,6})\s*)+"
)
_LEADERS: Final = re.compile(r"(?:\.\s?){4,}|…{2,}|\s\.\s\d+$")
_DAMPING: Final = 0.85
_STEP_COUNT: Final = 40
_LEAD_SHARE: Final = 0.5
_SAME_SHARE: Final = 0.7
_RUNNING_TEXT: Final = frozenset({BlockKind.PARAGRAPH, BlockKind.LIST_ITEM, BlockKind.NOTE, BlockKind.CAPTION})


def is_chinese(text: str) -> bool:
    """Say whether a text is written in Chinese rather than with an alphabet.

    Args:
        text: Any text.

    Returns:
        True if at least a fifth of its visible characters are ideographs.
    """
    return 5 * len(IDEOGRAPH.findall(text)) >= len(text) - text.count(" ") > 0


def is_running_text(chunk: Chunk) -> bool:
    """Say whether a chunk holds prose rather than a table, code or a formula.

    Args:
        chunk: A chunk.

    Returns:
        True for role TEXT and prose.
    """
    return chunk.role is ChunkRole.TEXT and chunk.block_kind in _RUNNING_TEXT


def statements_of(text: str, headings: Sequence[str] = (), *, max_characters: int = _MAX_CHARACTERS) -> list[str]:
    """Cut a text into the sentences that say something by themselves.

    Args:
        text: Text of a chunk or of blocks.
        headings: Headings above it, which are no statements.
        max_characters: Longest sentence.

    Returns:
        Sentences in order on one line each, bullets left out; no headings, questions, table rows, fragments or
        longer sentences; none below a heading such as "Contents" or "References".
    """
    if headings and is_list_heading(headings[-1]):
        return []
    left_out = {heading.strip() for heading in headings}
    found: list[str] = []
    for span in split_sentences(text):
        raw = text[span.start : span.end]
        if " | " in raw or raw.lstrip().startswith(("#", "|", "```")):
            continue
        sentence = one_line(_LEAD.sub("", raw))
        if sentence not in left_out and len(sentence) <= max_characters and _is_statement(sentence):
            found.append(sentence)
    return found


def _is_statement(sentence: str) -> bool:
    if not sentence or sentence[-1] not in _TERMINATORS:
        return False
    if sentence.rstrip("”\"'’）)」』").endswith(("?", "？", ":", "：")):
        return False
    if is_chinese(sentence):
        return len(IDEOGRAPH.findall(sentence)) >= _MIN_IDEOGRAPHS
    # What begins in lower case was torn from its beginning by a page, a column or a chunk (but "iPhone …").
    is_torn = sentence[0].islower() and not sentence[1:2].isupper()
    return not is_torn and len(sentence.split()) >= _MIN_WORDS and _LEADERS.search(sentence) is None


def centrality(sentences: Sequence[str], *, towards: Iterable[str] = ()) -> NDArray[np.float64]:
    """Say how central each sentence is: the stationary share of a walk between sentences that share rare terms.

    Args:
        sentences: Sentences of one page, section or chunk.
        towards: Texts that the walk starts from again and again, such as headings; without terms in common with any
            sentence they change nothing.

    Returns:
        Shares, shape (number of sentences,), sum 1.0; 0.0 for sentences beyond MAX_SENTENCES.

    References:
        Erkan and Radev, LexRank, JAIR 2004: here with continuous weights, and a lead for earlier sentences, which
        decides between equals.
    """
    terms = [telling_terms(sentence) for sentence in sentences]
    scores = np.zeros(len(sentences))
    weights = term_weights(terms)
    kept = [place for place, own in enumerate(terms) if own]
    if len(kept) > MAX_SENTENCES:
        weightiest = sorted(kept, key=lambda place: (-sum(weights[term] for term in terms[place]), place))
        kept = sorted(weightiest[:MAX_SENTENCES])
    if not kept:
        return scores
    vectors = _unit_vectors([terms[place] for place in kept], weights)
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, 0.0)
    start = _start([terms[place] for place in kept], weights, towards)
    sums = similarities.sum(axis=1, keepdims=True)
    # A sentence that shares nothing with the others leads to where the walk starts.
    steps = np.where(sums > 0, similarities / np.where(sums > 0, sums, 1.0), start[None, :])
    shares = start.copy()
    for _ in range(_STEP_COUNT):
        shares = _DAMPING * (shares @ steps) + (1 - _DAMPING) * start
    scores[kept] = shares
    return scores


def _unit_vectors(terms: Sequence[frozenset[str]], weights: Mapping[str, float]) -> NDArray[np.float64]:
    columns = {term: column for column, term in enumerate(sorted(set().union(*terms)))}
    vectors = np.zeros((len(terms), len(columns)))
    for row, own in enumerate(terms):
        for term in own:
            vectors[row, columns[term]] = weights[term]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _start(
    terms: Sequence[frozenset[str]], weights: Mapping[str, float], towards: Iterable[str]
) -> NDArray[np.float64]:
    """Make the shares that the walk starts with: even, leaning to what shares terms with `towards` and stands first."""
    wanted = set().union(*(telling_terms(text) for text in towards)) if towards else set()
    shares = np.array([1.0 + sum(weights[term] for term in own & wanted) for own in terms])
    shares *= 1.0 + _LEAD_SHARE / (1.0 + np.arange(len(terms)))
    return np.asarray(shares / shares.sum())


def pick_central(sentences: Sequence[str], scores: NDArray[np.float64], sizes: Sequence[int], budget: int) -> list[int]:
    """Choose sentences within a budget, the most central first, none that says what a chosen one says.

    Args:
        sentences: The sentences.
        scores: Their shares.
        sizes: Their tokens.
        budget: Most tokens of all that are chosen.

    Returns:
        Places of the chosen ones, ascending; the most central sentence that fits is always among them.
    """
    picked: list[int] = []
    known: list[frozenset[str]] = []
    room = budget
    for place in (int(place) for place in np.argsort(-scores, kind="stable")):
        if sizes[place] > room or scores[place] <= 0:
            continue
        terms = telling_terms(sentences[place])
        if any(_same_share(terms, other) > _SAME_SHARE for other in known):
            continue
        picked.append(place)
        known.append(terms)
        room -= sizes[place]
    return sorted(picked)


def _same_share(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))
