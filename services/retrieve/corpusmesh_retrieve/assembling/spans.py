"""Stages that make one hit of chunks that stand side by side: relevant segments, and hits with their neighbours."""

from corpusmesh_core.assembly import (
    MERGED_INTO_NEIGHBOUR,
    MERGED_INTO_SEGMENT,
    ChunkSpan,
    SegmentSettings,
    join_spans,
    kept_of,
    missing_chunks,
    plan_neighbours,
    plan_segments,
)
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_retrieve.assembling.reading import RecordReader
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

_NEIGHBOUR_WINDOW = 24
_MAX_READ_CHUNKS = 256


class SegmentStage:
    """Joins hits of one document into the spans that gain most."""

    def __init__(self, reader: RecordReader, settings: SegmentSettings | None = None) -> None:
        """Create the stage.

        Args:
            reader: Reads the chunks between hits.
            settings: Which spans are worth it.
        """
        self._reader = reader
        self._settings = settings or SegmentSettings()

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "segments"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.segments

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Join them; see `Stage`."""
        spans = plan_segments(outcome.ranked, self._settings)
        if not spans:
            return StageResult(StageState.SKIPPED, detail="no two hits stand near each other")
        read = await _read_missing(self._reader, call, outcome, spans)
        before = len(outcome.kept)
        outcome.ranked = join_spans(
            outcome.ranked, spans, read, reason=MERGED_INTO_SEGMENT, max_token_count=self._settings.max_token_count
        )
        return StageResult(
            detail=f"{counted(len(spans), 'segment')}: {counted(before, 'hit')} became {len(outcome.kept)}"
        )


class NeighbourStage:
    """Joins the chunks before and behind each hit to it."""

    def __init__(self, reader: RecordReader, *, max_token_count: int = 3_000) -> None:
        """Create the stage.

        Args:
            reader: Reads neighbours.
            max_token_count: Longest joined hit, in tokens.
        """
        self._reader = reader
        self._max_token_count = max_token_count

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "neighbours"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.neighbours > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Join them; see `Stage`."""
        spans = plan_neighbours(outcome.ranked, count=outcome.plan.assembly.neighbours, window=_NEIGHBOUR_WINDOW)
        if not spans:
            return StageResult(StageState.SKIPPED, detail="no hit is a single chunk of a document")
        read = await _read_missing(self._reader, call, outcome, spans)
        outcome.ranked = join_spans(
            outcome.ranked, spans, read, reason=MERGED_INTO_NEIGHBOUR, max_token_count=self._max_token_count
        )
        return StageResult(detail=f"{counted(len(spans), 'hit')} with {counted(len(read), 'chunk')} beside them")


async def _read_missing(
    reader: RecordReader, call: CallContext, outcome: SearchOutcome, spans: list[ChunkSpan]
) -> dict[str, Record]:
    kept = kept_of(outcome.ranked)
    wanted: dict[str, list[str]] = {}
    count = 0
    for span in spans:
        missing = missing_chunks(outcome.ranked, [span])[: _MAX_READ_CHUNKS - count]
        wanted.setdefault(kept[span.anchor].candidate.record.knowledge_base_id, []).extend(missing)
        count += len(missing)
    return await reader.read(call, outcome, wanted, (RecordKind.CHUNK,)) if count else {}
