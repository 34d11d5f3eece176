"""Stage that puts parents in the place of their children."""

from corpusmesh_core.assembly import kept_of, parents_of, replace_children
from corpusmesh_core.assembly.parents import PARENT_ATTRIBUTE
from corpusmesh_core.records import RecordKind
from corpusmesh_retrieve.assembling.reading import RecordReader
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

_MAX_PARENTS = 32
"""Families that are read: their texts are long, and few callers look beyond."""


class ParentStage:
    """Replaces children by their parents."""

    def __init__(self, reader: RecordReader) -> None:
        """Create the stage.

        Args:
            reader: Reads parents.
        """
        self._reader = reader

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "parents"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.parents

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Replace children whose parents may be seen; see `Stage`."""
        wanted = parents_of(outcome.ranked, max_count=_MAX_PARENTS)
        if not wanted:
            return StageResult(StageState.SKIPPED, detail="no hit was cut from a larger piece")
        names = set(wanted)
        ids: dict[str, dict[str, None]] = {}
        for item in kept_of(outcome.ranked):
            record = item.candidate.record
            parent = record.attributes.get(PARENT_ATTRIBUTE, "")
            if parent in names:
                ids.setdefault(record.knowledge_base_id, {})[parent] = None
        parents = await self._reader.read(
            call, outcome, {key: list(value) for key, value in ids.items()}, (RecordKind.PARENT,)
        )
        before = len(outcome.kept)
        outcome.ranked = replace_children(outcome.ranked, parents)
        missing = len(names) - len(parents)
        detail = f"{counted(before, 'hit')} became {len(outcome.kept)}"
        return StageResult(detail=f"{detail}; {missing} parents were not there" if missing else detail)
