"""What documents say of the members of communities, read from the index for those reports that are written."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from corpusmesh_core.graphs.descriptions import assembled_description
from corpusmesh_core.graphs.records import texts_of
from corpusmesh_core.graphs.reports import ReportEntity, ReportInput, ReportRelation, ReportSentence
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.records import Record
from corpusmesh_graph.building.grouping import Marked
from corpusmesh_graph.building.scope import BuildScope

_MAX_ENTITIES: Final = 20
_MAX_RELATIONS: Final = 24
_MAX_RECORDS: Final = 1
"""Entities and relations of a community whose records are read, and records of each."""
_MAX_DESCRIPTION_CHARACTERS: Final = 800


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What of a community is looked at: places in the view, and the records of each."""

    marked: Marked
    entities: dict[int, tuple[str, ...]]
    relations: dict[int, tuple[str, ...]]


class MemberReader:
    """Reads what reports are made of."""

    def __init__(self, scope: BuildScope, view: GraphView) -> None:
        """Create it.

        Args:
            scope: The build's task.
            view: The graph.
        """
        self._scope = scope
        self._view = view
        self._ordinals = FrozenBitMap([*view.graph.document_version.tolist(), *view.graph.document_publisher.tolist()])

    async def read(self, communities: Sequence[Marked]) -> list[ReportInput]:
        """Read what the reports of some communities are made of.

        Args:
            communities: The communities.

        Returns:
            What each report is made of, in order.
        """
        if not communities:
            return []
        chosen = await asyncio.to_thread(lambda: [self._choose(item) for item in communities])
        ids = dict.fromkeys(
            record_id
            for item in chosen
            for records in (*item.entities.values(), *item.relations.values())
            for record_id in records
        )
        records = await self._scope.records(list(ids), self._ordinals)
        return await asyncio.to_thread(lambda: [self._input(item, records) for item in chosen])

    def _choose(self, marked: Marked) -> _Chosen:
        view = self._view
        # A walk over the whole graph for some members would cost more, the larger the graph; this is near to its rank.
        ranks = view.adjacency_sums[marked.places]
        best = marked.places[np.lexsort((marked.places, -ranks))][:_MAX_ENTITIES]
        relations = self._relations_within(best)
        weights = view.relation_weights[relations]
        strong = relations[np.lexsort((relations, -weights))][:_MAX_RELATIONS]
        return _Chosen(
            marked,
            {int(place): view.entity_records(int(place), _MAX_RECORDS) for place in best.tolist()},
            {int(place): view.relation_records(int(place), _MAX_RECORDS) for place in strong.tolist()},
        )

    def _relations_within(self, entities: NDArray[np.int64]) -> NDArray[np.int64]:
        found = [self._view.relations_of(int(entity)) for entity in entities.tolist()]
        if not found:
            return np.zeros(0, np.int64)
        relations, counts = np.unique(np.concatenate(found), return_counts=True)
        # Both of its ends have named it.
        within: NDArray[np.int64] = relations[counts > 1].astype(np.int64)
        return within

    def _input(self, chosen: _Chosen, records: Mapping[str, Record]) -> ReportInput:
        view = self._view
        keys = view.entity_keys
        sentences: dict[tuple[str, str], ReportSentence] = {}
        entities = []
        for place, ids in chosen.entities.items():
            said = [texts_of(records[record_id]) for record_id in ids if record_id in records]
            entities.append(
                ReportEntity(
                    int(keys[place]),
                    view.name(place),
                    view.type(place),
                    assembled_description(
                        (item.description for item in said), max_characters=_MAX_DESCRIPTION_CHARACTERS
                    ),
                    float(view.adjacency_sums[place]),
                )
            )
            _add_sentences(sentences, ids, records, (int(keys[place]),))
        relations = []
        for place, ids in chosen.relations.items():
            ends = tuple(int(keys[end]) for end in view.relation_ends[place].tolist())
            said = [texts_of(records[record_id]) for record_id in ids if record_id in records]
            text = next((item.description or item.predicate for item in said if item.description or item.predicate), "")
            relations.append(ReportRelation(ends[0], ends[1], text, float(view.relation_weights[place])))
            _add_sentences(sentences, ids, records, ends)
        return ReportInput(chosen.marked.community, tuple(entities), tuple(relations), tuple(sentences.values()))


def _add_sentences(
    sentences: dict[tuple[str, str], ReportSentence],
    ids: Sequence[str],
    records: Mapping[str, Record],
    keys: tuple[int, ...],
) -> None:
    for record_id in ids:
        record = records.get(record_id)
        if record is None or not (text := texts_of(record).sentence) or not record.links:
            continue
        # The best of its chunks: the one that its sentence is of, wherever it has one alone.
        place = (text, record.links[0])
        before = sentences.get(place)
        version, _, position = record.links[0].partition("-")
        merged = tuple(sorted({*keys, *(before.keys if before is not None else ())}))
        sentences[place] = ReportSentence(text, int(version), int(position), merged)
