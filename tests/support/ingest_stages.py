"""Small stand-ins for the ports that the stages of ingest use, and short ways to make what they work on."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedResult
from corpusmesh_core.ports.objects import ObjectInfo
from corpusmesh_core.ports.parsing import ParseRequest
from corpusmesh_core.ports.work import Claim, StageOutcome, VersionPatch
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, Identity, KnowledgeBase, LifeState, Permission, VersionRow, VersionState
from corpusmesh_runtime.worker import TaskContext

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
DIMENSION = 4


def version(ordinal: int, **fields: Any) -> VersionRow:
    row = VersionRow(
        tenant_id="acme",
        knowledge_base_id="kb",
        document_id="doc",
        version=1,
        ordinal=Ordinal(ordinal),
        display_name="doc.md",
        original_sha256="a" * 64,
        size_bytes=4,
        media_type="",
        title="",
        page_count=0,
        chunk_count=0,
        record_count=0,
        token_count=0,
        state=VersionState.PENDING,
        failed_stage="",
        error_reason="",
        error_message="",
        config_hash="",
        artefacts={},
        warnings=(),
        run_id="run",
        publish_time=None,
        create_time=MOMENT,
    )
    return replace(row, **fields)


def context(stage: Stage, *parts: int, task: str = "") -> TaskContext:
    claim = Claim(
        tenant_id="acme",
        knowledge_base_id="kb",
        run_id="run",
        task_id=task or f"run.0.{stage}",
        stage=stage,
        lane=Lane.BULK,
        parts=parts,
        attempt=1,
        epoch=1,
        lease_seconds=30.0,
    )
    return TaskContext(claim, 60.0)


@dataclass
class MemoryObjects:
    """An object store in memory that remembers what it was asked for."""

    kept: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    async def put(self, key: str, data: bytes, *, sha256: str | None = None, timeout_seconds: float = 0) -> ObjectInfo:
        self.calls.append(f"put {key}")
        self.kept[key] = data
        return ObjectInfo(key, len(data))

    async def get(
        self, key: str, *, max_byte_count: int = 0, sha256: str | None = None, timeout_seconds: float = 0
    ) -> bytes:
        self.calls.append(f"get {key}")
        if key not in self.kept:
            raise NotFoundError("OBJECT_NOT_FOUND", "there is no such object")
        return self.kept[key]

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    async def list_prefix(
        self, prefix: str, *, max_object_count: int = 0, timeout_seconds: float = 0
    ) -> AsyncIterator[ObjectInfo]:
        for key in sorted(self.kept):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.kept[key]))


@dataclass
class MemoryMetadata:
    """The document and knowledge base stores of one knowledge base."""

    config: Mapping[str, object] = field(default_factory=dict)
    rows: dict[int, VersionRow] = field(default_factory=dict)
    space_id: str = ""

    def add(self, *rows: VersionRow) -> None:
        self.rows.update({int(row.ordinal): row for row in rows})

    def apply(self, outcome: StageOutcome) -> None:
        """Do what the queue does with a stage's outcome."""
        for patch in outcome.patches:
            self.rows[patch.ordinal] = patched(self.rows[patch.ordinal], patch)

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> list[VersionRow]:
        return [self.rows[ordinal] for ordinal in ordinals if ordinal in self.rows]

    async def list_versions(
        self, identity: Identity, knowledge_base_id: str, document_id: str, before_version: int, limit: int
    ) -> list[VersionRow]:
        rows = [
            row for row in self.rows.values() if row.document_id == document_id and 0 < row.version < before_version
        ]
        return sorted(rows, key=lambda row: -row.version)[:limit]

    async def get(self, identity: Identity, knowledge_base_id: str, access: Access = Access.READ) -> KnowledgeBase:
        return KnowledgeBase(
            tenant_id="acme",
            knowledge_base_id="kb",
            display_name="kb",
            description="",
            owner_user_id="owner",
            permission=Permission.TEAM,
            config=self.config,
            space_id=self.space_id,
            current_snapshot_id=0,
            policy_epoch=0,
            etag="1",
            state=LifeState.ACTIVE,
            create_time=MOMENT,
            update_time=MOMENT,
        )


def patched(row: VersionRow, patch: VersionPatch) -> VersionRow:
    changes = {
        name: value
        for name in ("media_type", "title", "page_count", "chunk_count", "record_count", "token_count", "warnings")
        if (value := getattr(patch, name)) is not None
    }
    return replace(
        row,
        artefacts={**row.artefacts, **patch.artefacts},
        sealed_password=b"" if patch.forgets_password else row.sealed_password,
        extracted_metadata=patch.extracted_metadata or row.extracted_metadata,
        **changes,
    )


@dataclass
class CannedParser:
    """Gives what it was told to give, by the content of the file."""

    results: dict[bytes, Any]
    requests: list[ParseRequest] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    async def parse_many(self, requests: Sequence[ParseRequest], *, deadline_seconds: float) -> list[Any]:
        self.requests.extend(requests)
        self.sizes.append(len(requests))
        return [self.results[request.content] for request in requests if isinstance(request.content, bytes)]


class CountingEmbedder:
    """Gives each text a vector of its own, and remembers what it was given."""

    space = EmbeddingSpace("counting", DIMENSION, normalized=True, fingerprint="1")
    max_input_tokens = 512
    page_space = None

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def refresh(self, *, deadline_seconds: float) -> None:
        return None

    async def embed(self, texts: Sequence[str], **_: object) -> EmbedResult:
        self.texts.extend(texts)
        vectors = np.array([unit_vector(text) for text in texts], dtype=np.float32)
        return EmbedResult(vectors.reshape(len(texts), DIMENSION), 0)


def unit_vector(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    vector = np.random.default_rng(sum(text.encode())).normal(size=DIMENSION).astype(np.float32)
    unit: np.ndarray[Any, np.dtype[np.float32]] = vector / np.linalg.norm(vector)
    return unit


class WordCounter:
    """A word is a token."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        offsets, start = [], 0
        for word in text.split():
            at = text.index(word, start)
            offsets.append((at, at + len(word)))
            start = at + len(word)
        return offsets
