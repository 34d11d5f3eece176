"""What documents say of entities and relations, put together from what the caller may see."""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graph_search.records import statement_of
from corpusmesh_core.graphs.descriptions import assembled_description
from corpusmesh_core.graphs.edits import RelationTexts
from corpusmesh_core.graphs.records import CONFIDENCE, METHODS, SOURCE, texts_of
from corpusmesh_core.graphs.settings import GraphSettings
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_graph.handlers.shelf import RecordShelf
from corpusmesh_graph.names import entity_name
from corpusmesh_graph.scenes import GraphScene, SceneReader

MAX_FRAGMENTS: Final = 200
"""Documents whose word on one entity or relation is read."""
_FRAGMENTS_IN_LISTS: Final = 3
_MAX_SENTENCES: Final = 10
_MAX_KEYWORDS: Final = 20


@dataclass(frozen=True, slots=True)
class Said:
    """What visible documents say of an entity or a relation.

    Attributes:
        description: Their descriptions; where none has one, the sentences that tell most.
        names: Names and aliases that they use; of an entity alone.
        predicate: How most of them relate the two; of a relation alone.
        source: Key of the entity that the predicate goes out from; 0 without one.
        keywords: What it is about; of a relation alone.
        methods: How it was found, ascending.
        confidence: How sure the surest method is, 0 to 1.
    """

    description: str = ""
    names: tuple[str, ...] = ()
    predicate: str = ""
    source: int = 0
    keywords: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    confidence: float = 0.0


class SayingReader:
    """Reads what documents say; every query carries the caller's filter."""

    def __init__(self, scenes: SceneReader, index: RecordIndex) -> None:
        """Create it.

        Args:
            scenes: What callers see.
            index: The records.
        """
        self._scenes = scenes
        self._merged = RecordShelf(index, RecordKind.DESCRIPTION)

    async def merged(self, scene: GraphScene, keys: Container[str]) -> str:
        """Read what a language model made of all that documents say of one entity or relation.

        Args:
            scene: What the caller may see.
            keys: Keys of its names; of a relation keys of both ends, joined.

        Returns:
            The text; "" where there is none, or the caller may not see all that it was made from.
        """
        if not writes_descriptions(scene):
            return ""
        found = [one.record_id for one in await self._merged.listed(scene) if one.key in keys]
        records = await self._scenes.fetch(scene, found[:1], RecordKind.DESCRIPTION)
        return statement_of(records[0]) if records else ""

    async def of_entities(
        self, scene: GraphScene, places: Sequence[int], *, most_of_each: int = MAX_FRAGMENTS
    ) -> list[Said]:
        """Read what is said of entities.

        Args:
            scene: What the caller may see.
            places: The entities.
            most_of_each: Documents that are read for each.

        Returns:
            What is said of each, in that order.
        """
        wanted = [scene.graph.entity_records(place, most_of_each) for place in places]
        found = await self._read(scene, wanted, RecordKind.ENTITY)
        texts = (scene.graph.entity_texts(place) for place in places)
        return [
            said if corrected.description is None else replace(said, description=corrected.description)
            for said, corrected in zip(found, texts, strict=True)
        ]

    async def of_relations(
        self, scene: GraphScene, places: Sequence[int], *, most_of_each: int = _FRAGMENTS_IN_LISTS
    ) -> list[Said]:
        """Read what is said of relations.

        Args:
            scene: What the caller may see.
            places: The relations.
            most_of_each: Documents that are read for each.

        Returns:
            What is said of each, in that order.
        """
        wanted = [scene.graph.relation_records(place, most_of_each) for place in places]
        found = await self._read(scene, wanted, RecordKind.RELATION)
        texts = (scene.graph.relation_texts(place) for place in places)
        return [_corrected(said, corrected) for said, corrected in zip(found, texts, strict=True)]

    async def put_into(
        self,
        scene: GraphScene,
        messages: Sequence[pb.Relation],
        places: Sequence[int],
        *,
        most_of_each: int = _FRAGMENTS_IN_LISTS,
    ) -> None:
        """Put what is said of relations into their messages.

        Args:
            scene: What the caller may see.
            messages: The relations' messages.
            places: The relations, in the same order.
            most_of_each: Documents that are read for each.
        """
        found = await self.of_relations(scene, places, most_of_each=most_of_each)
        for message, said in zip(messages, found, strict=True):
            message.description = said.description
            message.predicate, message.confidence = said.predicate, said.confidence
            if said.source and entity_name_at(scene, said.source) == message.target:
                # A relation has no direction of its own; what is said of it may have one.
                message.source, message.target = message.target, message.source
                message.source_title, message.target_title = message.target_title, message.source_title
            message.keywords.extend(said.keywords)
            message.methods.extend(said.methods)

    async def _read(self, scene: GraphScene, wanted: Sequence[Sequence[str]], kind: RecordKind) -> list[Said]:
        record_ids = list(dict.fromkeys(record_id for group in wanted for record_id in group))
        records = {record.record_id: record for record in await self._scenes.fetch(scene, record_ids, kind)}
        return [_said([records[record_id] for record_id in group if record_id in records]) for group in wanted]


def writes_descriptions(scene: GraphScene) -> bool:
    """Tell whether a language model merges descriptions of a graph; by default none does, and nothing is asked.

    Args:
        scene: What the caller may see.

    Returns:
        Whether there may be such descriptions.
    """
    try:
        return bool(GraphSettings.of(scene.view.inputs.config).model_methods)
    except InvalidArgumentError:
        return False


def _corrected(said: Said, corrected: RelationTexts) -> Said:
    return replace(
        said,
        description=said.description if corrected.description is None else corrected.description,
        predicate=said.predicate if corrected.predicate is None else corrected.predicate,
        keywords=said.keywords if corrected.keywords is None else corrected.keywords,
    )


def entity_name_at(scene: GraphScene, key: int) -> str:
    """Name the entity that a key leads to.

    Args:
        scene: What the caller may see.
        key: Key of any of its names.

    Returns:
        `knowledgeBases/*/graph/entities/*`; "" where there is none.
    """
    place = int(scene.graph.find([key])[0])
    return entity_name(scene.knowledge_base_id, int(scene.graph.entity_keys[place])) if place >= 0 else ""


def _said(records: Sequence[Record]) -> Said:
    surest = sorted(records, key=lambda record: (-_confidence(record), record.publisher))
    texts = [texts_of(record) for record in surest]
    described = assembled_description(text.description for text in texts)
    sentences = (text.sentence for text in texts[:_MAX_SENTENCES])
    predicates = Counter(
        (text.predicate, record.attributes.get(SOURCE, ""))
        for text, record in zip(texts, surest, strict=True)
        if text.predicate
    )
    predicate, source = min(predicates, key=lambda one: (-predicates[one], *one), default=("", ""))
    keywords = Counter(keyword for text in texts for keyword in text.keywords)
    is_entity = bool(records) and records[0].kind is RecordKind.ENTITY
    return Said(
        description=described or assembled_description(sentences),
        names=tuple(sorted({name for record in records for name in record.keywords})) if is_entity else (),
        predicate=predicate,
        source=int(source or "0", 16),
        keywords=tuple(name for name, _ in keywords.most_common(_MAX_KEYWORDS)),
        methods=tuple(sorted({name for record in records for name in record.attributes.get(METHODS, "").split()})),
        confidence=max(map(_confidence, records), default=0.0),
    )


def _confidence(record: Record) -> float:
    try:
        return min(1.0, max(0.0, float(record.attributes.get(CONFIDENCE, "0"))))
    except ValueError:
        return 0.0
