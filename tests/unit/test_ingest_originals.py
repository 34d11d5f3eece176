"""Whose text an original is before a snapshot has shown it."""

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, Identity, Role, Scope, VersionRow, VersionState, knowledge_base_not_found
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.handlers.documents import DocumentDependencies, DocumentHandlers
from corpusmesh_runtime.context import CallContext, current_call

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SHOWN = VersionRow(
    tenant_id="acme",
    knowledge_base_id="kb",
    document_id="a",
    version=1,
    ordinal=Ordinal(1),
    display_name="a.txt",
    original_sha256="a" * 64,
    size_bytes=4,
    media_type="text/plain",
    title="",
    page_count=0,
    chunk_count=1,
    record_count=1,
    token_count=1,
    state=VersionState.READY,
    failed_stage="",
    error_reason="",
    error_message="",
    config_hash="",
    artefacts={},
    warnings=(),
    run_id="run",
    publish_time=MOMENT,
    create_time=MOMENT,
)
HELD = replace(SHOWN, publish_time=None)
WITHDRAWN = replace(SHOWN, state=VersionState.CANCELLED)


class Stores:
    def __init__(self, version: VersionRow) -> None:
        self.version = version

    async def list_versions(
        self, identity: Identity, kb: str, document_id: str, before_version: int, limit: int
    ) -> Sequence[VersionRow]:
        return [self.version]

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], access: Access) -> None:
        if access is Access.WRITE and identity.role < Role.EDITOR:
            raise knowledge_base_not_found(knowledge_base_ids[0])

    async def open_stream(self, key: str, *, sha256: str, timeout_seconds: float) -> AsyncIterator[bytes]:
        yield b"text"


async def read_as(role: Role, version: VersionRow) -> bytes:
    stores = Stores(version)
    fakes = SimpleNamespace(documents=stores, knowledge_bases=stores, objects=stores, settings=IngestSettings())
    handlers = DocumentHandlers(cast(DocumentDependencies, fakes))
    request = pb.ReadOriginalRequest(name="knowledgeBases/kb/documents/a/versions/1")
    identity = Identity("acme", "ann", role, Scope.READ)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    try:
        return b"".join([piece.data async for piece in handlers.ReadOriginal(request, None)])
    finally:
        current_call.reset(token)


@pytest.mark.parametrize("version", [SHOWN, HELD, WITHDRAWN], ids=["shown", "held", "withdrawn"])
async def test_editor_reads_every_original(version: VersionRow) -> None:
    assert await read_as(Role.EDITOR, version) == b"text"


async def test_viewer_reads_what_a_snapshot_has_shown() -> None:
    assert await read_as(Role.VIEWER, SHOWN) == b"text"


@pytest.mark.parametrize("version", [HELD, WITHDRAWN], ids=["held", "withdrawn"])
async def test_viewer_reads_no_original_that_no_snapshot_shows(version: VersionRow) -> None:
    with pytest.raises(NotFoundError) as caught:
        await read_as(Role.VIEWER, version)
    assert caught.value.reason == "VERSION_NOT_FOUND"
