"""The connection pool, and the two kinds of transaction: one tenant's, and the system's own.

Bounds learnt by breaking it (`research/reliability.md` 2.1 and rule 4): getting a connection has a deadline of its own,
a command gives up before its caller does, and a connection that was interrupted is thrown away, since asking it for
anything would wait again.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from corpusmesh_core.errors import ConflictError, InvalidArgumentError, OverloadedError, UnavailableError

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
"""A connection in a transaction."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Bounds of the pool.

    Attributes:
        dsn: `postgresql://…`, with its password: never logged.
        pool_size: Most connections of this process.
        acquire_timeout_seconds: Longest wait for a connection.
        command_timeout_seconds: Longest statement; the server is told the same.
        connect_timeout_seconds: Longest wait for a new connection.
        idle_seconds: Age after which an unused connection is closed.
    """

    dsn: str
    pool_size: int = 10
    acquire_timeout_seconds: float = 3.0
    command_timeout_seconds: float = 10.0
    connect_timeout_seconds: float = 5.0
    idle_seconds: float = 300.0

    def __repr__(self) -> str:
        return f"DatabaseSettings(pool_size={self.pool_size})"


class Database:
    """Transactions on Postgres; open it once per process and close it at the end."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    @property
    def settings(self) -> DatabaseSettings:
        """Its bounds."""
        return self._settings

    async def open(self) -> None:
        """Prepare the pool; connections are made when they are needed.

        Raises:
            UnavailableError: If the server cannot be reached.
        """
        settings = self._settings
        with _translated():
            self._pool = await asyncpg.create_pool(
                settings.dsn,
                min_size=0,
                max_size=settings.pool_size,
                timeout=settings.connect_timeout_seconds,
                command_timeout=settings.command_timeout_seconds,
                max_inactive_connection_lifetime=settings.idle_seconds,
                init=_prepare_connection,
                # Everything is set for one transaction only, so that there is nothing to reset: one round trip less.
                reset=_keep,
                server_settings={"application_name": "corpusmesh", "search_path": "corpusmesh"},
            )

    async def close(self) -> None:
        """Close the pool; connections still in use are ended after a while."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(self._settings.command_timeout_seconds):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    def tenant(self, tenant_id: str, *, durable: bool = True) -> AbstractAsyncContextManager[Connection]:
        """Begin a transaction that sees one tenant, by `async with`.

        Args:
            tenant_id: The tenant.
            durable: Whether the end waits until the change is on disk; not needed for what a crash may forget.

        Returns:
            A context manager that gives the connection; it commits at the end, and rolls back on an error.
        """
        return self._transaction("corpusmesh_app", tenant_id, durable=durable)

    def system(self) -> AbstractAsyncContextManager[Connection]:
        """Begin a transaction that sees every tenant, by `async with`; for relay, sweeper, key look-up, administration.

        Returns:
            A context manager that gives the connection.
        """
        return self._transaction("corpusmesh_system", "", durable=True)

    async def fetch_row(self, query: str, *arguments: object) -> asyncpg.Record | None:
        """Run one statement that sets its own role, outside of a transaction block: one round trip.

        Args:
            query: A call of a function of the schema.
            arguments: Its arguments.

        Returns:
            The first row, None where there is none.

        Raises:
            UnavailableError: If the server does not answer in time.
            OverloadedError: If no connection becomes free in time.
        """
        async with self._acquired() as connection:
            return await connection.fetchrow(query, *arguments)

    async def ping(self) -> None:
        """Ask the server for a sign of life.

        Raises:
            UnavailableError: If there is none in time.
        """
        async with self._acquired() as connection:
            await connection.fetchval("SELECT 1")

    @asynccontextmanager
    async def _transaction(self, role: str, tenant_id: str, *, durable: bool) -> AsyncIterator[Connection]:
        async with self._acquired() as connection, connection.transaction():
            await connection.execute(
                "SELECT set_config('role', $1, true), set_config('corpusmesh.tenant_id', $2, true),"
                " set_config('statement_timeout', $3, true), set_config('synchronous_commit', $4, true)",
                role,
                tenant_id,
                str(int(self._settings.command_timeout_seconds * 1000)),
                "on" if durable else "off",
            )
            yield connection

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Connection]:
        pool = self._pool
        if pool is None:
            raise UnavailableError("DATABASE_CLOSED", "the metadata store is not open in this process")
        with _translated():
            try:
                connection = await pool.acquire(timeout=self._settings.acquire_timeout_seconds)
            except TimeoutError as error:
                raise OverloadedError(
                    "DATABASE_POOL_EXHAUSTED", "no connection to the metadata store became free in time; try again"
                ) from error
            healthy = False
            try:
                yield connection
                healthy = True
            except asyncpg.PostgresError as error:
                # The server said no: the connection is as good as before. It is not if the server is going away.
                healthy = not isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError)
                raise
            except (TimeoutError, asyncio.CancelledError, OSError, asyncpg.InterfaceError):
                raise
            except BaseException:
                healthy = not connection.is_closed()
                raise
            finally:
                if not healthy:
                    connection.terminate()
                await pool.release(connection)


async def _prepare_connection(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def _keep(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    del connection


class _translated:  # noqa: N801 - used like a function
    """Turns the driver's errors into the project's."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError):
            raise ConflictError(
                "DATABASE_CONFLICT", "somebody changed the same rows at the same time; try again"
            ) from error
        if isinstance(error, asyncpg.DataError):
            # Alone: the driver's text quotes the value.
            raise InvalidArgumentError(
                "VALUE_INVALID", "a text holds a character that cannot be kept, such as NUL, or a number is too large"
            ) from None
        if isinstance(error, asyncpg.QueryCanceledError | asyncpg.LockNotAvailableError | TimeoutError):
            raise UnavailableError(
                "DATABASE_TIMEOUT", "the metadata store did not answer in time; try again"
            ) from error
        if isinstance(
            error,
            OSError
            | asyncpg.PostgresConnectionError
            | asyncpg.InterfaceError
            | asyncpg.CannotConnectNowError
            | asyncpg.AdminShutdownError
            | asyncpg.CrashShutdownError
            | asyncpg.InsufficientResourcesError,
        ):
            raise UnavailableError("DATABASE_UNAVAILABLE", "the metadata store cannot be reached; try again") from error
