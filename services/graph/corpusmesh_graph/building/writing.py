"""Writes the records of subgraphs; texts that are embedded are embedded once, in this graph and the one before."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.keys import pair_of
from corpusmesh_core.graphs.records import (
    SOURCE_NAME,
    TARGET_NAME,
    entity_record,
    entity_record_id,
    entity_vector_text,
    relation_record,
    relation_record_id,
    relation_vector_text,
    texts_of,
)
from corpusmesh_core.graphs.segments import Segment, SegmentDocument
from corpusmesh_core.graphs.settings import GraphVectors
from corpusmesh_core.graphs.values import RelationFragment
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.trees.vectors import as_kept
from corpusmesh_graph.building.drafts import GONE
from corpusmesh_graph.building.extracting import Found
from corpusmesh_graph.building.scope import BuildScope

_MAX_KEPT_VECTORS = 20_000
_WRITE_RECORDS = 5_000
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Fragments:
    """Which documents of a graph have spoken of what, for vectors that are there already."""

    keys: NDArray[np.uint64]
    other_keys: NDArray[np.uint64]
    publishers: NDArray[np.uint32]
    versions: NDArray[np.uint32]

    @classmethod
    def of(cls, segments: Sequence[Segment], *, relations: bool) -> "_Fragments":
        """Sort the entities, or the relations, of segments."""
        parts: list[tuple[NDArray[np.integer], ...]] = []
        for segment in segments:
            counts = np.diff(segment.document_relations if relations else segment.document_entities)
            owners = np.repeat(np.arange(segment.document_count), counts)
            if relations:
                ends = segment.entity_key[segment.relation_source], segment.entity_key[segment.relation_target]
                low, high = np.minimum(*ends), np.maximum(*ends)
            else:
                low, high = segment.entity_key, np.zeros(segment.entity_count, np.uint64)
            parts.append((low, high, segment.document_publisher[owners], segment.document_version[owners]))
        if not parts:
            empty = np.zeros(0, np.uint64)
            return cls(empty, empty, np.zeros(0, np.uint32), np.zeros(0, np.uint32))
        low, high, publishers, versions = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((publishers, high, low))
        return cls(
            low[order].astype(np.uint64),
            high[order].astype(np.uint64),
            publishers[order].astype(np.uint32),
            versions[order].astype(np.uint32),
        )

    def first(self, key: int, other: int = 0) -> tuple[int, int] | None:
        """Give publisher and version of the first document that speaks of it."""
        start = int(np.searchsorted(self.keys, np.uint64(key), "left"))
        end = int(np.searchsorted(self.keys, np.uint64(key), "right"))
        place = start + int(np.searchsorted(self.other_keys[start:end], np.uint64(other)))
        if place < end and self.other_keys[place] == other:
            return int(self.publishers[place]), int(self.versions[place])
        return None


class SubgraphWriter:
    """Writes what was found."""

    def __init__(self, scope: BuildScope, known: Sequence[Segment]) -> None:
        """Create it.

        Args:
            scope: The build's task.
            known: Segments whose records are in the index and made in the form of now.
        """
        self._scope = scope
        self._known = known
        self._fragments: tuple[_Fragments, _Fragments] | None = None
        self._vectors: dict[str, Vector] = {}
        self.documents: list[SegmentDocument] = []
        """What was written in this slice."""

    async def write(self, found: Sequence[Found]) -> None:
        """Write the records of some documents, and mark them as done.

        Args:
            found: What was found in them.
        """
        scope = self._scope
        wanted = scope.draft.wanted
        # What is written less than a purge's second look after its document was deleted, that look removes.
        versions = [int(item.document.row.ordinal) for item in found]
        removed = await scope.stores.builds.removed(scope.context.claim, versions)
        living = [item for item in found if int(item.document.row.ordinal) not in removed]
        vectors = await self._embedded(living)
        records = await asyncio.to_thread(lambda: [list(self._records(item, vectors)) for item in living])
        flat = [record for of_document in records for record in of_document]
        for start in range(0, len(flat), _WRITE_RECORDS):
            await scope.write(flat[start : start + _WRITE_RECORDS])
        for item in found:
            wanted.record_counts[item.document.place] = GONE
        for item, of_document in zip(living, records, strict=True):
            place = item.document.place
            wanted.record_counts[place] = len(of_document)
            wanted.texts[place] = np.frombuffer(item.document.texts, np.uint8)
            self.documents.append(
                SegmentDocument(int(item.document.row.ordinal), int(wanted.ordinals[place]), item.subgraph)
            )
            self._count(item)

    def _count(self, item: Found) -> None:
        bill = self._scope.bill
        if item.is_reused:
            bill.reused_document_count += 1
        else:
            bill.document_count += 1
            bill.chunk_count += len(item.document.chunks)
        bill.entity_count += len(item.subgraph.entities)
        bill.relation_count += len(item.subgraph.relations)

    def _records(self, item: Found, vectors: dict[str, Vector]) -> Iterator[Record]:
        place = item.document.record_place(int(self._scope.draft.wanted.ordinals[item.document.place]))
        names = {entity.key: entity.name for entity in item.subgraph.entities}
        for entity in item.subgraph.entities:
            yield entity_record(place, entity, vectors.get(entity_vector_text(entity)))
        for relation in item.subgraph.relations:
            ends = _names(relation, names)
            yield relation_record(place, relation, ends, vectors.get(relation_vector_text(relation, ends)))

    async def _embedded(self, found: Sequence[Found]) -> dict[str, Vector]:
        """Give the vector of every text that has one."""
        form = self._scope.graph.effective_vectors
        if form is GraphVectors.NONE:
            return {}
        texts: dict[str, tuple[int, int]] = {}
        for item in found:
            names = {entity.key: entity.name for entity in item.subgraph.entities}
            for entity in item.subgraph.entities:
                texts.setdefault(entity_vector_text(entity), (entity.key, 0))
            if form is GraphVectors.ALL:
                for relation in item.subgraph.relations:
                    text = relation_vector_text(relation, _names(relation, names))
                    texts.setdefault(text, pair_of(relation.source, relation.target))
        vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        vectors |= await self._found_again({text: keys for text, keys in texts.items() if text not in vectors})
        missing = [text for text in texts if text not in vectors]
        made = await self._scope.vectors.embed(
            missing, self._scope.bill, timeout_seconds=self._scope.context.remaining_seconds()
        )
        vectors.update((text, as_kept(vector)) for text, vector in zip(missing, made, strict=True))
        if len(self._vectors) > _MAX_KEPT_VECTORS:
            self._vectors.clear()
        self._vectors.update(vectors)
        return vectors

    async def _found_again(self, texts: dict[str, tuple[int, int]]) -> dict[str, Vector]:
        """Take over vectors of equal texts that documents before have."""
        if not self._known or not texts:
            return {}
        if self._fragments is None:
            self._fragments = await asyncio.to_thread(
                lambda: (_Fragments.of(self._known, relations=False), _Fragments.of(self._known, relations=True))
            )
        entities, relations = self._fragments
        ids: dict[str, None] = {}
        ordinals: set[int] = set()
        for key, other in texts.values():
            found = relations.first(key, other) if other else entities.first(key)
            if found is not None:
                ids[relation_record_id(found[0], key, other) if other else entity_record_id(found[0], key)] = None
                ordinals.update(found)
        records = await self._scope.records(list(ids), list(ordinals), with_vectors=True)
        vectors = {}
        for record in records.values():
            text = _vector_text(record)
            if record.vector is not None and text in texts:
                vectors[text] = record.vector
        return vectors


def _names(relation: RelationFragment, names: dict[int, str]) -> tuple[str, str]:
    return names[relation.source], names[relation.target]


def _vector_text(record: Record) -> str:
    """Give what the vector of a record is of."""
    if record.kind is RecordKind.ENTITY:
        return record.title
    said = texts_of(record)
    fragment = RelationFragment(0, 1, said.predicate, said.description, said.sentence, said.keywords)
    return relation_vector_text(
        fragment, (record.attributes.get(SOURCE_NAME, ""), record.attributes.get(TARGET_NAME, ""))
    )
