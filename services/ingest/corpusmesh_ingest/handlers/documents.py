"""Handlers of `DocumentService`."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceServicer
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.index import RecordIndex, RecordSelection
from corpusmesh_core.ports.metadata import (
    AuditLog,
    DocumentStore,
    IdempotencyStore,
    KnowledgeBaseStore,
    PurgeStore,
    SnapshotStore,
)
from corpusmesh_core.ports.objects import ObjectStore, original_key
from corpusmesh_core.ports.runs import RunStore
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import Access, DocumentRow, may_access
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.configuration import metadata_schema_of
from corpusmesh_ingest.convert import (
    acl_of,
    document_to_wire,
    metadata_values,
    name_prefix_of,
    run_name,
    version_to_wire,
)
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.differences import diff_versions
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_number, read_page_token
from corpusmesh_ingest.handlers.pictures import read_picture
from corpusmesh_ingest.handlers.reprocessing import Reprocessor
from corpusmesh_ingest.handlers.uploads import Pieces, UploadGate, UploadSession
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.names import parse_name
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_ingest.stages.artefact_access import count_written
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.tracing import outgoing_headers

_PIECE_BYTES = 256 * 1024
_MAX_TOTAL_DIGITS = 18
_UPDATABLE = ("title", "metadata", "access")


@dataclass(frozen=True, slots=True)
class DocumentDependencies:
    """What the handlers stand on."""

    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    snapshots: SnapshotStore
    runs: RunStore
    purges: PurgeStore
    idempotency: IdempotencyStore
    audit: AuditLog
    objects: ObjectStore
    index: RecordIndex
    reprocessor: Reprocessor
    sealer: PasswordSealer
    chunks: ChunkReader
    settings: IngestSettings


class DocumentHandlers(DocumentServiceServicer):
    """Documents, versions and originals."""

    def __init__(self, dependencies: DocumentDependencies) -> None:
        """Create the handlers.

        Args:
            dependencies: What they stand on.
        """
        self._stores = dependencies
        self._gate = UploadGate(dependencies.settings.max_concurrent_uploads)
        self._versions = VersionReader(dependencies.documents, dependencies.knowledge_bases)
        self._chunks = dependencies.chunks
        self._reprocessor = dependencies.reprocessor

    async def UploadDocuments(self, request_iterator: Any, context: Any) -> pb.UploadDocumentsResponse:
        """See the contract."""
        call = require_call()
        with self._gate:
            pieces = Pieces(aiter(request_iterator))
            first = await pieces.take()
            if first is None or first.WhichOneof("piece") != "settings":
                raise InvalidArgumentError(
                    "UPLOAD_OUT_OF_ORDER", "the first message of an upload is its settings", field="settings"
                )
            name = parse_name("knowledge base", first.settings.parent, field="settings.parent")
            knowledge_base = await self._stores.knowledge_bases.get(call.identity, name.knowledge_base_id, Access.WRITE)
            session = UploadSession(
                call=call,
                knowledge_base=knowledge_base,
                settings=first.settings,
                objects=self._stores.objects,
                runs=self._stores.runs,
                limits=self._stores.settings,
                sealer=self._stores.sealer,
            )
            response = await session.take_all(pieces)
        await self._audit("documents.upload", first.settings.parent)
        return response

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Any) -> pb.Document:
        """See the contract."""
        name = parse_name("document", request.name)
        row = await self._stores.documents.get(require_call().identity, name.knowledge_base_id, name.identifier)
        return await self._to_wire(row)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """See the contract."""
        name = parse_name("knowledge base", request.parent, field="parent")
        size = page_size_of(request.page_size)
        prefix = name_prefix_of(request.display_name_prefix)
        listing = f"{request.parent}/documents" + (f"/{prefix}" if prefix else "")
        identity = require_call().identity
        counted, _, after = read_page_token(listing, request.page_token).rpartition(".")
        rows = await self._stores.documents.list(identity, name.knowledge_base_id, after, size + 1, name_prefix=prefix)
        if counted.isdecimal() and len(counted) <= _MAX_TOTAL_DIGITS:
            # Of the first page: counting costs by the document, and all pages together must not cost its square.
            total = int(counted)
        elif prefix:
            total = await self._stores.documents.count(identity, name.knowledge_base_id, prefix)
        else:
            counts = await self._stores.knowledge_bases.count(identity, [name.knowledge_base_id])
            total, _ = counts[name.knowledge_base_id]
        page = rows[:size]
        more = make_page_token(listing, f"{total}.{page[-1].document_id}") if len(rows) > size else ""
        return pb.ListDocumentsResponse(
            documents=[document_to_wire(row, None) for row in page], next_page_token=more, total_size=total
        )

    async def UpdateDocument(self, request: pb.UpdateDocumentRequest, context: Any) -> pb.Document:
        """See the contract."""
        return await once(
            self._stores.idempotency,
            "UpdateDocument",
            request.request_id,
            request,
            pb.Document,
            lambda: self._update(request),
        )

    async def DeleteDocument(self, request: pb.DeleteDocumentRequest, context: Any) -> pb.DeleteDocumentResponse:
        """See the contract."""
        name = parse_name("document", request.name)
        call = require_call()
        run_id = await self._stores.documents.delete(
            call.identity,
            name.knowledge_base_id,
            [name.identifier],
            request.request_id,
            {**outgoing_headers(), "request_id": call.request_id},
        )
        await self._audit("document.delete", request.name)
        return pb.DeleteDocumentResponse(run=run_name(name.knowledge_base_id, run_id))

    async def ListVersions(self, request: pb.ListVersionsRequest, context: Any) -> pb.ListVersionsResponse:
        """See the contract."""
        name = parse_name("document", request.parent, field="parent")
        size = page_size_of(request.page_size)
        listing = f"{request.parent}/versions"
        before = read_page_number(listing, request.page_token)
        identity = require_call().identity
        document = await self._stores.documents.get(identity, name.knowledge_base_id, name.identifier)
        rows = await self._stores.documents.list_versions(
            identity, name.knowledge_base_id, name.identifier, before, size + 1
        )
        page = rows[:size]
        more = make_page_token(listing, str(page[-1].version)) if len(rows) > size else ""
        return pb.ListVersionsResponse(
            versions=[version_to_wire(row, published=row.version == document.published_version) for row in page],
            next_page_token=more,
        )

    async def PublishVersion(self, request: pb.PublishVersionRequest, context: Any) -> pb.PublishVersionResponse:
        """See the contract."""

        async def act() -> pb.PublishVersionResponse:
            name = parse_name("version", request.name)
            snapshot = await self._stores.snapshots.publish_version(
                require_call().identity, name.knowledge_base_id, name.identifier, name.version
            )
            await self._audit("version.publish", request.name)
            return pb.PublishVersionResponse(
                snapshot=f"knowledgeBases/{name.knowledge_base_id}/snapshots/{snapshot.snapshot_id}"
            )

        return await once(
            self._stores.idempotency, "PublishVersion", request.request_id, request, pb.PublishVersionResponse, act
        )

    async def ReadOriginal(
        self, request: pb.ReadOriginalRequest, context: Any
    ) -> AsyncIterator[pb.ReadOriginalResponse]:
        """See the contract."""
        name = parse_name("version", request.name)
        call = require_call()
        version = await self._versions.readable(name)
        first = pb.ReadOriginalResponse(
            media_type=version.media_type or "application/octet-stream",
            display_name=version.display_name,
            size_bytes=version.size_bytes,
        )
        key = original_key(call.identity.tenant_id, version.original_sha256)
        async for piece in self._stores.objects.open_stream(
            key, sha256=version.original_sha256, timeout_seconds=call.remaining_seconds()
        ):
            for start in range(0, len(piece), _PIECE_BYTES):
                first.data = piece[start : start + _PIECE_BYTES]
                yield first
                first = pb.ReadOriginalResponse()
        if first.media_type:
            yield first

    async def ReadPicture(self, request: pb.ReadPictureRequest, context: Any) -> AsyncIterator[pb.ReadPictureResponse]:
        """See the contract."""
        name = parse_name("picture", request.name)
        version = await self._versions.readable(name)
        async for piece in read_picture(self._stores.objects, version, name.part):
            yield piece

    async def DiffVersions(self, request: pb.DiffVersionsRequest, context: Any) -> pb.DiffVersionsResponse:
        """See the contract."""
        return await diff_versions(self._versions, self._chunks, request)

    async def ReprocessDocument(
        self, request: pb.ReprocessDocumentRequest, context: Any
    ) -> pb.ReprocessDocumentResponse:
        """See the contract."""
        response = await self._reprocessor.one(request)
        await self._audit("document.reprocess", request.name)
        return response

    async def ReprocessKnowledgeBase(
        self, request: pb.ReprocessKnowledgeBaseRequest, context: Any
    ) -> pb.ReprocessKnowledgeBaseResponse:
        """See the contract."""
        response = await self._reprocessor.all(request)
        await self._audit("knowledge_base.reprocess", request.name)
        return response

    async def VerifyPurge(self, request: pb.VerifyPurgeRequest, context: Any) -> pb.VerifyPurgeResponse:
        """See the contract."""
        name = parse_name("document", request.name)
        call = require_call()
        await self._stores.knowledge_bases.get(call.identity, name.knowledge_base_id, Access.WRITE)
        tenant_id = call.identity.tenant_id
        ordinals = await self._stores.purges.ordinals_of(tenant_id, name.knowledge_base_id, name.identifier)
        records = await self._stores.index.count(
            tenant_id,
            None,
            RecordSelection(made_of=[Ordinal(ordinal) for ordinal in ordinals]),
            timeout_seconds=call.remaining_seconds(),
        )
        rows = await self._stores.purges.count_rows(tenant_id, name.knowledge_base_id, name.identifier)
        objects = await self._count_objects(tenant_id, ordinals)
        return pb.VerifyPurgeResponse(
            record_count=records,
            object_count=objects,
            row_count=rows,
            purged=not (records or rows or objects),
        )

    async def _count_objects(self, tenant_id: str, ordinals: Sequence[int]) -> int:
        """Look for every object that versions named, or that an attempt at them may have left."""
        versions = await self._stores.documents.versions_by_ordinal(tenant_id, ordinals)
        seconds = require_call().remaining_seconds()
        count = await count_written(
            self._stores.objects, self._stores.purges, tenant_id, versions, timeout_seconds=seconds
        )
        for sha256 in await self._stores.purges.unshared_originals(tenant_id, ordinals):
            count += await self._stores.objects.head(original_key(tenant_id, sha256)) is not None
        return count

    async def _update(self, request: pb.UpdateDocumentRequest) -> pb.Document:
        name = parse_name("document", request.document.name, field="document.name")
        wanted = request.document
        mask = list(request.update_mask.paths) if request.HasField("update_mask") else None
        if mask is None:
            mask = [path for path in _UPDATABLE if path != "access" or wanted.HasField("access")]
            mask = [path for path in mask if path == "access" or getattr(wanted, path)]
        elif mask == ["*"]:
            mask = list(_UPDATABLE)
        if unknown := [path for path in mask if path not in _UPDATABLE]:
            raise InvalidArgumentError(
                "UPDATE_MASK_INVALID",
                f"update_mask takes {', '.join(_UPDATABLE)} or *, not {unknown[0][:64]}",
                field="update_mask",
            )
        identity = require_call().identity
        metadata = None
        if "metadata" in mask:
            knowledge_base = await self._stores.knowledge_bases.get(identity, name.knowledge_base_id)
            schema = metadata_schema_of(knowledge_base.config)
            metadata = metadata_values(wanted.metadata, field="document.metadata", schema=schema)
        row = await self._stores.documents.update(
            identity,
            name.knowledge_base_id,
            name.identifier,
            title=wanted.title[:1024] if "title" in mask else None,
            metadata=metadata,
            acl=acl_of(wanted.access) if "access" in mask else None,
        )
        await self._audit("document.update", wanted.name)
        return await self._to_wire(row)

    async def _to_wire(self, row: DocumentRow) -> pb.Document:
        identity = require_call().identity
        knowledge_base = await self._stores.knowledge_bases.get(identity, row.knowledge_base_id)
        acl = None
        if may_access(identity, knowledge_base.owner_user_id, knowledge_base.permission, Access.WRITE):
            acl = await self._stores.documents.list_acl(identity, row.knowledge_base_id, row.document_id)
        return document_to_wire(row, acl)

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})
