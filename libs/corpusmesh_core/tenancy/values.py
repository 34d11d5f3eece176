"""Knowledge bases, documents, versions and snapshots as the metadata store knows them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from corpusmesh_core.records import Ordinal


class Permission(StrEnum):
    """Who may read a knowledge base."""

    PRIVATE = "private"
    TEAM = "team"


class LifeState(StrEnum):
    """Life of a knowledge base or a document."""

    ACTIVE = "active"
    DELETING = "deleting"
    DELETED = "deleted"


class VersionState(StrEnum):
    """How far a version has come; PUBLISHED-ness is membership in a snapshot, not a state."""

    PENDING = "pending"
    PARSING = "parsing"
    CHUNKING = "chunking"
    ENRICHING = "enriching"
    EMBEDDING = "embedding"
    SUMMARIZING = "summarizing"
    INDEXING = "indexing"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PURGED = "purged"


class DuplicatePolicy(StrEnum):
    """What to do with an upload whose bytes, or whose name, are there already.

    "There" is what the caller may see: a document that the caller may not see is no duplicate of anything.
    """

    UNCHANGED = "unchanged"
    """Nothing, where the newest version of the same document has the bytes; else a version of that document."""
    SKIP = "skip"
    """As UNCHANGED, and nothing either where the newest version of any other document has the bytes."""
    NEW_VERSION = "new_version"
    """A new version, also of the same bytes."""
    KEEP_BOTH = "keep_both"
    """A second document where the name is taken."""


MetadataValue = str | float | datetime
"""A metadata value; a text, a number or a moment (UTC)."""


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A set of documents with one configuration.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Id, unique in its tenant.
        display_name: Name for people, unique in its tenant among the living.
        description: What it is for.
        owner_user_id: Who made it.
        permission: Who may read it.
        config: Its configuration, JSON values.
        space_id: Embedding space of its records.
        current_snapshot_id: Snapshot that readers see; 0 before the first publish.
        policy_epoch: Rises with each change of permission or ACL; part of every cache key.
        etag: Changes with each change of the row.
        state: Its life.
        create_time: UTC.
        update_time: UTC.
        document_count: Living documents; -1 where it was not asked for.
        chunk_count: Chunks of the latest ready version of each living document; -1 where it was not asked for.
    """

    tenant_id: str
    knowledge_base_id: str
    display_name: str
    description: str
    owner_user_id: str
    permission: Permission
    config: Mapping[str, object]
    space_id: str
    current_snapshot_id: int
    policy_epoch: int
    etag: str
    state: LifeState
    create_time: datetime
    update_time: datetime
    document_count: int = -1
    chunk_count: int = -1


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What a user uploaded.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Its knowledge base.
        document_id: Id, unique in its knowledge base.
        display_name: File name, data only.
        source_uri: Where it came from, "" for an upload.
        title: Title given by the caller, else that of its latest parsed version.
        latest_version: Number of its newest version, from 1.
        acl_restricted: Whether only users with an allow entry may read it.
        state: Its life.
        created_by: User.
        create_time: UTC.
        update_time: UTC.
        latest: Its newest version, where the call returns it.
        published_version: Number of the version in the current snapshot; 0 where none is.
        metadata: Values to filter by.
    """

    tenant_id: str
    knowledge_base_id: str
    document_id: str
    display_name: str
    source_uri: str
    title: str
    latest_version: int
    acl_restricted: bool
    state: LifeState
    created_by: str
    create_time: datetime
    update_time: datetime
    latest: "VersionRow | None" = None
    published_version: int = 0
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One immutable state of a document.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Its knowledge base.
        document_id: Its document.
        version: Number from 1 in its document.
        ordinal: Unique in its tenant, never used again.
        display_name: File name of its document.
        original_sha256: Hash of the original, lower-case hex; also its storage key.
        size_bytes: Size of the original.
        media_type: Decided from the content at parsing; the client's claim before.
        title: Title given by the caller, else that found by the parser.
        page_count: 0 where the format has none or before parsing.
        chunk_count: Chunks that are searched and cited.
        record_count: Records of every kind that the index must hold before it may be published.
        token_count: Tokens of its chunks.
        state: How far it has come.
        failed_stage: Stage at which it failed, "" where it did not.
        error_reason: UPPER_SNAKE reason of the failure.
        error_message: One sentence for a person.
        config_hash: Hash of the configuration it is parsed with.
        artefacts: Storage keys by name (parsed, chunks, vectors, …).
        warnings: What could not be read, one sentence each, without document text.
        run_id: Run that makes it.
        publish_time: When it first became visible; None before.
        create_time: UTC.
        config: Parts of the configuration that hold for this version alone, in place of the knowledge base's; the same
            shape as `KnowledgeBase.config`.
        base_ordinal: Version that it was made from: what that one's stages made is taken over where it still holds; 0
            for none.
        sealed_password: What opens the original, sealed with the mesh's key; b"" where none is needed, and once it is
            parsed.
        extracted_metadata: Values found in the document, set on it when the version is published.
    """

    tenant_id: str
    knowledge_base_id: str
    document_id: str
    version: int
    ordinal: Ordinal
    display_name: str
    original_sha256: str
    size_bytes: int
    media_type: str
    title: str
    page_count: int
    chunk_count: int
    record_count: int
    token_count: int
    state: VersionState
    failed_stage: str
    error_reason: str
    error_message: str
    config_hash: str
    artefacts: Mapping[str, str]
    warnings: tuple[str, ...]
    run_id: str
    publish_time: datetime | None
    create_time: datetime
    config: Mapping[str, object] = field(default_factory=dict)
    base_ordinal: int = 0
    sealed_password: bytes = field(default=b"", repr=False)
    extracted_metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """An original that is stored already and shall become a version.

    Attributes:
        document_id: Its document; the same id in the same knowledge base is a new version (see `document_id_for_name`).
        display_name: File name, data only.
        original_sha256: Lower-case hex, 64 characters.
        size_bytes: Size of the original.
        media_type: Client's claim, "" where it made none.
        title: Title given by the caller, "" for the document's own.
        source_uri: Where it came from, "" for an upload.
        metadata: Values to set on the document; None leaves them as they are.
        acl: Access list to set; None leaves it as it is.
        sealed_password: What opens the original, sealed; b"" where none is needed.
    """

    document_id: str
    display_name: str
    original_sha256: str
    size_bytes: int
    media_type: str = ""
    title: str = ""
    source_uri: str = ""
    metadata: Mapping[str, MetadataValue] | None = None
    acl: "tuple[AclEntry, ...] | None" = None
    sealed_password: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One line of a document's access list; deny wins over allow.

    Attributes:
        principal_kind: "user" or "group".
        principal_id: User id or group name.
        effect: "allow" or "deny".
    """

    principal_kind: str
    principal_id: str
    effect: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a knowledge base publishes at one moment.

    Attributes:
        knowledge_base_id: Its knowledge base.
        snapshot_id: Rising in its knowledge base from 1.
        parent_id: Snapshot it was made from; 0 for the first.
        ordinals: Portable serialised roaring bitmap.
        reason: publish, rollback, delete, cancel or build.
        created_by: User or run.
        create_time: UTC.
    """

    knowledge_base_id: str
    snapshot_id: int
    parent_id: int
    ordinals: bytes
    reason: str
    created_by: str
    create_time: datetime


def document_id_for_name(display_name: str) -> str:
    """Make the id of a document from its name, so that the same name is the same document.

    Args:
        display_name: File name, any text.

    Returns:
        A readable slug and a hash of the whole name, `[a-z0-9-]{1,63}`.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", display_name.lower())[:40].strip("-")
    digest = hashlib.sha256(display_name.encode()).hexdigest()[:12]
    return f"{slug}-{digest}" if slug else digest
