"""Builds of one kind: their rows, the ordinals of their parts, and the runs that make them."""

from collections.abc import Collection, Mapping, Sequence

from pyroaring import BitMap

from corpusmesh_adapters.postgres.build_kinds import KINDS
from corpusmesh_adapters.postgres.build_runs import begin_build, begin_removal, start_due
from corpusmesh_adapters.postgres.builds import (
    LIVING_RUN,
    build_of_run,
    current_bitmap,
    drafts_of,
    forget_ordinals,
    read_build,
    shown_versions,
    tell,
    to_build,
)
from corpusmesh_adapters.postgres.database import Connection, Database
from corpusmesh_adapters.postgres.effects import RunTransaction, lock_task
from corpusmesh_adapters.postgres.guards import require_knowledge_base
from corpusmesh_adapters.postgres.originals import allocate_ordinals
from corpusmesh_adapters.postgres.publishing import lock_current
from corpusmesh_adapters.postgres.run_creation import WorkLimits, find_run
from corpusmesh_adapters.postgres.runs import cancel_run
from corpusmesh_core.errors import ConflictError
from corpusmesh_core.orchestration.transitions import holds, must_stop
from corpusmesh_core.ports.builds import BuildOrder, BuildRow, BuildState, PublishedState
from corpusmesh_core.ports.work import Claim
from corpusmesh_core.tenancy.access import Access, knowledge_base_not_found
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.publishing import load_bitmap


class PostgresBuildStore:
    """`BuildStore` on Postgres."""

    def __init__(self, database: Database, limits: WorkLimits, kind: str) -> None:
        """Create it.

        Args:
            database: The pool.
            limits: Bounds of the work that is taken in.
            kind: Kind of the builds, DATASET_TREE or DATASET_GRAPH.
        """
        self._database = database
        self._limits = limits
        self._kind = KINDS[kind]

    async def get(self, identity: Identity, knowledge_base_id: str) -> BuildRow | None:
        """See `BuildStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.

        Returns:
            The build; None if there is none.
        """
        async with self._database.tenant(identity.tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.READ)
            return await self._read(connection, identity.tenant_id, knowledge_base_id)

    async def published(self, tenant_id: str, knowledge_base_id: str) -> PublishedState:
        """See `BuildStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.

        Returns:
            What it shows.

        Raises:
            NotFoundError: If it is deleted.
        """
        async with self._database.tenant(tenant_id) as connection:
            row = await connection.fetchrow(
                "SELECT k.current_snapshot_id, k.space_id, k.state, s.ordinals FROM corpusmesh.knowledge_bases k"
                " LEFT JOIN corpusmesh.snapshots s ON s.tenant_id = k.tenant_id"
                "   AND s.knowledge_base_id = k.knowledge_base_id AND s.snapshot_id = k.current_snapshot_id"
                " WHERE k.tenant_id = $1 AND k.knowledge_base_id = $2",
                tenant_id,
                knowledge_base_id,
            )
            if row is None or row["state"] != "active":
                raise knowledge_base_not_found(knowledge_base_id)
            versions = await shown_versions(connection, tenant_id, knowledge_base_id, row["ordinals"] or b"")
        return PublishedState(row["current_snapshot_id"], tuple(versions), row["space_id"])

    async def start_build(self, identity: Identity, knowledge_base_id: str, order: BuildOrder) -> tuple[BuildRow, bool]:
        """See `BuildStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            order: How.

        Returns:
            The build and whether its run is new.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE, lock="FOR UPDATE")
            earlier = await find_run(connection, tenant_id, identity.user_id, order.request_id)
            is_new = earlier is None and await begin_build(
                connection, identity, knowledge_base_id, self._kind, order, self._limits
            )
            found = await self._read(connection, tenant_id, knowledge_base_id)
        if found is None:
            raise self._kind.not_found(knowledge_base_id)
        return found, is_new

    async def start_due(self, limit: int, *, quiet_seconds: float) -> int:
        """See `BuildStore`; whoever locks a knowledge base first starts its build, and the others pass it by.

        Args:
            limit: Most knowledge bases.
            quiet_seconds: How long nothing must have been published.

        Returns:
            How many runs were begun.
        """
        return await start_due(self._database, self._limits, self._kind, limit, quiet_seconds=quiet_seconds)

    async def cancel(self, identity: Identity, knowledge_base_id: str) -> BuildRow:
        """See `BuildStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.

        Returns:
            The build.

        Raises:
            NotFoundError: If there is none that the caller may write.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            row = await read_build(connection, tenant_id, knowledge_base_id=knowledge_base_id, kind=self._kind.name)
            if row is None:
                raise self._kind.not_found(knowledge_base_id)
            await cancel_run(connection, tenant_id, row["run_id"])
            found = await self._read(connection, tenant_id, knowledge_base_id)
        if found is None:
            # One that was being removed, and is gone by now.
            raise self._kind.not_found(knowledge_base_id)
        return found

    async def delete(self, identity: Identity, knowledge_base_id: str, *, request_id: str) -> BuildRow:
        """See `BuildStore`.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            request_id: The same id of the same user gives the same run.

        Returns:
            The build, with the run that removes it.

        Raises:
            NotFoundError: If there is none that the caller may write.
        """
        tenant_id = identity.tenant_id
        async with self._database.tenant(tenant_id) as connection:
            await require_knowledge_base(connection, identity, knowledge_base_id, Access.WRITE)
            earlier = await find_run(connection, tenant_id, identity.user_id, request_id)
            if earlier is not None:
                return BuildRow(tenant_id, "", knowledge_base_id, BuildState.DELETING, run_id=earlier)
            await begin_removal(connection, identity, knowledge_base_id, self._kind, request_id)
            found = await self._read(connection, tenant_id, knowledge_base_id)
        if found is None:
            raise self._kind.not_found(knowledge_base_id)
        return found

    async def of_claim(self, claim: Claim) -> BuildRow:
        """See `BuildStore`.

        Args:
            claim: The claim.

        Returns:
            The build.

        Raises:
            NotFoundError: If it is gone.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            row = await build_of_run(connection, claim)
            if row is None:
                raise self._kind.not_found(claim.knowledge_base_id)
            return to_build(row, await current_bitmap(connection, claim.tenant_id, claim.knowledge_base_id))

    async def reserve(self, claim: Claim, slot: str, count: int) -> int:
        """See `BuildStore`.

        Args:
            claim: The build's claim.
            slot: Names the parts within the run.
            count: How many, at least 1.

        Returns:
            The first ordinal.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            await self._require_claim(connection, claim)
            row = await build_of_run(connection, claim)
            if row is None or row["state"] == BuildState.DELETING:
                raise self._claim_lost()
            key = (claim.tenant_id, row["build_id"], claim.run_id, slot)
            draft = await connection.fetchrow(
                "SELECT first_ordinal, ordinal_count FROM corpusmesh.build_drafts"
                " WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3 AND slot = $4",
                *key,
            )
            if draft is not None and draft["ordinal_count"] >= count:
                return int(draft["first_ordinal"])
            if draft is not None:
                # An attempt before needed fewer; what it wrote is to be found all the same.
                await connection.execute(
                    "UPDATE corpusmesh.build_drafts SET slot = slot || '~' || first_ordinal"
                    " WHERE tenant_id = $1 AND build_id = $2 AND run_id = $3 AND slot = $4",
                    *key,
                )
            first = await allocate_ordinals(connection, claim.tenant_id, count)
            await connection.execute(
                "INSERT INTO corpusmesh.build_drafts (tenant_id, build_id, run_id, slot, first_ordinal, ordinal_count)"
                " VALUES ($1, $2, $3, $4, $5, $6)",
                *key,
                first,
                count,
            )
        return first

    async def tell_progress(self, claim: Claim, progress: Mapping[str, object]) -> None:
        """See `BuildStore`.

        Args:
            claim: The build's claim.
            progress: Plain values.
        """
        async with self._database.tenant(claim.tenant_id, durable=False) as connection:
            context = await self._require_claim(connection, claim)
            await connection.execute(
                "UPDATE corpusmesh.builds SET progress = $3 WHERE tenant_id = $1 AND run_id = $2",
                claim.tenant_id,
                claim.run_id,
                dict(progress),
            )
            await tell(context, claim)

    async def removed(self, claim: Claim, versions: Sequence[int]) -> frozenset[int]:
        """See `BuildStore`.

        Args:
            claim: The build's claim.
            versions: Ordinals.

        Returns:
            Those that were deleted.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT ordinal FROM corpusmesh.versions WHERE tenant_id = $1 AND ordinal = ANY ($2)"
                " AND state = 'purged'",
                claim.tenant_id,
                list(versions),
            )
        return frozenset(row["ordinal"] for row in rows)

    async def left_over(self, claim: Claim) -> Sequence[int]:
        """See `BuildStore`.

        Args:
            claim: The sweep's claim.

        Returns:
            Ordinals, ascending.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            row = await build_of_run(connection, claim)
            if row is None:
                return ()
            known = load_bitmap(row["ordinals"]) | await drafts_of(connection, row, claim.run_id)
            if row["state"] == BuildState.DELETING:
                return tuple(known)
            kept = await connection.fetch(
                "SELECT ordinals FROM corpusmesh.snapshots WHERE tenant_id = $1 AND knowledge_base_id = $2",
                claim.tenant_id,
                claim.knowledge_base_id,
            )
        shown = BitMap().union(*(load_bitmap(snapshot["ordinals"]) for snapshot in kept))
        return tuple(known - shown - load_bitmap(row["nodes"]))

    async def living_runs(self, claim: Claim) -> frozenset[str]:
        """See `BuildStore`.

        Args:
            claim: The sweep's claim.

        Returns:
            Ids of runs.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            row = await build_of_run(connection, claim)
        if row is None or row["run_state"] not in LIVING_RUN or row["run_id"] == claim.run_id:
            return frozenset()
        return frozenset({row["run_id"]})

    async def swept(self, claim: Claim, ordinals: Sequence[int]) -> None:
        """See `BuildStore`.

        Args:
            claim: The sweep's claim.
            ordinals: Ordinals.
        """
        async with self._database.tenant(claim.tenant_id) as connection:
            await self._require_claim(connection, claim)
            await lock_current(connection, claim.tenant_id, claim.knowledge_base_id)
            row = await build_of_run(connection, claim)
            if row is not None:
                await forget_ordinals(connection, row, ordinals)

    async def artefacts(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """See `BuildStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.

        Returns:
            Storage keys by name.
        """
        async with self._database.tenant(tenant_id) as connection:
            found: Mapping[str, str] | None = await connection.fetchval(
                "SELECT artefacts FROM corpusmesh.builds WHERE tenant_id = $1 AND knowledge_base_id = $2"
                " AND kind = $3 AND state = 'ready'",
                tenant_id,
                knowledge_base_id,
                self._kind.name,
            )
        return found or {}

    async def versions_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        """See `BuildStore`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            document_ids: Documents.

        Returns:
            Ordinals by document; unknown documents are missing.
        """
        async with self._database.tenant(tenant_id) as connection:
            rows = await connection.fetch(
                "SELECT document_id, array_agg(ordinal ORDER BY ordinal) AS ordinals FROM corpusmesh.versions"
                " WHERE tenant_id = $1 AND knowledge_base_id = $2 AND document_id = ANY ($3) AND state <> 'purged'"
                " GROUP BY 1",
                tenant_id,
                knowledge_base_id,
                list(document_ids),
            )
        return {row["document_id"]: tuple(row["ordinals"]) for row in rows}

    async def _read(self, connection: Connection, tenant_id: str, knowledge_base_id: str) -> BuildRow | None:
        row = await read_build(connection, tenant_id, knowledge_base_id=knowledge_base_id, kind=self._kind.name)
        if row is None:
            return None
        return to_build(row, await current_bitmap(connection, tenant_id, knowledge_base_id))

    async def _require_claim(self, connection: Connection, claim: Claim) -> RunTransaction:
        """Lock a build's run and task, so that no worker thought dead writes over a newer one."""
        found = await lock_task(connection, claim.tenant_id, claim.run_id, claim.task_id)
        if found is None or not holds(found[1], claim.epoch) or must_stop(found[0].run, found[1]):
            raise self._claim_lost()
        return found[0]

    def _claim_lost(self) -> ConflictError:
        return ConflictError(
            f"{self._kind.label.upper()}_CLAIM_LOST", "the build was cancelled or is done by another worker"
        )
