"""What is kept of calls: first responses for a day, and the audit log for ever."""

from collections.abc import Mapping

from corpusmesh_adapters.postgres.database import Database
from corpusmesh_core.errors import ConflictError, InvalidArgumentError
from corpusmesh_core.tenancy.identity import Identity

_RESERVED_SECONDS = 60
_KEPT_SECONDS = 24 * 3600


class PostgresIdempotencyStore:
    """`IdempotencyStore` on Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, identity: Identity, method: str, request_id: str, fingerprint: bytes) -> bytes | None:
        """See `IdempotencyStore`.

        Args:
            identity: Caller.
            method: Full name of the method.
            request_id: Id that the caller gave.
            fingerprint: Hash of the request without its id.

        Returns:
            The first response, or None if the call shall go on.

        Raises:
            InvalidArgumentError: If the id was used for another request.
            ConflictError: If the first call still goes on.
        """
        key = (identity.tenant_id, identity.user_id, method, request_id)
        async with self._database.tenant(identity.tenant_id) as connection:
            # A reservation whose call died is taken over when it has run out.
            reserved = await connection.fetchval(
                "INSERT INTO corpusmesh.idempotency AS i"
                " (tenant_id, user_id, method, request_id, fingerprint, expire_time)"
                " VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))"
                " ON CONFLICT (tenant_id, user_id, method, request_id) DO UPDATE"
                "   SET fingerprint = excluded.fingerprint, response = NULL, expire_time = excluded.expire_time"
                "   WHERE i.expire_time < now() RETURNING true",
                *key,
                fingerprint,
                _RESERVED_SECONDS,
            )
            if reserved:
                return None
            row = await connection.fetchrow(
                "SELECT fingerprint, response FROM corpusmesh.idempotency"
                " WHERE tenant_id = $1 AND user_id = $2 AND method = $3 AND request_id = $4",
                *key,
            )
        if row is not None and row["fingerprint"] != fingerprint:
            raise InvalidArgumentError(
                "REQUEST_ID_REUSED", "the request id was used for another request; take a new one", field="request_id"
            )
        if row is None or row["response"] is None:
            raise ConflictError(
                "REQUEST_IN_PROGRESS", "the first call with this request id still goes on", retry_delay_seconds=1.0
            )
        return bytes(row["response"])

    async def finish(self, identity: Identity, method: str, request_id: str, response: bytes) -> None:
        """See `IdempotencyStore`.

        Args:
            identity: Caller.
            method: Full name of the method.
            request_id: Id that the caller gave.
            response: What to answer again.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await connection.execute(
                "UPDATE corpusmesh.idempotency SET response = $5, expire_time = now() + make_interval(secs => $6)"
                " WHERE tenant_id = $1 AND user_id = $2 AND method = $3 AND request_id = $4",
                identity.tenant_id,
                identity.user_id,
                method,
                request_id,
                response,
                _KEPT_SECONDS,
            )

    async def abandon(self, identity: Identity, method: str, request_id: str) -> None:
        """See `IdempotencyStore`.

        Args:
            identity: Caller.
            method: Full name of the method.
            request_id: Id that the caller gave.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await connection.execute(
                "DELETE FROM corpusmesh.idempotency WHERE tenant_id = $1 AND user_id = $2 AND method = $3"
                " AND request_id = $4 AND response IS NULL",
                identity.tenant_id,
                identity.user_id,
                method,
                request_id,
            )


class PostgresAuditLog:
    """`AuditLog` on Postgres; neither role may change or remove a line."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(
        self,
        identity: Identity,
        action: str,
        resource: str,
        outcome: str,
        request_id: str,
        detail: Mapping[str, str],
    ) -> None:
        """See `AuditLog`.

        Args:
            identity: Who did it.
            action: Full name of the method.
            resource: Resource name.
            outcome: "OK" or the reason of the error.
            request_id: Id of the call.
            detail: Further values, without document text.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await connection.execute(
                "INSERT INTO corpusmesh.audit_log"
                " (tenant_id, actor, key_id, action, resource, outcome, request_id, detail)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                identity.tenant_id,
                identity.user_id,
                identity.key_id,
                action,
                resource,
                outcome,
                request_id,
                dict(detail),
            )
