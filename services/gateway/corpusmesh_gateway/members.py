"""Who may do what to whom: an admin manages those below, an owner all, and nobody locks the last owner out."""

from collections.abc import AsyncIterator
from datetime import datetime

from corpusmesh_core.errors import FailedPreconditionError, PermissionDeniedError
from corpusmesh_core.ports.metadata import KeyStore, TenantStore
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.members import ApiKey, User

_PAGE_SIZE = 500


def require_may_manage(caller: Identity, user: User) -> None:
    """Check that a caller may change a user or make and revoke its keys.

    A key acts as its user, so whoever makes one for somebody above takes that one's place.

    Args:
        caller: Who calls.
        user: Who is changed.

    Raises:
        PermissionDeniedError: If an admin reaches for another admin or an owner.
    """
    if caller.role is Role.OWNER or user.user_id == caller.user_id or user.role < Role.ADMIN:
        return
    raise PermissionDeniedError("MEMBER_ABOVE_CALLER", "only an owner manages admins and owners")


def require_may_grant_role(caller: Identity, role: Role, *, held: Role | None = None) -> None:
    """Check that a caller may give a role.

    Args:
        caller: Who calls.
        role: The role.
        held: The role that the user has already; keeping it grants nothing.

    Raises:
        PermissionDeniedError: If an admin names an admin or owner.
    """
    if caller.role is Role.OWNER or role < Role.ADMIN or role is held:
        return
    raise PermissionDeniedError("ROLE_ABOVE_CALLER", "only an owner names admins and owners")


def require_may_grant_scope(caller: Identity, scope: Scope) -> None:
    """Check that a caller may give a scope to a key.

    Args:
        caller: Who calls.
        scope: The scope.

    Raises:
        PermissionDeniedError: If it is more than the caller's own key has.
    """
    if scope > caller.scope:
        raise PermissionDeniedError(
            "SCOPE_ABOVE_CALLER",
            f"your key has the scope {caller.scope.name.lower()}; it cannot make one with more",
            caller_scope=caller.scope.name.lower(),
        )


async def require_owner_keeps_key(
    tenants: TenantStore, keys: KeyStore, tenant_id: str, revoked_key_id: str, *, now: datetime
) -> None:
    """Check that some owner can still administer the tenant without a key.

    Args:
        tenants: Knows the members.
        keys: Knows their keys.
        tenant_id: The tenant.
        revoked_key_id: The key to be revoked.
        now: The time, UTC.

    Raises:
        FailedPreconditionError: If no other usable key of an owner has the scope for it.
    """
    async for user in _all_users(tenants, tenant_id):
        if user.role is not Role.OWNER or user.disabled:
            continue
        async for key in all_keys(keys, tenant_id, user.user_id):
            is_usable = key.revoke_time is None and (key.expire_time is None or key.expire_time > now)
            if is_usable and key.scope >= Scope.ADMIN and key.key_id != revoked_key_id:
                return
    raise FailedPreconditionError(
        "LAST_OWNER_KEY", "this is the last key with which an owner can administer the tenant; create another first"
    )


async def all_keys(keys: KeyStore, tenant_id: str, user_id: str) -> AsyncIterator[ApiKey]:
    """Give all keys of a user.

    Args:
        keys: Knows them.
        tenant_id: Tenant of the user.
        user_id: The user.

    Yields:
        The keys.
    """
    after_key = ""
    while page := await keys.list_keys(tenant_id, user_id, after_key, _PAGE_SIZE):
        for key in page:
            yield key
        after_key = page[-1].key_id


async def _all_users(tenants: TenantStore, tenant_id: str) -> AsyncIterator[User]:
    after_key = ""
    while page := await tenants.list_users(tenant_id, after_key, _PAGE_SIZE):
        for user in page:
            yield user
        after_key = page[-1].user_id
