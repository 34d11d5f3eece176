"""Plans and starts builds."""

from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, OverloadedError
from corpusmesh_core.ports.builds import BuildOrder, BuildRow
from corpusmesh_core.tenancy import Access, KnowledgeBase, VersionRow, document_not_found
from corpusmesh_core.trees.settings import TREE, TreeScope, TreeSettings
from corpusmesh_core.trees.telling import cost_values
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.convert import cost_to_wire
from corpusmesh_raptor.names import TreeName, document_of, knowledge_base_of
from corpusmesh_raptor.planning import Plan, TreePlanner
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_raptor.summarizing import Summarizer
from corpusmesh_runtime.build_plans import plan_in_time, tokens_left_today
from corpusmesh_runtime.build_views import BuildView, BuildViewer
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.tenant_slots import BUSY_RETRY_SECONDS, TenantSlots
from corpusmesh_runtime.tracing import outgoing_headers
from corpusmesh_runtime.version_runs import VersionRuns

_MAX_DOCUMENTS = 1000
_MAX_REMADE_DOCUMENTS = 20_000


@dataclass(frozen=True, slots=True)
class StartedBuild:
    """What a request to build has begun.

    Attributes:
        run: `knowledgeBases/*/runs/*`; "" where there is nothing to do.
        tree: The tree that is built, where it is that of the knowledge base.
        document_count: Documents whose trees are made.
    """

    run: str
    tree: TreeName | None = None
    document_count: int = 0


class TreeBuilder:
    """Plans and starts builds."""

    def __init__(self, settings: RaptorSettings, stores: RaptorStores, tools: RaptorTools, viewer: BuildViewer) -> None:
        """Create it.

        Args:
            settings: Bounds.
            stores: What trees are made of.
            tools: What plans are made with.
            viewer: What callers may see.
        """
        self._settings = settings
        self._stores = stores
        self._viewer = viewer
        self._planner = TreePlanner(
            settings,
            stores.objects,
            stores.documents,
            Summarizer(tools.chat, stores.cache, stores.usage, tools.counter, settings),
            has_model=tools.chat is not None,
        )
        self._remade = VersionRuns(stores.runs, stores.documents)
        self._plans = TenantSlots(settings.max_concurrent_plans, busy=_busy)

    async def plan(self, request: pb.PlanTreeRequest) -> pb.PlanTreeResponse:
        """Plan what a build would cost, over the documents that the caller may see.

        Args:
            request: What to plan.

        Returns:
            The plan and what bounds it.

        Raises:
            OverloadedError: TREE_PLANS_BUSY if too many plans are made already.
        """
        knowledge_base, settings = await self._writable(request.parent)
        view = await self._viewer.look(knowledge_base.knowledge_base_id)
        versions = await self._versions(view, knowledge_base, settings, request.documents, full=request.full)
        # A tree that holds hidden documents would tell of them: then the plan is one of the visible ones alone.
        build = None if view.is_restricted else view.row
        plan = await self._plan(view, versions, settings, build, full=request.full)
        return pb.PlanTreeResponse(
            plan=cost_to_wire(plan.cost),
            max_model_calls=settings.max_model_calls,
            max_model_tokens=settings.max_model_tokens,
            tenant_tokens_left=await tokens_left_today(self._stores.usage, self._settings.max_tenant_tokens_per_day),
            document_count=plan.document_count,
            sampled_document_count=plan.sampled_document_count,
        )

    async def build(self, request: pb.BuildTreeRequest) -> StartedBuild:
        """Start a build.

        Args:
            request: What to build.

        Returns:
            The run.
        """
        knowledge_base, settings = await self._writable(request.parent)
        if settings.scope is TreeScope.FILE:
            return await self._build_files(knowledge_base, settings, request)
        _without_documents(request.documents)
        call = require_call()
        view = await self._viewer.look(knowledge_base.knowledge_base_id)
        everything = await self._stores.trees.published(call.identity.tenant_id, knowledge_base.knowledge_base_id)
        plan: Plan | None = None
        if view.row is None or not view.row.is_building:
            # Where one is under way it is given again, with the plan that it has.
            versions = await self._rows(everything.versions)
            plan = await plan_in_time(self._plan(view, versions, settings, view.row, full=request.full))
        row, _ = await self._stores.trees.start_build(
            call.identity,
            knowledge_base.knowledge_base_id,
            BuildOrder(
                full=request.full,
                request_id=request.request_id,
                plan=cost_values(plan.cost) if plan is not None else {},
                headers={**outgoing_headers(), "request_id": call.request_id},
            ),
        )
        return StartedBuild(
            f"knowledgeBases/{row.knowledge_base_id}/runs/{row.run_id}",
            tree=TreeName(row.knowledge_base_id),
            document_count=0,
        )

    async def _build_files(
        self, knowledge_base: KnowledgeBase, settings: TreeSettings, request: pb.BuildTreeRequest
    ) -> StartedBuild:
        view = await self._viewer.look(knowledge_base.knowledge_base_id)
        versions = await self._versions(view, knowledge_base, settings, request.documents, full=request.full)
        started = await self._remade.remake(
            knowledge_base,
            sorted({version.document_id for version in versions})[:_MAX_REMADE_DOCUMENTS],
            request_id=request.request_id,
        )
        if not started.run_id:
            return StartedBuild("")
        run = f"knowledgeBases/{knowledge_base.knowledge_base_id}/runs/{started.run_id}"
        return StartedBuild(run, document_count=len(started.document_ids))

    async def _writable(self, parent: str) -> tuple[KnowledgeBase, TreeSettings]:
        found = await self._stores.knowledge_bases.get(require_call().identity, knowledge_base_of(parent), Access.WRITE)
        settings = TreeSettings.of(found.config)
        if settings.scope is TreeScope.OFF:
            raise FailedPreconditionError(
                "TREE_SCOPE_OFF",
                f"this knowledge base makes no trees: set scope to file or dataset in the section {TREE} of its"
                " settings (corpusmesh kb update --settings, or update the knowledge base), then build again",
                setting=f"{TREE}.scope",
            )
        return found, settings

    async def _versions(
        self,
        view: BuildView,
        knowledge_base: KnowledgeBase,
        settings: TreeSettings,
        names: Sequence[str],
        *,
        full: bool,
    ) -> Sequence[VersionRow]:
        """Give the visible versions to build: all, or of single documents those without the tree they should have."""
        if settings.scope is TreeScope.DATASET:
            _without_documents(names)
        wanted = _documents_of(names, knowledge_base.knowledge_base_id)
        rows = await self._rows(list(view.versions))
        missing = wanted - {row.document_id for row in rows}
        if missing:
            raise document_not_found(min(missing))
        if wanted:
            rows = [row for row in rows if row.document_id in wanted]
        if settings.scope is TreeScope.DATASET or full:
            return rows
        current = config_hash(knowledge_base.config)
        # Of those that were made under the settings of now, ingest has seen which can have a tree.
        return [row for row in rows if row.config_hash != current]

    async def _rows(self, ordinals: Sequence[int]) -> Sequence[VersionRow]:
        rows = await self._stores.documents.versions_by_ordinal(require_call().identity.tenant_id, ordinals)
        return sorted(rows, key=lambda row: row.ordinal)

    async def _plan(
        self,
        view: BuildView,
        versions: Sequence[VersionRow],
        settings: TreeSettings,
        build: BuildRow | None,
        *,
        full: bool,
    ) -> Plan:
        # It costs a reader half a second of CPU and a lot of memory: whoever asks again and again waits for no other.
        with self._plans.taken(require_call().identity.tenant_id):
            return await self._planner.plan(versions, settings, space_id=view.inputs.space_id, build=build, full=full)


def _documents_of(names: Sequence[str], knowledge_base_id: str) -> frozenset[str]:
    if len(names) > _MAX_DOCUMENTS:
        raise InvalidArgumentError(
            "TREE_DOCUMENTS_INVALID", f"documents takes at most {_MAX_DOCUMENTS:,} names", field="documents"
        )
    return frozenset(document_of(name, knowledge_base_id) for name in names)


def _without_documents(names: Sequence[str]) -> None:
    if names:
        raise InvalidArgumentError(
            "TREE_DOCUMENTS_INVALID",
            "this knowledge base has one tree over all its documents; leave documents empty",
            field="documents",
        )


def _busy() -> OverloadedError:
    return OverloadedError(
        "TREE_PLANS_BUSY", "too many trees are planned; try again shortly", retry_delay_seconds=BUSY_RETRY_SECONDS
    )
