"""Brings a database to the newest schema; safe to call from several processes at once."""

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from corpusmesh_core.errors import FailedPreconditionError

_LOCK_KEY = 0x636D_6D69_6772
"""Advisory lock of migrations ("cmmigr")."""

_VERSION_TABLE = "corpusmesh_schema_version"


async def migrate(dsn: str, *, timeout_seconds: float = 120.0) -> str:
    """Run the revisions that a database has not seen yet.

    Args:
        dsn: `postgresql://…` of a user that may create roles and schemas the first time.
        timeout_seconds: Longest wait, that for another migration included.

    Returns:
        The revision that the database is at now.

    Raises:
        FailedPreconditionError: If the schema is newer than this program.
    """
    url = make_url(dsn).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, poolclass=NullPool, connect_args={"timeout": min(timeout_seconds, 10.0)})
    try:
        async with asyncio.timeout(timeout_seconds), engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
            return await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> str:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    options = {"version_table": _VERSION_TABLE, "version_table_schema": "public"}
    context = MigrationContext.configure(connection, opts=options)
    current = context.get_current_revision()
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise FailedPreconditionError(
            "SCHEMA_TOO_NEW",
            f"the database is at revision {current}, which this release does not know",
            revision=current,
        )
    command.upgrade(config, "head")
    return str(MigrationContext.configure(connection, opts=options).get_current_revision())
