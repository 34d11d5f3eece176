"""One task of a build: goes on where the last one has stopped, for about a minute, or to the end."""

import asyncio
import hashlib
from time import monotonic
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.bills import add_bills, with_lost_spending
from corpusmesh_core.errors import InternalError
from corpusmesh_core.graphs.fingerprints import digest, form_of, linking_of
from corpusmesh_core.graphs.ledger import Ledger, pack_ledger
from corpusmesh_core.graphs.segments import Segment, pack_segment
from corpusmesh_core.graphs.settings import GraphSettings, GraphVectors
from corpusmesh_core.graphs.telling import figures_values, progress_of
from corpusmesh_core.graphs.values import GraphBill, GraphFigures
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.ports.work import BuildChange, StageOutcome
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy.publishing import dump_bitmap
from corpusmesh_graph.building.before import LEDGER, GraphBefore, read_ledger, read_segments, segment_keys
from corpusmesh_graph.building.describing import DESCRIBED, Describer
from corpusmesh_graph.building.drafts import GraphDraft, Phase, pack_draft, unpack_draft
from corpusmesh_graph.building.extracting import Extractor
from corpusmesh_graph.building.linking import Linker
from corpusmesh_graph.building.planning import begin_draft, inputs_of
from corpusmesh_graph.building.reporting import Reporter
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.building.tools import BuildTools
from corpusmesh_graph.building.writing import SubgraphWriter
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.metrics import count_parts
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.worker import TaskContext

FULL: Final = "full"
FRESH: Final = "fresh"
DRAFT: Final = "draft"
FORMER: Final = "former"
"""Payload of a task: whether the whole is built anew; without a look at the graph before; where the draft of the slice
before lies, and that of the slice before that one, which nobody reads any more."""
RECORDS_MISSING: Final = "GRAPH_RECORDS_INCOMPLETE"


class GraphBuilder:
    """Builds the graph of one knowledge base; made for one task."""

    def __init__(
        self,
        settings: GraphServiceSettings,
        stores: GraphStores,
        tools: BuildTools,
        context: TaskContext,
        build: BuildRow,
        graph: GraphSettings,
    ) -> None:
        """Create it.

        Args:
            settings: Bounds.
            stores: What graphs stand on.
            tools: What they are made with.
            context: The task.
            build: The build.
            graph: How the graph is made.
        """
        self._tools = tools
        self._scope = BuildScope(
            settings,
            stores,
            context,
            build,
            graph,
            GraphBill(),
            GraphDraft("", 0, b""),
            monotonic(),
        )

    async def work(self) -> StageOutcome:
        """Go on with the build.

        Returns:
            What is published; or that another task shall go on.

        Raises:
            InternalError: GRAPH_RECORDS_INCOMPLETE if the index does not hold all records.
            FailedPreconditionError: GRAPH_TOO_LARGE if there are too many chunks.
        """
        scope = self._scope
        claim = scope.context.claim
        draft = await self._read_draft(claim.payload.get(DRAFT, ""))
        if former := claim.payload.get(FORMER):
            await scope.stores.objects.delete(former)
        told = progress_of(scope.row.progress).cost
        spent = with_lost_spending(draft.bill if draft is not None else GraphBill(), told)
        # What an attempt was charged after it told its cost for the last time, only the ledger of usage knows.
        spent = with_lost_spending(spent, await self._tools.models.spent(claim.tenant_id, claim.run_id))
        self._session = self._tools.models.open(
            tenant_id=claim.tenant_id, run_id=claim.run_id, settings=scope.graph, bill=scope.bill, spent=spent
        )
        if draft is None or draft.inputs != inputs_of(scope.graph, self._session.fingerprint):
            await self._begin(spent)
        else:
            scope.draft = draft
            scope.draft.bill = spent
            await self._read_before(draft.space_id)
        try:
            return await self._go_on()
        except InternalError as error:
            if error.reason != RECORDS_MISSING or not len(self._before.ledger.versions):
                raise
            # What the graph before has left is not what it says. Without it nothing of it can be wrong.
            return StageOutcome(goes_on=True, payload={FULL: "1", FRESH: "1"})

    async def _begin(self, spent: GraphBill) -> None:
        scope = self._scope
        claim = scope.context.claim
        state = await scope.stores.builds.published(claim.tenant_id, claim.knowledge_base_id)
        await self._read_before(state.space_id)
        is_full = bool(claim.payload.get(FULL))
        scope.draft = await begin_draft(scope, state, self._before.ledger, self._session.fingerprint, is_full=is_full)
        scope.draft.bill = with_lost_spending(GraphBill(), spent)
        scope.bill.reused_document_count += len(scope.draft.kept)

    async def _read_before(self, space_id: str) -> None:
        scope = self._scope
        artefacts = {} if scope.context.claim.payload.get(FRESH) else scope.row.artefacts
        ledger = await read_ledger(scope, artefacts, space_id)
        keys = segment_keys(artefacts) if len(ledger.versions) else []
        segments = await read_segments(scope, self._tools.shelf, keys)
        if len(segments) < len(keys):
            # Without them the ledger says nothing: all is found anew.
            ledger, segments = Ledger(space_id), {}
        self._before = GraphBefore(scope, ledger, segments)

    async def _go_on(self) -> StageOutcome:
        draft = self._scope.draft
        if draft.phase is Phase.EXTRACT:
            if not await self._extract():
                return await self._pause()
            draft.phase = Phase.RESOLVE
        while True:
            linker = Linker(self._scope, self._session, self._before, self._tools.shelf)
            describer = Describer(self._scope, self._session, self._before)
            reporter = Reporter(self._scope, self._session, self._before, self._tools.communities)
            await self._scope.tell(len(draft.wanted.versions), draft.wanted.done_count)
            linked = await linker.link()
            if draft.phase is Phase.RESOLVE:
                draft.phase = Phase.COMMUNITIES
            await self._scope.tell(1, 0)
            view = await asyncio.to_thread(
                compile_view, list(linked.segments.values()), linked.shown, linked.pairs, linked.corrections
            )
            if not (await describer.describe(view) and await reporter.report(view, linked.corrections)):
                return await self._pause()
            draft.phase = Phase.PUBLISH
            if not await linker.leave_out():
                return await self._publish(view, reporter.grouping, [*describer.made, *reporter.made])
            # Something was deleted meanwhile: all that it is part of is put together without it.
            draft.phase = Phase.RESOLVE

    async def _extract(self) -> bool:
        """Make the subgraphs that wait; False if the time of a task is over before."""
        scope, draft = self._scope, self._scope.draft
        wanted = draft.wanted
        count = len(wanted.versions)
        if wanted.done_count == count:
            return True
        await scope.tell(count, wanted.done_count)
        writer = SubgraphWriter(scope, await self._known_segments())
        extractor = Extractor(scope, self._session, self._before)
        async for found in extractor.run():
            await writer.write(found)
            await scope.tell(count, wanted.done_count)
        if writer.documents:
            content = await asyncio.to_thread(pack_segment, writer.documents)
            # Under its own digest: another attempt at this slice may get further, or not as far.
            key = scope.key(f"part-{hashlib.sha256(content).hexdigest()[:32]}")
            await scope.put(key, content)
            draft.parts.append(key)
        return wanted.done_count == count

    async def _known_segments(self) -> list[Segment]:
        """Give the segments whose records have the vectors of now."""
        scope = self._scope
        if scope.graph.effective_vectors is GraphVectors.NONE:
            return []
        known = list((await read_segments(scope, self._tools.shelf, scope.draft.parts)).values())
        if known:
            # What the slices before have written is read again here.
            await scope.refresh()
        if self._before.ledger.form == form_of(scope.graph):
            known = [*self._before.segments.values(), *known]
        return known

    async def _pause(self) -> StageOutcome:
        scope = self._scope
        claim = scope.context.claim
        self._settle()
        scope.draft.bill = add_bills(scope.draft.bill, scope.bill)
        key = scope.key(f"{claim.task_id}.{DRAFT}")
        await scope.put(key, await asyncio.to_thread(pack_draft, scope.draft))
        former = claim.payload.get(DRAFT, "")
        return StageOutcome(goes_on=True, payload={**claim.payload, DRAFT: key, FORMER: former})

    async def _publish(self, view: GraphView, grouping: bytes, further: list[int]) -> StageOutcome:
        scope, draft = self._scope, self._scope.draft
        await scope.tell(1, 0)
        made = draft.wanted.made
        ordinals = draft.wanted.ordinals[made]
        await self._check(ordinals.tolist(), int(draft.wanted.record_counts[made].sum()), further)
        old = self._before.ledger
        kept = np.searchsorted(old.versions, draft.kept)
        versions = np.concatenate([draft.kept, draft.wanted.versions[made]])
        order = np.argsort(versions)

        def column(before: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([before[kept], new[made]])[order]

        ledger = Ledger(
            space_id=draft.space_id,
            form=form_of(scope.graph),
            versions=versions[order].astype(np.int32),
            publishers=column(old.publishers, draft.wanted.ordinals),
            chunk_counts=column(old.chunk_counts, draft.wanted.chunk_counts),
            fingerprints=column(old.fingerprints, draft.wanted.fingerprints),
            texts=column(old.texts, draft.wanted.texts),
            triples=draft.triples,
            linking=linking_of(scope.graph, self._session.confirmed_by),
            grouping=grouping,
            reports=draft.reports,
        )
        content = await asyncio.to_thread(pack_ledger, ledger)
        key = scope.key(f"ledger-{digest(content).hex()}")
        await scope.put(key, content)
        self._settle()
        bill = add_bills(draft.bill, scope.bill)
        report_count = sum(not key.startswith(DESCRIBED) for key in draft.reports)
        figures = GraphFigures(len(view.entity_keys), len(view.relation_ends), report_count, bill)
        nodes = BitMap(ledger.publishers.tolist()) | BitMap([item.ordinal for item in draft.reports.values()])
        return StageOutcome(
            build=BuildChange(
                build_id=scope.row.build_id,
                nodes=dump_bitmap(nodes),
                sources=dump_bitmap(BitMap(ledger.versions.tolist())),
                snapshot_id=draft.snapshot_id,
                artefacts={**draft.artefacts, LEDGER: key},
                figures=figures_values(figures),
            )
        )

    async def _check(self, ordinals: list[int], expected: int, further: list[int]) -> None:
        """See to it that the index holds every record that this build has written."""
        scope = self._scope
        ordinals = [*ordinals, *further]
        expected += len(further)
        if not ordinals:
            return
        await scope.refresh()
        held = await scope.stores.index.count(
            scope.context.claim.tenant_id,
            scope.draft.space_id,
            RecordSelection(publishers=[Ordinal(ordinal) for ordinal in ordinals]),
            timeout_seconds=scope.context.remaining_seconds(),
        )
        if held != expected:
            raise InternalError(
                RECORDS_MISSING, "the index does not hold all records of the graph", expected=expected, found=held
            )

    def _settle(self) -> None:
        self._scope.bill.duration_seconds = monotonic() - self._scope.began
        count_parts(self._scope.bill)

    async def _read_draft(self, key: str) -> GraphDraft | None:
        if not key:
            return None
        return await asyncio.to_thread(unpack_draft, await self._scope.read(key))
