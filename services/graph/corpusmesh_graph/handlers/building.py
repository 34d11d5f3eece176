"""Plans and starts builds."""

from collections.abc import Sequence

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import FailedPreconditionError, OverloadedError
from corpusmesh_core.graphs.settings import GRAPH, GraphSettings
from corpusmesh_core.graphs.telling import bill_values
from corpusmesh_core.ports.builds import BuildOrder, BuildRow
from corpusmesh_core.tenancy import Access, VersionRow
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.convert import cost_to_wire
from corpusmesh_graph.names import graph_of
from corpusmesh_graph.planning import GraphPlanner, Plan
from corpusmesh_graph.stores import GraphStores, GraphTools
from corpusmesh_runtime.build_plans import plan_in_time, tokens_left_today
from corpusmesh_runtime.build_views import BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots
from corpusmesh_runtime.tracing import outgoing_headers


class GraphBuilder:
    """Plans and starts builds."""

    def __init__(
        self, settings: GraphServiceSettings, stores: GraphStores, tools: GraphTools, viewer: BuildViewer
    ) -> None:
        """Create it.

        Args:
            settings: Bounds.
            stores: What graphs are made of.
            tools: What plans are made with.
            viewer: What callers may see.
        """
        self._settings = settings
        self._stores = stores
        self._viewer = viewer
        self._planner = GraphPlanner(settings, stores, tools)
        self._plans = TenantSlots(settings.max_concurrent_plans, busy=_busy)

    async def plan(self, request: pb.PlanGraphRequest) -> pb.PlanGraphResponse:
        """Plan what a build would cost, over the documents that the caller may see.

        Args:
            request: What to plan.

        Returns:
            The plan and what bounds it.

        Raises:
            OverloadedError: GRAPH_PLANS_BUSY if too many plans are made already.
        """
        knowledge_base_id = graph_of(request.name)
        settings = await self.writable(knowledge_base_id)
        view = await self._viewer.look(knowledge_base_id)
        versions = await self._rows(list(view.versions))
        # A graph that holds hidden documents would tell of them: then the plan is one of the visible ones alone.
        row = None if view.is_restricted else view.row
        plan = await self._plan(versions, settings, row, full=request.full)
        return pb.PlanGraphResponse(
            plan=cost_to_wire(plan.cost),
            max_model_calls=settings.max_model_calls,
            max_model_tokens=settings.max_model_tokens,
            tenant_tokens_left=await tokens_left_today(self._stores.usage, self._settings.max_tenant_tokens_per_day),
            sampled_document_count=plan.sampled_document_count,
        )

    async def build(self, knowledge_base_id: str, *, full: bool, request_id: str) -> str:
        """Start a build.

        Args:
            knowledge_base_id: Of what.
            full: Whether to build the whole anew.
            request_id: The same id of the same user gives the same run; "" for none.

        Returns:
            The run, `knowledgeBases/*/runs/*`.
        """
        settings = await self.writable(knowledge_base_id)
        call = require_call()
        view = await self._viewer.look(knowledge_base_id)
        plan: Plan | None = None
        if view.row is None or not view.row.is_building:
            # Where one is under way it is given again, with the plan that it has.
            everything = await self._stores.builds.published(call.identity.tenant_id, knowledge_base_id)
            versions = await self._rows(everything.versions)
            plan = await plan_in_time(self._plan(versions, settings, view.row, full=full))
        row, _ = await self._stores.builds.start_build(
            call.identity,
            knowledge_base_id,
            BuildOrder(
                full=full,
                request_id=request_id,
                plan=bill_values(plan.cost) if plan is not None else {},
                headers={**outgoing_headers(), "request_id": call.request_id},
            ),
        )
        return f"knowledgeBases/{row.knowledge_base_id}/runs/{row.run_id}"

    async def begin(self, knowledge_base_id: str, *, request_id: str) -> str:
        """Begin the build that follows what somebody has given for a graph; it is not planned.

        Args:
            knowledge_base_id: Of what.
            request_id: The same id of the same user gives the same run; "" for none.

        Returns:
            The run, one that is under way already included, after which another follows; "" where too much work waits:
            what was given is kept, and the next build reads it. "" too where no graph is made any more.
        """
        call = require_call()
        found = await self._stores.knowledge_bases.get(call.identity, knowledge_base_id, Access.WRITE)
        if not GraphSettings.of(found.config).is_on:
            return ""
        headers = {**outgoing_headers(), "request_id": call.request_id}
        try:
            row, _ = await self._stores.builds.start_build(
                call.identity, knowledge_base_id, BuildOrder(request_id=request_id, headers=headers)
            )
        except OverloadedError:
            return ""
        return f"knowledgeBases/{row.knowledge_base_id}/runs/{row.run_id}"

    async def writable(self, knowledge_base_id: str) -> GraphSettings:
        """Give the settings of a graph that the caller may write.

        Args:
            knowledge_base_id: Its knowledge base.

        Returns:
            The settings.

        Raises:
            NotFoundError: If the caller may not write it.
            FailedPreconditionError: GRAPH_OFF if the knowledge base makes no graph.
        """
        found = await self._stores.knowledge_bases.get(require_call().identity, knowledge_base_id, Access.WRITE)
        settings = GraphSettings.of(found.config)
        if not settings.is_on:
            raise FailedPreconditionError(
                "GRAPH_OFF",
                f"this knowledge base makes no graph: name methods in the section {GRAPH} of its settings"
                " (corpusmesh kb update --settings, or update the knowledge base), then build again",
                setting=f"{GRAPH}.methods",
            )
        return settings

    async def _rows(self, ordinals: Sequence[int]) -> Sequence[VersionRow]:
        rows = await self._stores.documents.versions_by_ordinal(require_call().identity.tenant_id, ordinals)
        return sorted(rows, key=lambda row: row.ordinal)

    async def _plan(
        self, versions: Sequence[VersionRow], settings: GraphSettings, row: BuildRow | None, *, full: bool
    ) -> Plan:
        with self._plans.taken(require_call().identity.tenant_id):
            return await self._planner.plan(versions, settings, row=row, full=full)


def _busy() -> OverloadedError:
    return OverloadedError(
        "GRAPH_PLANS_BUSY", "too many graphs are planned; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )
