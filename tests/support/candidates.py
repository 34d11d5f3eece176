"""Short ways to make candidates for tests of what becomes of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.documents import Box
from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.ranking import LegScore, RankedCandidate, ScoreExplanation
from corpusmesh_core.ranking.scoring import BELOW_THRESHOLD
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id
from corpusmesh_core.text import analyze


def chunk(
    position: int,
    text: str,
    *,
    version: int = 7,
    document: str = "",
    parent: str = "",
    headings: Sequence[str] = (),
    page: int = 0,
    vector: Sequence[float] | None = None,
) -> Record:
    return Record(
        chunk_record_id(Ordinal(version), position),
        RecordKind.CHUNK,
        "kb",
        Ordinal(version),
        (Ordinal(version),),
        text,
        title=f"Title {version}",
        document_id=document or f"d{version}",
        version=1,
        heading_path=tuple(headings),
        page=page,
        boxes=(Box(page, 10.0, 100.0 * position, 200.0, 100.0 * position + 90.0),) if page else (),
        position=position,
        token_count=len(text.split()),
        attributes={"parent": parent} if parent else {},
        vector=None if vector is None else unit(vector),
    )


def ranked(
    record: Record,
    similarity: float,
    *,
    order_score: float | None = None,
    dropped: bool = False,
    cosine: float | None = None,
    merged: Sequence[str] = (),
) -> RankedCandidate:
    leg = LegScore(raw=1.0, rank=1, similarity=similarity, is_filled_in=False)
    explanation = ScoreExplanation(
        leg,
        leg,
        0.0,
        0.5,
        False,
        similarity,
        similarity if order_score is None else order_score,
        BELOW_THRESHOLD if dropped else "",
    )
    terms = " ".join(analyze(record.text).fine)
    return RankedCandidate(Candidate(record, terms, cosine=cosine), explanation, merged_record_ids=tuple(merged))


def unit(values: Sequence[float]) -> NDArray[np.float32]:
    vector = np.array(values, dtype=np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def ids(items: Sequence[RankedCandidate], *, kept: bool = True) -> list[str]:
    return [item.candidate.record.record_id for item in items if item.is_kept is kept]


def reasons(items: Sequence[RankedCandidate]) -> Mapping[str, str]:
    return {item.candidate.record.record_id: item.explanation.dropped_because for item in items if not item.is_kept}
