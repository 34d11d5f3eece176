"""A small knowledge base in memory: snapshots, records found by their words, golden sets, a ledger."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyroaring import BitMap

from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.errors import AlreadyExistsError, NotFoundError
from corpusmesh_core.ports.golden_sets import EvaluationRow, GoldenQuestion, GoldenSet
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ports.retrievals import NewRetrieval, RetrievalRow
from corpusmesh_core.ranking import RankingOptions, rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, VisibilityInputs, visible_bitmap
from corpusmesh_core.text import analyze, analyze_query
from corpusmesh_core.visibility import VisibilityFilter
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.viewing import SnapshotReader
from corpusmesh_runtime.context import CallContext

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Shelf:
    """Versions of documents, each one chunk; snapshots as sets of their ordinals; what is hidden from whom.

    Attributes:
        texts: Text of each version, by ordinal; the document of ordinal n is `d<n // 10>`.
        snapshots: Ordinals of each snapshot; the last one is the current one.
        hidden: Ordinals that a user may not see.
        config: Configuration of the knowledge base.
        builds: Ordinals of builds, a portable roaring bitmap each.
    """

    texts: dict[int, str]
    snapshots: dict[int, set[int]]
    hidden: dict[str, set[int]] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    space_id: str = "space"
    builds: tuple[bytes, ...] = ()

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        if knowledge_base_id != "kb":
            raise NotFoundError("KNOWLEDGE_BASE_NOT_FOUND", "there is none")
        wanted = max(self.snapshots, default=0) if snapshot_id is None else snapshot_id
        if wanted and wanted not in self.snapshots:
            raise NotFoundError("SNAPSHOT_NOT_FOUND", "it is not kept")
        return VisibilityInputs(
            knowledge_base_id="kb",
            owner_user_id="owner",
            permission=Permission.TEAM,
            config=self.config,
            space_id=self.space_id,
            policy_epoch=0,
            snapshot_id=wanted,
            published=BitMap(self.snapshots.get(wanted, ())).serialize(),
            hidden=tuple(self.hidden.get(identity.user_id, ())),
            matching=None,
            next_ordinal=1000,
            builds=self.builds,
        )

    async def ordinals_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for ordinal in sorted(self.texts):
            if (name := document_of(ordinal)) in document_ids:
                found[name] = (*found.get(name, ()), ordinal)
        return found

    async def scan(self, tenant_id: str, space_id: str, visibility: VisibilityFilter, **_: object) -> list[Record]:
        (clause,) = visibility.clauses
        shown = clause.publisher_in or clause.source_in or BitMap()
        return [record_of(ordinal, text) for ordinal, text in self.texts.items() if ordinal in shown]


def document_of(ordinal: int) -> str:
    return f"d{ordinal // 10}"


def record_of(ordinal: int, text: str) -> Record:
    return Record(
        f"{ordinal}-0",
        RecordKind.CHUNK,
        "kb",
        Ordinal(ordinal),
        (Ordinal(ordinal),),
        text,
        document_id=document_of(ordinal),
        version=ordinal % 10 + 1,
        page=1,
    )


@dataclass
class ShelfSearcher:
    """Finds records of a shelf by their words, as far as a reader of snapshots lets it see them."""

    shelf: Shelf
    reader: SnapshotReader
    requests: list[SearchRequest] = field(default_factory=list)
    unreachable: tuple[str, ...] = ()

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        self.requests.append(request)
        call.remaining_seconds()
        inputs = [
            await self.reader.visibility_inputs(call.identity, name, snapshot_id=request.snapshots.get(name))
            for name in request.knowledge_base_ids
        ]
        visible = BitMap()
        for item in inputs:
            visible |= visible_bitmap(item)
        terms = analyze_query(request.query)
        wanted = set(telling_terms(request.query))
        items = []
        for ordinal, text in self.shelf.texts.items():
            held = wanted & set(analyze(text).fine)
            if ordinal in visible and held:
                items.append(
                    Candidate(
                        record_of(ordinal, text),
                        " ".join(analyze(text).fine),
                        lexical_score=float(len(held)),
                        lexical_rank=1,
                    )
                )
        return SearchOutcome(
            request=request,
            plan=request.make_plan([item.config for item in inputs]),
            question=request.query,
            inputs=tuple(inputs),
            snapshots={item.knowledge_base_id: item.snapshot_id for item in inputs},
            terms=terms,
            ranked=rank_candidates(Candidates(tuple(items)), terms, RankingOptions()),
            unreachable=list(self.unreachable),
        )


@dataclass
class MemoryGoldenSets:
    """Golden sets in memory; who may read them is the store's own matter."""

    shelf: Shelf
    sets: dict[str, list[GoldenQuestion]] = field(default_factory=dict)

    async def create(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        display_name: str,
        questions: Sequence[GoldenQuestion],
    ) -> GoldenSet:
        if golden_set_id in self.sets:
            raise AlreadyExistsError("GOLDEN_SET_EXISTS", "it exists")
        self.sets[golden_set_id] = []
        return await self.append(identity, knowledge_base_id, golden_set_id, questions)

    async def append(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, questions: Sequence[GoldenQuestion]
    ) -> GoldenSet:
        kept = self.sets[golden_set_id]
        kept += [replace(question, position=len(kept) + place) for place, question in enumerate(questions)]
        return await self.get(identity, knowledge_base_id, golden_set_id)

    async def get(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> GoldenSet:
        if golden_set_id not in self.sets:
            raise NotFoundError("GOLDEN_SET_NOT_FOUND", "there is none")
        return GoldenSet("kb", golden_set_id, "", len(self.sets[golden_set_id]), identity.user_id, MOMENT, MOMENT)

    async def list(self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int) -> Sequence[GoldenSet]:
        names = [name for name in sorted(self.sets) if name > after_key]
        return [await self.get(identity, knowledge_base_id, name) for name in names[:limit]]

    async def questions(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, *, after_position: int, limit: int
    ) -> Sequence[GoldenQuestion]:
        await self.get(identity, knowledge_base_id, golden_set_id)
        return [entry for entry in self.sets[golden_set_id] if entry.position > after_position][:limit]

    async def delete(self, identity: Identity, knowledge_base_id: str, golden_set_id: str) -> None:
        self.sets.pop(golden_set_id, None)

    async def ordinals_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        return await self.shelf.ordinals_of(tenant_id, knowledge_base_id, document_ids)


@dataclass
class MemoryEvaluations:
    """Evaluations in memory."""

    rows: list[EvaluationRow] = field(default_factory=list)

    async def add(
        self,
        identity: Identity,
        knowledge_base_id: str,
        golden_set_id: str,
        *,
        snapshot_id: int,
        results: Mapping[str, Any],
    ) -> EvaluationRow:
        row = EvaluationRow(
            knowledge_base_id, golden_set_id, f"e{len(self.rows)}", snapshot_id, results, identity.user_id, MOMENT
        )
        self.rows.append(row)
        return row

    async def get(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, evaluation_id: str
    ) -> EvaluationRow:
        return next(row for row in self.rows if row.evaluation_id == evaluation_id)

    async def list(
        self, identity: Identity, knowledge_base_id: str, golden_set_id: str, before_key: str, limit: int
    ) -> Sequence[EvaluationRow]:
        return [row for row in reversed(self.rows) if not before_key or row.evaluation_id < before_key][:limit]


@dataclass
class MemoryLedger:
    """A ledger in memory; `failure` makes it refuse what is to be recorded."""

    rows: dict[str, RetrievalRow] = field(default_factory=dict)
    failure: Exception | None = None

    async def add(self, identity: Identity, retrieval: NewRetrieval) -> str:
        if self.failure is not None:
            raise self.failure
        name = f"r{len(self.rows)}"
        expiry = MOMENT + timedelta(days=retrieval.retention_days)
        sources = {*retrieval.history_sources, *(ordinal for hit in retrieval.hits for ordinal in hit.sources)}
        self.rows[name] = RetrievalRow(
            name,
            identity.user_id,
            retrieval.snapshots,
            retrieval.request,
            retrieval.hits,
            MOMENT,
            expiry,
            tuple(sorted(sources)),
        )
        return name

    async def get(self, identity: Identity, retrieval_id: str) -> RetrievalRow:
        row = self.rows.get(retrieval_id)
        if row is None or row.user_id != identity.user_id:
            raise NotFoundError("RETRIEVAL_NOT_FOUND", "there is none")
        return row

    async def list(self, identity: Identity, before_key: str, limit: int) -> Sequence[RetrievalRow]:
        names = [name for name in sorted(self.rows, reverse=True) if not before_key or name < before_key]
        return [replace(self.rows[name], hits=()) for name in names[:limit]]

    async def delete(self, identity: Identity, retrieval_id: str) -> None:
        self.rows.pop(retrieval_id, None)
