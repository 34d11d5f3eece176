"""Contents of a source on their way into the mesh: read, stored under their hash, accepted in groups."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from corpusmesh_core.errors import ConflictError, CorpusMeshError, FailedPreconditionError, InvalidArgumentError
from corpusmesh_core.orchestration.values import Lane
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.objects import ObjectInfo, ObjectStore, original_key, originals_prefix
from corpusmesh_core.ports.runs import IngestOptions, IngestResult, RunStore
from corpusmesh_core.ports.sources import Connector, ItemUpdate
from corpusmesh_core.sources import FailedItem, ItemChange, ItemState, KnownItem, SourceItem, item_document_id
from corpusmesh_core.tenancy import AclEntry, Identity, KnowledgeBase, Upload
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.worker import TaskContext

_GROUP_DOCUMENTS = 64
_GROUP_BYTES = 4 * 1024 * 1024
_GROUP_SECONDS = 20.0
"""A run takes more for two minutes: a slow source must not let it end between two groups."""
_MAX_NAME_CHARACTERS = 1024
_STORE_SECONDS = 60.0


class _UnreadableError(CorpusMeshError):
    """An error of the source, told apart from those of the mesh's own stores; it never leaves this module."""


@dataclass(frozen=True, slots=True)
class Admission:
    """An item whose content is to be taken in.

    Attributes:
        item: What the source says.
        known: What is known of it; None for nothing.
        acl: Access list to set; None leaves it to people.
        access_digest: Digest of the list.
    """

    item: SourceItem
    known: KnownItem | None
    acl: tuple[AclEntry, ...] | None
    access_digest: str


@dataclass(frozen=True, slots=True)
class IntakeBounds:
    """Bounds of an intake.

    Attributes:
        max_document_bytes: Largest original.
        item_timeout_seconds: Longest time to read one.
    """

    max_document_bytes: int
    item_timeout_seconds: float


@dataclass(slots=True)
class Intake:
    """Takes contents in.

    Attributes:
        context: The sync's claim and time.
        identity: Who acts.
        knowledge_base: Where to.
        source_id: The source.
        metadata: What all its documents get.
        start_time: When the sync was begun.
        connector: Reads items.
        objects: Takes the bytes.
        runs: Takes the documents.
        documents: Sets access lists.
        bounds: Bounds.
        accepted_count: Versions accepted so far.
    """

    context: TaskContext
    identity: Identity
    knowledge_base: KnowledgeBase
    source_id: str
    metadata: dict[str, str]
    start_time: datetime
    connector: Connector
    objects: ObjectStore
    runs: RunStore
    documents: DocumentStore
    bounds: IntakeBounds
    accepted_count: int = 0
    _pending: list[tuple[Admission, Awaitable[ObjectInfo | FailedItem]]] = field(default_factory=list)
    _pending_bytes: int = 0
    _pending_since: float = 0.0
    _run_id: str = ""
    _run_number: int = 0
    _gate: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._gate = asyncio.Semaphore(self.connector.capabilities.concurrent_open_count)

    async def admit(self, admission: Admission, group: asyncio.TaskGroup) -> None:
        """Begin to take an item in; at once, where it must be read before the listing goes on.

        Args:
            admission: The item.
            group: Tasks beside the listing.
        """
        if not self._pending:
            self._pending_since = time.monotonic()
        stored: asyncio.Task[ObjectInfo | FailedItem] = group.create_task(self._store(admission.item))
        if self.connector.capabilities.concurrent_open_count == 1:
            await stored
        self._pending.append((admission, stored))
        self._pending_bytes += admission.item.size_bytes or 0

    @property
    def is_due(self) -> bool:
        """Whether what waits should be accepted now."""
        return bool(self._pending) and (
            len(self._pending) >= _GROUP_DOCUMENTS
            or self._pending_bytes >= _GROUP_BYTES
            or time.monotonic() - self._pending_since >= _GROUP_SECONDS
        )

    async def accept(self, *, is_last: bool = False) -> tuple[list[ItemUpdate], str]:
        """Make versions of all that waits.

        Args:
            is_last: Whether no more follows.

        Returns:
            What to keep of each item, and the run that makes them searchable; "" where there is none.
        """
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        updates: list[ItemUpdate] = []
        uploads: list[Upload] = []
        taken: list[Admission] = []
        for admission, stored in pending:
            outcome = await stored
            if isinstance(outcome, FailedItem):
                updates.append(failed_update(outcome, access_digest=admission.access_digest))
            else:
                uploads.append(self._upload(admission, outcome))
                taken.append(admission)
        if not uploads:
            if is_last and self._run_id:
                await self._close_run()
            return updates, ""
        result = await self._ingest(uploads, is_last=is_last)
        self.accepted_count += len(uploads)
        for admission, version, is_unchanged in zip(taken, result.versions, result.unchanged, strict=True):
            change = ItemChange.CHANGED if admission.known is not None else ItemChange.ADDED
            if admission.known is not None and not admission.known.has_document:
                change = ItemChange.ADDED
            # What an attempt of this sync has made before it died was changed by it all the same.
            is_same = is_unchanged and version.create_time < self.start_time
            if is_unchanged and admission.known is None and admission.acl is not None:
                # Accepted by an attempt that died before it was noted; the list may have changed since.
                await self.documents.update(
                    self.identity, version.knowledge_base_id, version.document_id, acl=admission.acl
                )
            updates.append(
                ItemUpdate(
                    key=admission.item.key,
                    display_name=admission.item.display_name[:_MAX_NAME_CHARACTERS],
                    change=None if is_same and change is ItemChange.CHANGED else change,
                    etag=admission.item.etag,
                    access_digest=admission.access_digest,
                    document_id=version.document_id,
                    memo=admission.item.memo,
                )
            )
        return updates, result.run_id

    async def _store(self, item: SourceItem) -> ObjectInfo | FailedItem:
        async with self._gate:
            try:
                return await self.objects.put_content(
                    originals_prefix(self.identity.tenant_id),
                    self._content(item),
                    max_byte_count=self.bounds.max_document_bytes,
                    # Longer than the source's own time, so that a slow source costs its item and not the task.
                    timeout_seconds=min(
                        self.bounds.item_timeout_seconds + _STORE_SECONDS, self.context.remaining_seconds()
                    ),
                )
            except _UnreadableError as error:
                return FailedItem(item.key, item.display_name, error.reason, error.message)
            except InvalidArgumentError as error:
                if error.reason != "OBJECT_TOO_LARGE":
                    raise
                return too_large(item, self.bounds.max_document_bytes)

    async def _content(self, item: SourceItem) -> AsyncIterator[bytes]:
        try:
            async for piece in self.connector.open(item, timeout_seconds=self.bounds.item_timeout_seconds):
                yield piece
        except CorpusMeshError as error:
            raise _UnreadableError(error.reason, error.message) from error
        except TimeoutError as error:
            raise _UnreadableError("SOURCE_READ_TIMEOUT", "the document could not be read in time") from error

    def _upload(self, admission: Admission, info: ObjectInfo) -> Upload:
        item, known = admission.item, admission.known
        return Upload(
            document_id=(known.document_id if known is not None else "") or item_document_id(self.source_id, item.key),
            display_name=_clean(item.display_name),
            original_sha256=info.sha256,
            size_bytes=info.byte_count,
            source_uri=item.source_uri[:4096],
            metadata={**self.metadata, **item.metadata},
            acl=admission.acl,
        )

    async def _ingest(self, uploads: Sequence[Upload], *, is_last: bool) -> IngestResult:
        try:
            result = await self._ingest_into_run(uploads, is_last=is_last)
        except FailedPreconditionError as error:
            if error.reason != "RUN_CLOSED":
                raise
            # The source was slower than a run waits: what comes now is a run of its own.
            self._run_id = ""
            result = await self._ingest_into_run(uploads, is_last=is_last)
        self._run_id = result.run_id
        return result

    async def _ingest_into_run(self, uploads: Sequence[Upload], *, is_last: bool) -> IngestResult:
        claim = self.context.claim
        if not self._run_id:
            self._run_number += 1
        return await self.runs.ingest(
            self.identity,
            claim.knowledge_base_id,
            uploads,
            IngestOptions(
                run_id=self._run_id,
                # By claim: another attempt at the same task begins a run of its own.
                request_id=f"{claim.task_id}.{claim.epoch}.{self._run_number}",
                is_interactive=claim.lane is Lane.INTERACTIVE,
                is_last=is_last,
                config_hash=config_hash(self.knowledge_base.config),
                headers=claim.headers,
            ),
            restore=self._restore,
        )

    async def _close_run(self) -> None:
        try:
            await self._ingest_into_run((), is_last=True)
        except FailedPreconditionError as error:
            if error.reason != "RUN_CLOSED":
                raise

    async def _restore(self, hashes: Sequence[str]) -> None:
        """Check originals that a purge may have removed since they were stored; the task reads them again if so."""
        for sha256 in hashes:
            if await self.objects.head(original_key(self.identity.tenant_id, sha256)) is None:
                raise ConflictError(
                    "ORIGINAL_PURGED", "the same bytes were purged while they were taken in; they are read again"
                )


def failed_update(item: FailedItem, *, access_digest: str | None = None) -> ItemUpdate:
    """Say what to keep of an item that could not be read.

    Args:
        item: The item.
        access_digest: Digest of the list that was set all the same; None where none was.

    Returns:
        The update; what was taken in before stays.
    """
    return ItemUpdate(
        key=item.key,
        display_name=item.display_name[:_MAX_NAME_CHARACTERS],
        change=ItemChange.FAILED,
        state=ItemState.FAILED,
        access_digest=access_digest,
        error_reason=item.reason,
        error_message=item.message[:1024],
    )


def too_large(item: SourceItem, limit_bytes: int) -> FailedItem:
    """Say that an item is larger than the mesh takes."""
    return FailedItem(
        item.key, item.display_name, "SOURCE_ITEM_TOO_LARGE", f"the document is larger than {limit_bytes} bytes"
    )


def _clean(name: str) -> str:
    cleaned = "".join(character for character in name if character.isprintable()).strip()
    return cleaned[:_MAX_NAME_CHARACTERS] or "document"
