"""The table of contents leads to the sections that a question is about, whether their chunks were recalled or not.

References:
    The product's seed, step Q8 and section 5.3: the best document by the sum of its similarities, sections chosen by
    their titles, chunks that are hits already gain and the others are read by id and added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.assembly.ordering import arranged, kept_of, level_scores, sorted_by_score, with_scores
from corpusmesh_core.citation.weights import coverage, telling_terms, term_weights
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Ordinal, Record, RecordKind, derived_record_id

MAX_ENTRIES: Final = 1_000
"""Entries of a table of contents that are read: what one read by ids takes. Entries are numbered without a gap."""
_SUM_WINDOW: Final = 32
_PATH_SHARE: Final = 0.3
_VECTOR_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class TocSettings:
    """Which sections count, and how much.

    Attributes:
        max_section_count: Most sections that are chosen.
        min_score: Least score of a section that is chosen, 0 to 1.
        keep_ratio: Least share of the best section's score.
        gain: What a chunk of a section with score 1 gains in similarity.
        max_added_count: Most chunks that are added.
    """

    max_section_count: int = 4
    min_score: float = 0.4
    keep_ratio: float = 0.8
    gain: float = 0.1
    max_added_count: int = 24


@dataclass(frozen=True, slots=True)
class TocSection:
    """One entry of a table of contents.

    Attributes:
        title: Its title.
        path: Titles above it, outermost first.
        level: Depth from 1.
        chunk_ids: Records of its chunks in order.
    """

    title: str
    path: tuple[str, ...]
    level: int
    chunk_ids: tuple[str, ...]


def best_version(ranked: Sequence[RankedCandidate]) -> RankedCandidate | None:
    """Find the document that the question is about most: by the sum of the similarities of its best hits.

    Args:
        ranked: Candidates, kept ones first.

    Returns:
        Its best hit; None where no hit is of a document.
    """
    sums: dict[Ordinal, float] = {}
    first: dict[Ordinal, RankedCandidate] = {}
    for item in kept_of(ranked)[:_SUM_WINDOW]:
        record = item.candidate.record
        if record.document_id:
            sums[record.publisher] = sums.get(record.publisher, 0.0) + item.similarity
            first.setdefault(record.publisher, item)
    return first[max(sums, key=lambda version: sums[version])] if sums else None


def toc_record_ids(version: Ordinal) -> tuple[str, ...]:
    """Name the records that a table of contents can have.

    Args:
        version: The document version.

    Returns:
        Ids in the order of the entries.
    """
    return tuple(derived_record_id(version, RecordKind.TOC, f"{number:05d}") for number in range(MAX_ENTRIES))


def sections_of(records: Sequence[Record]) -> list[TocSection]:
    """Read the entries of a table of contents.

    Args:
        records: Its records in order.

    Returns:
        Sections that own chunks.
    """
    return [
        TocSection(record.text, record.heading_path, len(record.heading_path) + 1, record.links)
        for record in records
        if record.kind is RecordKind.TOC and record.links
    ]


def title_scores(question: str, sections: Sequence[TocSection]) -> NDArray[np.float64]:
    """Say how far titles cover the terms of a question, weighted by how few titles have them.

    Args:
        question: The question.
        sections: Sections of one document.

    Returns:
        Scores, shape [n], 0 to 1; what only a title above says counts a third.
    """
    own = [telling_terms(section.title) for section in sections]
    above = [telling_terms("\n".join(section.path)) if section.path else frozenset[str]() for section in sections]
    weights = term_weights(own)
    absent = max(weights.values(), default=1.0)
    wanted = telling_terms(question)
    scores = []
    for title, path in zip(own, above, strict=True):
        title_share = coverage(wanted, title, weights, absent)
        whole = coverage(wanted, title | path, weights, absent)
        # A title that says nothing but what was asked is the section, however long the question is.
        precision = coverage(title, wanted, weights, absent)
        scores.append((title_share + _PATH_SHARE * (whole - title_share) + precision * title_share**0.5) / 2.0)
    return np.clip(np.array(scores, dtype=np.float64), 0.0, 1.0)


def mix_title_cosines(
    scores: NDArray[np.float64], cosines: Mapping[int, float], *, floor: float
) -> NDArray[np.float64]:
    """Let the vectors of titles speak beside their words.

    Args:
        scores: From `title_scores`.
        cosines: Cosine with the question by place, for the titles that were embedded.
        floor: Cosine of texts that have nothing to do with each other, below 1.

    Returns:
        Scores, shape [n], 0 to 1; those without a vector keep half of their own.
    """
    stretched = np.zeros_like(scores)
    for place, cosine in cosines.items():
        stretched[place] = min(1.0, max(0.0, (cosine - floor) / (1.0 - floor)))
    return (1.0 - _VECTOR_SHARE) * scores + _VECTOR_SHARE * stretched


def pick_sections(scores: NDArray[np.float64], settings: TocSettings) -> dict[int, float]:
    """Choose the sections that a question is about.

    Args:
        scores: Scores of the sections.
        settings: Bounds.

    Returns:
        Score by place of the section, best first; empty where none stands out.
    """
    order = np.argsort(-scores, kind="stable")[: settings.max_section_count].tolist()
    if not order:
        return {}
    least = max(settings.min_score, settings.keep_ratio * float(scores[order[0]]))
    return {place: float(scores[place]) for place in order if scores[place] >= least}


def chunk_scores(sections: Sequence[TocSection], picked: Mapping[int, float]) -> dict[str, float]:
    """Give the chunks of chosen sections their scores.

    Args:
        sections: All sections.
        picked: Score by place of a chosen one, best first.

    Returns:
        Score by record id, sections in their order of choice; of several sections the best one counts.
    """
    found: dict[str, float] = {}
    for place, score in picked.items():
        for name in sections[place].chunk_ids:
            found[name] = max(score, found.get(name, 0.0))
    return found


def apply_toc(
    ranked: Sequence[RankedCandidate],
    scores: Mapping[str, float],
    added: Sequence[RankedCandidate],
    *,
    gain: float,
) -> tuple[RankedCandidate, ...]:
    """Raise the chunks of chosen sections, and add those that were not there.

    Args:
        ranked: Candidates, kept ones first.
        scores: Score of each chunk by record id, 0 to 1.
        added: Scored candidates of chunks that were read by id.
        gain: What a score of 1 adds to the similarity.

    Returns:
        Candidates in their new order.
    """
    kept = kept_of(ranked)
    raised = [
        with_scores(
            item,
            similarity=item.similarity + gain * scores.get(item.candidate.record.record_id, 0.0),
            order_score=float(level) + gain * scores.get(item.candidate.record.record_id, 0.0),
        )
        for item, level in zip(kept, level_scores(kept), strict=True)
    ]
    known = {item.candidate.record.record_id for item in ranked}
    for item in added:
        name = item.candidate.record.record_id
        if name not in known and item.is_kept:
            similarity = item.similarity + gain * scores.get(name, 0.0)
            raised.append(with_scores(item, similarity=similarity, order_score=similarity))
    return arranged(sorted_by_score(raised), (), ranked)
