"""Tenants, their members and their keys as the metadata store knows them."""

from dataclasses import dataclass
from datetime import datetime

from corpusmesh_core.tenancy.identity import Role, Scope


@dataclass(frozen=True, slots=True)
class Tenant:
    """One organisation.

    Attributes:
        tenant_id: Slug, `[a-z0-9-]{1,63}`.
        display_name: Name for people.
        next_ordinal: First ordinal not yet given away.
        create_time: When it was made, UTC.
    """

    tenant_id: str
    display_name: str
    next_ordinal: int
    create_time: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A member of a tenant.

    Attributes:
        tenant_id: Tenant.
        user_id: Id, `[a-z0-9-]{1,63}`.
        display_name: Name for people.
        role: Role in the tenant.
        groups: Groups, sorted.
        disabled: Whether all its keys are refused.
        create_time: When it was made, UTC.
    """

    tenant_id: str
    user_id: str
    display_name: str
    role: Role
    groups: tuple[str, ...]
    disabled: bool
    create_time: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret, of which only the hash is stored.

    Attributes:
        tenant_id: Tenant.
        key_id: Public part, `[a-z0-9]{16}`.
        user_id: User on whose behalf it acts.
        scope: What it may be used for.
        create_time: When it was made, UTC.
        expire_time: When it ends, UTC; None for never.
        revoke_time: When it was revoked, UTC; None while it is good.
        last_use_time: About when it was last used (kept to the minute), UTC.
    """

    tenant_id: str
    key_id: str
    user_id: str
    scope: Scope
    create_time: datetime
    expire_time: datetime | None = None
    revoke_time: datetime | None = None
    last_use_time: datetime | None = None
