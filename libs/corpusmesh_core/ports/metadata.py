"""What the mesh asks of its metadata store: one small Protocol per role.

Every method that takes an `Identity` checks the caller's right itself and answers unknown and forbidden alike
(`NotFoundError`). Every method may raise `UnavailableError`, `OverloadedError` and `ConflictError` of the store. Lists
are by key: `after_key` is the last key of the page before, "" for the first page.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from corpusmesh_core.ports.work import StageAttempt
from corpusmesh_core.tenancy.access import Access
from corpusmesh_core.tenancy.identity import Identity, Role, Scope
from corpusmesh_core.tenancy.keys import KeyMaterial
from corpusmesh_core.tenancy.members import ApiKey, Tenant, User
from corpusmesh_core.tenancy.values import (
    AclEntry,
    DocumentRow,
    KnowledgeBase,
    MetadataValue,
    Permission,
    Snapshot,
    VersionRow,
)
from corpusmesh_core.tenancy.visibility import MetadataFilter, VisibilityInputs


class TenantStore(Protocol):
    """Tenants and their members; the caller has checked who asks."""

    async def create_tenant(self, tenant_id: str, display_name: str, owner_user_id: str) -> tuple[Tenant, User]:
        """Create a tenant with its first owner.

        Raises:
            AlreadyExistsError: If the tenant exists.
        """
        ...

    async def list_tenants(self, after_key: str, limit: int) -> Sequence[Tenant]:
        """List tenants by id."""
        ...

    async def create_user(
        self, tenant_id: str, user_id: str, display_name: str, role: Role, groups: Sequence[str]
    ) -> User:
        """Create a member.

        Raises:
            AlreadyExistsError: If the user exists.
        """
        ...

    async def get_user(self, tenant_id: str, user_id: str) -> User:
        """Read a member.

        Raises:
            NotFoundError: If there is none.
        """
        ...

    async def list_users(self, tenant_id: str, after_key: str, limit: int) -> Sequence[User]:
        """List members by id."""
        ...

    async def update_user(self, user: User) -> User:
        """Set a member's name, role, groups and state.

        Raises:
            NotFoundError: If there is none.
            FailedPreconditionError: If the tenant would be left without an owner.
        """
        ...


class KeyStore(Protocol):
    """API keys; only the hash of a secret is stored."""

    async def create_key(
        self, tenant_id: str, user_id: str, key: KeyMaterial, scope: Scope, expire_time: datetime | None
    ) -> ApiKey:
        """Store a key.

        Raises:
            NotFoundError: If the user does not exist.
        """
        ...

    async def list_keys(self, tenant_id: str, user_id: str, after_key: str, limit: int) -> Sequence[ApiKey]:
        """List a user's keys by id."""
        ...

    async def revoke_key(self, tenant_id: str, user_id: str, key_id: str) -> ApiKey:
        """Revoke a key; it is refused from the next request on.

        Raises:
            NotFoundError: If the user has no such key.
        """
        ...

    async def identify(self, key: KeyMaterial) -> Identity | None:
        """Find who a key belongs to; None if it is unknown, wrong, expired, revoked or its user disabled."""
        ...


@dataclass(frozen=True, slots=True)
class KnowledgeBaseChange:
    """Fields to set; None leaves a field as it is.

    Attributes:
        display_name: Name for people.
        description: What it is for.
        permission: Who may read it.
        config: Whole configuration.
        etag: Expected etag; None to write over any.
    """

    display_name: str | None = None
    description: str | None = None
    permission: Permission | None = None
    config: Mapping[str, object] | None = None
    etag: str | None = None


class KnowledgeBaseStore(Protocol):
    """Knowledge bases."""

    async def create(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        display_name: str,
        description: str,
        permission: Permission,
        config: Mapping[str, object],
        space_id: str,
    ) -> KnowledgeBase:
        """Create one, owned by the caller.

        Raises:
            AlreadyExistsError: If the id was ever used in the tenant.
        """
        ...

    async def get(self, identity: Identity, knowledge_base_id: str, access: Access = Access.READ) -> KnowledgeBase:
        """Read one that the caller has the access to.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], access: Access) -> None:
        """Check that the caller has the access to all of some knowledge bases, at one moment.

        Raises:
            NotFoundError: If one is unknown or forbidden.
        """
        ...

    async def count(self, identity: Identity, knowledge_base_ids: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """Count, for each knowledge base, the living documents that the caller may see and their published chunks.

        Raises:
            NotFoundError: If one is unknown or forbidden.
        """
        ...

    async def list(self, identity: Identity, after_key: str, limit: int) -> Sequence[KnowledgeBase]:
        """List what the caller may read, by id."""
        ...

    async def update(self, identity: Identity, knowledge_base_id: str, change: KnowledgeBaseChange) -> KnowledgeBase:
        """Change one.

        Raises:
            NotFoundError: If it is unknown or forbidden.
            ConflictError: If the etag is not the current one.
        """
        ...

    async def delete(
        self, identity: Identity, knowledge_base_id: str, request_id: str, headers: Mapping[str, str]
    ) -> str:
        """Hide it at once, cancel its runs and start the run that purges it.

        Returns:
            Id of the purge run.
        """
        ...


class DocumentStore(Protocol):
    """Documents and versions."""

    async def get(self, identity: Identity, knowledge_base_id: str, document_id: str) -> DocumentRow:
        """Read a document with its newest version and metadata.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def list(
        self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int, *, name_prefix: str = ""
    ) -> Sequence[DocumentRow]:
        """List the living documents that the caller may read and whose display name begins with a prefix, by id."""
        ...

    async def count(self, identity: Identity, knowledge_base_id: str, name_prefix: str) -> int:
        """Count what `list` gives over all pages."""
        ...

    async def list_versions(
        self, identity: Identity, knowledge_base_id: str, document_id: str, before_version: int, limit: int
    ) -> Sequence[VersionRow]:
        """List versions below a number (0 for all), newest first."""
        ...

    async def update(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_id: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        acl: Sequence[AclEntry] | None = None,
    ) -> DocumentRow:
        """Replace what is given; a new access list binds the next request."""
        ...

    async def delete(
        self,
        identity: Identity,
        knowledge_base_id: str,
        document_ids: Sequence[str],
        request_id: str,
        headers: Mapping[str, str],
    ) -> str:
        """Hide documents at once and start the run that purges them.

        Returns:
            Id of the purge run; the same for the same request id.

        Raises:
            NotFoundError: If one is unknown or forbidden; then nothing is deleted.
        """
        ...

    async def list_acl(self, identity: Identity, knowledge_base_id: str, document_id: str) -> Sequence[AclEntry]:
        """Read a document's access list; for callers who may write."""
        ...

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[VersionRow]:
        """Read versions for a worker or a citation; the caller has checked the right. Unknown ones are missing."""
        ...


class PurgeStore(Protocol):
    """What a purge has to know and to prove; for workers."""

    async def remove_originals(
        self, tenant_id: str, ordinals: Sequence[int], remove: Callable[[str], Awaitable[None]]
    ) -> int:
        """Remove originals that no version outside of `ordinals` still needs.

        An upload of the same bytes either is known before one is removed, which keeps it, or begins after that, which
        puts it back (see `RunStore.ingest`).

        Args:
            tenant_id: Tenant.
            ordinals: Versions that are purged.
            remove: Removes the original with a hash; called once for each.

        Returns:
            How many were removed.
        """
        ...

    def artefact_lock(self, tenant_id: str, key: str) -> AbstractAsyncContextManager[None]:
        """Hold an artefact of a batch: whoever else wants to rewrite it waits.

        Args:
            tenant_id: Tenant.
            key: The artefact's key.

        Returns:
            A context; the artefact is held inside it.
        """
        ...

    async def unshared_originals(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[str]:
        """Give hashes of originals that no version outside of `ordinals` still needs."""
        ...

    async def attempts(self, tenant_id: str, ordinals: Sequence[int]) -> Sequence[StageAttempt]:
        """Give every task that has worked, or may have worked, on versions."""
        ...

    async def ordinals_of(self, tenant_id: str, knowledge_base_id: str, document_id: str) -> Sequence[int]:
        """Give the ordinals of all versions that a document ever had."""
        ...

    async def build_ids(self, tenant_id: str, knowledge_base_id: str) -> Sequence[str]:
        """Name the builds of a knowledge base: what they have found in a version goes with it."""
        ...

    async def count_rows(self, tenant_id: str, knowledge_base_id: str, document_id: str) -> int:
        """Count the rows that a deleted document left besides the mark that it was deleted."""
        ...


class SnapshotStore(Protocol):
    """What is published."""

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        """Give all that a read needs to know, at one moment and in one round trip.

        Raises:
            NotFoundError: If the knowledge base or the snapshot is unknown or forbidden.
        """
        ...

    async def list(
        self, identity: Identity, knowledge_base_id: str, before_id: int, limit: int
    ) -> tuple[Sequence[Snapshot], int]:
        """List snapshots below an id (0 for all), newest first, and give the id of the current one."""
        ...

    async def rollback(self, identity: Identity, knowledge_base_id: str, snapshot_id: int) -> Snapshot:
        """Publish an earlier snapshot again, without what was deleted since.

        Raises:
            NotFoundError: If it is unknown, forbidden or not kept any more.
        """
        ...

    async def publish_version(
        self, identity: Identity, knowledge_base_id: str, document_id: str, version: int
    ) -> Snapshot:
        """Show a version that is ready in place of the document's shown one; an older one is a rollback.

        Raises:
            NotFoundError: If it is unknown or forbidden.
            FailedPreconditionError: If it is not ready.
        """
        ...

    async def waiting_versions(self, tenant_id: str, knowledge_base_id: str, limit: int) -> Sequence[VersionRow]:
        """Give versions that are ready, unpublished, and of runs that are neither cancelled nor held."""
        ...

    async def plan_candidate(self, tenant_id: str, knowledge_base_id: str, ordinals: Sequence[int]) -> bytes:
        """Give the bitmap that would be published were some versions added now; nothing is published.

        Returns:
            Portable roaring bitmap; that of today where none of them would become visible.
        """
        ...

    async def change(
        self, tenant_id: str, knowledge_base_id: str, *, add: Sequence[int], remove: Sequence[int], created_by: str
    ) -> Snapshot:
        """Publish and withdraw builds (trees, graphs), by a worker."""
        ...


class IdempotencyStore(Protocol):
    """First responses of mutating calls, kept for 24 hours."""

    async def begin(self, identity: Identity, method: str, request_id: str, fingerprint: bytes) -> bytes | None:
        """Reserve a request id.

        Returns:
            The first response if there is one; None if the call shall go on.

        Raises:
            InvalidArgumentError: If the id was used for another request.
            ConflictError: If the first call still goes on.
        """
        ...

    async def finish(self, identity: Identity, method: str, request_id: str, response: bytes) -> None:
        """Keep the response."""
        ...

    async def abandon(self, identity: Identity, method: str, request_id: str) -> None:
        """Free an id whose call failed."""
        ...


class AuditLog(Protocol):
    """Who did what; append only, without document text."""

    async def append(
        self,
        identity: Identity,
        action: str,
        resource: str,
        outcome: str,
        request_id: str,
        detail: Mapping[str, str],
    ) -> None:
        """Write one line."""
        ...
