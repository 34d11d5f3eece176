"""What is said of the communities of a graph; those whose members and documents have not changed keep their report."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import ranges
from corpusmesh_core.graphs.communities import WeightedGraph
from corpusmesh_core.graphs.corrections import Corrections
from corpusmesh_core.graphs.ledger import ReportEntry
from corpusmesh_core.graphs.records import MAX_SOURCES, PARENT, report_record
from corpusmesh_core.graphs.reports import community_weights, lite_report
from corpusmesh_core.graphs.settings import GraphVectors, ReportMethod
from corpusmesh_core.graphs.values import CommunityReport
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.ports.communities import CommunityFinder
from corpusmesh_core.records import Ordinal, Record, RecordKind, derived_record_id
from corpusmesh_core.trees.vectors import as_kept
from corpusmesh_graph.building.before import COMMUNITIES, GraphBefore
from corpusmesh_graph.building.describing import DESCRIBED
from corpusmesh_graph.building.drafts import Phase
from corpusmesh_graph.building.grouping import Marked, group, grouping_of, mark
from corpusmesh_graph.building.members import MemberReader
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.models import GraphSession

_BATCH_REPORTS: Final = 64
_SHARE_OF_TIME: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Order:
    """A report that gets an ordinal.

    Attributes:
        marked: The community.
        sources: Versions that speak of its members, ascending.
        origin: The report before, whose text holds; None where it is written anew.
    """

    marked: Marked
    sources: NDArray[np.int32]
    origin: ReportEntry | None


class Reporter:
    """Finds communities and writes their reports."""

    def __init__(self, scope: BuildScope, session: GraphSession, before: GraphBefore, finder: CommunityFinder) -> None:
        """Create it.

        Args:
            scope: The build's task.
            session: What the language model may be asked.
            before: The graph before.
            finder: Finds communities.
        """
        self._scope = scope
        self._session = session
        self._before = before
        self._finder = finder
        self.made: list[int] = []
        """Ordinals of the reports that this build has written, by this slice or one before."""
        self.grouping = b""
        """See `Ledger.grouping`."""

    async def report(self, view: GraphView, corrections: Corrections) -> bool:
        """Bring communities and reports up to date, until all is done or the time of a slice is over.

        Args:
            view: The graph, wholly visible.
            corrections: What people have corrected in it.

        Returns:
            Whether all is done.
        """
        scope, draft = self._scope, self._scope.draft
        if scope.graph.reports is ReportMethod.OFF:
            draft.reports = _described(draft.reports)
            draft.artefacts.pop(COMMUNITIES, None)
            return True
        self.grouping = grouping_of(scope.graph)
        grouping = await group(scope, self._before, view, self._finder)
        draft.phase = Phase.REPORTS
        marked = await asyncio.to_thread(
            mark, scope.graph, self._session.reported_by, view, grouping.communities, corrections
        )
        orders = await asyncio.to_thread(self._orders, view, marked)
        first = await self._reserved(orders)
        self.made = list(range(first, first + len(orders)))
        ends = view.relation_ends
        graph = WeightedGraph(view.entity_keys, ends[:, 0], ends[:, 1], view.relation_weights)
        weights = await asyncio.to_thread(community_weights, grouping.communities, graph)
        return await self._work_off(view, orders, first, weights)

    def _orders(self, view: GraphView, marked: Sequence[Marked]) -> list[_Order]:
        """Keep what holds, and order what does not; `GraphDraft.reports` is what is there already."""
        draft = self._scope.draft
        old = self._before.ledger.reports
        there = draft.reports
        draft.reports = _described(there)
        orders: list[_Order] = []
        for item in marked:
            key, before = item.community.key, old.get(item.community.key)
            holds = before is not None and before.fingerprint == item.fingerprint
            if before is not None and holds and before.parent == item.community.parent:
                draft.reports[key] = before
                continue
            sources = _sources(view, item.places)
            if not 0 < len(sources) <= MAX_SOURCES:
                continue
            orders.append(_Order(item, sources, before if holds else None))
            done = there.get(key)
            if done is not None and done.fingerprint == item.fingerprint and done.parent == item.community.parent:
                draft.reports[key] = done
        return orders

    async def _reserved(self, orders: Sequence[_Order]) -> int:
        if not orders:
            return 0
        digest = hashlib.blake2b(digest_size=8)
        for order in orders:
            digest.update(order.marked.community.key.encode() + order.marked.fingerprint)
            digest.update(order.marked.community.parent.encode() + b"\0")
        slot = f"reports.{digest.hexdigest()}"
        return await self._scope.stores.builds.reserve(self._scope.context.claim, slot, len(orders))

    async def _work_off(
        self, view: GraphView, orders: Sequence[_Order], first: int, weights: Mapping[str, float]
    ) -> bool:
        scope, draft = self._scope, self._scope.draft
        waiting = [
            place
            for place, order in enumerate(orders)
            if (done := draft.reports.get(order.marked.community.key)) is None or done.ordinal != first + place
        ]
        done_count = len(orders) - len(waiting)
        await scope.tell(len(orders), done_count)
        reader = MemberReader(scope, view)
        if waiting:
            # What this slice has written is read again here.
            await scope.refresh()
        for start in range(0, len(waiting), _BATCH_REPORTS):
            places = waiting[start : start + _BATCH_REPORTS]
            records = await self._moved([(orders[place], first + place) for place in places])
            rest = [place for place in places if first + place not in records]
            reports = await self._written(reader, [orders[place] for place in rest], weights)
            for place, report in zip(rest, reports, strict=True):
                records[first + place] = report_record(scope.row.knowledge_base_id, first + place, report)
            await scope.write(await self._with_vectors(records, {first + place for place in rest}))
            for place in places:
                item = orders[place].marked
                draft.reports[item.community.key] = ReportEntry(
                    item.community.key, item.community.parent, first + place, item.fingerprint
                )
            scope.bill.report_count += len(rest)
            done_count += len(places)
            await scope.tell(len(orders), done_count)
            if scope.is_over and done_count < len(orders):
                return False
        count = len(draft.reports) - len(_described(draft.reports))
        scope.bill.reused_report_count += count - len(orders)
        return True

    async def _moved(self, orders: Sequence[tuple[_Order, int]]) -> dict[int, Record]:
        """Copy reports that hold, and whose community belongs to another one now."""
        origins = {
            derived_record_id(Ordinal(order.origin.ordinal), RecordKind.COMMUNITY_REPORT, order.origin.key): (
                order,
                ordinal,
            )
            for order, ordinal in orders
            if order.origin is not None
        }
        seen = {int(version) for order, _ in origins.values() for version in order.sources}
        seen |= {order.origin.ordinal for order, _ in origins.values() if order.origin is not None}
        found = await self._scope.records(
            list(origins), sorted(seen), kinds=(RecordKind.COMMUNITY_REPORT,), with_vectors=True
        )
        copies: dict[int, Record] = {}
        for record_id, record in found.items():
            order, ordinal = origins[record_id]
            community = order.marked.community
            attributes = {name: value for name, value in record.attributes.items() if name != PARENT}
            copies[ordinal] = replace(
                record,
                record_id=derived_record_id(Ordinal(ordinal), RecordKind.COMMUNITY_REPORT, community.key),
                publisher=Ordinal(ordinal),
                attributes=attributes | ({PARENT: community.parent} if community.parent else {}),
            )
        return copies

    async def _written(
        self, reader: MemberReader, orders: Sequence[_Order], weights: Mapping[str, float]
    ) -> list[CommunityReport]:
        scope = self._scope
        given = await reader.read([order.marked for order in orders])
        reports: list[CommunityReport] = []
        lites = await asyncio.to_thread(lambda: [lite_report(item) for item in given])
        for order, item, lite in zip(orders, given, lites, strict=True):
            sources = tuple(order.sources.tolist())
            weight = weights.get(item.community.key, 0.0)
            reports.append(CommunityReport(item.community, lite.title, lite.text, weight, "lite", sources, lite.chunks))
        if scope.graph.reports is not ReportMethod.LLM:
            return reports
        seconds = _SHARE_OF_TIME * scope.context.remaining_seconds()
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(self._session.report(item, order.sources.tolist(), timeout_seconds=seconds))
                for order, item in zip(orders, given, strict=True)
            ]
        for place, task in enumerate(asked):
            answer = task.result()
            if not answer.text:
                reports[place] = replace(reports[place], fallback=answer.fallback)
                continue
            reports[place] = replace(
                reports[place], title=answer.title, text=answer.text, made_by=self._session.reported_by
            )
        return reports

    async def _with_vectors(self, records: Mapping[int, Record], new: set[int]) -> list[Record]:
        """Embed reports where everything of the graph is."""
        ordered = [records[ordinal] for ordinal in sorted(records)]
        if self._scope.graph.effective_vectors is not GraphVectors.ALL:
            return ordered
        wanted = [record for record in ordered if record.publisher in new]
        vectors = await self._scope.vectors.embed(
            [f"{record.title}\n{record.text}" for record in wanted],
            self._scope.bill,
            timeout_seconds=self._scope.context.remaining_seconds(),
        )
        made = {
            record.record_id: replace(record, vector=as_kept(vector))
            for record, vector in zip(wanted, vectors, strict=True)
        }
        return [made.get(record.record_id, record) for record in ordered]


def _described(reports: Mapping[str, ReportEntry]) -> dict[str, ReportEntry]:
    return {key: item for key, item in reports.items() if key.startswith(DESCRIBED)}


def _sources(view: GraphView, places: NDArray[np.int64]) -> NDArray[np.int32]:
    """List the versions that speak of some entities."""
    graph = view.graph
    starts = graph.fragment_offsets[places]
    fragments = ranges(starts, graph.fragment_offsets[places + 1] - starts)
    return np.unique(graph.document_version[graph.fragment_document[fragments]]).astype(np.int32)
