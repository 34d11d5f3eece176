"""Tenants, keys and the audit log in memory, for tests of what stands in front of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from corpusmesh_core.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError, UnavailableError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.keys import KeyMaterial, secret_matches
from corpusmesh_core.tenancy.members import ApiKey, Tenant, User


@dataclass
class Members:
    """State of the stores; `away` makes each of them fail."""

    tenants: dict[str, Tenant] = field(default_factory=dict)
    users: dict[tuple[str, str], User] = field(default_factory=dict)
    keys: dict[str, tuple[ApiKey, bytes]] = field(default_factory=dict)
    rows: list[tuple[str, str, str, str, Mapping[str, str]]] = field(default_factory=list)
    look_ups: int = 0
    away: bool = False

    def check(self) -> None:
        if self.away:
            raise UnavailableError("DATABASE_UNAVAILABLE", "the database does not answer")


class MemoryTenants:
    def __init__(self, members: Members) -> None:
        self._members = members

    async def create_tenant(self, tenant_id: str, display_name: str, owner_user_id: str) -> tuple[Tenant, User]:
        self._members.check()
        if tenant_id in self._members.tenants:
            raise AlreadyExistsError("TENANT_EXISTS", "there is such a tenant")
        tenant = Tenant(tenant_id, display_name, 1, datetime.now(UTC))
        self._members.tenants[tenant_id] = tenant
        return tenant, await self.create_user(tenant_id, owner_user_id, owner_user_id, Role.OWNER, ())

    async def list_tenants(self, after_key: str, limit: int) -> Sequence[Tenant]:
        self._members.check()
        return [self._members.tenants[name] for name in sorted(self._members.tenants) if name > after_key][:limit]

    async def create_user(
        self, tenant_id: str, user_id: str, display_name: str, role: Role, groups: Sequence[str]
    ) -> User:
        self._members.check()
        if (tenant_id, user_id) in self._members.users:
            raise AlreadyExistsError("USER_EXISTS", "there is such a user")
        user = User(tenant_id, user_id, display_name, role, tuple(groups), False, datetime.now(UTC))
        self._members.users[tenant_id, user_id] = user
        return user

    async def get_user(self, tenant_id: str, user_id: str) -> User:
        self._members.check()
        try:
            return self._members.users[tenant_id, user_id]
        except KeyError:
            raise NotFoundError("USER_NOT_FOUND", "there is no such user") from None

    async def list_users(self, tenant_id: str, after_key: str, limit: int) -> Sequence[User]:
        users = [self._members.users[key] for key in sorted(self._members.users) if key[0] == tenant_id]
        return [user for user in users if user.user_id > after_key][:limit]

    async def update_user(self, user: User) -> User:
        await self.get_user(user.tenant_id, user.user_id)
        others = [
            other
            for key, other in self._members.users.items()
            if key[0] == user.tenant_id and other.user_id != user.user_id
        ]
        owners = [other for other in (*others, user) if other.role is Role.OWNER and not other.disabled]
        if not owners:
            raise FailedPreconditionError("LAST_OWNER", "a tenant keeps an owner")
        self._members.users[user.tenant_id, user.user_id] = user
        return user


class MemoryKeys:
    def __init__(self, members: Members) -> None:
        self._members = members

    async def create_key(
        self, tenant_id: str, user_id: str, key: KeyMaterial, scope: Scope, expire_time: datetime | None
    ) -> ApiKey:
        self._members.check()
        made = ApiKey(tenant_id, key.key_id, user_id, scope, datetime.now(UTC), expire_time)
        self._members.keys[key.key_id] = made, key.secret_sha256
        return made

    async def list_keys(self, tenant_id: str, user_id: str, after_key: str, limit: int) -> Sequence[ApiKey]:
        keys = [self._members.keys[key_id][0] for key_id in sorted(self._members.keys) if key_id > after_key]
        return [key for key in keys if (key.tenant_id, key.user_id) == (tenant_id, user_id)][:limit]

    async def revoke_key(self, tenant_id: str, user_id: str, key_id: str) -> ApiKey:
        key, secret_sha256 = self._members.keys.get(key_id, (None, b""))
        if key is None or (key.tenant_id, key.user_id) != (tenant_id, user_id):
            raise NotFoundError("API_KEY_NOT_FOUND", "there is no such key")
        revoked = replace(key, revoke_time=key.revoke_time or datetime.now(UTC))
        self._members.keys[key_id] = revoked, secret_sha256
        return revoked

    async def identify(self, key: KeyMaterial) -> Identity | None:
        self._members.check()
        self._members.look_ups += 1
        found, secret_sha256 = self._members.keys.get(key.key_id, (None, bytes(32)))
        if found is None or not secret_matches(key, secret_sha256) or found.revoke_time is not None:
            return None
        user = self._members.users[found.tenant_id, found.user_id]
        if user.disabled or (found.expire_time is not None and found.expire_time <= datetime.now(UTC)):
            return None
        return Identity(user.tenant_id, user.user_id, user.role, found.scope, groups=user.groups, key_id=found.key_id)


class MemoryAudit:
    def __init__(self, members: Members) -> None:
        self._members = members

    async def append(
        self,
        identity: Identity,
        action: str,
        resource: str,
        outcome: str,
        request_id: str,
        detail: Mapping[str, str],
    ) -> None:
        self._members.check()
        self._members.rows.append((f"{identity.tenant_id}/{identity.user_id}", action, resource, outcome, detail))
