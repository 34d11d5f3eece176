"""Takes clues from memory records (MemoRAG, seed 003): what documents hold in short says what to look for in them."""

from collections.abc import Sequence
from typing import Final

from corpusmesh_core.answering.step_messages import DataBlock
from corpusmesh_core.prompts.memory_clues_v1 import MEMORY_CLUES_V1
from corpusmesh_core.query import VariantOrigin
from corpusmesh_core.query.understanding.answers import MAX_CLUES, read_clues
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import RecordKind
from corpusmesh_retrieve.asking import question_block
from corpusmesh_retrieve.outcome import SearchOutcome, StageState
from corpusmesh_retrieve.stages import StageResult
from corpusmesh_retrieve.understanding.adding import add_variants, told
from corpusmesh_retrieve.understanding.probing import Prober
from corpusmesh_runtime.context import CallContext

_WEIGHT: Final = 0.5
_WINDOW: Final = 8
_MAX_TOPICS: Final = 3
_MIN_SIMILARITY: Final = 0.45
"""Of a topic that is searched for without a model; unrelated texts have about 0.25."""
_MAX_MEMORY_CHARACTERS: Final = 800


class MemoryClues:
    """The stage `memory`."""

    name = "memory"

    def __init__(self, prober: Prober) -> None:
        """Create the stage.

        Args:
            prober: Finds memory records.
        """
        self._prober = prober

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.understanding.memory and outcome.visible_count > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """See `Stage`."""
        found = await self._prober.best(
            call,
            outcome.question,
            outcome.views,
            (RecordKind.MEMORY,),
            window=_WINDOW,
            other_script_window=_WINDOW // 4,
        )
        memories = found[:_WINDOW]
        if not memories:
            return StageResult(StageState.SKIPPED, detail="there are no memory records to take clues from")
        made = await outcome.request.session.make(
            call,
            MEMORY_CLUES_V1,
            [
                *(
                    DataBlock(f"memory {place}", item.candidate.record.text[:_MAX_MEMORY_CHARACTERS])
                    for place, item in enumerate(memories, start=1)
                ),
                question_block(outcome.question),
            ],
            read=read_clues(outcome.question),
            otherwise=lambda: _topics(memories),
            parameters={"count": str(MAX_CLUES)},
        )
        count = add_variants(outcome, made.value, VariantOrigin.MEMORY, weight=_WEIGHT)
        return told(count, "clue", by_model=made.by_model, why_not=made.why_not)


def _topics(memories: Sequence[RankedCandidate]) -> tuple[str, ...]:
    """Give the topics of the memories that are near enough."""
    near = [item.candidate.record for item in memories if item.similarity >= _MIN_SIMILARITY]
    topics = (record.attributes.get("topic", "") for record in near)
    return tuple(dict.fromkeys(filter(None, topics)))[:_MAX_TOPICS]
