"""Communities whose report a caller may see."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.records import CHUNKS
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.records import RecordKind
from corpusmesh_graph.convert import community_to_wire, entity_to_wire, passage_to_wire
from corpusmesh_graph.handlers.entities import MAX_PAGE_SIZE
from corpusmesh_graph.handlers.shelf import Listed, RecordShelf
from corpusmesh_graph.names import community_not_found, community_of, graph_of
from corpusmesh_graph.scenes import MAX_PASSAGES, GraphScene, SceneReader, worked_out
from corpusmesh_runtime.page_tokens import checked_page_size, make_pinned_token, read_pinned_token, within_page

_MAX_ENTITIES: Final = 200


class CommunityReader:
    """Reads communities by their reports; a report is visible where all that it stands on is."""

    def __init__(self, scenes: SceneReader, index: RecordIndex) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            index: The records.
        """
        self._scenes = scenes
        self._reports = RecordShelf(index, RecordKind.COMMUNITY_REPORT)

    async def page(self, request: pb.ListCommunitiesRequest) -> pb.ListCommunitiesResponse:
        """Give a page of communities.

        Args:
            request: Level and page.

        Returns:
            The page.

        Raises:
            InvalidArgumentError: If level, page size or token are none.
        """
        knowledge_base_id = graph_of(request.parent, field="parent")
        if request.level < 0:
            raise InvalidArgumentError("GRAPH_LEVEL_INVALID", "level counts from 0, the coarsest", field="level")
        level = request.level if request.HasField("level") else None
        size = checked_page_size(request.page_size, max_page_size=MAX_PAGE_SIZE)
        listing = f"{request.parent}/communities/{level}"
        snapshot_id, start = read_pinned_token(listing, request.page_token)
        scene = await self._scenes.look(knowledge_base_id, snapshot_id=snapshot_id)
        everything = await self._reports.listed(scene)
        entries = [entry for entry in everything if level in (None, entry.level)]
        ids = [entry.record_id for entry in entries[start : start + size]]
        records = await self._scenes.fetch(scene, ids, RecordKind.COMMUNITY_REPORT)
        sight = _Sight(everything)
        page = within_page(sight.told(community_to_wire(record)) for record in records)
        # A report that is not there any more is left out of its page; what did not fit into one begins the next.
        following = start + (len(page) if len(page) < len(records) else size)
        more = following < len(entries)
        return pb.ListCommunitiesResponse(
            communities=page,
            next_page_token=make_pinned_token(listing, scene.snapshot_id, following) if more else "",
            total_count=len(entries),
        )

    async def read(self, request: pb.GetCommunityRequest) -> pb.GetCommunityResponse:
        """Read a community.

        Args:
            request: Which one.

        Returns:
            Its report, its entities and what the report stands on.

        Raises:
            NotFoundError: GRAPH_COMMUNITY_NOT_FOUND if there is none that the caller may see.
        """
        named = community_of(request.name)
        scene = await self._scenes.look(named.knowledge_base_id)
        everything = await self._reports.listed(scene)
        ids = [entry.record_id for entry in everything if entry.key == named.key]
        found = await self._scenes.fetch(scene, ids[:1], RecordKind.COMMUNITY_REPORT)
        if not found:
            raise community_not_found()
        places = scene.graph.find([int(key, 16) for key in found[0].links])
        members = np.unique(places[places >= 0])
        entities = await worked_out(lambda: _ranked(scene, members))
        cited = found[0].attributes.get(CHUNKS, "").split()[:MAX_PASSAGES]
        passages = await self._scenes.fetch(scene, cited, RecordKind.CHUNK)
        return pb.GetCommunityResponse(
            community=_Sight(everything).told(community_to_wire(found[0], with_report=True)),
            entities=entities,
            passages=within_page(passage_to_wire(record) for record in passages),
        )


class _Sight:
    """Tells of communities what the visible ones alone would: a report knows its parent, and the weightiest of all."""

    def __init__(self, entries: Sequence[Listed]) -> None:
        self._keys = {entry.key for entry in entries}
        self._largest: dict[int, float] = {}
        for entry in entries:
            self._largest[entry.level] = max(entry.weight, self._largest.get(entry.level, 0.0))

    def told(self, community: pb.Community) -> pb.Community:
        """Leave out a parent that is hidden, and weigh against the weightiest visible one of the level."""
        if community.parent.rpartition("/")[2] not in self._keys:
            community.parent = ""
        community.weight /= self._largest.get(community.level) or 1.0
        return community


def _ranked(scene: GraphScene, members: NDArray[np.integer]) -> list[pb.Entity]:
    best = members[np.argsort(-scene.graph.page_rank[members], kind="stable")][:_MAX_ENTITIES]
    return [entity_to_wire(scene, place) for place in best.tolist()]
