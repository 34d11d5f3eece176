"""Begins the runs that make and remove builds of knowledge bases: on request, and where builds follow by themselves."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
from pyroaring import BitMap

from corpusmesh_adapters.postgres.build_kinds import BuildKind
from corpusmesh_adapters.postgres.builds import (
    LIVING_RUN,
    current_bitmap,
    read_build,
    shown_versions,
    start_run,
    withdraw_build,
)
from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.guards import require_knowledge_base
from corpusmesh_adapters.postgres.publishing import lock_current
from corpusmesh_adapters.postgres.rows import new_id
from corpusmesh_adapters.postgres.run_creation import RunOrder, WorkLimits, check_backlog
from corpusmesh_adapters.postgres.runs import cancel_run
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, OverloadedError
from corpusmesh_core.ports.builds import BuildOrder, BuildState
from corpusmesh_core.tenancy.access import Access
from corpusmesh_core.tenancy.identity import CallerKind, Identity, Role, Scope
from corpusmesh_core.tenancy.publishing import load_bitmap

_REMOVAL_SECONDS = 3600
"""How long nothing of a build that is being removed must have been forgotten before its removal counts as given up:
longer than the second look waits, and is put off where the index does not answer."""
_MOST_QUIET_TIMES = 20.0
"""How many times the quiet that is waited for something published may wait for it."""
_DUE = """
    SELECT k.tenant_id, k.knowledge_base_id, b.run_id AS build_run_id
    FROM corpusmesh.knowledge_bases k
    LEFT JOIN corpusmesh.builds b ON b.tenant_id = k.tenant_id AND b.knowledge_base_id = k.knowledge_base_id
      AND b.kind = $1 AND b.state <> 'deleting'
    LEFT JOIN corpusmesh.runs r ON r.tenant_id = b.tenant_id AND r.run_id = b.run_id
    LEFT JOIN corpusmesh.snapshots s ON s.tenant_id = k.tenant_id AND s.knowledge_base_id = k.knowledge_base_id
      AND s.snapshot_id = k.current_snapshot_id
    LEFT JOIN corpusmesh.graph_inputs i ON $5 AND i.tenant_id = k.tenant_id
      AND i.knowledge_base_id = k.knowledge_base_id
    WHERE k.state = 'active' AND CASE
        WHEN {is_wanted} THEN
            (r.state IS NULL OR NOT r.state = ANY ($2))
            AND ((s.create_time < now() - make_interval(secs => $3)
                    -- What is published to again and again is never quiet, and follows all the same.
                    OR EXISTS (
                        SELECT FROM corpusmesh.snapshots o
                        WHERE o.tenant_id = k.tenant_id AND o.knowledge_base_id = k.knowledge_base_id
                          AND o.snapshot_id > coalesce(b.seen_snapshot_id, 0)
                          AND o.create_time < now() - make_interval(secs => $3 * $6)))
                AND k.current_snapshot_id <> coalesce(CASE
                    WHEN coalesce(k.config -> '{section}' ->> 'auto_update', 'true') <> 'false' THEN b.seen_snapshot_id
                    -- What has lost a document must let go of it, whether it follows otherwise or not.
                    WHEN $5 AND b.build_id IS NOT NULL THEN b.seen_loss_snapshot_id
                    ELSE k.current_snapshot_id END, 0)
              OR b.state = 'ready' AND coalesce(i.sequence, 0) <> b.seen_input_sequence)
        ELSE b.build_id IS NOT NULL END
    -- Not the oldest first: those that cannot begin (the queue of their tenant is full, they have no document any more)
    -- would stand before all others for ever.
    ORDER BY row_number() OVER (PARTITION BY k.tenant_id ORDER BY random()), random() LIMIT $4
"""
_GIVEN_UP = """
    SELECT b.tenant_id, b.knowledge_base_id, b.build_id, b.run_id
    FROM corpusmesh.builds b LEFT JOIN corpusmesh.runs r ON r.tenant_id = b.tenant_id AND r.run_id = b.run_id
    WHERE b.kind = $4 AND b.state = 'deleting' AND b.update_time < now() - make_interval(secs => $2)
      AND (r.state IS NULL OR NOT r.state = ANY ($1))
    ORDER BY b.update_time LIMIT $3
"""


async def begin_build(
    connection: Connection,
    identity: Identity,
    knowledge_base_id: str,
    kind: BuildKind,
    order: BuildOrder,
    limits: WorkLimits,
) -> bool:
    """Begin a build of a locked knowledge base, if none is under way.

    Returns:
        Whether it was begun.

    Raises:
        OverloadedError: If too much work waits.
    """
    tenant_id = identity.tenant_id
    await check_backlog(connection, tenant_id, limits)
    row = await read_build(connection, tenant_id, knowledge_base_id=knowledge_base_id, kind=kind.name)
    if row is not None and row["state"] != BuildState.DELETING:
        if row["run_state"] in LIVING_RUN:
            return False
        build_id = row["build_id"]
    else:
        build_id = new_id()
        await connection.execute(
            "INSERT INTO corpusmesh.builds (tenant_id, build_id, knowledge_base_id, kind, state)"
            " VALUES ($1, $2, $3, $4, 'empty')",
            tenant_id,
            build_id,
            knowledge_base_id,
            kind.name,
        )
    run_order = RunOrder(kind.run, identity.user_id, order.request_id, headers=order.headers)
    payload = {"full": "1" if order.full else ""}
    run_id = await start_run(connection, tenant_id, knowledge_base_id, build_id, run_order, payload)
    await connection.execute(
        "UPDATE corpusmesh.builds b SET run_id = $3, plan = $4, progress = '{}', update_time = now(),"
        # If it fails, it is not tried again by itself before something else is published.
        "   seen_snapshot_id = k.current_snapshot_id, seen_loss_snapshot_id = k.current_snapshot_id,"
        # Read before the build reads them: what is given in between is looked at twice, and never missed.
        "   seen_input_sequence = coalesce((SELECT i.sequence FROM corpusmesh.graph_inputs i"
        "     WHERE i.tenant_id = k.tenant_id AND i.knowledge_base_id = k.knowledge_base_id), 0)"
        " FROM corpusmesh.knowledge_bases k"
        " WHERE b.tenant_id = $1 AND b.build_id = $2 AND k.tenant_id = b.tenant_id"
        "   AND k.knowledge_base_id = b.knowledge_base_id",
        tenant_id,
        build_id,
        run_id,
        dict(order.plan),
    )
    return True


async def begin_removal(
    connection: Connection, identity: Identity, knowledge_base_id: str, kind: BuildKind, request_id: str
) -> None:
    """Withdraw a build and begin the run that removes it, unless it is being removed already.

    Raises:
        NotFoundError: If there is none.
    """
    tenant_id = identity.tenant_id
    row = await read_build(connection, tenant_id, knowledge_base_id=knowledge_base_id, kind=kind.name)
    if row is None:
        raise kind.not_found(knowledge_base_id)
    # Runs are locked before knowledge bases.
    await cancel_run(connection, tenant_id, row["run_id"])
    current = await lock_current(connection, tenant_id, knowledge_base_id)
    # Only now: of two deletions of one build the second one finds it deleted.
    row = await read_build(connection, tenant_id, build_id=row["build_id"])
    if row is not None and row["state"] != BuildState.DELETING:
        order = RunOrder(kind.removal, identity.user_id, request_id)
        await withdraw_build(connection, row, order, current)


async def start_due(
    database: Database, limits: WorkLimits, kind: BuildKind, limit: int, *, quiet_seconds: float
) -> int:
    """See `BuildStore`; whoever locks a knowledge base first starts its build, and the others pass it by.

    Returns:
        How many runs were begun.
    """
    async with database.system() as connection:
        due = await connection.fetch(
            _DUE.format(is_wanted=kind.is_wanted, section=kind.section),
            kind.name,
            list(LIVING_RUN),
            quiet_seconds,
            limit,
            kind.takes_inputs,
            _MOST_QUIET_TIMES,
        )
        given_up = await connection.fetch(_GIVEN_UP, list(LIVING_RUN), _REMOVAL_SECONDS, limit, kind.name)
    count = 0
    for row in due:
        # What is wrong with one, or was changed by somebody else meanwhile, does not hold up the others.
        with contextlib.suppress(InvalidArgumentError, NotFoundError, OverloadedError):
            count += await _start_if_due(database, limits, kind, row)
    for row in given_up:
        count += await _remove_again(database, kind, row)
    return count


async def _start_if_due(database: Database, limits: WorkLimits, kind: BuildKind, due: asyncpg.Record) -> int:
    tenant_id, knowledge_base_id = due["tenant_id"], due["knowledge_base_id"]
    identity = Identity(tenant_id, kind.service, Role.OWNER, Scope.WRITE, kind=CallerKind.SERVICE)
    async with database.tenant(tenant_id) as connection:
        knowledge_base = await connection.fetchrow(
            "SELECT config, current_snapshot_id FROM corpusmesh.knowledge_bases"
            " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND state = 'active' FOR UPDATE SKIP LOCKED",
            tenant_id,
            knowledge_base_id,
        )
        row = await read_build(connection, tenant_id, knowledge_base_id=knowledge_base_id, kind=kind.name)
        living = row if row is not None and row["state"] != BuildState.DELETING else None
        if knowledge_base is None or (living is not None and living["run_id"] != (due["build_run_id"] or "")):
            return 0
        if kind.wants(knowledge_base["config"]):
            follower = _Follower(connection, identity, kind, limits)
            return await follower.follow(knowledge_base_id, knowledge_base["config"], living)
    if living is None:
        return 0
    # Its own transaction: the run of a build is locked before the knowledge base.
    async with database.tenant(tenant_id) as connection:
        await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
        await begin_removal(connection, identity, knowledge_base_id, kind, "")
    return 1


@dataclass(frozen=True, slots=True)
class _Follower:
    """Begins a build of a locked knowledge base, if it is outdated.

    Attributes:
        connection: The transaction.
        identity: In whose name.
        kind: Kind of the build.
        limits: Bounds of the work that is taken in.
    """

    connection: Connection
    identity: Identity
    kind: BuildKind
    limits: WorkLimits

    async def follow(self, knowledge_base_id: str, config: Mapping[str, Any], row: asyncpg.Record | None) -> int:
        tenant_id = self.identity.tenant_id
        current = await current_bitmap(self.connection, tenant_id, knowledge_base_id)
        versions = await shown_versions(self.connection, tenant_id, knowledge_base_id, current)
        if row is None and not versions:
            return 0
        if row is not None and not await self._is_outdated(row, config, versions, load_bitmap(current)):
            return 0
        full = row is not None and row["figures"].get("wants_full_build") is True
        order = BuildOrder(full=full)
        return int(await begin_build(self.connection, self.identity, knowledge_base_id, self.kind, order, self.limits))

    async def _is_outdated(
        self, row: asyncpg.Record, config: Mapping[str, Any], versions: BitMap, current: BitMap
    ) -> bool:
        sources = load_bitmap(row["sources"])
        if self.kind.takes_inputs and await self._has_inputs(row):
            return True
        section = config.get(self.kind.section)
        follows = not isinstance(section, Mapping) or section.get("auto_update", True)
        if follows:
            if not (load_bitmap(row["nodes"]) <= current and versions == sources):
                return True
        elif await self._has_purged(sources - versions):
            return True
        await self.connection.execute(
            "UPDATE corpusmesh.builds b SET seen_loss_snapshot_id = k.current_snapshot_id,"
            "   seen_snapshot_id = CASE WHEN $3 THEN k.current_snapshot_id ELSE b.seen_snapshot_id END"
            " FROM corpusmesh.knowledge_bases k"
            " WHERE b.tenant_id = $1 AND b.build_id = $2 AND k.tenant_id = b.tenant_id"
            "   AND k.knowledge_base_id = b.knowledge_base_id",
            row["tenant_id"],
            row["build_id"],
            follows,
        )
        return False

    async def _has_inputs(self, row: asyncpg.Record) -> bool:
        found: bool = await self.connection.fetchval(
            "SELECT b.state = 'ready' AND b.seen_input_sequence <> coalesce(i.sequence, 0) FROM corpusmesh.builds b"
            " LEFT JOIN corpusmesh.graph_inputs i USING (tenant_id, knowledge_base_id)"
            " WHERE b.tenant_id = $1 AND b.build_id = $2",
            row["tenant_id"],
            row["build_id"],
        )
        return found

    async def _has_purged(self, lost: BitMap) -> bool:
        found: bool = await self.connection.fetchval(
            "SELECT EXISTS (SELECT FROM corpusmesh.versions"
            "   WHERE tenant_id = $1 AND ordinal = ANY ($2) AND state = 'purged')",
            self.identity.tenant_id,
            list(lost),
        )
        return found


async def _remove_again(database: Database, kind: BuildKind, given_up: asyncpg.Record) -> int:
    """Begin a removal that was given up once more: nobody can ask for it, and its records would stay for ever."""
    tenant_id = given_up["tenant_id"]
    async with database.tenant(tenant_id) as connection:
        await lock_current(connection, tenant_id, given_up["knowledge_base_id"])
        row = await read_build(connection, tenant_id, build_id=given_up["build_id"])
        if row is None or row["run_id"] != given_up["run_id"]:
            return 0
        await withdraw_build(connection, row, RunOrder(kind.removal, kind.service), None)
    return 1
