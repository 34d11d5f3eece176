"""What the mesh asks of sources: the connectors that read them, and the store that remembers them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from corpusmesh_core.ports.work import Claim
from corpusmesh_core.sources import AccessRule, ItemChange, ItemState, KnownItem, ListingEvent, SourceItem, SourcePlace
from corpusmesh_core.tenancy.identity import Identity


@dataclass(frozen=True, slots=True)
class ConnectorCapabilities:
    """What a connector can do.

    Attributes:
        is_incremental: Whether it lists from its cursor only what has changed.
        reports_removals: Whether it names what has gone; otherwise what a complete listing lacks has gone.
        maps_access: Whether its items carry access lists.
        concurrent_open_count: Items that may be read at once, and after the listing has gone on; 1 for an item that
            must be read before the next event is asked for.
        resumes_listing: Whether a listing passes by what the same sync has looked at already (`KnownItem.is_current`):
            one that takes hours then goes on where it was.
    """

    is_incremental: bool
    reports_removals: bool
    maps_access: bool
    concurrent_open_count: int = 1
    resumes_listing: bool = False


class Connector(Protocol):
    """An open place. Errors of `list` and `open` are those of the place: the typed errors of the project."""

    @property
    def capabilities(self) -> ConnectorCapabilities:
        """What it can do."""
        ...

    def list(
        self, cursor: str, known: Mapping[str, KnownItem], *, timeout_seconds: float
    ) -> AsyncIterator[ListingEvent]:
        """List the place.

        Args:
            cursor: `ListingEnd.cursor` of the last listing that ended well; "" for the first.
            known: What is known of its items.
            timeout_seconds: Bound from the first to the last event.

        Returns:
            Events; each key at most once, `ListingEnd` last. A listing that breaks off raises, so that nothing of it is
            mistaken for a removal.
        """
        ...

    def open(self, item: SourceItem, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        """Read an item of the current listing, piece by piece.

        Args:
            item: What `list` yielded.
            timeout_seconds: Bound from the first to the last piece.

        Returns:
            Pieces of at most 1 MiB.

        Raises:
            NotFoundError: If it has gone meanwhile.
        """
        ...


class ConnectorRegistry(Protocol):
    """Makes connectors by the kind of a place."""

    def check(self, tenant_id: str, place: SourcePlace) -> ConnectorCapabilities:
        """Check that a tenant may read a place, without touching it.

        Args:
            tenant_id: Who wants to read.
            place: The place.

        Returns:
            What its connector can do.

        Raises:
            FailedPreconditionError: If the configuration does not open it to the tenant; the same for unknown places.
            InvalidArgumentError: If it asks for more than the configuration allows.
        """
        ...

    def connect(self, tenant_id: str, place: SourcePlace) -> AbstractAsyncContextManager[Connector]:
        """Open a place, by `async with`; checks as `check` does."""
        ...


class SourceState(StrEnum):
    """Whether a source is synced by its schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """What people say of a source.

    Attributes:
        display_name: Name for people.
        place: What it reads.
        schedule_seconds: Time from one sync to the next; 0 for none.
        state: Whether its schedule is followed.
        access: Who may read its documents.
        metadata: What all its documents get.
    """

    display_name: str
    place: SourcePlace
    schedule_seconds: int = 0
    state: SourceState = SourceState.ACTIVE
    access: AccessRule = field(default_factory=AccessRule)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A source as it is stored.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Its knowledge base.
        source_id: Id, unique in its knowledge base.
        spec: What people say of it.
        owner_user_id: With whose rights it is synced.
        cursor: Where the next listing begins.
        last_run_id: Its newest sync; "" before the first.
        error_reason: Why its newest sync failed; "" if it did not.
        error_message: One sentence for a person.
        last_sync_time: When a sync last ended well, UTC.
        next_sync_time: When it is due, UTC; None without a schedule.
        create_time: UTC.
        update_time: UTC.
        etag: Changes with each change of the row.
        item_count: Items with a document.
        failed_item_count: Items that the last sync could not read.
    """

    tenant_id: str
    knowledge_base_id: str
    source_id: str
    spec: SourceSpec
    owner_user_id: str
    cursor: str
    last_run_id: str
    error_reason: str
    error_message: str
    last_sync_time: datetime | None
    next_sync_time: datetime | None
    create_time: datetime
    update_time: datetime
    etag: str
    item_count: int = 0
    failed_item_count: int = 0


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item as callers see it.

    Attributes:
        key: What the source calls it.
        display_name: File name.
        document_id: Its document; "" for none.
        state: Where it stands.
        error_reason: Why it could not be read.
        error_message: One sentence for a person.
        update_time: When something of it last changed, UTC.
    """

    key: str
    display_name: str
    document_id: str
    state: ItemState
    error_reason: str
    error_message: str
    update_time: datetime


@dataclass(frozen=True, slots=True)
class StartedSync:
    """A sync that was started, or goes on already.

    Attributes:
        run_id: Its run.
        is_already_running: Whether it had been started before.
    """

    run_id: str
    is_already_running: bool


class SourceStore(Protocol):
    """Sources; rights are checked inside, as in `metadata`."""

    async def create(
        self, identity: Identity, knowledge_base_id: str, source_id: str, spec: SourceSpec
    ) -> SourceRecord:
        """Create a source, owned by the caller.

        Raises:
            AlreadyExistsError: If the id is taken.
            FailedPreconditionError: If the knowledge base has as many sources as it may.
        """
        ...

    async def get(self, identity: Identity, knowledge_base_id: str, source_id: str) -> SourceRecord:
        """Read one; for callers who may write to its knowledge base.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def list(
        self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int
    ) -> Sequence[SourceRecord]:
        """List sources by id."""
        ...

    async def update(
        self,
        identity: Identity,
        knowledge_base_id: str,
        source_id: str,
        spec: SourceSpec,
        *,
        etag: str,
        takes_over: bool,
    ) -> SourceRecord:
        """Replace what people say of a source; by its owner and by who manages the knowledge base.

        Args:
            identity: Caller.
            knowledge_base_id: Its knowledge base.
            source_id: The source.
            spec: All of it.
            etag: Expected etag.
            takes_over: Whether the caller becomes its owner.

        Returns:
            The source as it is now.

        Raises:
            ConflictError: If the etag is not the current one.
            PermissionDeniedError: If the caller may not change it.
        """
        ...

    async def begin_delete(self, identity: Identity, knowledge_base_id: str, source_id: str) -> Sequence[str]:
        """Stop a source and its sync for good, and give the documents that it has brought and that are there."""
        ...

    async def finish_delete(self, identity: Identity, knowledge_base_id: str, source_id: str) -> None:
        """Forget a source whose deletion has begun."""
        ...

    async def start_sync(
        self,
        identity: Identity,
        knowledge_base_id: str,
        source_id: str,
        *,
        allow_mass_delete: bool,
        headers: Mapping[str, str],
    ) -> StartedSync:
        """Start a sync, or name the one that goes on.

        Raises:
            FailedPreconditionError: SOURCE_BUSY if one goes on that has not been told to allow a mass delete.
        """
        ...

    async def list_items(
        self, identity: Identity, knowledge_base_id: str, source_id: str, after_key: str, limit: int
    ) -> Sequence[ItemRow]:
        """List items by key, without those whose documents the caller may not see."""
        ...


@dataclass(frozen=True, slots=True)
class OpenSync:
    """What a sync begins with.

    Attributes:
        source: The source.
        identity: With whose rights it acts.
        known: What is known of its items, by key.
        allow_mass_delete: Whether a person has confirmed that much may go.
        start_time: When its run was begun, by the clock that versions are dated by.
    """

    source: SourceRecord
    identity: Identity
    known: Mapping[str, KnownItem]
    allow_mass_delete: bool
    start_time: datetime


@dataclass(frozen=True, slots=True)
class ItemUpdate:
    """What to keep of an item.

    Attributes:
        key: The item.
        display_name: File name; None leaves it.
        change: What was done; None for what is only noted.
        state: Where it stands.
        etag: Etag of what was taken in; None leaves it.
        access_digest: Digest of the list that was set; None leaves it.
        document_id: Its document; None leaves it.
        memo: What the connector wants to be told; None leaves it.
        error_reason: Why it could not be read.
        error_message: One sentence for a person.
    """

    key: str
    display_name: str | None
    change: ItemChange | None
    state: ItemState = ItemState.ACTIVE
    etag: str | None = None
    access_digest: str | None = None
    document_id: str | None = None
    memo: str | None = None
    error_reason: str = ""
    error_message: str = ""


class SyncStore(Protocol):
    """What the worker of syncs asks of the store; every write checks that the claim still holds."""

    async def start_due(self, limit: int) -> int:
        """Start the syncs of sources that are due, and tell how many; any number of processes may call it."""
        ...

    async def open_sync(self, claim: Claim) -> OpenSync:
        """Read what a sync begins with.

        Raises:
            NotFoundError: If the source was deleted.
            FailedPreconditionError: SOURCE_OWNER_GONE if its owner may not act any more.
        """
        ...

    async def record(
        self, claim: Claim, updates: Sequence[ItemUpdate], *, listed_count: int, runs: Sequence[str]
    ) -> None:
        """Keep what was done, and show it on the run.

        Args:
            claim: The sync's claim.
            updates: Items; each key once.
            listed_count: Items listed so far.
            runs: Ids of runs that it caused.

        Raises:
            ConflictError: If the claim is not valid any more.
        """
        ...

    async def finish(self, claim: Claim, *, cursor: str, listed_count: int) -> None:
        """Keep that a listing was worked off: cursor, time and counts."""
        ...
