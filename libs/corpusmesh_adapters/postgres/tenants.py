"""Tenants, members and keys."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.rows import to_api_key, to_tenant, to_user
from corpusmesh_core.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from corpusmesh_core.tenancy.identity import Identity, Role, Scope
from corpusmesh_core.tenancy.keys import KeyMaterial, secret_matches
from corpusmesh_core.tenancy.members import ApiKey, Tenant, User

_USER = (
    "SELECT u.*, m.role, m.groups FROM corpusmesh.users u JOIN corpusmesh.memberships m USING (tenant_id, user_id)"
    " WHERE u.tenant_id = $1"
)
_NO_HASH = bytes(32)


class PostgresTenantStore:
    """`TenantStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_tenant(self, tenant_id: str, display_name: str, owner_user_id: str) -> tuple[Tenant, User]:
        """See `TenantStore`.

        Args:
            tenant_id: Slug.
            display_name: Name for people.
            owner_user_id: Its first owner.

        Returns:
            The tenant and its owner.

        Raises:
            AlreadyExistsError: If the tenant exists.
        """
        async with self._database.system() as connection:
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.tenants (tenant_id, display_name) VALUES ($1, $2)"
                " ON CONFLICT DO NOTHING RETURNING *",
                tenant_id,
                display_name,
            )
            if row is None:
                raise AlreadyExistsError(
                    "TENANT_EXISTS", f"the tenant {tenant_id!r} exists already", field="tenant_id", tenant=tenant_id
                )
            owner = await _insert_user(connection, tenant_id, owner_user_id, owner_user_id, Role.OWNER, ())
        return to_tenant(row), owner

    async def list_tenants(self, after_key: str, limit: int) -> Sequence[Tenant]:
        """See `TenantStore`.

        Args:
            after_key: Id of the last tenant of the page before.
            limit: Most tenants.

        Returns:
            Tenants by id.
        """
        async with self._database.system() as connection:
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2", after_key, limit
            )
        return [to_tenant(row) for row in rows]

    async def create_user(
        self, tenant_id: str, user_id: str, display_name: str, role: Role, groups: Sequence[str]
    ) -> User:
        """See `TenantStore`.

        Args:
            tenant_id: Tenant.
            user_id: Id.
            display_name: Name for people.
            role: Role.
            groups: Groups.

        Returns:
            The user.
        """
        async with self._database.tenant(tenant_id) as connection:
            return await _insert_user(connection, tenant_id, user_id, display_name, role, groups)

    async def get_user(self, tenant_id: str, user_id: str) -> User:
        """See `TenantStore`.

        Args:
            tenant_id: Tenant.
            user_id: Id.

        Returns:
            The user.
        """
        async with self._database.tenant(tenant_id) as connection:
            return await _read_user(connection, tenant_id, user_id)

    async def list_users(self, tenant_id: str, after_key: str, limit: int) -> Sequence[User]:
        """See `TenantStore`.

        Args:
            tenant_id: Tenant.
            after_key: Id of the last user of the page before.
            limit: Most users.

        Returns:
            Users by id.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                f"{_USER} AND u.user_id > $2 ORDER BY u.user_id LIMIT $3", tenant_id, after_key, limit
            )
        return [to_user(row) for row in rows]

    async def update_user(self, user: User) -> User:
        """See `TenantStore`.

        Args:
            user: The new values.

        Returns:
            The user as it is now.

        Raises:
            FailedPreconditionError: If the tenant would be left without an owner.
        """
        async with self._database.tenant(user.tenant_id) as connection:
            # One change of members at a time, or two owners could demote each other.
            await connection.execute(
                "SELECT FROM corpusmesh.memberships WHERE tenant_id = $1 AND role = 'owner' FOR UPDATE", user.tenant_id
            )
            await _read_user(connection, user.tenant_id, user.user_id)
            await connection.execute(
                "UPDATE corpusmesh.users SET display_name = $3, disabled = $4 WHERE tenant_id = $1 AND user_id = $2",
                user.tenant_id,
                user.user_id,
                user.display_name,
                user.disabled,
            )
            await connection.execute(
                "UPDATE corpusmesh.memberships SET role = $3, groups = $4, update_time = now()"
                " WHERE tenant_id = $1 AND user_id = $2",
                user.tenant_id,
                user.user_id,
                user.role.name.lower(),
                sorted(set(user.groups)),
            )
            owners = await connection.fetchval(
                "SELECT count(*) FROM corpusmesh.memberships JOIN corpusmesh.users USING (tenant_id, user_id)"
                " WHERE tenant_id = $1 AND role = 'owner' AND NOT disabled",
                user.tenant_id,
            )
            if owners == 0:
                raise FailedPreconditionError(
                    "LAST_OWNER", "a tenant keeps at least one owner; name another one first", field="user.role"
                )
            return await _read_user(connection, user.tenant_id, user.user_id)


class PostgresKeyStore:
    """`KeyStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_key(
        self, tenant_id: str, user_id: str, key: KeyMaterial, scope: Scope, expire_time: datetime | None
    ) -> ApiKey:
        """See `KeyStore`.

        Args:
            tenant_id: Tenant.
            user_id: Whose key it is.
            key: The key; only the hash of its secret is stored.
            scope: What it may be used for.
            expire_time: When it ends; None for never.

        Returns:
            The key without its secret.
        """
        async with self._database.tenant(tenant_id) as connection:
            await _read_user(connection, tenant_id, user_id)
            row = await connection.fetchrow(
                "INSERT INTO corpusmesh.api_keys (tenant_id, key_id, user_id, secret_sha256, scope, expire_time)"
                " VALUES ($1, $2, $3, $4, $5, $6) RETURNING *",
                tenant_id,
                key.key_id,
                user_id,
                key.secret_sha256,
                scope.name.lower(),
                expire_time,
            )
        assert row is not None, "an insert returns its row"
        return to_api_key(row)

    async def list_keys(self, tenant_id: str, user_id: str, after_key: str, limit: int) -> Sequence[ApiKey]:
        """See `KeyStore`.

        Args:
            tenant_id: Tenant.
            user_id: Whose keys.
            after_key: Id of the last key of the page before.
            limit: Most keys.

        Returns:
            Keys by id.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT * FROM corpusmesh.api_keys WHERE tenant_id = $1 AND user_id = $2 AND key_id > $3"
                " ORDER BY key_id LIMIT $4",
                tenant_id,
                user_id,
                after_key,
                limit,
            )
        return [to_api_key(row) for row in rows]

    async def revoke_key(self, tenant_id: str, user_id: str, key_id: str) -> ApiKey:
        """See `KeyStore`.

        Args:
            tenant_id: Tenant.
            user_id: Whose key.
            key_id: Its id.

        Returns:
            The key; revoking it twice keeps the first time.

        Raises:
            NotFoundError: If the user has no such key.
        """
        async with self._database.tenant(tenant_id) as connection:
            row = await connection.fetchrow(
                "UPDATE corpusmesh.api_keys SET revoke_time = coalesce(revoke_time, now())"
                " WHERE tenant_id = $1 AND user_id = $2 AND key_id = $3 RETURNING *",
                tenant_id,
                user_id,
                key_id,
            )
        if row is None:
            raise NotFoundError("API_KEY_NOT_FOUND", f"the user has no key {key_id!r}; list them", key=key_id)
        return to_api_key(row)

    async def identify(self, key: KeyMaterial) -> Identity | None:
        """See `KeyStore`.

        Args:
            key: Key as the caller sent it.

        Returns:
            Who it belongs to, or None.
        """
        async with self._database.system() as connection:
            row = await connection.fetchrow(
                "SELECT k.tenant_id, k.user_id, k.secret_sha256, k.scope, m.role, m.groups,"
                " k.revoke_time IS NULL AND (k.expire_time IS NULL OR k.expire_time > now()) AND NOT u.disabled"
                "   AND t.state = 'active' AS is_good,"
                " k.last_use_time IS NULL OR k.last_use_time < now() - interval '1 minute' AS is_stale"
                " FROM corpusmesh.api_keys k"
                " JOIN corpusmesh.users u USING (tenant_id, user_id)"
                " JOIN corpusmesh.memberships m USING (tenant_id, user_id)"
                " JOIN corpusmesh.tenants t USING (tenant_id)"
                " WHERE k.key_id = $1",
                key.key_id,
            )
            # An unknown key takes the time of a known one.
            matches = secret_matches(key, row["secret_sha256"] if row is not None else _NO_HASH)
            if row is None or not matches or not row["is_good"]:
                return None
            if row["is_stale"]:
                await connection.execute(
                    "UPDATE corpusmesh.api_keys SET last_use_time = now() WHERE key_id = $1", key.key_id
                )
        return Identity(
            tenant_id=row["tenant_id"],
            user_id=row["user_id"],
            role=Role[row["role"].upper()],
            scope=Scope[row["scope"].upper()],
            groups=tuple(row["groups"]),
            key_id=key.key_id,
        )


async def _insert_user(
    connection: Connection, tenant_id: str, user_id: str, display_name: str, role: Role, groups: Sequence[str]
) -> User:
    try:
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO corpusmesh.users (tenant_id, user_id, display_name) VALUES ($1, $2, $3)",
                tenant_id,
                user_id,
                display_name,
            )
    except asyncpg.UniqueViolationError as error:
        raise AlreadyExistsError(
            "USER_EXISTS", f"the user {user_id!r} exists already", field="user_id", user=user_id
        ) from error
    await connection.execute(
        "INSERT INTO corpusmesh.memberships (tenant_id, user_id, role, groups) VALUES ($1, $2, $3, $4)",
        tenant_id,
        user_id,
        role.name.lower(),
        sorted(set(groups)),
    )
    return await _read_user(connection, tenant_id, user_id)


async def _read_user(connection: Connection, tenant_id: str, user_id: str) -> User:
    row = await connection.fetchrow(f"{_USER} AND u.user_id = $2", tenant_id, user_id)
    if row is None:
        raise NotFoundError("USER_NOT_FOUND", f"there is no user {user_id!r}; list the users", user=user_id)
    return to_user(row)
