"""Names that were held to be one entity, with the reasons."""

from typing import Final

import numpy as np

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.keys import key_text
from corpusmesh_core.graphs.resolution import ResolvedPair, unpack_pairs
from corpusmesh_core.ports.builds import BuildStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_graph.handlers.entities import MAX_PAGE_SIZE, place_of
from corpusmesh_graph.names import entity_key_of, entity_name, graph_of
from corpusmesh_graph.scenes import GraphScene, SceneReader, seconds_left, worked_out
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.page_tokens import checked_page_size, make_pinned_token, read_pinned_token, within_page

RESOLUTION: Final = "resolution"
"""Artefact of a build that holds the pairs."""
_MAX_OBJECT_BYTES: Final = 1 << 29


class PairReader:
    """Reads resolved pairs; one is shown where both names stand in documents that the caller may see."""

    def __init__(self, scenes: SceneReader, builds: BuildStore, objects: ObjectStore) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            builds: Tells where pairs are kept.
            objects: Keeps them.
        """
        self._scenes = scenes
        self._builds = builds
        self._objects = objects

    async def page(self, request: pb.ListResolvedPairsRequest) -> pb.ListResolvedPairsResponse:
        """Give a page of pairs.

        Args:
            request: Of which entity, and which page.

        Returns:
            The page, ascending by keys.
        """
        knowledge_base_id = graph_of(request.parent, field="parent")
        key = entity_key_of(request.entity, knowledge_base_id, field="entity") if request.entity else 0
        size = checked_page_size(request.page_size, max_page_size=MAX_PAGE_SIZE)
        listing = f"{request.parent}/resolvedPairs/{request.entity}"
        snapshot_id, start = read_pinned_token(listing, request.page_token)
        scene = await self._scenes.look(knowledge_base_id, snapshot_id=snapshot_id)
        place = place_of(scene, key) if key else None
        pairs = await self._pairs(knowledge_base_id)
        shown = await worked_out(lambda: _visible(scene, pairs, place))
        page = await worked_out(lambda: within_page(_to_wire(scene, pair) for pair in shown[start : start + size]))
        following = start + len(page)
        more = following < len(shown)
        return pb.ListResolvedPairsResponse(
            pairs=page,
            next_page_token=make_pinned_token(listing, scene.snapshot_id, following) if more else "",
            total_count=len(shown),
        )

    async def _pairs(self, knowledge_base_id: str) -> tuple[ResolvedPair, ...]:
        tenant_id = require_call().identity.tenant_id
        key = (await self._builds.artefacts(tenant_id, knowledge_base_id)).get(RESOLUTION)
        if key is None:
            return ()
        try:
            content = await self._objects.get(key, max_byte_count=_MAX_OBJECT_BYTES, timeout_seconds=seconds_left())
        except NotFoundError:
            # A newer build has taken its place since, or the graph is being removed.
            return ()
        return await worked_out(lambda: unpack_pairs(content))


def _visible(scene: GraphScene, pairs: tuple[ResolvedPair, ...], place: int | None) -> list[ResolvedPair]:
    keys = np.array([(pair.a, pair.b) for pair in pairs], np.uint64).reshape(-1, 2)
    # A key leads to an entity of this view where a visible document uses it as a name.
    shown = np.isin(keys, scene.graph.graph.fragment_key).all(axis=1)
    if place is not None:
        shown &= scene.graph.find(keys[:, 0]) == place
    return [pairs[number] for number in np.flatnonzero(shown).tolist()]


def _to_wire(scene: GraphScene, pair: ResolvedPair) -> pb.ResolvedPair:
    entity = int(scene.graph.find([pair.a])[0])
    return pb.ResolvedPair(
        entity=entity_name(scene.knowledge_base_id, int(scene.graph.entity_keys[entity])),
        title=scene.name_of(pair.a),
        other_title=scene.name_of(pair.b),
        reason=pair.reason,
        score=pair.score,
        method=pair.method,
        key=key_text(pair.a),
        other_key=key_text(pair.b),
    )
