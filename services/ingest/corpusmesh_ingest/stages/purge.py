"""Stages purge, verify and clean-up: nothing of a removed version stays in any store.

Rule 8 of `research/reliability.md` 2.3: a worker that was thought dead may write late, so a second look follows after
every lease and the index's memory of deleted ids have run out.
"""

from collections.abc import Sequence

from pyroaring import BitMap

from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.orchestration.transitions import SCOPE, SCOPE_RECORDS, SCOPE_RUN
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.index import RecordIndex, RecordSelection
from corpusmesh_core.ports.metadata import DocumentStore, PurgeStore
from corpusmesh_core.ports.objects import ObjectStore, artefacts_prefix, original_key
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.stages.artefact_access import remove_written
from corpusmesh_runtime.build_keys import found_prefix, may_be_of
from corpusmesh_runtime.worker import TaskContext


class PurgeStage:
    """Removes records, artefacts and originals of versions; serves the stages purge, verify and clean-up alike."""

    def __init__(self, documents: DocumentStore, purges: PurgeStore, objects: ObjectStore, index: RecordIndex) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            purges: Tells which originals nobody else needs.
            objects: Originals and artefacts.
            index: The record index.
        """
        self._documents = documents
        self._purges = purges
        self._objects = objects
        self._index = index

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Remove what is left of a batch and prove it.

        Args:
            context: The claim and its time.

        Returns:
            Nothing more to know.

        Raises:
            UnavailableError: PURGE_INCOMPLETE if records are still there: the stage is tried again.
        """
        claim = context.claim
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        ordinals = [Ordinal(part) for part in claim.parts]
        if ordinals:
            await self._index.delete_made_of(claim.tenant_id, ordinals, timeout_seconds=context.remaining_seconds())
            left = await self._index.count(
                claim.tenant_id,
                None,
                RecordSelection(made_of=ordinals),
                timeout_seconds=context.remaining_seconds(),
            )
            if left:
                raise UnavailableError("PURGE_INCOMPLETE", "records are still there", record_count=left)
        context.reach("after_index")
        await self._remove_objects(context, versions)
        context.reach("after_artefact")
        return StageOutcome()

    async def _remove_objects(self, context: TaskContext, versions: Sequence[VersionRow]) -> None:
        claim = context.claim
        scope = claim.payload.get(SCOPE)
        if scope == SCOPE_RECORDS:
            # Parts that failed while the run goes on: a retry needs their originals, and others share their artefacts.
            return
        if scope == SCOPE_RUN:
            await self._objects.delete_prefix(
                artefacts_prefix(claim.tenant_id, claim.run_id), timeout_seconds=context.remaining_seconds()
            )
        if claim.stage is Stage.CLEANUP:
            return
        await remove_written(
            self._objects, self._purges, claim.tenant_id, versions, timeout_seconds=context.remaining_seconds()
        )

        async def remove(sha256: str) -> None:
            await self._objects.delete(original_key(claim.tenant_id, sha256))

        for build_id in await self._purges.build_ids(claim.tenant_id, claim.knowledge_base_id):
            await self._remove_found(context, build_id)
        await self._purges.remove_originals(claim.tenant_id, list(claim.parts), remove)

    async def _remove_found(self, context: TaskContext, build_id: str) -> None:
        """Remove what a build has found in the versions, and has not taken in yet."""
        claim = context.claim
        prefix = found_prefix(claim.tenant_id, build_id)
        listing = self._objects.list_prefix(prefix, timeout_seconds=context.remaining_seconds())
        for key in may_be_of([info.key async for info in listing], BitMap(claim.parts)):
            await self._objects.delete(key)
