"""Takes an upload stream apart: bytes to the object store, groups of documents to the run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from google.rpc.status_pb2 import Status

from corpusmesh.ingest.v1 import document_service_pb2 as pb
from corpusmesh_core.enrichment import MetadataSchema
from corpusmesh_core.errors import ConflictError, CorpusMeshError, InvalidArgumentError, OverloadedError
from corpusmesh_core.ports.objects import ObjectInfo, ObjectStore, original_key, originals_prefix
from corpusmesh_core.ports.runs import IngestOptions, RunStore
from corpusmesh_core.tenancy import DuplicatePolicy, KnowledgeBase, Upload, document_id_for_name
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.configuration import metadata_schema_of
from corpusmesh_ingest.convert import acl_of, display_name_of, metadata_values, version_name
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.status import to_status
from corpusmesh_runtime.tracing import outgoing_headers

_GROUP_DOCUMENTS = 64
_GROUP_BYTES = 4 * 1024 * 1024
_PUTS_IN_FLIGHT = 8
_MAX_PIECE_BYTES = 1024 * 1024
_DIGEST_CHARACTERS = 64
_POLICIES = {
    pb.DUPLICATES_UNSPECIFIED: DuplicatePolicy.UNCHANGED,
    pb.DUPLICATES_SKIP: DuplicatePolicy.SKIP,
    pb.DUPLICATES_NEW_VERSION: DuplicatePolicy.NEW_VERSION,
    pb.DUPLICATES_KEEP_BOTH: DuplicatePolicy.KEEP_BOTH,
}


class PieceStream(Protocol):
    """The messages of an upload, with a look at the next one."""

    async def peek(self) -> pb.UploadDocumentsRequest | None:
        """Give the next message without taking it; None at the end."""
        ...

    async def take(self) -> pb.UploadDocumentsRequest | None:
        """Take the next message; None at the end."""
        ...


class Pieces:
    """A look-ahead of one over the messages of a call."""

    def __init__(self, messages: AsyncIterator[pb.UploadDocumentsRequest]) -> None:
        """Wrap the messages.

        Args:
            messages: What gRPC hands over.
        """
        self._messages = messages
        self._next: pb.UploadDocumentsRequest | None = None
        self._ended = False

    async def peek(self) -> pb.UploadDocumentsRequest | None:
        """Give the next message without taking it; None at the end."""
        if self._next is None and not self._ended:
            self._next = await anext(self._messages, None)
            self._ended = self._next is None
        return self._next

    async def take(self) -> pb.UploadDocumentsRequest | None:
        """Take the next message; None at the end."""
        message = await self.peek()
        self._next = None
        return message


@dataclass(slots=True)
class _Pending:
    """A document whose bytes are on their way to the store."""

    place: int
    header: pb.DocumentHeader
    sealed_password: bytes
    stored: Awaitable[ObjectInfo]
    content: bytes | None
    """Its bytes, where they fit into memory, until its version exists."""


@dataclass(slots=True)
class UploadSession:
    """One upload stream.

    Attributes:
        call: The call.
        knowledge_base: Where the documents go.
        settings: The stream's first message.
        objects: Takes the bytes.
        runs: Takes the documents.
        limits: Bounds.
        sealer: Seals passwords.
        results: One entry for each document so far.
        run_id: The run; "" before the first group was accepted.
    """

    call: CallContext
    knowledge_base: KnowledgeBase
    settings: pb.UploadSettings
    objects: ObjectStore
    runs: RunStore
    limits: IngestSettings
    sealer: PasswordSealer
    results: list[pb.UploadedDocument] = field(default_factory=list)
    run_id: str = ""
    _pending: list[_Pending] = field(default_factory=list)
    _pending_bytes: int = 0
    _schema: MetadataSchema = field(init=False)

    def __post_init__(self) -> None:
        """Read the knowledge base's metadata schema once."""
        self._schema = metadata_schema_of(self.knowledge_base.config)

    async def take_all(self, pieces: PieceStream) -> pb.UploadDocumentsResponse:
        """Take every document of the stream.

        Args:
            pieces: The messages after the settings.

        Returns:
            The run and what became of each document.

        Raises:
            InvalidArgumentError: If the stream has another shape, or holds too many documents or none.
        """
        if self.settings.duplicates not in _POLICIES:
            raise InvalidArgumentError(
                "DUPLICATES_UNKNOWN", "duplicates must be a choice that this release knows", field="settings.duplicates"
            )
        gate = asyncio.Semaphore(_PUTS_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            while (message := await pieces.take()) is None or not message.HasField("end"):
                if message is None:
                    # A cancelled stream ends like a whole one: without its end the last document may be cut off.
                    raise InvalidArgumentError(
                        "UPLOAD_CUT_OFF", "the stream broke off before its end message; send it again", field="end"
                    )
                if message.WhichOneof("piece") != "header":
                    raise InvalidArgumentError(
                        "UPLOAD_OUT_OF_ORDER",
                        "the stream is: settings, for every document a header and its data, then the end",
                    )
                if len(self.results) >= self.limits.max_documents_per_upload:
                    raise InvalidArgumentError(
                        "UPLOAD_TOO_MANY_DOCUMENTS",
                        f"one upload takes at most {self.limits.max_documents_per_upload} documents; split it",
                        limit=self.limits.max_documents_per_upload,
                    )
                await self._take_document(message.header, pieces, gate, group)
                if len(self._pending) >= _GROUP_DOCUMENTS or self._pending_bytes >= _GROUP_BYTES:
                    await self._accept(is_last=False)
            if not self.results:
                raise InvalidArgumentError("UPLOAD_EMPTY", "the stream holds no document", field="header")
            if message.end.document_count != len(self.results):
                raise InvalidArgumentError(
                    "UPLOAD_COUNT_MISMATCH",
                    f"the end counts {message.end.document_count} documents, the stream held {len(self.results)}",
                    field="end.document_count",
                )
            await self._accept(is_last=True)
        run = f"knowledgeBases/{self.knowledge_base.knowledge_base_id}/runs/{self.run_id}" if self.run_id else ""
        return pb.UploadDocumentsResponse(run=run, documents=self.results)

    async def _take_document(
        self, header: pb.DocumentHeader, pieces: PieceStream, gate: asyncio.Semaphore, group: asyncio.TaskGroup
    ) -> None:
        place = len(self.results)
        self.results.append(pb.UploadedDocument(display_name=header.display_name[:1024]))
        head = bytearray()
        while len(head) <= self.limits.spool_memory_bytes and (data := await self._next_data(pieces)) is not None:
            head += data
        content: bytes | None = None
        try:
            _check_header(header, self._schema)
            # At once: nothing that lives longer than the message holds the password itself.
            sealed = self.sealer.seal(self.call.identity.tenant_id, header.password) if header.password else b""
            header.ClearField("password")
            self._check_size(len(head))
            if await _has_data(pieces):
                # Larger than memory takes: the store reads on from the stream, which holds the caller back.
                info = await self._store(self._chain(bytes(head), pieces))
                stored: Awaitable[ObjectInfo] = _ready(info)
            else:
                content = bytes(head)
                stored = group.create_task(self._store_small(content, gate))
        except CorpusMeshError as error:
            if not isinstance(error, InvalidArgumentError):
                raise
            self.results[place].error.CopyFrom(_status(error, self.call))
            while await self._next_data(pieces) is not None:
                pass
            return
        self._pending.append(_Pending(place, header, sealed, stored, content))
        self._pending_bytes += len(head)

    def _check_size(self, byte_count: int) -> None:
        """Refuse what is too large already, before a task beside the stream does: its error would end the stream."""
        if byte_count > self.limits.max_document_bytes:
            raise InvalidArgumentError(
                "OBJECT_TOO_LARGE",
                f"the content is longer than {self.limits.max_document_bytes} bytes; send less or raise the limit",
                limit_bytes=self.limits.max_document_bytes,
            )

    async def _store_small(self, content: bytes, gate: asyncio.Semaphore) -> ObjectInfo:
        async with gate:
            return await self._store(content)

    async def _store(self, content: bytes | AsyncIterator[bytes]) -> ObjectInfo:
        return await self.objects.put_content(
            originals_prefix(self.call.identity.tenant_id),
            content,
            max_byte_count=self.limits.max_document_bytes,
            timeout_seconds=self.call.remaining_seconds(),
        )

    async def _chain(self, head: bytes, pieces: PieceStream) -> AsyncIterator[bytes]:
        yield head
        while (data := await self._next_data(pieces)) is not None:
            yield data

    async def _next_data(self, pieces: PieceStream) -> bytes | None:
        if not await _has_data(pieces):
            return None
        message = await pieces.take()
        data = message.data if message is not None else b""
        if len(data) > _MAX_PIECE_BYTES:
            raise InvalidArgumentError(
                "UPLOAD_PIECE_TOO_LARGE", f"a data message takes at most {_MAX_PIECE_BYTES} bytes", field="data"
            )
        return data

    async def _accept(self, *, is_last: bool) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        uploads: list[Upload] = []
        places: list[int] = []
        contents: dict[str, bytes | None] = {}
        for item in pending:
            info = await item.stored
            if item.header.sha256 and item.header.sha256.lower() != info.sha256:
                error = InvalidArgumentError(
                    "UPLOAD_DIGEST_MISMATCH", "the bytes do not have the given sha256; send them again", field="sha256"
                )
                self.results[item.place].error.CopyFrom(_status(error, self.call))
                continue
            uploads.append(_upload(item, info, self._schema))
            places.append(item.place)
            contents[info.sha256] = item.content
        if not uploads and not (is_last and self.run_id):
            return
        result = await self.runs.ingest(
            self.call.identity,
            self.knowledge_base.knowledge_base_id,
            uploads,
            IngestOptions(
                run_id=self.run_id,
                request_id=self.settings.request_id,
                is_interactive=self.settings.interactive,
                hold_publish=self.settings.hold_publish,
                is_last=is_last,
                on_duplicate=_POLICIES[self.settings.duplicates],
                config_hash=config_hash(self.knowledge_base.config),
                headers={**outgoing_headers(), "request_id": self.call.request_id},
            ),
            restore=lambda hashes: self._restore({sha256: contents[sha256] for sha256 in hashes}),
        )
        self.run_id = result.run_id
        for place, version, unchanged in zip(places, result.versions, result.unchanged, strict=True):
            self.results[place].version = version_name(version)
            self.results[place].unchanged = unchanged

    async def _restore(self, contents: Mapping[str, bytes | None]) -> None:
        """Put originals back that a purge of the same bytes has removed since they were stored."""
        gate = asyncio.Semaphore(_PUTS_IN_FLIGHT)
        tenant_id = self.call.identity.tenant_id
        async with asyncio.TaskGroup() as group:
            for content in contents.values():
                if content is not None:
                    group.create_task(self._store_small(content, gate))
        for sha256 in (sha256 for sha256, content in contents.items() if content is None):
            if await self.objects.head(original_key(tenant_id, sha256)) is None:
                raise ConflictError(
                    "ORIGINAL_PURGED", "the same bytes were purged while they were uploaded; send them again"
                )


async def _has_data(pieces: PieceStream) -> bool:
    message = await pieces.peek()
    return message is not None and message.WhichOneof("piece") == "data"


async def _ready(info: ObjectInfo) -> ObjectInfo:
    return info


def _check_header(header: pb.DocumentHeader, schema: MetadataSchema) -> None:
    display_name_of(header.display_name, field="header.display_name")
    metadata_values(header.metadata, field="header.metadata", schema=schema)
    if header.HasField("access"):
        acl_of(header.access)
    if header.sha256 and len(header.sha256) != _DIGEST_CHARACTERS:
        raise InvalidArgumentError("SHA256_INVALID", "sha256 is 64 hexadecimal digits", field="header.sha256")
    if header.document_id and not _is_identifier(header.document_id):
        raise InvalidArgumentError(
            "DOCUMENT_ID_INVALID",
            "a document's identifier is 1 to 63 of a-z, 0-9 and -; leave it empty to have one made",
            field="header.document_id",
        )


def _is_identifier(text: str) -> bool:
    return len(text) <= 63 and all(character in "abcdefghijklmnopqrstuvwxyz0123456789-" for character in text)


def _upload(item: _Pending, info: ObjectInfo, schema: MetadataSchema) -> Upload:
    header = item.header
    metadata = metadata_values(header.metadata, field="header.metadata", schema=schema) if header.metadata else None
    name = display_name_of(header.display_name, field="header.display_name")
    return Upload(
        document_id=header.document_id or document_id_for_name(name),
        display_name=name,
        original_sha256=info.sha256,
        size_bytes=info.byte_count,
        title=header.title[:1024],
        source_uri=header.source_uri[:4096],
        metadata=metadata,
        acl=acl_of(header.access) if header.HasField("access") else None,
        sealed_password=item.sealed_password,
    )


def _status(error: CorpusMeshError, call: CallContext) -> Status:
    return to_status(error, request_id=call.request_id)


class UploadGate:
    """Bounds the uploads taken at once; one more is refused at once, never kept waiting."""

    def __init__(self, limit: int) -> None:
        """Create the gate.

        Args:
            limit: Uploads at once.
        """
        self._limit = limit
        self._open = 0

    def __enter__(self) -> None:
        """Enter.

        Raises:
            OverloadedError: UPLOADS_BUSY if the limit is reached.
        """
        if self._open >= self._limit:
            raise OverloadedError("UPLOADS_BUSY", "too many uploads at once; try again shortly", limit=self._limit)
        self._open += 1

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self._open -= 1
