"""Hits whose text is that of a better one: the same but for case and punctuation, or nearly the same.

Nearly the same is said with care: a number, a name or a "not" makes another statement of two texts that are alike in
all else (lists of the monuments of two counties differ in one word). So two texts must share nearly all their terms,
hold the same numbers and capitalised words, differ in no negation, and lie close in the embedding space.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.assembly.ordering import DUPLICATE_OF_BETTER, arranged, dropped, kept_of
from corpusmesh_core.citation.weights import numbers_of
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import Script, normalize, script_of

_SQUEEZE: Final = re.compile(r"[\W_]+")
_NEGATION: Final = re.compile(
    r"^(?:no|not|never|without|nor|none|cannot|un\w+|non\w*|\w+n[’']t|\w*[不没無无非未否勿別别]\w*)$"
)
_NAME: Final = re.compile(r"\b[A-Z]\w+")
_ENDING_CHARACTERS: Final = 96
_ENDING_LETTERS: Final = 16
_UNREAD_KINDS: Final = frozenset({RecordKind.PAGE_IMAGE, RecordKind.TREE_NODE})
"""A summary that is one sentence of a chunk must not swallow it: the chunk is what is cited."""


@dataclass(frozen=True, slots=True)
class DuplicateSettings:
    """When two texts are the same.

    Attributes:
        window: Candidates compared with each other for nearness, best first; equality is looked for among all.
        min_overlap: Least share of common terms (Jaccard), 0 to 1.
        min_cosine: Least cosine of their vectors; belongs to the embedder.
        min_overlap_without_vectors: Least share of common terms where there are no vectors.
    """

    window: int = 64
    min_overlap: float = 0.9
    min_cosine: float = 0.97
    min_overlap_without_vectors: float = 0.96


def exact_duplicates(kept: Sequence[RankedCandidate]) -> dict[int, int]:
    """Find candidates whose text is that of a better one but for case, width, script variant and punctuation.

    Args:
        kept: Candidates, best first.

    Returns:
        Place of the better one, by place of the duplicate.
    """
    by_ending: dict[str, list[int]] = {}
    for index, item in enumerate(kept):
        record = item.candidate.record
        if record.kind not in _UNREAD_KINDS:
            by_ending.setdefault(_ending(record.text), []).append(index)
    first: dict[str, int] = {}
    found: dict[int, int] = {}
    # Only texts that end alike are read whole: that takes a tenth of the time where none is the same.
    for index in sorted(index for alike in by_ending.values() if len(alike) > 1 for index in alike):
        key = _squeezed(kept[index].candidate.record.text)
        if key and first.setdefault(key, index) != index:
            found[index] = first[key]
    return found


def near_pairs(
    kept: Sequence[RankedCandidate], settings: DuplicateSettings, *, without: Mapping[int, int]
) -> list[tuple[int, int, float]]:
    """Find pairs that share nearly all their terms and differ in nothing that makes another statement.

    Args:
        kept: Candidates, best first.
        settings: Bounds.
        without: Places that are duplicates already.

    Returns:
        (better, worse, share of common terms), in order; their vectors are not compared yet.
    """
    places = [
        index
        for index in range(min(len(kept), settings.window))
        if index not in without and kept[index].candidate.record.kind not in _UNREAD_KINDS
    ]
    terms = {index: frozenset(kept[index].candidate.content_terms.split()) for index in places}
    # Sorted by size, only neighbours can share enough: |A & B| <= min(|A|, |B|).
    by_size = sorted(places, key=lambda index: (len(terms[index]), index))
    pairs: list[tuple[int, int, float]] = []
    for place, one in enumerate(by_size):
        size = len(terms[one])
        for other in by_size[place + 1 :]:
            if size < settings.min_overlap * len(terms[other]) or not size:
                break
            if not _can_be_close(kept[one], kept[other], settings.min_cosine):
                continue
            common = len(terms[one] & terms[other])
            overlap = common / (size + len(terms[other]) - common)
            if overlap >= settings.min_overlap and _says_the_same(kept[one], kept[other], terms[one], terms[other]):
                pairs.append((min(one, other), max(one, other), overlap))
    return sorted(pairs)


def confirmed_pairs(
    pairs: Sequence[tuple[int, int, float]],
    kept: Sequence[RankedCandidate],
    vectors: Mapping[str, NDArray[np.float32]],
    settings: DuplicateSettings,
) -> dict[int, int]:
    """Keep the pairs whose vectors lie close.

    Args:
        pairs: From `near_pairs`.
        kept: The same candidates.
        vectors: Vectors of unit norm by record id; where one is missing, words decide by a stricter bound.
        settings: Bounds.

    Returns:
        Place of the better one, by place of the duplicate; the better one is no duplicate itself.
    """
    found: dict[int, int] = {}
    for better, worse, overlap in pairs:
        if better in found or worse in found:
            continue
        one = vectors.get(kept[better].candidate.record.record_id)
        other = vectors.get(kept[worse].candidate.record.record_id)
        if one is None or other is None or one.shape != other.shape:
            is_same = overlap >= settings.min_overlap_without_vectors
        else:
            is_same = float(np.dot(one, other)) >= settings.min_cosine
        if is_same:
            found[worse] = better
    return found


def collapse(ranked: Sequence[RankedCandidate], better_by_place: Mapping[int, int]) -> tuple[RankedCandidate, ...]:
    """Leave duplicates out; the better one names them as merged, so that the other places can still be found.

    Args:
        ranked: Candidates, kept ones first.
        better_by_place: Place of the better one among the kept ones, by place of the duplicate.

    Returns:
        Candidates in order.
    """
    kept = kept_of(ranked)
    merged: dict[int, dict[str, None]] = {}
    for worse, better in sorted(better_by_place.items()):
        root = better
        while root in better_by_place:
            root = better_by_place[root]
        names = (kept[worse].candidate.record.record_id, *kept[worse].merged_record_ids)
        merged.setdefault(root, {}).update(dict.fromkeys(names))
    staying = [
        replace(item, merged_record_ids=tuple(dict.fromkeys((*item.merged_record_ids, *merged.get(index, ())))))
        for index, item in enumerate(kept)
        if index not in better_by_place
    ]
    return arranged(staying, [dropped(kept[index], DUPLICATE_OF_BETTER) for index in sorted(better_by_place)], ranked)


def _squeezed(text: str) -> str:
    return _SQUEEZE.sub("", normalize(text))


def _ending(text: str) -> str:
    """Take the last letters of a text: equal for equal texts, whatever stands between their letters."""
    for length in (_ENDING_CHARACTERS, len(text)):
        letters = _squeezed(text[-length:])
        if len(letters) >= _ENDING_LETTERS:
            return letters[-_ENDING_LETTERS:]
    return letters


def _can_be_close(one: RankedCandidate, other: RankedCandidate, min_cosine: float) -> bool:
    """Rule pairs out by the triangle inequality of angles: both cosines with the question are known."""
    first, second = one.candidate.cosine, other.candidate.cosine
    if first is None or second is None:
        return True
    apart = abs(math.acos(max(-1.0, min(1.0, first))) - math.acos(max(-1.0, min(1.0, second))))
    return apart <= math.acos(min_cosine) + 1e-3


def _says_the_same(one: RankedCandidate, other: RankedCandidate, first: frozenset[str], second: frozenset[str]) -> bool:
    if any(_NEGATION.match(term) for term in first ^ second):
        return False
    # Without capitals a name cannot be told from a word, so nothing may stand in the place of something else.
    if script_of(sorted(first)) is not Script.SPACED and not (first <= second or second <= first):
        return False
    texts = [one.candidate.record.text, other.candidate.record.text]
    names = [frozenset(_NAME.findall(text)) for text in texts]
    return names[0] == names[1] and numbers_of(normalize(texts[0])) == numbers_of(normalize(texts[1]))
