"""Stage build_tree: the tree of a knowledge base, slice by slice, published with its last one (ADR-0012)."""

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.dataset.builder import TreeBuilder
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext


class BuildTreeStage:
    """Brings the tree of a knowledge base up to date.

    It reads every published version and publishes under the rule `all`: who may see a node is judged where it is read.
    """

    def __init__(
        self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools, summarizer: Summarizer
    ) -> None:
        """Create the stage.

        Args:
            settings: Bounds.
            stores: What trees stand on.
            tools: What clusters softly.
            summarizer: Makes summaries.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools
        self._summarizer = summarizer

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Make a slice of a tree.

        Args:
            context: The claim and its time.

        Returns:
            What is published; or that another task shall go on.

        Raises:
            FailedPreconditionError: TREE_SCOPE_CHANGED if the knowledge base wants no tree of the whole any more;
                TREE_TOO_LARGE if it has too many chunks; SPACE_WITHOUT_MODEL if the embed service runs another model.
            UnavailableError: If a server does not answer: the slice is tried again.
        """
        claim = context.claim
        build = await self._stores.trees.of_claim(claim)
        knowledge_base = await self._stores.knowledge_bases.get(
            service_identity("raptor", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        settings = TreeSettings.of(knowledge_base.config)
        if settings.scope is not TreeScope.DATASET:
            raise FailedPreconditionError(
                "TREE_SCOPE_CHANGED", "the knowledge base has another scope of trees by now", scope=settings.scope.value
            )
        builder = TreeBuilder(self._settings, self._stores, self._tools, self._summarizer, context, build, settings)
        return await builder.work()
