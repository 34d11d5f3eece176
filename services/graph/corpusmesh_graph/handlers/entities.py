"""Entities as a caller may see them: listed, read, and what is around them."""

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs.keys import entity_key, key_text
from corpusmesh_core.graphs.records import KEY
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.graphs.walking import neighbourhood
from corpusmesh_core.ports.index import MAX_WINDOW, RecallRequest, RecordIndex
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.records import RecordKind
from corpusmesh_core.text import analyze_query
from corpusmesh_graph.convert import entity_to_wire, passage_to_wire, relation_to_wire
from corpusmesh_graph.handlers.saying import SayingReader
from corpusmesh_graph.names import document_name, entity_not_found, entity_of, graph_of
from corpusmesh_graph.scenes import GraphScene, SceneReader, bounded, seconds_left, worked_out
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.page_tokens import checked_page_size, make_pinned_token, read_pinned_token, within_page

MAX_PAGE_SIZE: Final = 500
_MAX_QUERY_CHARACTERS: Final = 256
_MAX_TYPES: Final = 32
_MAX_DOCUMENTS: Final = 200
_MAX_HOPS: Final = 4
_MAX_SAYINGS: Final = 300
"""Relations of a neighbourhood of which more than one document is read."""


class EntityReader:
    """Reads entities; counts and ranks are of what is visible alone."""

    def __init__(
        self, scenes: SceneReader, sayings: SayingReader, documents: DocumentStore, index: RecordIndex
    ) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            sayings: What documents say.
            documents: Documents that speak of entities.
            index: The records.
        """
        self._scenes = scenes
        self._sayings = sayings
        self._documents = documents
        self._index = index
        self._types: WeakKeyDictionary[GraphView, dict[str, NDArray[np.int64]]] = WeakKeyDictionary()

    async def page(self, request: pb.ListEntitiesRequest) -> pb.ListEntitiesResponse:
        """Give a page of entities.

        Args:
            request: Words, types and page.

        Returns:
            The page.

        Raises:
            InvalidArgumentError: If query, types, page size or token are none.
        """
        knowledge_base_id = graph_of(request.parent, field="parent")
        if len(request.query) > _MAX_QUERY_CHARACTERS:
            raise _query_invalid("query", f"query may have {_MAX_QUERY_CHARACTERS} characters")
        if len(request.types) > _MAX_TYPES:
            raise _query_invalid("types", f"name at most {_MAX_TYPES} types")
        size = checked_page_size(request.page_size, max_page_size=MAX_PAGE_SIZE)
        listing = f"{request.parent}/entities/{request.query}/{'/'.join(sorted(request.types))}"
        snapshot_id, start = read_pinned_token(listing, request.page_token)
        scene = await self._scenes.look(knowledge_base_id, snapshot_id=snapshot_id)
        query = request.query.strip()
        found = await self._named(scene, query) if query else await worked_out(scene.by_rank)
        if request.types:
            found = found[np.isin(found, await self._of_types(scene, request.types))]
        places = found[start : start + size].tolist()
        # The first that asks for a rank works all of them out.
        page = await worked_out(lambda: within_page(entity_to_wire(scene, place) for place in places))
        following = start + len(page)
        more = following < len(found)
        return pb.ListEntitiesResponse(
            entities=page,
            next_page_token=make_pinned_token(listing, scene.snapshot_id, following) if more else "",
            total_count=len(found),
        )

    async def read(self, request: pb.GetEntityRequest) -> pb.GetEntityResponse:
        """Read an entity.

        Args:
            request: Which one.

        Returns:
            The entity with what is said of it and where.
        """
        scene, place = await self._find(request.name, request.title)
        entity = await worked_out(lambda: entity_to_wire(scene, place))
        [said] = await self._sayings.of_entities(scene, [place])
        merged = await self._sayings.merged(scene, [key_text(key) for key in scene.keys(place)])
        if scene.graph.entity_texts(place).description is None and merged:
            entity.merged_by_model = True
        entity.description = merged if entity.merged_by_model else said.description
        entity.confidence = said.confidence
        entity.methods.extend(said.methods)
        entity.aliases[:] = sorted({*entity.aliases, *said.names} - {entity.title})
        rows = await self._documents.versions_by_ordinal(
            require_call().identity.tenant_id, scene.graph.versions_of(place)[:_MAX_DOCUMENTS]
        )
        passages = await self._scenes.fetch(scene, scene.passages_of(place), RecordKind.CHUNK)
        return pb.GetEntityResponse(
            entity=entity,
            documents=sorted({document_name(row.knowledge_base_id, row.document_id) for row in rows}),
            passages=within_page(passage_to_wire(record) for record in passages),
        )

    async def around(self, request: pb.GetNeighbourhoodRequest) -> pb.GetNeighbourhoodResponse:
        """Read what is around an entity.

        Args:
            request: Which one, how far, how much.

        Returns:
            Entities and the relations among them.

        Raises:
            InvalidArgumentError: GRAPH_HOPS_INVALID if it is further than four relations.
        """
        if not 0 <= request.hops <= _MAX_HOPS:
            raise InvalidArgumentError("GRAPH_HOPS_INVALID", f"hops must be within 0..{_MAX_HOPS}", field="hops")
        max_entities = bounded(request.max_entities, "max_entities", default=50, most=500)
        max_relations = bounded(request.max_relations, "max_relations", default=200, most=2000)
        scene, place = await self._find(request.name, request.title)
        # One more than is shown tells whether there is more.
        near = await worked_out(lambda: neighbourhood(scene.graph, [place], request.hops or 1, max_entities + 1))
        shown = near.entities[:max_entities].tolist()
        ends = scene.graph.relation_ends[near.relations]
        among = near.relations[np.isin(ends, shown).all(axis=1)]
        places = among[:max_relations].tolist()
        relations = await worked_out(lambda: [relation_to_wire(scene, relation) for relation in places])
        await self._sayings.put_into(scene, relations, places, most_of_each=1 if len(places) > _MAX_SAYINGS else 3)
        entities = await worked_out(lambda: [entity_to_wire(scene, entity) for entity in shown])
        return pb.GetNeighbourhoodResponse(
            neighbours=[
                pb.Neighbour(entity=entity, hops=hops)
                for entity, hops in zip(entities, near.hops.tolist(), strict=False)
            ],
            relations=relations,
            truncated=len(near.entities) > max_entities or len(among) > max_relations,
        )

    async def _find(self, name: str, title: str) -> tuple[GraphScene, int]:
        knowledge_base_id, key = entity_of(name, title)
        scene = await self._scenes.look(knowledge_base_id)
        return scene, place_of(scene, key)

    async def _of_types(self, scene: GraphScene, types: Sequence[str]) -> NDArray[np.int64]:
        """Find the entities of some types; those of a graph are looked through once, however many pages are read."""
        graph = scene.graph
        if graph not in self._types:
            self._types[graph] = await worked_out(lambda: _by_type(graph))
        by_type = self._types[graph]
        wanted = {name.strip().casefold() for name in types}
        return np.concatenate([np.zeros(0, np.int64), *(by_type[name] for name in wanted if name in by_type)])

    async def _named(self, scene: GraphScene, query: str) -> NDArray[np.int64]:
        """Find entities by words: the one of that very name first, then what the index ranks."""
        exact = scene.graph.find([entity_key(query)])
        visible = scene.view.filter_of(RecordKind.ENTITY)
        terms = analyze_query(query)
        if visible.matches_nothing or terms.is_empty:
            return exact[exact >= 0].astype(np.int64)
        request = RecallRequest(
            terms=terms,
            query_vector=None,
            visibility=visible,
            knowledge_base_ids=(scene.knowledge_base_id,),
            window=MAX_WINDOW,
            other_script_window=0,
        )
        candidates = await self._index.search(
            require_call().identity.tenant_id, scene.view.inputs.space_id, [request], timeout_seconds=seconds_left()
        )
        wanted = frozenset(terms.fine)
        # Texts are searched too; here only names count.
        keys = [
            int(item.record.attributes[KEY], 16)
            for item in candidates[0].items
            if not wanted.isdisjoint(item.keyword_terms.split())
        ]
        places = np.concatenate([exact, scene.graph.find(keys)])
        return np.array(list(dict.fromkeys(places[places >= 0].tolist())), np.int64)


def place_of(scene: GraphScene, key: int) -> int:
    """Find an entity.

    Args:
        scene: What the caller may see.
        key: Key of any of its names.

    Returns:
        Its place.

    Raises:
        NotFoundError: GRAPH_ENTITY_NOT_FOUND if there is none that the caller may see.
    """
    place = int(scene.graph.find([key])[0])
    if place < 0:
        raise entity_not_found()
    return place


def _by_type(graph: GraphView) -> dict[str, NDArray[np.int64]]:
    places: dict[str, list[int]] = {}
    for place in range(len(graph.entity_keys)):
        places.setdefault(graph.type(place).casefold(), []).append(place)
    return {name: np.array(found, np.int64) for name, found in places.items()}


def _query_invalid(field: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_QUERY_INVALID", message, field=field)
