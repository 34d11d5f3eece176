"""Stage build_graph: brings the graph of a knowledge base up to date, slice by slice."""

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_graph.building.builder import GraphBuilder
from corpusmesh_graph.building.tools import BuildTools
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext


class BuildGraphStage:
    """Builds graphs."""

    def __init__(self, settings: GraphServiceSettings, stores: GraphStores, tools: BuildTools) -> None:
        """Create the stage.

        Args:
            settings: Bounds.
            stores: What graphs stand on.
            tools: What they are made with.
        """
        self._settings = settings
        self._stores = stores
        self._tools = tools

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Do one slice of a build.

        Args:
            context: The claim and its time.

        Returns:
            What is published, or that another slice shall follow.

        Raises:
            FailedPreconditionError: GRAPH_OFF if the knowledge base has no graph by now, GRAPH_TOO_LARGE,
                SPACE_WITHOUT_MODEL.
            UnavailableError: If a server does not answer: the slice is tried again.
        """
        claim = context.claim
        build = await self._stores.builds.of_claim(claim)
        knowledge_base = await self._stores.knowledge_bases.get(
            service_identity("graph", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        graph = GraphSettings.of(knowledge_base.config)
        if not graph.is_on:
            raise FailedPreconditionError("GRAPH_OFF", "the knowledge base names no method for a graph by now")
        return await GraphBuilder(self._settings, self._stores, self._tools, context, build, graph).work()
