"""Exports graphs, as far as the caller may see them, in messages of bounded size."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_graph.convert import entity_to_wire, relation_to_wire
from corpusmesh_graph.handlers.saying import SayingReader
from corpusmesh_graph.names import graph_of
from corpusmesh_graph.scenes import GraphScene, SceneReader, worked_out

_AT_ONCE: Final = 250
_FRAGMENTS_OF_EACH: Final = 3
_MAX_DESCRIPTION_CHARACTERS: Final = 1500
"""Longest description of an export: 250 of four bytes a character are below the bound of a message."""


class GraphExporter:
    """Exports graphs: entities by key, then relations by the keys of their ends."""

    def __init__(self, scenes: SceneReader, sayings: SayingReader) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            sayings: What documents say.
        """
        self._scenes = scenes
        self._sayings = sayings

    async def stream(self, request: pb.ExportGraphRequest) -> AsyncGenerator[pb.ExportGraphResponse, None]:
        """Export a graph; all of it is of one snapshot.

        Args:
            request: Which one.

        Yields:
            Parts; the first says how much there is.
        """
        knowledge_base_id = graph_of(request.name)
        scene = await self._scenes.look(knowledge_base_id)
        graph = scene.graph
        # Worked out once, beside the event loop, before the first entity asks for its rank.
        await worked_out(lambda: graph.page_rank)
        counts = (len(graph.entity_keys), len(graph.relation_weights))
        yield pb.ExportGraphResponse(
            entity_count=counts[0],
            relation_count=counts[1],
            snapshot=f"knowledgeBases/{knowledge_base_id}/snapshots/{scene.snapshot_id}" if scene.snapshot_id else "",
            sequence=1,
        )
        sequence = 1
        titles: list[str] = []
        for start in range(0, counts[0], _AT_ONCE):
            places = range(start, min(start + _AT_ONCE, counts[0]))
            sequence += 1
            entities = await self._entities(scene, places, request)
            titles += [entity.title for entity in entities]
            yield pb.ExportGraphResponse(entities=entities, sequence=sequence)
        for start in range(0, counts[1], _AT_ONCE):
            places = range(start, min(start + _AT_ONCE, counts[1]))
            sequence += 1
            relations = await self._relations(scene, places, titles, request)
            yield pb.ExportGraphResponse(relations=relations, sequence=sequence)

    async def _entities(self, scene: GraphScene, places: range, request: pb.ExportGraphRequest) -> list[pb.Entity]:
        messages = await worked_out(lambda: [entity_to_wire(scene, place) for place in places])
        if not request.without_descriptions:
            found = await self._sayings.of_entities(scene, places, most_of_each=_FRAGMENTS_OF_EACH)
            for message, said in zip(messages, found, strict=True):
                message.description = said.description[:_MAX_DESCRIPTION_CHARACTERS]
                message.confidence = said.confidence
                message.methods.extend(said.methods)
        return messages

    async def _relations(
        self, scene: GraphScene, places: range, titles: Sequence[str], request: pb.ExportGraphRequest
    ) -> list[pb.Relation]:
        messages = await worked_out(
            lambda: [relation_to_wire(scene, place, title_of=titles.__getitem__) for place in places]
        )
        if not request.without_descriptions:
            await self._sayings.put_into(scene, messages, places)
            for message in messages:
                message.description = message.description[:_MAX_DESCRIPTION_CHARACTERS]
        return messages
