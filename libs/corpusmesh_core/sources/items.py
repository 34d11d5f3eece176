"""What a connector tells of its source, and what is kept of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from corpusmesh_core.sources.grants import SourceGrant
from corpusmesh_core.tenancy.values import MetadataValue


class ItemState(StrEnum):
    """Where an item stands."""

    ACTIVE = "active"
    FAILED = "failed"
    REMOVED = "removed"


class ItemChange(StrEnum):
    """What a sync has done with an item."""

    ADDED = "added"
    CHANGED = "changed"
    ACCESS = "access"
    REMOVED = "removed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One document of a source, as it is listed.

    Attributes:
        key: What the source calls it, unique in it and stable; at most `places.MAX_KEY_BYTES` bytes.
        display_name: File name, data only.
        etag: Changes whenever the content may have changed.
        size_bytes: Size; None where the listing does not tell.
        modified: When the source last changed it; None where it does not tell.
        source_uri: Where a person finds it.
        metadata: Values to filter by.
        grants: Its access list in the source's words; None where the source has none.
        memo: What the connector wants to be told of it at the next listing.
    """

    key: str
    display_name: str
    etag: str
    size_bytes: int | None = None
    modified: datetime | None = None
    source_uri: str = ""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    grants: tuple[SourceGrant, ...] | None = None
    memo: str = ""


@dataclass(frozen=True, slots=True)
class RemovedItem:
    """The source says that an item has gone.

    Attributes:
        key: The item.
    """

    key: str


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that is there, or may be, and could not be looked at; what is known of it stays.

    Attributes:
        key: The item.
        display_name: File name.
        reason: UPPER_SNAKE reason.
        message: One sentence for a person, without document text.
    """

    key: str
    display_name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ListingEnd:
    """The last event of a listing that ended well.

    Attributes:
        cursor: Where the next listing begins.
        is_complete: Whether every item was listed, so that what was not listed has gone.
    """

    cursor: str = ""
    is_complete: bool = True


ListingEvent: TypeAlias = SourceItem | RemovedItem | FailedItem | ListingEnd
"""What a listing yields; the end exactly once and last."""


@dataclass(frozen=True, slots=True)
class KnownItem:
    """What is kept of an item.

    Attributes:
        key: Its key.
        etag: Etag of what was taken in last; "" for nothing.
        access_digest: Digest of the access list that was set; "" where it was left to people.
        document_id: Its document; "" if it never became one.
        state: Where it stands.
        has_document: Whether its document is there; a person may have deleted it.
        is_cancelled: Whether its newest version was cancelled before it was searchable.
        is_current: Whether the sync that asks has taken it in, or looked at it, already.
        memo: What the connector left for itself.
    """

    key: str
    etag: str
    access_digest: str
    document_id: str
    state: ItemState
    has_document: bool = True
    is_cancelled: bool = False
    is_current: bool = False
    memo: str = ""
