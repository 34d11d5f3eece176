"""Which reports of communities a question is answered from: by relevance and weight, from coarse to fine, in a budget.

The communities of a graph stand in each other: every member of a finer one is a member of the coarser one above it. A
caller who may not see a coarse report, since it is made of hidden documents too, may well see finer ones: then those
are where the descent begins.

References:
    Edge et al.: From Local to Global, 2024; field notes on Microsoft GraphRAG (dynamic selection, community level 2).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.graphs.records import WEIGHT
from corpusmesh_core.records import Record
from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens

LIKELY: Final = 0.3
"""Share of the best score from which a coarse report is followed to finer ones."""
MAX_FOLLOWED: Final = 12
"""Coarse reports that are followed to finer ones."""
MAX_TITLES: Final = 40
"""Titles of coarse reports that a model chooses from."""
_BY_WEIGHT: Final = 0.2
"""Share of the weight in a score; the rest is relevance."""
_MIN_CUT: Final = 48
"""Tokens below which a report is left out instead of cut."""


@dataclass(frozen=True, slots=True)
class ReportHit:
    """A report that may help.

    Attributes:
        record: Its record.
        similarity: How like the question it is, about 0 to 1.
        members: Entities of its community that its record names, keys as text.
    """

    record: Record
    similarity: float
    members: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(self.record.links))

    @property
    def score(self) -> float:
        """Relevance first, then weight; 0 to 1."""
        return (1.0 - _BY_WEIGHT) * max(0.0, self.similarity) + _BY_WEIGHT * weight_of(self.record)


def weight_of(report: Record) -> float:
    """Read the weight of a report.

    Args:
        report: Its record.

    Returns:
        The weight, 0 to 1; 0 where it says none.
    """
    try:
        weight = float(report.attributes.get(WEIGHT, "0"))
    except ValueError:
        return 0.0
    return min(1.0, max(0.0, weight)) if math.isfinite(weight) else 0.0


def united(found: Sequence[Sequence[ReportHit]]) -> tuple[ReportHit, ...]:
    """Put what several look-ups found together.

    Args:
        found: Reports.

    Returns:
        Each once, with the best of its similarities; best first, equal ones by id.
    """
    best: dict[str, ReportHit] = {}
    for hit in (hit for hits in found for hit in hits):
        known = best.get(hit.record.record_id)
        if known is None or hit.similarity > known.similarity:
            best[hit.record.record_id] = hit
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.record.record_id)))


def roots_of(hits: Sequence[ReportHit]) -> tuple[ReportHit, ...]:
    """Find the reports that nothing coarser holds.

    Args:
        hits: Reports, best first.

    Returns:
        The coarsest ones of each branch, in order.
    """
    return tuple(hit for hit, above in zip(hits, _above(hits, hits), strict=True) if not above)


def likely(hits: Sequence[ReportHit], *, most: int = MAX_FOLLOWED) -> tuple[ReportHit, ...]:
    """Choose reports without a model.

    Args:
        hits: Reports, best first.
        most: Most of them.

    Returns:
        Those whose score is near to the best one's, in order.
    """
    if not hits:
        return ()
    least = LIKELY * hits[0].score
    return tuple(hit for hit in hits if hit.score >= least)[:most]


def inside(hits: Sequence[ReportHit], chosen: Sequence[ReportHit]) -> tuple[ReportHit, ...]:
    """Take the reports that were chosen and all below them.

    Args:
        hits: Reports, best first.
        chosen: Coarse reports.

    Returns:
        Those of `hits`, in order.
    """
    names = {hit.record.record_id for hit in chosen}
    return tuple(
        hit for hit, above in zip(hits, _above(hits, chosen), strict=True) if above or hit.record.record_id in names
    )


def finest(hits: Sequence[ReportHit], *, share: float = 0.0) -> tuple[ReportHit, ...]:
    """Leave out reports that finer ones stand for.

    Args:
        hits: Reports, best first.
        share: What a finer one must score of the coarser one's score to stand for it, 0 to 1.

    Returns:
        The others, in order.
    """
    replaced = {
        place
        for hit, above in zip(hits, _above(hits, hits), strict=True)
        for place in above
        if hit.score >= share * hits[place].score
    }
    return tuple(hit for place, hit in enumerate(hits) if place not in replaced)


def reports_of_members(
    hits: Sequence[ReportHit], members: Collection[tuple[str, str]]
) -> tuple[tuple[ReportHit, int], ...]:
    """Choose the reports of the communities that entities stand in.

    Args:
        hits: Reports, best first.
        members: Entities: knowledge base and key as text.

    Returns:
        For each entity the finest report that names it; those of most entities first, then the better ones, each with
        the number of its entities.
    """
    counts: dict[str, int] = {}
    known = {hit.record.record_id: hit for hit in hits}
    for knowledge_base_id, key in members:
        own = [hit for hit in hits if hit.record.knowledge_base_id == knowledge_base_id and key in hit.members]
        if own:
            best = max(own, key=lambda hit: (hit.record.layer, hit.score))
            counts[best.record.record_id] = counts.get(best.record.record_id, 0) + 1
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], -known[entry[0]].score, entry[0]))
    return tuple((known[name], count) for name, count in ordered)


def texts_within(
    hits: Sequence[ReportHit], *, max_tokens: int, max_each: int, most: int
) -> tuple[tuple[ReportHit, str], ...]:
    """Take the texts of reports that a budget holds.

    Args:
        hits: Reports, best first.
        max_tokens: Most tokens of all, titles included.
        max_each: Most tokens of one.
        most: Most reports.

    Returns:
        Reports in order with title and text as one, longer ones cut.
    """
    taken: list[tuple[ReportHit, str]] = []
    left = max_tokens
    for hit in hits:
        text = f"{hit.record.title}\n{hit.record.text}".strip()
        room = min(max_each, left)
        if len(taken) >= most or room < min(_MIN_CUT, estimate_tokens(text)):
            break
        cut = cut_to_tokens(text, room)
        taken.append((hit, cut))
        left -= estimate_tokens(cut)
    return tuple(taken)


def members_of(reports: Sequence[ReportHit], *, most: int) -> Mapping[str, list[str]]:
    """Name members of communities, some of each, so that what stands below these can be looked up.

    Args:
        reports: Reports.
        most: Most members of all.

    Returns:
        Keys as text by knowledge base.
    """
    each = max(1, most // max(1, len(reports)))
    keys: dict[str, list[str]] = {}
    for hit in reports:
        keys.setdefault(hit.record.knowledge_base_id, []).extend(hit.record.links[:each])
    return keys


def _above(hits: Sequence[ReportHit], others: Sequence[ReportHit]) -> list[list[int]]:
    """Find for each report the places of those among others that are of a community which holds its own."""
    rows: dict[str, list[tuple[int, int, frozenset[str]]]] = {}
    for place, hit in enumerate(others):
        rows.setdefault(hit.record.knowledge_base_id, []).append((place, hit.record.layer, hit.members))
    found: list[list[int]] = []
    for hit in hits:
        layer = hit.record.layer
        # A record names the lowest keys of its community: where the lowest of a finer one is not among them, none is.
        first = hit.record.links[0] if hit.record.links else ""
        found.append(
            [
                place
                for place, coarser, members in rows.get(hit.record.knowledge_base_id, ())
                if coarser < layer and first in members
            ]
        )
    return found
