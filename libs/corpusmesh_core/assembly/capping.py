"""Keeps one document from filling the result."""

from collections import Counter
from collections.abc import Sequence

from corpusmesh_core.assembly.ordering import OVER_DOCUMENT_CAP, arranged, dropped, kept_of
from corpusmesh_core.ranking import RankedCandidate


def cap_per_document(ranked: Sequence[RankedCandidate], *, max_count: int) -> tuple[RankedCandidate, ...]:
    """Keep the best hits of each document alone.

    Args:
        ranked: Candidates, kept ones first.
        max_count: Most hits of one document, at least 1. Records of no document are not counted.

    Returns:
        Candidates in order; those beyond the bound are dropped with the reason.
    """
    counts: Counter[tuple[str, str]] = Counter()
    staying: list[RankedCandidate] = []
    leaving: list[RankedCandidate] = []
    for item in kept_of(ranked):
        record = item.candidate.record
        key = (record.knowledge_base_id, record.document_id)
        if record.document_id and counts[key] >= max_count:
            leaving.append(dropped(item, OVER_DOCUMENT_CAP))
        else:
            counts[key] += 1
            staying.append(item)
    return arranged(staying, leaving, ranked)
