"""Children find, parents answer: hits that were cut from one larger piece give way to that piece.

References:
    The product's seed, step Q9 and section 5.3: the parent's similarity is the mean of its children's, and where the
    parent is not there its children stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from corpusmesh_core.assembly.ordering import (
    MERGED_INTO_PARENT,
    arranged,
    dropped,
    kept_of,
    level_scores,
    sorted_by_score,
    with_scores,
)
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record

PARENT_ATTRIBUTE: Final = "parent"
"""Attribute of a child: the id of its parent's record."""
_HIT_SHARE: Final = 0.75
"""A child counts in the mean if it has this share of the best one's similarity. Every recalled candidate is here, not
just one page of them as in the seed: a family's also-rans would pull down the parent of the best hit."""


def parents_of(ranked: Sequence[RankedCandidate], *, max_count: int) -> tuple[str, ...]:
    """Name the parents of the hits.

    Args:
        ranked: Candidates, kept ones first.
        max_count: Most parents.

    Returns:
        Ids in the order of their best children.
    """
    wanted: dict[str, None] = {}
    for item in ranked:
        parent = item.candidate.record.attributes.get(PARENT_ATTRIBUTE, "")
        if item.is_kept and parent:
            wanted[parent] = None
            if len(wanted) == max_count:
                break
    return tuple(wanted)


def replace_children(ranked: Sequence[RankedCandidate], parents: Mapping[str, Record]) -> tuple[RankedCandidate, ...]:
    """Put parents in the place of their children.

    Args:
        ranked: Candidates, kept ones first.
        parents: Records of parents that may be seen, by id; children of others stay.

    Returns:
        Candidates in order. A parent has the mean of its children's similarities and their terms, and names them as
        merged; children are dropped with the reason.
    """
    kept = kept_of(ranked)
    levels = level_scores(kept)
    families: dict[str, list[int]] = {}
    for index, item in enumerate(kept):
        parent = item.candidate.record.attributes.get(PARENT_ATTRIBUTE, "")
        if parent in parents:
            families.setdefault(parent, []).append(index)
    if not families:
        return tuple(ranked)
    children = {index for members in families.values() for index in members}
    # A parent that was a hit of its own becomes part of the family's one hit.
    known = {item.candidate.record.record_id: index for index, item in enumerate(kept) if index not in children}
    made: list[RankedCandidate] = []
    for parent, members in families.items():
        own = known.get(parent)
        if own is not None:
            children.add(own)
        made.append(_family(parents[parent], [kept[i] for i in members], [float(levels[i]) for i in members]))
    rest = [
        with_scores(item, similarity=item.similarity, order_score=float(levels[index]))
        for index, item in enumerate(kept)
        if index not in children
    ]
    ids = {item.candidate.record.record_id for item in made}
    gone = [
        dropped(kept[index], MERGED_INTO_PARENT)
        for index in sorted(children)
        if kept[index].candidate.record.record_id not in ids
    ]
    first = {item.candidate.record.record_id: families[item.candidate.record.record_id][0] for item in made}
    place = {item.candidate.record.record_id: index for index, item in enumerate(kept)} | first
    # Equal scores keep the order of the hits; a parent stands where its best child stood.
    merged = sorted([*made, *rest], key=lambda item: place[item.candidate.record.record_id])
    return arranged(sorted_by_score(merged), gone, ranked)


def _family(parent: Record, members: Sequence[RankedCandidate], levels: Sequence[float]) -> RankedCandidate:
    best = members[0]
    floor = _HIT_SHARE * max(item.similarity for item in members)
    hits = [place for place, item in enumerate(members) if item.similarity >= floor]
    similarity = float(np.mean([members[place].similarity for place in hits]))
    order_score = float(np.mean([levels[place] for place in hits]))
    merged = dict.fromkeys(
        name for item in members for name in (item.candidate.record.record_id, *item.merged_record_ids)
    )
    merged.pop(parent.record_id, None)
    candidate = replace(
        best.candidate,
        record=replace(parent, vector=None),
        content_terms=" ".join(item.candidate.content_terms for item in members),
        keyword_terms=" ".join(item.candidate.keyword_terms for item in members).strip(),
        question_terms=" ".join(item.candidate.question_terms for item in members).strip(),
    )
    return RankedCandidate(
        candidate,
        replace(best.explanation, similarity=similarity, order_score=order_score),
        merged_record_ids=tuple(merged),
        via_record_ids=tuple(dict.fromkeys(name for item in members for name in item.via_record_ids)),
    )
