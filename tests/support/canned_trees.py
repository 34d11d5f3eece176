"""What the raptor service stands on, in memory: an index that keeps to its filter, snapshots, builds, documents."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.artefacts import CHUNKS, VECTORS, VectorSet, embedded_texts, pack_chunks, pack_vectors, text_key
from corpusmesh_core.artefacts.names import TREE
from corpusmesh_core.documents import BlockKind, Chunk, ChunkRole
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.builds import BuildOrder, BuildRow, BuildState, PublishedState
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tenancy import (
    Access,
    DocumentRow,
    Identity,
    LifeState,
    Permission,
    VersionRow,
    VisibilityInputs,
    document_not_found,
    dump_bitmap,
    knowledge_base_not_found,
    may_access,
)
from corpusmesh_core.trees.values import CHILDREN, LEAF_COUNT, MADE_BY, TREE_OF
from corpusmesh_core.visibility import VisibilityFilter
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.handlers import TreeHandlers
from corpusmesh_raptor.stores import RaptorStores, RaptorTools
from corpusmesh_runtime.config_hash import config_hash
from tests.support.ingest_stages import DIMENSION, unit_vector, version

KB = "handbook"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def chunk(ordinal: int, position: int, document: str, text: str = "text") -> Record:
    """Make a chunk of a version."""
    return Record(
        f"{ordinal}-{position}",
        RecordKind.CHUNK,
        KB,
        cast(Any, ordinal),
        (cast(Any, ordinal),),
        f"{text} {ordinal} {position}",
        title=f"Title of {document}",
        document_id=document,
        version=1,
        display_name=f"{document}.md",
        page=position + 1,
        position=position,
    )


def node(
    publisher: int,
    layer: int,
    position: int,
    children: Sequence[Record],
    *,
    document: str = "",
    links: bool = True,
    made_by: str = "lite",
) -> Record:
    """Make a node over chunks or over the nodes of the layer beneath."""
    leaves = [child.record_id for child in children] if layer == 1 else [one for up in children for one in up.links]
    key = f"{publisher:08x}{layer:08x}{position:016x}"
    return Record(
        f"{publisher}-tree_node-{key}",
        RecordKind.TREE_NODE,
        KB,
        cast(Any, publisher),
        tuple(sorted({source for child in children for source in child.sources})),
        f"summary {layer}.{position}",
        title=f"Title of {document}" if document else "",
        document_id=document,
        version=1 if document else 0,
        position=position,
        token_count=12,
        layer=layer,
        links=tuple(leaves) if links else (),
        attributes={
            CHILDREN: " ".join(child.record_id for child in children),
            LEAF_COUNT: str(len(leaves) if links else 2000),
            MADE_BY: made_by,
            TREE_OF: "file" if document else "dataset",
        },
    )


class CannedIndex:
    """Records in memory; every read keeps to the filter that it carries, by the rule itself."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.fetches: list[Sequence[str]] = []
        self.scanned: list[int] = []

    async def fetch(
        self, tenant: str, space: str, record_ids: Sequence[str], visibility: VisibilityFilter, **_: object
    ) -> list[Record]:
        self.fetches.append(record_ids)
        by_id = {record.record_id: record for record in self.records if passes(record, visibility)}
        return [by_id[record_id] for record_id in record_ids if record_id in by_id]

    async def scan(
        self,
        tenant: str,
        space: str,
        visibility: VisibilityFilter,
        *,
        knowledge_base_ids: Sequence[str],
        document_ids: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        max_count: int,
        timeout_seconds: float,
    ) -> list[Record]:
        found = [
            record
            for record in self.records
            if passes(record, visibility)
            and record.knowledge_base_id in knowledge_base_ids
            and (document_ids is None or record.document_id in document_ids)
            and (layers is None or record.layer in layers)
        ]
        self.scanned.append(len(found))
        return sorted(found, key=lambda record: (record.publisher, record.position))[:max_count]

    async def count(self, tenant: str, space: str, selection: RecordSelection, **_: object) -> int:
        return sum(
            selection.visibility is not None
            and passes(record, selection.visibility)
            and record.knowledge_base_id in (selection.knowledge_base_ids or ())
            and (selection.document_ids is None or record.document_id in selection.document_ids)
            and (selection.layers is None or record.layer in selection.layers)
            for record in self.records
        )


def passes(record: Record, visibility: VisibilityFilter) -> bool:
    """Judge a record as the index does: by the clause of its kind."""
    for clause in visibility.clauses:
        if record.kind not in clause.kinds:
            continue
        return (
            (clause.publisher_in is None or record.publisher in clause.publisher_in)
            and (clause.source_in is None or any(source in clause.source_in for source in record.sources))
            and (clause.source_not_in is None or not any(source in clause.source_not_in for source in record.sources))
            and (clause.source_below is None or max(record.sources) < clause.source_below)
        )
    return False


@dataclass
class Mesh:
    """All stores at once.

    Attributes:
        published: Ordinals of the current snapshot.
        hidden: Ordinals that a user may not see, by user.
        documents: Document by the ordinal of its published version.
    """

    published: set[int] = field(default_factory=set)
    hidden: dict[str, tuple[int, ...]] = field(default_factory=dict)
    documents: dict[int, str] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=lambda: {"tree": {"scope": "dataset"}})
    row: BuildRow | None = None
    made_with: str = ""
    made_before: set[int] = field(default_factory=set)
    """Versions made before the settings of now."""
    snapshot_id: int = 7
    space_id: str = "space"
    remade: list[str] = field(default_factory=list)
    with_trees: set[int] = field(default_factory=set)
    orders: list[BuildOrder] = field(default_factory=list)
    audited: list[tuple[str, str]] = field(default_factory=list)
    responses: dict[tuple[str, str], bytes] = field(default_factory=dict)
    moves: list[BuildRow] = field(default_factory=list)
    spent_tokens: int = 0
    index: CannedIndex = field(default_factory=CannedIndex)
    artefacts: dict[str, bytes] = field(default_factory=dict)
    chunk_counts: dict[int, int] = field(default_factory=dict)
    settings: RaptorSettings = field(default_factory=RaptorSettings)

    def add_document(self, ordinal: int, document: str, chunk_count: int = 0) -> None:
        """Publish a version with the artefacts of its chunks."""
        self.published.add(ordinal)
        self.documents[ordinal] = document
        chunks = [
            Chunk(
                position=place,
                text=f"{document} says {place}",
                role=ChunkRole.TEXT,
                heading_path=(),
                page=0,
                boxes=(),
                token_count=100,
                block_kind=BlockKind.PARAGRAPH,
            )
            for place in range(chunk_count)
        ]
        texts = embedded_texts("", chunks, [])
        vectors = np.array([unit_vector(text) for text in texts], dtype=np.float32).reshape(-1, DIMENSION)
        self.artefacts[f"chunks-{ordinal}"] = pack_chunks({ordinal: chunks})
        self.artefacts[f"vectors-{ordinal}"] = pack_vectors({ordinal: VectorSet(vectors, keys_of(texts))})
        self.chunk_counts[ordinal] = chunk_count

    def handlers(self) -> TreeHandlers:
        me = cast(Any, self)
        stores = RaptorStores(
            knowledge_bases=cast(Any, CannedBases(self)),
            documents=cast(Any, CannedDocuments(self)),
            snapshots=me,
            runs=me,
            trees=cast(Any, CannedTrees(self)),
            usage=me,
            cache=cast(Any, None),
            idempotency=me,
            audit=me,
            objects=me,
            index=cast(Any, self.index),
            embedder=cast(Any, None),
        )
        return TreeHandlers(self.settings, stores, RaptorTools(cast(Any, None), None, cast(Any, Feed(self))))

    async def visibility_inputs(
        self, identity: Identity, knowledge_base_id: str, *, snapshot_id: int | None = None, **_: object
    ) -> VisibilityInputs:
        require(identity, knowledge_base_id, Access.READ)
        builds = (self.row.ordinals,) if self.row is not None else ()
        return VisibilityInputs(
            knowledge_base_id=KB,
            owner_user_id="owner",
            permission=Permission.TEAM,
            config=self.config,
            space_id=self.space_id,
            policy_epoch=1,
            snapshot_id=self.snapshot_id,
            published=dump_bitmap(BitMap(self.published)),
            hidden=self.hidden.get(identity.user_id, ()),
            matching=None,
            next_ordinal=10_000,
            builds=builds,
        )

    async def derive(
        self, identity: Identity, knowledge_base_id: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        require(identity, knowledge_base_id, Access.WRITE)
        self.remade += [derivation.document_id for derivation in derivations]
        return IngestResult("remake", (), ())

    async def spent_today(self, tenant_id: str) -> int:
        return self.spent_tokens

    async def begin(self, identity: Identity, method: str, request_id: str, fingerprint: bytes) -> bytes | None:
        return self.responses.get((method, request_id))

    async def finish(self, identity: Identity, method: str, request_id: str, response: bytes) -> None:
        self.responses[method, request_id] = response

    async def abandon(self, identity: Identity, method: str, request_id: str) -> None:
        return None

    async def append(self, identity: Identity, action: str, resource: str, *_: object) -> None:
        self.audited.append((action, resource))

    async def get(self, key: str, **_: object) -> bytes:
        if key not in self.artefacts:
            raise NotFoundError("OBJECT_NOT_FOUND", "there is no such object")
        return self.artefacts[key]


class CannedBases:
    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    async def get(self, identity: Identity, knowledge_base_id: str, access: Access = Access.READ) -> Any:
        require(identity, knowledge_base_id, access)

        @dataclass
        class Found:
            knowledge_base_id: str = KB
            config: Mapping[str, object] = field(default_factory=dict)
            space_id: str = "space"

        return Found(config=self.mesh.config)


class CannedDocuments:
    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    async def get(self, identity: Identity, knowledge_base_id: str, document_id: str) -> DocumentRow:
        require(identity, knowledge_base_id, Access.READ)
        hidden = self.mesh.hidden.get(identity.user_id, ())
        for ordinal, document in self.mesh.documents.items():
            if document == document_id and ordinal not in hidden:
                latest = self._row(ordinal)
                return DocumentRow(
                    "acme", KB, document, f"{document}.md", "", "", 1, False, LifeState.ACTIVE, "owner", MOMENT,
                    MOMENT, latest, 1,
                )  # fmt: skip
        raise document_not_found(document_id)

    async def list_versions(
        self, identity: Identity, knowledge_base_id: str, document_id: str, before_version: int, limit: int
    ) -> Sequence[VersionRow]:
        return [self._row(ordinal) for ordinal, document in self.mesh.documents.items() if document == document_id]

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[VersionRow]:
        return [self._row(ordinal) for ordinal in ordinals if ordinal in self.mesh.documents]

    def _row(self, ordinal: int) -> VersionRow:
        return replace(
            version(ordinal),
            knowledge_base_id=KB,
            document_id=self.mesh.documents[ordinal],
            run_id="ingest-run",
            publish_time=MOMENT,
            chunk_count=self.mesh.chunk_counts.get(ordinal, 0),
            config_hash="before"
            if ordinal in self.mesh.made_before
            else self.mesh.made_with or config_hash(self.mesh.config),
            artefacts={
                CHUNKS: f"chunks-{ordinal}",
                VECTORS: f"vectors-{ordinal}",
                **({TREE: f"tree-{ordinal}"} if ordinal in self.mesh.with_trees else {}),
            },
        )


class CannedTrees:
    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    async def get(self, identity: Identity, knowledge_base_id: str) -> BuildRow | None:
        require(identity, knowledge_base_id, Access.READ)
        if self.mesh.moves:
            self.mesh.row = self.mesh.moves.pop(0)
        return self.mesh.row

    async def published(self, tenant_id: str, knowledge_base_id: str) -> PublishedState:
        return PublishedState(
            self.mesh.snapshot_id, tuple(sorted(self.mesh.published & set(self.mesh.documents))), self.mesh.space_id
        )

    async def start_build(self, identity: Identity, knowledge_base_id: str, order: BuildOrder) -> tuple[BuildRow, bool]:
        require(identity, knowledge_base_id, Access.WRITE)
        self.mesh.orders.append(order)
        self.mesh.row = replace(
            self.mesh.row or BuildRow("acme", "b1", KB, BuildState.EMPTY),
            run_id=f"run-{len(self.mesh.orders)}",
            is_building=True,
            plan=order.plan,
        )
        return self.mesh.row, True

    async def cancel(self, identity: Identity, knowledge_base_id: str) -> BuildRow:
        self.mesh.row = replace(self._tree(identity), is_building=False)
        return self.mesh.row

    async def delete(self, identity: Identity, knowledge_base_id: str, *, request_id: str) -> BuildRow:
        row = replace(self._tree(identity), state=BuildState.DELETING, run_id="sweep", is_building=True)
        self.mesh.row = row
        self.mesh.orders.append(BuildOrder(request_id=request_id))
        return row

    def _tree(self, identity: Identity) -> BuildRow:
        require(identity, KB, Access.WRITE)
        if self.mesh.row is None:
            raise NotFoundError("TREE_NOT_FOUND", "there is no such tree, or you may not see it")
        return self.mesh.row


class Feed:
    """Tells of a move as often as rows wait to be read."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.subjects: list[str] = []

    async def subscribe(self, subject: str) -> AsyncIterator[bytes]:
        self.subjects.append(subject)
        for _ in range(len(self.mesh.moves) + 1):
            yield b""


def keys_of(texts: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(text_key("space", text) for text in texts), dtype=np.uint8).reshape(-1, 16)


def require(identity: Identity, knowledge_base_id: str, access: Access) -> None:
    if knowledge_base_id != KB or not may_access(identity, "owner", Permission.TEAM, access):
        raise knowledge_base_not_found(knowledge_base_id)
