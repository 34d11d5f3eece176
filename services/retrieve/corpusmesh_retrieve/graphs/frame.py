"""What every mode of graph search stands on: records in one round trip, and the entities and relations behind them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graph_search.levels import Found, distinct
from corpusmesh_core.graph_search.reading import entity_record, named_entities, relation_of_keys, relation_record
from corpusmesh_core.graph_search.records import keys_of
from corpusmesh_core.graph_search.steps import StepReason
from corpusmesh_core.graphs.view import UNKNOWN, GraphView
from corpusmesh_core.ports.index import MAX_REQUESTS, MAX_WINDOW, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.ranking import RankedCandidate, rank_candidates
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.text import QueryTerms, analyze_query
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.graphs.opening import Graph
from corpusmesh_retrieve.outcome import SearchOutcome, SpaceView
from corpusmesh_runtime.context import CallContext

ENTITY_KINDS: Final = (RecordKind.ENTITY, RecordKind.DESCRIPTION)
RELATION_KINDS: Final = (RecordKind.RELATION, RecordKind.DESCRIPTION)
"""Where many documents speak of one thing, a language model may have made one description of what they say."""
REPORT_KINDS: Final = (RecordKind.COMMUNITY_REPORT,)
_TEXT_KINDS: Final = (RecordKind.ENTITY, RecordKind.RELATION)
_NEAR: Final = 20
"""Passages of the search whose documents speak first of an entity that many documents name."""
_SHARE_OF_DEADLINE: Final = 0.5
_MAX_SECONDS: Final = 5.0
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ask:
    """One look-up among the records of graphs, by words and, where there are vectors, by vectors.

    Attributes:
        text: What to look up; a probe of the search, or its question, has a vector.
        kinds: Kinds of records.
        window: Most records of each leg.
        given: Score these records instead, ids by knowledge base; None to recall.
        linking_to: Score the records that point at one of these instead, by knowledge base; None to recall.
        layers: Only reports of these layers, one more than the level of their community; None for all.
        given_count: Most of `given` that come back, those that hold most of the text's words; None for all.
    """

    text: str
    kinds: tuple[RecordKind, ...]
    window: int
    given: Mapping[str, Sequence[str]] | None = None
    linking_to: Mapping[str, Sequence[str]] | None = None
    layers: tuple[int, ...] | None = None
    given_count: int | None = None


@dataclass(slots=True)
class GraphFrame:
    """One search of graphs: what it searches, and what it has read.

    Attributes:
        call: The call; its deadline bounds everything.
        outcome: The state of the search.
        graphs: Graphs that are searched, at least one.
        index: Holds the records.
        entity_records: Records that were read, by graph and place of their entity, best first.
        relation_records: Likewise of relations.
    """

    call: CallContext
    outcome: SearchOutcome
    graphs: tuple[Graph, ...]
    index: RecordIndex
    entity_records: dict[tuple[int, int], list[Record]] = field(default_factory=dict)
    relation_records: dict[tuple[int, int], list[Record]] = field(default_factory=dict)
    _terms: dict[str, QueryTerms] = field(default_factory=dict)
    _names: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def views(self) -> tuple[GraphView, ...]:
        """The graphs as the caller may see them."""
        return tuple(graph.view for graph in self.graphs)

    @property
    def spaces(self) -> tuple[SpaceView, ...]:
        """The spaces that the graphs are in, each once."""
        return tuple({graph.space.space_id: graph.space for graph in self.graphs}.values())

    def name(self, graph: int, entity: int) -> str:
        """Name an entity.

        Args:
            graph: Its graph.
            entity: Its place.

        Returns:
            The name, read from the view once.
        """
        known = self._names.get((graph, entity))
        if known is None:
            known = self._names[graph, entity] = self.graphs[graph].view.name(entity)
        return known

    @property
    def near(self) -> tuple[int, ...]:
        """Versions of the documents that the best passages are of, the best first: what these say is to the point."""
        best = (item.candidate.record for item in self.outcome.kept[:_NEAR])
        return tuple(dict.fromkeys(record.publisher for record in best if record.kind is RecordKind.CHUNK))

    def note(self, text: str) -> None:
        """Tell the caller something, once.

        Args:
            text: What, without text of documents or of the question.
        """
        if text not in self.outcome.notes:
            self.outcome.notes.append(text)

    async def ask(self, asks: Sequence[Ask]) -> list[tuple[RankedCandidate, ...]]:
        """Look records up, all in one round trip to each space.

        Args:
            asks: What to look up, at most MAX_REQUESTS.

        Returns:
            For each the records that the caller may see, best first; those of several spaces by their similarity.

        Raises:
            UnavailableError: If the index does not answer.
            OverloadedError: If it refuses.
            DeadlineExceededError: If it takes too long.
        """
        answers = await asyncio.gather(*(self._ask_space(space, asks) for space in self.spaces))
        found: list[list[RankedCandidate]] = [[] for _ in asks]
        for answer in answers:
            for place, items in answer.items():
                found[place] += items
        return [tuple(sorted(items, key=lambda item: -item.similarity)) for items in found]

    async def _ask_space(self, space: SpaceView, asks: Sequence[Ask]) -> dict[int, tuple[RankedCandidate, ...]]:
        requests = {
            place: request
            for place, ask in enumerate(asks[:MAX_REQUESTS])
            if (request := self._request(space, ask)) is not None
        }
        if not requests:
            return {}
        answers = await self.index.search(
            self.call.identity.tenant_id, space.space_id, list(requests.values()), timeout_seconds=self._seconds()
        )
        return await asyncio.to_thread(self._ranked, requests, answers)

    def _ranked(
        self, requests: Mapping[int, RecallRequest], answers: Sequence[Candidates]
    ) -> dict[int, tuple[RankedCandidate, ...]]:
        options = replace(self.outcome.plan.ranking_options(), similarity_threshold=0.0)
        return {
            place: rank_candidates(candidates, request.terms, options)
            for (place, request), candidates in zip(requests.items(), answers, strict=True)
        }

    def _request(self, space: SpaceView, ask: Ask) -> RecallRequest | None:
        graphs = [graph for graph in self.graphs if graph.space.space_id == space.space_id]
        given, linking_to = _of(graphs, ask.given), _of(graphs, ask.linking_to)
        vector = self._vector(space, ask.text) if _compares(graphs, ask.kinds) else None
        terms = self._terms_of(ask.text)
        if given == () or linking_to == () or (given is linking_to is None and terms.is_empty and vector is None):
            return None
        return RecallRequest(
            terms=terms,
            query_vector=vector,
            visibility=build_filter(space.visibility, ask.kinds),
            knowledge_base_ids=tuple(graph.knowledge_base_id for graph in graphs),
            window=min(ask.window, MAX_WINDOW),
            other_script_window=0,
            record_ids=given,
            given_count=ask.given_count,
            linking_to=linking_to,
            layers=ask.layers,
        )

    def _terms_of(self, text: str) -> QueryTerms:
        if text == self.outcome.question:
            return self.outcome.terms
        if text not in self._terms:
            self._terms[text] = analyze_query(text)
        return self._terms[text]

    def _vector(self, space: SpaceView, text: str) -> Vector | None:
        if self.outcome.query_space_id != space.space_id:
            return None
        own = self.outcome.query_vector if text == self.outcome.question else None
        return own if own is not None else self.outcome.probe_vectors.get(text)

    def named(self, names: Sequence[str]) -> tuple[Found, ...]:
        """Find the entities that some names are names of; no round trip.

        Args:
            names: Names, longer ones before those inside of them.

        Returns:
            Entities in the order of their names, in turn of the graphs.
        """
        found = [
            Found(number, place, 1.0, StepReason.NAMED)
            for number, graph in enumerate(self.graphs)
            for place in named_entities(graph.view, names)
        ]
        return tuple(found)

    def entities_in(self, items: Sequence[RankedCandidate]) -> tuple[Found, ...]:
        """Take the entities out of records that were found, and keep their texts.

        Args:
            items: Records or descriptions of entities, best first; others are passed over.

        Returns:
            Entities that can be seen, best first, each once.
        """
        return self._taken(items, self.entity_records, key_count=1)

    def relations_in(self, items: Sequence[RankedCandidate]) -> tuple[Found, ...]:
        """Take the relations out of records that were found, and keep their texts.

        Args:
            items: Records or descriptions of relations, best first; others are passed over.

        Returns:
            Relations that can be seen, best first, each once.
        """
        return self._taken(items, self.relation_records, key_count=2)

    def _taken(
        self, items: Sequence[RankedCandidate], records: dict[tuple[int, int], list[Record]], *, key_count: int
    ) -> tuple[Found, ...]:
        found: list[Found] = []
        for item in items:
            record = item.candidate.record
            identity = self._identity(record) if len(keys_of(record.record_id)) == key_count else None
            if identity is not None:
                _keep(records, identity, record)
                found.append(Found(*identity, item.similarity))
        return distinct(found)

    def _identity(self, record: Record) -> tuple[int, int] | None:
        """Find the entity or relation that a record speaks of; None where the view does not hold it."""
        keys = keys_of(record.record_id)
        number = self.graph_of(record.knowledge_base_id)
        if number < 0 or not keys:
            return None
        view = self.graphs[number].view
        place = int(view.find(keys)[0]) if len(keys) == 1 else relation_of_keys(view, *keys)
        return None if place == UNKNOWN else (number, place)

    def graph_of(self, knowledge_base_id: str) -> int:
        """Number the graph of a knowledge base.

        Args:
            knowledge_base_id: The knowledge base.

        Returns:
            Its place among the graphs; -1 for none.
        """
        names = [graph.knowledge_base_id for graph in self.graphs]
        return names.index(knowledge_base_id) if knowledge_base_id in names else -1

    async def read(self, entities: Sequence[Found], relations: Sequence[Found]) -> None:
        """Read one record of each entity and relation of which none was read yet, in one round trip to each space.

        Args:
            entities: Entities.
            relations: Relations.

        Raises:
            UnavailableError: If the index does not answer.
        """
        near = self.near
        wanted: dict[str, list[str]] = {}
        for item in entities:
            if item.identity not in self.entity_records:
                graph = self.graphs[item.graph]
                wanted.setdefault(graph.space.space_id, []).append(entity_record(graph.view, item.place, near))
        for item in relations:
            if item.identity not in self.relation_records:
                graph = self.graphs[item.graph]
                wanted.setdefault(graph.space.space_id, []).append(relation_record(graph.view, item.place, near))
        read = await asyncio.gather(
            *(self._fetch(space, wanted[space.space_id]) for space in self.spaces if wanted.get(space.space_id))
        )
        for record in (record for part in read for record in part):
            identity = self._identity(record)
            if identity is not None:
                known = self.entity_records if record.kind is RecordKind.ENTITY else self.relation_records
                _keep(known, identity, record)

    async def _fetch(self, space: SpaceView, record_ids: Sequence[str]) -> list[Record]:
        return await self.index.fetch(
            self.call.identity.tenant_id,
            space.space_id,
            list(dict.fromkeys(record_ids))[:MAX_WINDOW],
            build_filter(space.visibility, _TEXT_KINDS),
            timeout_seconds=self._seconds(),
        )

    def _seconds(self) -> float:
        return min(_MAX_SECONDS, self.call.remaining_seconds() * _SHARE_OF_DEADLINE)


def _of(graphs: Sequence[Graph], wanted: Mapping[str, Sequence[str]] | None) -> tuple[str, ...] | None:
    if wanted is None:
        return None
    names = (name for graph in graphs for name in wanted.get(graph.knowledge_base_id, ()))
    return tuple(dict.fromkeys(names))[:MAX_WINDOW]


def _compares(graphs: Sequence[Graph], kinds: Sequence[RecordKind]) -> bool:
    return any(graph.has_vectors_of(kind) for graph in graphs for kind in kinds)


def _keep(records: dict[tuple[int, int], list[Record]], identity: tuple[int, int], record: Record) -> None:
    known = records.setdefault(identity, [])
    if all(other.record_id != record.record_id for other in known):
        known.append(record)
