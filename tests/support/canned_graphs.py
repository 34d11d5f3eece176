"""What the graph service stands on, in memory: subgraphs as real segments, records, corrections, triples."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from pyroaring import BitMap

from corpusmesh_core.artefacts import pack_chunks
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError, OverloadedError
from corpusmesh_core.graphs.corrections import Correction, Corrections
from corpusmesh_core.graphs.fingerprints import extraction_fingerprint, form_of
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.ledger import Ledger, as_digests, no_digests, pack_ledger
from corpusmesh_core.graphs.records import RecordPlace, entity_record, relation_record, report_record
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import (
    Community,
    CommunityReport,
    EntityFragment,
    GraphBill,
    Mention,
    RelationFragment,
    Subgraph,
    Triple,
)
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.ports.graph_inputs import CorrectionRow, TriplesRow
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordSelection
from corpusmesh_core.ports.objects import ObjectInfo
from corpusmesh_core.records import Ordinal, Record
from corpusmesh_core.tenancy import Access, Identity, dump_bitmap
from corpusmesh_core.text import analyze
from corpusmesh_core.visibility import Visibility
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.handlers import Handlers, make_handlers
from corpusmesh_graph.models import GraphModels
from corpusmesh_graph.stores import GraphReads, GraphStores, GraphTools
from tests.support.canned_trees import (
    KB,
    MOMENT,
    CannedBases,
    CannedDocuments,
    CannedIndex,
    CannedTrees,
    Feed,
    Mesh,
    chunk,
    passes,
    require,
)


def entity(name: str, *positions: int, description: str = "", **fields: Any) -> EntityFragment:
    """Make what a document says of an entity."""
    return EntityFragment(
        entity_key(name),
        name,
        description=description,
        sentence=fields.pop("sentence", f"Of {name} it is said."),
        mentions=tuple(Mention(position) for position in positions),
        **fields,
    )


def relation(source: str, target: str, *positions: int, **fields: Any) -> RelationFragment:
    """Make what a document says of two entities."""
    return RelationFragment(
        entity_key(source), entity_key(target), mentions=tuple(Mention(position) for position in positions), **fields
    )


class CannedGraphIndex(CannedIndex):
    """Finds records by the terms of their keywords, besides what the index of trees does."""

    async def search(self, tenant: str, space: str, requests: Sequence[RecallRequest], **_: object) -> list[Candidates]:
        return [Candidates(tuple(self._candidates(request))) for request in requests]

    async def count(self, tenant: str, space: str | None, selection: RecordSelection, **_: object) -> int:
        return sum(
            (selection.visibility is None or passes(record, selection.visibility))
            and (selection.made_of is None or not {record.publisher, *record.sources}.isdisjoint(selection.made_of))
            and (selection.kinds is None or record.kind in selection.kinds)
            for record in self.records
        )

    def _candidates(self, request: RecallRequest) -> list[Candidate]:
        wanted = set(request.terms.fine)
        return [
            Candidate(record, "", keyword_terms=" ".join(terms))
            for record in self.records
            if passes(record, request.visibility)
            and not wanted.isdisjoint(terms := analyze(" ".join(record.keywords)).fine)
        ]


@dataclass
class GraphMesh(Mesh):
    """All stores at once.

    Attributes:
        subgraphs: What each version says, by version; the publisher of a subgraph is its version and ten.
        kept: Corrections, in order.
        triples: By document.
        gone: Ordinals of documents that were deleted, by document.
    """

    config: Mapping[str, object] = field(default_factory=lambda: {"graph": {"methods": ["ner", "triples"]}})
    subgraphs: dict[int, Subgraph] = field(default_factory=dict)
    kept: list[CorrectionRow[Correction]] = field(default_factory=list)
    triples: dict[str, TriplesRow[Triple]] = field(default_factory=dict)
    gone: dict[str, tuple[int, ...]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    is_busy: bool = False
    is_followed: bool = False
    """Whether a build has followed the corrections that were given."""
    settings: Any = field(default_factory=GraphServiceSettings)
    index: CannedGraphIndex = field(default_factory=CannedGraphIndex)

    def say(self, ordinal: int, document: str, subgraph: Subgraph, *, chunk_count: int = 4) -> None:
        """Publish a document with its chunks and its subgraph."""
        publisher = ordinal + 10
        self.published |= {ordinal, publisher}
        self.documents[ordinal] = document
        self.chunk_counts[ordinal] = chunk_count
        self.subgraphs[ordinal] = subgraph
        place = RecordPlace(KB, ordinal, publisher, document, 1, f"{document}.md")
        names = {one.key: one.name for one in subgraph.entities}
        self.index.records += [chunk(ordinal, position, document) for position in range(chunk_count)]
        self.artefacts[f"chunks-{ordinal}"] = pack_chunks(
            {ordinal: [_text_chunk(position, subgraph) for position in range(chunk_count)]}
        )
        self.index.records += [entity_record(place, one) for one in subgraph.entities]
        self.index.records += [
            relation_record(place, one, (names[one.source], names[one.target])) for one in subgraph.relations
        ]
        self.keep()

    def report(self, ordinal: int, report: CommunityReport) -> Record:
        """Publish a report."""
        self.published.add(ordinal)
        record = report_record(KB, ordinal, report)
        self.index.records.append(record)
        self.keep(ordinal)
        return record

    def keep(self, *more: int) -> None:
        """Describe the build as one of all that was said, under the settings of now."""
        versions = np.array(sorted(self.subgraphs), np.int32)
        settings = GraphSettings.of(self.config)
        session = GraphModels(None, None, cast(Any, self), cast(Any, None), GraphServiceSettings()).open(
            tenant_id="", run_id="", settings=settings, bill=GraphBill()
        )
        fingerprint = extraction_fingerprint(settings, session.fingerprint, "")
        self.artefacts["ledger"] = pack_ledger(
            Ledger(
                self.space_id,
                form=form_of(settings),
                versions=versions,
                publishers=versions + 10,
                chunk_counts=np.full(len(versions), 4, np.int32),
                fingerprints=as_digests([fingerprint] * len(versions)),
                texts=no_digests(len(versions)),
            )
        )
        known = set(BitMap.deserialize(self.row.ordinals)) if self.row is not None else set()
        ordinals = dump_bitmap(BitMap({*known, *(ordinal + 10 for ordinal in self.subgraphs), *more}))
        self.row = BuildRow(
            "acme", "b1", KB, BuildState.READY,
            run_id="run-9",
            ordinals=ordinals,
            published=ordinals,
            sources=dump_bitmap(BitMap(self.subgraphs)),
            snapshot_id=6,
            artefacts={"ledger": "ledger"},
            publish_time=MOMENT,
        )  # fmt: skip
        self.artefacts["segment"] = pack_segment(
            [SegmentDocument(ordinal, ordinal + 10, subgraph) for ordinal, subgraph in self.subgraphs.items()]
        )
        self.places["segment.0"] = "segment"

    async def list_prefix(self, prefix: str, **_: object) -> AsyncIterator[ObjectInfo]:
        for key in sorted(self.artefacts):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.artefacts[key]))

    def doors(self) -> Handlers:
        me = cast(Any, self)
        stores = GraphStores(
            knowledge_bases=cast(Any, CannedBases(self)),
            documents=cast(Any, CannedDocuments(self)),
            snapshots=me,
            runs=me,
            builds=cast(Any, CannedGraphBuilds(self)),
            corrections=CannedCorrections(self),
            triples=CannedTriples(self),
            usage=me,
            cache=cast(Any, None),
            idempotency=me,
            audit=me,
            objects=me,
            index=cast(Any, self.index),
            embedder=cast(Any, None),
        )
        tools = GraphTools(cast(Any, None), None, cast(Any, Feed(self)))
        return make_handlers(self.settings, stores, tools, self.reads())

    def reads(self) -> GraphReads:
        return GraphReads(CannedViews(self), cast(Any, self))

    async def ordinals_of(self, tenant_id: str, knowledge_base_id: str, document_id: str) -> Sequence[int]:
        living = [ordinal for ordinal, document in self.documents.items() if document == document_id]
        return living or self.gone.get(document_id, ())


class CannedViews:
    """Views by the core's own compiler."""

    def __init__(self, mesh: GraphMesh) -> None:
        self.mesh = mesh

    async def view(
        self, tenant_id: str, knowledge_base_id: str, visibility: Visibility, *, timeout_seconds: float
    ) -> GraphView | None:
        if "segment" not in self.mesh.artefacts:
            return None
        kept = [row.correction for row in self.mesh.kept] if self.mesh.is_followed else []
        versions = {
            document: tuple(ordinal for ordinal, one in self.mesh.documents.items() if one == document)
            for document in self.mesh.documents.values()
        }
        segment = Segment.open(self.mesh.artefacts["segment"])
        return compile_view([segment], visibility.ordinals, corrections=Corrections(tuple(kept), versions))


class CannedGraphBuilds(CannedTrees):
    async def artefacts(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        return cast(GraphMesh, self.mesh).places

    async def start_build(self, identity: Identity, knowledge_base_id: str, order: Any) -> tuple[BuildRow, bool]:
        if cast(GraphMesh, self.mesh).is_busy:
            raise OverloadedError("WORK_QUEUE_FULL", "too much work waits")
        return await super().start_build(identity, knowledge_base_id, order)


class CannedCorrections:
    def __init__(self, mesh: GraphMesh) -> None:
        self.mesh = mesh

    async def add_correction(
        self, identity: Identity, knowledge_base_id: str, correction: Correction
    ) -> CorrectionRow[Correction]:
        require(identity, knowledge_base_id, Access.WRITE)
        number = len(self.mesh.kept) + 1
        if number > 100:
            raise FailedPreconditionError("GRAPH_CORRECTION_LIMIT", "too many")
        row = CorrectionRow(f"c{number}", number, correction, identity.user_id, MOMENT)
        self.mesh.kept.append(row)
        return row

    async def list_corrections(
        self, identity: Identity, knowledge_base_id: str, *, after_sequence: int, limit: int
    ) -> Sequence[CorrectionRow[Correction]]:
        require(identity, knowledge_base_id, Access.WRITE)
        return [row for row in self.mesh.kept if row.sequence > after_sequence][:limit]

    async def get_correction(
        self, identity: Identity, knowledge_base_id: str, correction_id: str
    ) -> CorrectionRow[Correction]:
        require(identity, knowledge_base_id, Access.WRITE)
        for row in self.mesh.kept:
            if row.correction_id == correction_id:
                return row
        raise NotFoundError("GRAPH_CORRECTION_NOT_FOUND", "there is no such correction, or you may not see it")

    async def delete_correction(self, identity: Identity, knowledge_base_id: str, correction_id: str) -> None:
        self.mesh.kept.remove(await self.get_correction(identity, knowledge_base_id, correction_id))

    async def corrections_of(self, tenant_id: str, knowledge_base_id: str) -> Sequence[Correction]:
        return [row.correction for row in self.mesh.kept]


class CannedTriples:
    def __init__(self, mesh: GraphMesh) -> None:
        self.mesh = mesh

    async def put_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str, triples: Sequence[Triple]
    ) -> TriplesRow[Triple]:
        require(identity, knowledge_base_id, Access.WRITE)
        await CannedDocuments(self.mesh).get(identity, knowledge_base_id, document_id)
        row = TriplesRow(document_id, tuple(triples), MOMENT)
        self.mesh.triples[document_id] = row
        return row

    async def get_triples(
        self, identity: Identity, knowledge_base_id: str, document_id: str
    ) -> TriplesRow[Triple] | None:
        await CannedDocuments(self.mesh).get(identity, knowledge_base_id, document_id)
        return self.mesh.triples.get(document_id)

    async def delete_triples(self, identity: Identity, knowledge_base_id: str, document_id: str) -> bool:
        require(identity, knowledge_base_id, Access.WRITE)
        await CannedDocuments(self.mesh).get(identity, knowledge_base_id, document_id)
        return self.mesh.triples.pop(document_id, None) is not None

    async def triples_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[Triple, ...]]:
        return {one: self.mesh.triples[one].triples for one in document_ids if one in self.mesh.triples}

    async def triple_digests(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        return {one: str(hash(row.triples)) for one, row in self.mesh.triples.items()}


def _text_chunk(position: int, subgraph: Subgraph) -> Chunk:
    names = [one.name for one in subgraph.entities if any(mention.position == position for mention in one.mentions)]
    return Chunk(
        position=position,
        text=f"{' met '.join(names or ['Nobody'])} on this day. It was {names[0] if names else 'quiet'} who spoke.",
        role=ChunkRole.TEXT,
        heading_path=(),
        page=0,
        boxes=(),
        token_count=100,
        block_kind=BlockKind.PARAGRAPH,
    )


def harbour() -> GraphMesh:
    """Two documents on a harbour, one of which bob may not see, and reports of two communities.

    Ordinals: 1 and 2 are versions, 11 and 12 their subgraphs; 21 is a report on the first alone, 22 one on both.
    """
    mesh = GraphMesh(hidden={"bob": (2,)})
    mesh.say(
        1,
        "open",
        Subgraph(
            _by_key(
                entity("Anna Berg", 0, 1, type="person", aliases=("A. Berg",), description="She chairs the board."),
                entity("Harbour Board", 0, 1, 2, type="organization"),
                entity("North Quay", 2, type="geo"),
            ),
            _by_pair(
                relation("Anna Berg", "Harbour Board", 0, 1, predicate="chairs", weight=2.0, keywords=("office",)),
                relation("Harbour Board", "North Quay", 2, sentence="The board rebuilt the quay."),
            ),
        ),
    )
    mesh.say(
        2,
        "secret",
        Subgraph(
            _by_key(
                entity("Anna Berg", 0, type="person", description="She met Carl Dahl in secret."),
                entity("Carl Dahl", 0, 3, type="person", methods=(GraphMethod.TRIPLES,)),
                entity("Harbour Board", 3, type="organization"),
            ),
            _by_pair(
                relation("Anna Berg", "Carl Dahl", 0, predicate="met"),
                relation("Carl Dahl", "Harbour Board", 3),
            ),
        ),
    )
    open_keys = tuple(sorted(entity_key(name) for name in ("Anna Berg", "Harbour Board", "North Quay")))
    all_keys = tuple(sorted({*open_keys, entity_key("Carl Dahl")}))
    mesh.report(21, _report("a" * 16, 1, open_keys, (1,), parent="b" * 16))
    mesh.report(22, _report("b" * 16, 0, all_keys, (1, 2)))
    return mesh


def _report(
    key: str, level: int, members: tuple[int, ...], sources: tuple[int, ...], parent: str = ""
) -> CommunityReport:
    return CommunityReport(
        Community(key, level, members, parent),
        title=f"Report {key[0]}",
        text=f"What {key[0]} is about.",
        weight=0.5 if level else 1.0,
        made_by="lite" if level else "gpt/v1",
        sources=sources,
        chunks=((sources[-1], 0), (1, 2)),
    )


def _by_key(*fragments: EntityFragment) -> tuple[EntityFragment, ...]:
    return tuple(sorted(fragments, key=lambda one: one.key))


def _by_pair(*fragments: RelationFragment) -> tuple[RelationFragment, ...]:
    return tuple(sorted(fragments, key=lambda one: (min(one.source, one.target), max(one.source, one.target))))


__all__ = ["KB", "MOMENT", "GraphMesh", "Ordinal", "entity", "harbour", "relation"]
