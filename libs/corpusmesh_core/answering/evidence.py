"""What an answer may stand on: chosen within a token budget, called by numbers of this request alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpusmesh_core.citation.labels import MAX_LABEL_COUNT, draw_labels
from corpusmesh_core.citation.sentences import split_sentences
from corpusmesh_core.documents import Box
from corpusmesh_core.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Evidence:
    """Text with its place, handed to an answer.

    Attributes:
        record_id: The record that it is; every citation resolves to this.
        text: Its text.
        document: Display name of its document.
        token_count: Tokens of `text`, at least 0.
        label: Number n of its marker `[ID:n]`; 0 until `label_evidence`.
        page: First page from 1; 0 where the format has none.
        boxes: Where it stands.
        heading_path: Headings above it, outermost first.
        source: What the cap per source counts by: the document's resource name; "" counts by `document`.
        score: Final score of the search.
        cosine: Cosine of the question with it; None where it was not compared.
        url: Its address in the web; "" for a document.
        terms: Fine terms of `text` in order, where they are known already; else it is analysed when they are needed.
        is_cut: Whether `text` was shortened to fit the budget.
        is_summary: Whether it is a summary of several passages, which may be of several documents.
        is_table: Whether it is a table, whose lines are no sentences that could be quoted.
    """

    record_id: str
    text: str
    document: str
    token_count: int
    label: int = 0
    page: int = 0
    boxes: tuple[Box, ...] = ()
    heading_path: tuple[str, ...] = ()
    source: str = ""
    score: float = 0.0
    cosine: float | None = None
    url: str = ""
    terms: tuple[str, ...] = ()
    is_cut: bool = False
    is_summary: bool = False
    is_table: bool = False


def select_evidence(
    ranked: Sequence[Evidence],
    *,
    max_token_count: int,
    max_per_source: int | None = None,
    overhead_token_count: int = 40,
) -> tuple[Evidence, ...]:
    """Take the best evidence that fits.

    One that does not fit is passed over, so that a shorter one behind it can still serve; only the very first is cut,
    at a sentence's end, because an answer without its best evidence is none.

    Args:
        ranked: Best first; a record that comes twice counts once.
        max_token_count: Tokens of all evidence with its headers, at least 1.
        max_per_source: Most pieces of one source (poisoned documents come in numbers); None for no bound.
        overhead_token_count: Tokens of the header and delimiters around each piece.

    Returns:
        What was taken, in the order of `ranked`.

    Raises:
        InvalidArgumentError: If a bound is below 1.
    """
    if max_token_count < 1 or (max_per_source is not None and max_per_source < 1):
        raise InvalidArgumentError(
            "EVIDENCE_BUDGET_INVALID", "evidence needs a budget of at least one token and one piece a source"
        )
    chosen: list[Evidence] = []
    seen: set[str] = set()
    per_source: Counter[str] = Counter()
    left = max_token_count
    for piece in ranked:
        source = piece.source or piece.document
        if len(chosen) == MAX_LABEL_COUNT:
            break
        if piece.record_id in seen or not piece.text.strip():
            continue
        if max_per_source is not None and per_source[source] >= max_per_source:
            continue
        cost = piece.token_count + overhead_token_count
        fitting = piece
        if cost > left:
            if chosen:
                continue
            fitting = _cut(piece, max(1, left - overhead_token_count))
            cost = left
        chosen.append(fitting)
        seen.add(piece.record_id)
        per_source[source] += 1
        left -= cost
        if left <= 0:
            break
    return tuple(chosen)


def label_evidence(
    evidence: Sequence[Evidence], *, rng: np.random.Generator, question: str = ""
) -> tuple[Evidence, ...]:
    """Give each piece a number that occurs nowhere in what the model will read.

    Args:
        evidence: What was selected.
        rng: The dice.
        question: What was asked.

    Returns:
        The same pieces with `label` set.
    """
    texts = [question]
    for piece in evidence:
        texts += [piece.text, piece.document, *piece.heading_path]
    labels = draw_labels(len(evidence), rng=rng, texts=texts)
    return tuple(replace(piece, label=label) for piece, label in zip(evidence, labels, strict=True))


def _cut(piece: Evidence, token_count: int) -> Evidence:
    """Shorten a text to about so many tokens; the tokenizer is not here, so characters stand for them."""
    share = token_count / max(1, piece.token_count)
    limit = max(1, int(len(piece.text) * share))
    ends = [span.end for span in split_sentences(piece.text) if span.end <= limit]
    return replace(
        piece, text=piece.text[: ends[-1] if ends else limit], token_count=token_count, terms=(), is_cut=True
    )
