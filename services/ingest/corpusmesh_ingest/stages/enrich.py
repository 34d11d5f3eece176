"""Stage enrich: what a knowledge base asks to be made of chunks before they are embedded."""

from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_runtime.worker import TaskContext


class EnrichStage:
    """Makes keywords, questions, summaries and the like of a batch's chunks."""

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Enrich a batch.

        Args:
            context: The claim and its time.

        Returns:
            Nothing more to know.
        """
        context.reach("after_artefact")
        return StageOutcome()
