"""Relations as a caller may see them."""

from collections.abc import Container
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.keys import key_text
from corpusmesh_core.records import RecordKind
from corpusmesh_graph.convert import passage_to_wire, relation_to_wire
from corpusmesh_graph.handlers.entities import MAX_PAGE_SIZE, place_of
from corpusmesh_graph.handlers.saying import MAX_FRAGMENTS, SayingReader
from corpusmesh_graph.names import entity_key_of, graph_of, relation_not_found, relation_of
from corpusmesh_graph.scenes import GraphScene, SceneReader, worked_out
from corpusmesh_runtime.page_tokens import checked_page_size, make_pinned_token, read_pinned_token, within_page

_KEY_CHARACTERS: Final = 16


class RelationReader:
    """Reads relations; weights are of what is visible alone."""

    def __init__(self, scenes: SceneReader, sayings: SayingReader) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            sayings: What documents say.
        """
        self._scenes = scenes
        self._sayings = sayings

    async def page(self, request: pb.ListRelationsRequest) -> pb.ListRelationsResponse:
        """Give a page of relations.

        Args:
            request: Of which entities, and which page.

        Returns:
            The page.

        Raises:
            InvalidArgumentError: If `other_entity` stands alone, or page size or token are none.
        """
        knowledge_base_id = graph_of(request.parent, field="parent")
        if request.other_entity and not request.entity:
            raise InvalidArgumentError("GRAPH_QUERY_INVALID", "other_entity goes with entity", field="other_entity")
        keys = [
            entity_key_of(name, knowledge_base_id, field=field)
            for field, name in (("entity", request.entity), ("other_entity", request.other_entity))
            if name
        ]
        size = checked_page_size(request.page_size, max_page_size=MAX_PAGE_SIZE)
        listing = f"{request.parent}/relations/{request.entity}/{request.other_entity}"
        snapshot_id, start = read_pinned_token(listing, request.page_token)
        scene = await self._scenes.look(knowledge_base_id, snapshot_id=snapshot_id)
        places = [place_of(scene, key) for key in keys]
        found = await worked_out(lambda: _strongest(scene, places))
        chosen = found[start : start + size].tolist()
        messages = await worked_out(lambda: [relation_to_wire(scene, relation) for relation in chosen])
        await self._sayings.put_into(scene, messages, chosen)
        page = within_page(messages)
        following = start + len(page)
        more = following < len(found)
        return pb.ListRelationsResponse(
            relations=page,
            next_page_token=make_pinned_token(listing, scene.snapshot_id, following) if more else "",
            total_count=len(found),
        )

    async def read(self, request: pb.GetRelationRequest) -> pb.GetRelationResponse:
        """Read a relation.

        Args:
            request: Which one.

        Returns:
            The relation with what is said of it and where.

        Raises:
            NotFoundError: GRAPH_RELATION_NOT_FOUND if there is none that the caller may see.
        """
        knowledge_base_id, source, target = relation_of(request.name)
        scene = await self._scenes.look(knowledge_base_id)
        first, second = scene.graph.find([source, target]).tolist()
        if first < 0 or second < 0 or first == second:
            raise relation_not_found()
        place = int(scene.graph.find_relations([(first, second)])[0])
        if place < 0:
            raise relation_not_found()
        relation = relation_to_wire(scene, place)
        await self._sayings.put_into(scene, [relation], [place], most_of_each=MAX_FRAGMENTS)
        merged = await self._sayings.merged(scene, PairKeys(scene, first, second))
        if scene.graph.relation_texts(place).description is None and merged:
            relation.description, relation.merged_by_model = merged, True
        passages = await self._scenes.fetch(scene, scene.passages_of_relation(place), RecordKind.CHUNK)
        return pb.GetRelationResponse(
            relation=relation, passages=within_page(passage_to_wire(record) for record in passages)
        )


class PairKeys(Container[str]):
    """The keys that a description of a relation may have: any name of one end, and any of the other, in either order.

    Told rather than listed: two entities of a thousand names have a million pairs of them.
    """

    def __init__(self, scene: GraphScene, first: int, second: int) -> None:
        """Create it.

        Args:
            scene: What the caller may see.
            first: Place of one entity.
            second: Place of the other.
        """
        self._ends = tuple(frozenset(map(key_text, scene.keys(end))) for end in (first, second))

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is one of both ends."""
        if not isinstance(key, str):
            return False
        low, high = key[:_KEY_CHARACTERS], key[_KEY_CHARACTERS:]
        first, second = self._ends
        return (low in first and high in second) or (low in second and high in first)


def _strongest(scene: GraphScene, places: list[int]) -> NDArray[np.int64]:
    graph = scene.graph
    if not places:
        chosen = np.arange(len(graph.relation_weights), dtype=np.int64)
    elif len(places) == 1:
        chosen = graph.relations_of(places[0]).astype(np.int64)
    else:
        found = graph.find_relations([(places[0], places[1])]) if places[0] != places[1] else np.zeros(0, np.int32)
        chosen = found[found >= 0].astype(np.int64)
    return chosen[np.argsort(-graph.relation_weights[chosen], kind="stable")]
