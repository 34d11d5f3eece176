"""Whose text an original is before a snapshot has shown it; pictures, chunks and differences are as the original."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from corpusmesh.ingest.v1 import chunk_service_pb2 as chunk_pb
from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.artefacts import pack_chunks
from corpusmesh_core.documents import Chunk
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, Identity, Role, Scope, VersionRow, VersionState, knowledge_base_not_found
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.chunks import ChunkHandlerDependencies, ChunkHandlers
from corpusmesh_ingest.handlers.documents import DocumentDependencies, DocumentHandlers
from corpusmesh_ingest.handlers.version_access import VersionReader
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
    artefacts={"pictures": "run/pictures/", "chunks": "run/chunks"},
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
        self.objects = {
            "run/pictures/page-1": b"\x89PNG\r\n\x1a\n" + b"x" * 600_000,
            "run/pictures/page-2": b"<svg onload=alert(1)>",
            "run/chunks": pack_chunks({1: [Chunk(0, "text", (), 0, (), 1)]}),
        }

    async def list_versions(
        self, identity: Identity, kb: str, document_id: str, before_version: int, limit: int
    ) -> Sequence[VersionRow]:
        return [self.version]

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], access: Access) -> None:
        if access is Access.WRITE and identity.role < Role.EDITOR:
            raise knowledge_base_not_found(knowledge_base_ids[0])

    async def get(self, key: str, *, max_byte_count: int, timeout_seconds: float) -> bytes:
        if key not in self.objects:
            raise NotFoundError("OBJECT_NOT_FOUND", "there is no such object")
        return self.objects[key]

    async def open_stream(self, key: str, *, sha256: str, timeout_seconds: float) -> AsyncIterator[bytes]:
        yield b"text"


Read = Callable[[DocumentHandlers, ChunkHandlers], Awaitable[bytes]]
VERSION = "knowledgeBases/kb/documents/a/versions/1"


async def original(documents: DocumentHandlers, chunks: ChunkHandlers) -> bytes:
    return b"".join([piece.data async for piece in documents.ReadOriginal(pb.ReadOriginalRequest(name=VERSION), None)])


async def picture(documents: DocumentHandlers, chunks: ChunkHandlers, name: str = "page-1") -> bytes:
    request = pb.ReadPictureRequest(name=f"{VERSION}/pictures/{name}")
    return b"".join([piece.data async for piece in documents.ReadPicture(request, None)])


async def listed(documents: DocumentHandlers, chunks: ChunkHandlers) -> bytes:
    page = await chunks.ListChunks(chunk_pb.ListChunksRequest(parent=VERSION), None)
    return "".join(chunk.text for chunk in page.chunks).encode()


async def one(documents: DocumentHandlers, chunks: ChunkHandlers) -> bytes:
    return (await chunks.GetChunk(chunk_pb.GetChunkRequest(name=f"{VERSION}/chunks/0"), None)).text.encode()


async def compared(documents: DocumentHandlers, chunks: ChunkHandlers) -> bytes:
    request = pb.DiffVersionsRequest(name=VERSION, base_version=VERSION)
    return b"x" * (await documents.DiffVersions(request, None)).unchanged_count


READS = [original, picture, listed, one, compared]


async def read_as(role: Role, version: VersionRow, read: Read) -> bytes:
    stores = Stores(version)
    fakes = SimpleNamespace(
        documents=stores,
        knowledge_bases=stores,
        objects=stores,
        versions=VersionReader(cast(DocumentStore, stores), cast(KnowledgeBaseStore, stores)),
        chunks=ChunkReader(cast(ObjectStore, stores)),
        reprocessor=None,
        settings=IngestSettings(),
    )
    documents = DocumentHandlers(cast(DocumentDependencies, fakes))
    chunks = ChunkHandlers(cast(ChunkHandlerDependencies, fakes))
    identity = Identity("acme", "ann", role, Scope.READ)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    try:
        return await read(documents, chunks)
    finally:
        current_call.reset(token)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("version", [SHOWN, HELD, WITHDRAWN], ids=["shown", "held", "withdrawn"])
async def test_editor_reads_every_version(version: VersionRow, read: Read) -> None:
    assert await read_as(Role.EDITOR, version, read)


@pytest.mark.parametrize("read", READS)
async def test_viewer_reads_what_a_snapshot_has_shown(read: Read) -> None:
    assert await read_as(Role.VIEWER, SHOWN, read)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("version", [HELD, WITHDRAWN], ids=["held", "withdrawn"])
async def test_viewer_reads_nothing_that_no_snapshot_shows(version: VersionRow, read: Read) -> None:
    with pytest.raises(NotFoundError) as caught:
        await read_as(Role.VIEWER, version, read)
    assert caught.value.reason == "VERSION_NOT_FOUND"


@pytest.mark.parametrize("name", ["page-2", "page-3"])
async def test_what_is_no_image_is_no_picture(name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        await read_as(Role.EDITOR, SHOWN, lambda documents, chunks: picture(documents, chunks, name))
    assert caught.value.reason == "PICTURE_NOT_FOUND"


async def test_a_version_that_is_not_cut_yet_says_so() -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        await read_as(Role.EDITOR, replace(SHOWN, artefacts={}), listed)
    assert caught.value.reason == "CHUNKS_MISSING"


@pytest.mark.parametrize("name", ["chunks/1", "chunks/p0", "chunks/t0"])
async def test_a_chunk_that_the_version_has_not_is_not_found(name: str) -> None:
    async def read(documents: DocumentHandlers, chunks: ChunkHandlers) -> bytes:
        await chunks.GetChunk(chunk_pb.GetChunkRequest(name=f"{VERSION}/{name}"), None)
        return b""

    with pytest.raises(NotFoundError) as caught:
        await read_as(Role.EDITOR, SHOWN, read)
    assert caught.value.reason == "CHUNK_NOT_FOUND"
