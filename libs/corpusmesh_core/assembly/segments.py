"""Hits of one document become spans of it: relevant segments, and hits with their neighbours.

A span is named by positions of chunks; what lies between its hits is read by id (`chunk_record_id`), so that planning
needs no index and the caller reads all missing chunks at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh_core.assembly.joining import SPAN_ATTRIBUTE, join_records
from corpusmesh_core.assembly.ordering import arranged, dropped, kept_of
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id


@dataclass(frozen=True, slots=True)
class SegmentSettings:
    """Which spans are worth it.

    Attributes:
        window: Hits looked at, best first.
        max_chunk_count: Longest span, in chunks.
        max_span_count: Most spans of one request.
        max_token_count: Longest span, in tokens; it is cut at the end that gains less.
        irrelevance_penalty: What every chunk of a span costs, as a share of the best hit's similarity.
        rank_decay: Places after which a hit counts half as much.
    """

    window: int = 48
    max_chunk_count: int = 8
    max_span_count: int = 12
    max_token_count: int = 1_500
    irrelevance_penalty: float = 0.2
    rank_decay: float = 24.0


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Chunks of one version that become one hit.

    Attributes:
        version: Ordinal of the version.
        first: Position of the first chunk.
        last: Position of the last one.
        anchor: Place of the hit among the kept candidates, whose rank the span has.
    """

    version: Ordinal
    first: int
    last: int
    anchor: int

    @property
    def record_ids(self) -> tuple[str, ...]:
        """Ids of its chunks in reading order."""
        return tuple(chunk_record_id(self.version, position) for position in range(self.first, self.last + 1))


def plan_segments(ranked: Sequence[RankedCandidate], settings: SegmentSettings) -> list[ChunkSpan]:
    """Find the contiguous spans of each document that gain most.

    A hit gains its similarity, as a share of the best one's and less with its rank, minus a penalty; a chunk between
    hits costs the penalty. The best span of a document is taken, then the best of what is left of it, and so on.

    Args:
        ranked: Candidates, kept ones first.
        settings: Bounds.

    Returns:
        Spans of at least two hits, best anchor first; they do not overlap.

    References:
        Relevant segment extraction as in dsRAG (McCallum, Bayes, 2024); the product's seed
        `003_67b62910d2d3a085.txt`, section 5.
    """
    kept = kept_of(ranked)[: settings.window]
    best = max((item.similarity for item in kept), default=0.0)
    by_version: dict[Ordinal, dict[int, int]] = {}
    for index, item in enumerate(kept):
        if is_plain_chunk(item):
            record = item.candidate.record
            by_version.setdefault(record.publisher, {})[record.position] = index
    spans: list[ChunkSpan] = []
    for version, places in by_version.items():
        gains = {
            position: 0.5 ** (index / settings.rank_decay) * kept[index].similarity / max(best, 1e-9)
            for position, index in places.items()
        }
        for first, last in _best_spans(gains, settings):
            anchor = min(places[position] for position in range(first, last + 1) if position in places)
            spans.append(ChunkSpan(version, first, last, anchor))
    return sorted(spans, key=lambda span: span.anchor)[: settings.max_span_count]


def plan_neighbours(ranked: Sequence[RankedCandidate], *, count: int, window: int) -> list[ChunkSpan]:
    """Take the chunks before and behind each hit.

    Args:
        ranked: Candidates, kept ones first.
        count: Chunks on either side, at least 1.
        window: Hits that are widened, best first.

    Returns:
        Spans, best anchor first; they do not overlap: a chunk goes to the best hit beside it, a lesser hit within the
        reach of a better one becomes part of it.
    """
    kept = kept_of(ranked)
    taken = {
        name
        for item in kept
        if not is_plain_chunk(item)
        for name in (item.candidate.record.record_id, *item.merged_record_ids)
    }
    spans: list[ChunkSpan] = []
    for index, item in enumerate(kept[:window]):
        record = item.candidate.record
        if not is_plain_chunk(item) or record.record_id in taken:
            continue
        ends = []
        for step in (-1, 1):
            position = record.position
            for _ in range(count):
                following = position + step
                if following < 0 or chunk_record_id(record.publisher, following) in taken:
                    break
                position = following
            ends.append(position)
        span = ChunkSpan(record.publisher, ends[0], ends[1], index)
        taken.update(span.record_ids)
        spans.append(span)
    return spans


def missing_chunks(ranked: Sequence[RankedCandidate], spans: Iterable[ChunkSpan]) -> tuple[str, ...]:
    """Name the chunks of spans that are not candidates yet, so that they must be read.

    Args:
        ranked: Candidates.
        spans: Spans.

    Returns:
        Ids, each once.
    """
    known = {item.candidate.record.record_id for item in ranked}
    return tuple(dict.fromkeys(name for span in spans for name in span.record_ids if name not in known))


def join_spans(
    ranked: Sequence[RankedCandidate],
    spans: Sequence[ChunkSpan],
    read: Mapping[str, Record],
    *,
    reason: str,
    max_token_count: int,
) -> tuple[RankedCandidate, ...]:
    """Make one hit of each span.

    Args:
        ranked: Candidates, kept ones first.
        spans: Spans that do not overlap.
        read: Records of `missing_chunks` that may be seen, by id; a span ends where one is missing.
        reason: Why the hits that became part of another one are dropped.
        max_token_count: Longest span, in tokens.

    Returns:
        Candidates in order; a span stands where its anchor stood and names the others as merged.
    """
    kept = kept_of(ranked)
    place = {item.candidate.record.record_id: index for index, item in enumerate(kept)}
    # A candidate below the threshold is no hit, and still the text between two.
    records = {item.candidate.record.record_id: item.candidate.record for item in ranked}
    records.update((name, record) for name, record in read.items() if name not in records)
    joined: dict[int, RankedCandidate] = {}
    swallowed: set[int] = set()
    for span in spans:
        anchor = kept[span.anchor]
        members = _within(_around(span, anchor.candidate.record, records), anchor, place, max_token_count)
        if len(members) < 2:
            continue
        joined[span.anchor] = _joined(anchor, members, place, kept)
        swallowed.update(
            place[record.record_id] for record in members if place.get(record.record_id, span.anchor) != span.anchor
        )
    staying = [joined.get(index, item) for index, item in enumerate(kept) if index not in swallowed]
    return arranged(staying, [dropped(kept[index], reason) for index in sorted(swallowed)], ranked)


def is_plain_chunk(item: RankedCandidate) -> bool:
    """Tell whether a hit is one chunk of a document, so that its position names its neighbours.

    Args:
        item: The hit.

    Returns:
        False for parents, derived records and hits that were joined already.
    """
    record = item.candidate.record
    if record.kind is not RecordKind.CHUNK or not record.document_id or SPAN_ATTRIBUTE in record.attributes:
        return False
    return record.record_id == chunk_record_id(record.publisher, record.position)


_NOTHING: Final = (0, -1)


def _best_spans(gains: Mapping[int, float], settings: SegmentSettings) -> list[tuple[int, int]]:
    """Take best spans one after another; a hit that is best alone stays alone."""
    left = sorted(gains)
    found: list[tuple[int, int]] = []
    while len(left) > 1:
        best, best_sum = _NOTHING, 0.0
        for start, first in enumerate(left):
            total = 0.0
            for place in range(start, len(left)):
                last = left[place]
                gap = last - (left[place - 1] if place > start else last - 1)
                # Positions between two hits that were taken already would be doubled.
                if last - first >= settings.max_chunk_count or _crosses(found, first, last):
                    break
                total += gains[last] - gap * settings.irrelevance_penalty
                if total > best_sum:
                    best, best_sum = (first, last), total
        if best == _NOTHING:
            break
        if best[0] < best[1]:
            found.append(best)
        left = [position for position in left if not best[0] <= position <= best[1]]
    return found


def _crosses(found: Sequence[tuple[int, int]], first: int, last: int) -> bool:
    return any(first <= end and start <= last for start, end in found)


def _around(span: ChunkSpan, anchor: Record, records: Mapping[str, Record]) -> list[Record]:
    """Take the chunks of a span that can be reached from its anchor without a gap."""
    members = [anchor]
    for positions, goes_back in (
        (range(anchor.position - 1, span.first - 1, -1), True),
        (range(anchor.position + 1, span.last + 1), False),
    ):
        for position in positions:
            record = records.get(chunk_record_id(span.version, position))
            if record is None or record.kind is not RecordKind.CHUNK:
                break
            members.insert(0 if goes_back else len(members), record)
    return members


def _within(
    members: list[Record], anchor: RankedCandidate, place: Mapping[str, int], max_token_count: int
) -> list[Record]:
    """Cut a span to its budget, at the end whose chunk is the lesser hit."""
    tokens = sum(record.token_count for record in members)
    while len(members) > 1 and tokens > max_token_count:
        ends = [end for end in (members[0], members[-1]) if end.record_id != anchor.candidate.record.record_id]
        lesser = max(ends, key=lambda record: place.get(record.record_id, len(place)))
        members.remove(lesser)
        tokens -= lesser.token_count
    return members


def _joined(
    anchor: RankedCandidate, members: Sequence[Record], place: Mapping[str, int], kept: Sequence[RankedCandidate]
) -> RankedCandidate:
    hits = [kept[place[record.record_id]] for record in members if record.record_id in place]
    own = anchor.candidate.record.record_id
    merged = dict.fromkeys(record.record_id for record in members)
    merged |= dict.fromkeys(name for item in hits for name in item.merged_record_ids)
    merged.pop(own, None)
    candidate = replace(
        anchor.candidate,
        record=join_records(members, anchor.candidate.record),
        content_terms=" ".join(item.candidate.content_terms for item in hits),
    )
    return RankedCandidate(
        candidate,
        anchor.explanation,
        merged_record_ids=tuple(merged),
        via_record_ids=tuple(dict.fromkeys(name for item in hits for name in item.via_record_ids)),
    )
