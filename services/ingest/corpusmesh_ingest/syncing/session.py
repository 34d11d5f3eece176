"""One task of a sync: the listing from end to end, and what follows from each of its events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, NotFoundError
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.sources import Connector, ItemUpdate, OpenSync, SyncStore
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.sources import (
    MAX_KEY_BYTES,
    FailedItem,
    ItemChange,
    ItemState,
    KnownItem,
    ListingEnd,
    ListingEvent,
    RemovalPlan,
    RemovedItem,
    SourceItem,
    Step,
    access_digest,
    kind_of,
    map_access,
    plan_removals,
    plan_step,
)
from corpusmesh_core.tenancy import AclEntry, Identity
from corpusmesh_ingest.syncing.config import SourceSettings
from corpusmesh_ingest.syncing.intake import Admission, Intake, failed_update, too_large
from corpusmesh_ingest.syncing.metrics import SOURCE_ITEMS_TOTAL
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.worker import TaskContext

_DELETE_BATCH = 100
_MAX_UPDATES = 500
_log = get_logger(__name__)


class _BrokenListingError(Exception):
    """The source could not be listed to its end."""

    def __init__(self, error: CorpusMeshError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True)
class SyncSession:
    """Works one listing off.

    Attributes:
        context: The claim and its time.
        sync: What is known of the source.
        identity: Who acts.
        connector: The open place.
        intake: Takes contents in.
        store: Remembers.
        documents: Access lists and deletions.
        settings: Bounds.
    """

    context: TaskContext
    sync: OpenSync
    identity: Identity
    connector: Connector
    intake: Intake
    store: SyncStore
    documents: DocumentStore
    settings: SourceSettings
    _started: float = field(default_factory=time.monotonic)
    _seen: set[str] = field(default_factory=set)
    _removed: list[str] = field(default_factory=list)
    _updates: list[ItemUpdate] = field(default_factory=list)
    _listed_count: int = 0
    _checked_count: int = 0

    async def run(self) -> StageOutcome:
        """Work the listing off, or as much of it as one task may.

        Returns:
            Whether another task has to go on.

        Raises:
            FailedPreconditionError: SOURCE_UNREADABLE, SOURCE_TOO_LARGE or SOURCE_MASS_DELETE; what was taken in until
                then stays.
        """
        end: ListingEnd | None = None
        broken: _BrokenListingError | None = None
        async with asyncio.TaskGroup() as group, contextlib.aclosing(self._events()) as events:
            try:
                async for event in events:
                    if isinstance(event, ListingEnd):
                        end = event
                        break
                    await self._take(event, group)
                    if self.intake.is_due or len(self._updates) >= _MAX_UPDATES:
                        await self._flush()
                    if self._is_slice_over():
                        break
            except _BrokenListingError as error:
                broken = error
            await self._flush(is_last=True)
        if broken is not None:
            raise broken.error
        if end is None:
            return StageOutcome(goes_on=True)
        await self._remove(end)
        await self.store.finish(self.context.claim, cursor=end.cursor, listed_count=self._listed_count)
        return StageOutcome()

    async def _events(self) -> AsyncGenerator[ListingEvent, None]:
        source = self.sync.source
        try:
            async for event in self.connector.list(
                source.cursor, self.sync.known, timeout_seconds=self.context.remaining_seconds()
            ):
                yield event
        except CorpusMeshError as error:
            raise _BrokenListingError(
                FailedPreconditionError(
                    "SOURCE_UNREADABLE",
                    f"the source could not be listed, and nothing was deleted: {error.message}",
                    source=source.source_id,
                    cause=error.reason,
                )
            ) from error

    def _is_slice_over(self) -> bool:
        # Only what has got on goes on elsewhere: otherwise a long listing would begin anew for ever.
        is_over = time.monotonic() - self._started > self.settings.slice_seconds
        return is_over and (self.intake.accepted_count > 0 or self._checked_count > 0)

    async def _take(self, event: SourceItem | FailedItem | RemovedItem, group: asyncio.TaskGroup) -> None:
        if event.key in self._seen:
            return
        if isinstance(event, RemovedItem):
            self._removed.append(event.key)
            return
        self._seen.add(event.key)
        self._listed_count += 1
        if self._listed_count > self.settings.max_items:
            raise _BrokenListingError(
                FailedPreconditionError(
                    "SOURCE_TOO_LARGE",
                    f"the source lists more than {self.settings.max_items} documents; divide it",
                    limit=self.settings.max_items,
                )
            )
        if len(event.key.encode()) > MAX_KEY_BYTES or "\x00" in event.key:
            _log.warning("item left out", source=self.sync.source.source_id, reason="SOURCE_KEY_INVALID")
        elif isinstance(event, FailedItem):
            self._note(failed_update(event))
        else:
            await self._compare(event, group)

    async def _compare(self, item: SourceItem, group: asyncio.TaskGroup) -> None:
        known = self.sync.known.get(item.key)
        acl = map_access(self.sync.source.spec.access, item.grants, self.sync.source.owner_user_id)
        digest = access_digest(acl)
        if acl is None and known is not None and known.access_digest:
            acl = ()  # It was bound before, and is left to people from now on.
        step = plan_step(known, item, digest)
        if known is not None and known.has_document and known.access_digest != digest and acl is not None:
            # Before the content is read: whoever may not see it any more shall not wait for that.
            await self._set_access(known, acl)
        if step is Step.ACCESS:
            self._note(ItemUpdate(item.key, None, ItemChange.ACCESS, access_digest=digest, memo=item.memo))
        elif step is Step.NOTHING:
            # Noted too where the next task of this sync can pass it by.
            is_checked = self.connector.capabilities.resumes_listing and known is not None and not known.is_current
            self._checked_count += is_checked
            if known is not None and (is_checked or known.state is ItemState.FAILED or known.memo != item.memo):
                self._note(ItemUpdate(item.key, None, None, memo=item.memo))
        elif item.size_bytes is not None and item.size_bytes > self.intake.bounds.max_document_bytes:
            self._note(failed_update(too_large(item, self.intake.bounds.max_document_bytes), access_digest=digest))
        else:
            await self.intake.admit(Admission(item, known, acl, digest), group)

    async def _set_access(self, known: KnownItem, acl: Sequence[AclEntry]) -> None:
        with contextlib.suppress(NotFoundError):  # deleted meanwhile
            await self.documents.update(self.identity, self.context.claim.knowledge_base_id, known.document_id, acl=acl)

    def _note(self, update: ItemUpdate) -> None:
        self._updates.append(update)

    async def _flush(self, *, is_last: bool = False) -> None:
        taken, run_id = await self.intake.accept(is_last=is_last)
        self.context.reach("after_artefact")
        updates, self._updates = [*self._updates, *taken], []
        await self._record(updates, [run_id] if run_id else [])

    async def _record(self, updates: Sequence[ItemUpdate], runs: Sequence[str]) -> None:
        await self.store.record(self.context.claim, updates, listed_count=self._listed_count, runs=runs)
        kind = kind_of(self.sync.source.spec.place)
        for update in updates:
            if update.change is not None:
                SOURCE_ITEMS_TOTAL.labels(kind, update.change).inc()

    async def _remove(self, end: ListingEnd) -> None:
        plan = plan_removals(
            self.sync.known,
            self._seen,
            self._removed,
            is_complete=end.is_complete,
            max_share=self.settings.max_delete_share,
            allow_mass_delete=self.sync.allow_mass_delete,
        )
        if plan.is_refused:
            raise self._mass_delete(plan)
        for start in range(0, len(plan.keys), _DELETE_BATCH):
            items = [self.sync.known[key] for key in plan.keys[start : start + _DELETE_BATCH]]
            living = [item.document_id for item in items if item.has_document]
            runs = await self._delete(living, f"d{start}") if living else []
            self.context.reach("after_index")
            await self._record([_removed_update(item) for item in items], runs)

    async def _delete(self, document_ids: Sequence[str], part: str) -> list[str]:
        claim = self.context.claim

        async def delete(ids: Sequence[str], name: str) -> str:
            request_id = f"{claim.task_id}.{claim.epoch}.{name}"
            return await self.documents.delete(self.identity, claim.knowledge_base_id, ids, request_id, claim.headers)

        try:
            return [await delete(document_ids, part)]
        except NotFoundError:
            pass  # Somebody has deleted one of them meanwhile, so that none was.
        runs = []
        for place, document_id in enumerate(document_ids):
            with contextlib.suppress(NotFoundError):
                runs.append(await delete([document_id], f"{part}.{place}"))
        return runs

    def _mass_delete(self, plan: RemovalPlan) -> FailedPreconditionError:
        return FailedPreconditionError(
            "SOURCE_MASS_DELETE",
            f"{plan.gone_count} of {plan.known_count} documents have gone from the source, more than a share of"
            f" {self.settings.max_delete_share:g}; nothing was deleted: sync it with a mass delete allowed if that is"
            " right",
            gone_count=plan.gone_count,
            known_count=plan.known_count,
        )


def _removed_update(item: KnownItem) -> ItemUpdate:
    return ItemUpdate(
        key=item.key,
        display_name=None,
        change=ItemChange.REMOVED if item.document_id else None,
        state=ItemState.REMOVED,
        etag="",
        access_digest="",
        memo="",
    )
