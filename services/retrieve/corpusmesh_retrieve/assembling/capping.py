"""Stage that keeps one document from filling the result."""

from corpusmesh_core.assembly import cap_per_document
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext


class DocumentCapStage:
    """Keeps the best hits of each document alone."""

    @property
    def name(self) -> str:
        """See `Stage`."""
        return "document_cap"

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return outcome.plan.assembly.max_per_document > 0

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Drop those beyond the bound; see `Stage`."""
        del call
        before = len(outcome.kept)
        outcome.ranked = cap_per_document(outcome.ranked, max_count=outcome.plan.assembly.max_per_document)
        return StageResult(detail=f"{counted(before - len(outcome.kept), 'hit')} over the bound")
