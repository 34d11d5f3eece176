"""Stage that reads which chunks summaries and parts of graphs stand for: every hit leads to places in originals."""

import asyncio
from collections.abc import Mapping, Sequence

from corpusmesh_core.graph_search.records import chunk_links, is_table, stands_for_chunks
from corpusmesh_core.ports.index import MAX_REQUESTS, MAX_WINDOW, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.text import analyze_query
from corpusmesh_core.tree_search import children_of
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.assembling.reading import RecordReader, space_of
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_retrieve.stages import StageResult, counted
from corpusmesh_runtime.context import CallContext

MAX_LEAVES = 50
"""Chunks that are named of one node."""
_MAX_READ = 1_600
"""Chunks that are read for one page of hits; where it holds many nodes, fewer are named of each."""
_LEAST_LEAVES = 5
_MAX_STEPS_DOWN = 8
"""Layers through which a node without links is followed; only those of more than a thousand chunks have none."""
_MAX_SECONDS = 3.0
_SHARE_OF_DEADLINE = 0.3


class LeafStage:
    """Reads the chunks of the nodes, entities, relations, reports and tables of one page of hits; the last stage."""

    name = "leaves"

    def __init__(self, index: RecordIndex) -> None:
        """Create the stage.

        Args:
            index: Holds the records.
        """
        self._index = index
        self._reader = RecordReader(index)

    def is_wanted(self, outcome: SearchOutcome) -> bool:
        """See `Stage`."""
        return any(map(stands_for_chunks, _page(outcome)))

    async def run(self, call: CallContext, outcome: SearchOutcome) -> StageResult:
        """Read the chunks that the words of each node stand in most; see `Stage`."""
        nodes = [item for item in _page(outcome) if stands_for_chunks(item)]
        links = await self._links(call, outcome, nodes)
        for view in outcome.views:
            own = [item.candidate.record for item in nodes if space_of(outcome, item.candidate.record) == view.space_id]
            outcome.leaves.update(await self._leaves(call, view, [item for item in own if not is_table(item)], links))
            outcome.leaves.update(await self._beneath_tables(call, outcome, view, list(filter(is_table, own))))
        found = sum(map(len, outcome.leaves.values()))
        return StageResult(detail=f"{counted(found, 'chunk')} beneath {counted(len(nodes), 'node')}")

    async def _leaves(
        self, call: CallContext, view: SpaceView, nodes: Sequence[Record], links: Mapping[str, Sequence[str]]
    ) -> dict[str, tuple[Record, ...]]:
        wanted = [node for node in nodes if links[node.record_id]]
        if not wanted or view.visibility.is_empty:
            return {}
        visibility = build_filter(view.visibility, (RecordKind.CHUNK,))
        terms = await asyncio.to_thread(lambda: [analyze_query(node.text) for node in wanted])
        count = min(MAX_LEAVES, max(_LEAST_LEAVES, _MAX_READ // len(wanted)))
        requests = [
            RecallRequest(
                terms=own,
                query_vector=None,
                visibility=visibility,
                knowledge_base_ids=view.knowledge_base_ids,
                record_ids=tuple(links[node.record_id])[:MAX_WINDOW],
                given_count=count,
            )
            for node, own in zip(wanted, terms, strict=True)
        ]
        found: list[Candidates] = []
        for start in range(0, len(requests), MAX_REQUESTS):
            found += await self._index.search(
                call.identity.tenant_id,
                view.space_id,
                requests[start : start + MAX_REQUESTS],
                timeout_seconds=_seconds(call),
            )
        return {
            node.record_id: tuple(item.record for item in candidates.items)
            for node, candidates in zip(wanted, found, strict=True)
        }

    async def _beneath_tables(
        self, call: CallContext, outcome: SearchOutcome, view: SpaceView, tables: Sequence[Record]
    ) -> dict[str, tuple[Record, ...]]:
        """Read what tables name, the chunks of their best lines first; nothing that the search has read already."""
        named = {name for table in tables for name in table.links[:MAX_LEAVES]}
        known = {
            item.candidate.record.record_id: item.candidate.record
            for item in outcome.ranked
            if item.candidate.record.record_id in named and not item.merged_record_ids
        }
        missing = [name for name in named if name not in known]
        if missing and not view.visibility.is_empty:
            read = await self._index.fetch(
                call.identity.tenant_id,
                view.space_id,
                sorted(missing)[:MAX_WINDOW],
                build_filter(view.visibility, (RecordKind.CHUNK,)),
                timeout_seconds=_seconds(call),
            )
            known |= {record.record_id: record for record in read}
        return {
            table.record_id: tuple(known[name] for name in table.links[:MAX_LEAVES] if name in known)
            for table in tables
        }

    async def _links(
        self, call: CallContext, outcome: SearchOutcome, nodes: Sequence[RankedCandidate]
    ) -> dict[str, list[str]]:
        """Name the chunks beneath each node; those of too many to name are those of what stands beneath them."""
        links = {item.candidate.record.record_id: list(chunk_links(item.candidate.record)) for item in nodes}
        records = {item.candidate.record.record_id: item.candidate.record for item in nodes}
        waiting = {name: children_of(record) for name, record in records.items() if not links[name]}
        for _ in range(_MAX_STEPS_DOWN):
            if not waiting:
                break
            by_base: dict[str, list[str]] = {}
            for name, children in waiting.items():
                by_base.setdefault(records[name].knowledge_base_id, []).extend(children)
            read = await self._reader.read(call, outcome, by_base, (RecordKind.TREE_NODE, RecordKind.CHUNK))
            following: dict[str, tuple[str, ...]] = {}
            for name, children in waiting.items():
                below = [read[child] for child in children if child in read]
                for record in below:
                    links[name] += record.links or ([record.record_id] if record.kind is RecordKind.CHUNK else [])
                further = tuple(child for record in below if not record.links for child in children_of(record))
                if further and len(links[name]) < MAX_WINDOW:
                    following[name] = further
            waiting = following
        return links


def _page(outcome: SearchOutcome) -> Sequence[RankedCandidate]:
    start = outcome.request.offset
    return outcome.kept[start : start + outcome.plan.page_size]


def _seconds(call: CallContext) -> float:
    return min(_MAX_SECONDS, call.remaining_seconds() * _SHARE_OF_DEADLINE)
