"""How much the purge stage removes: a purged document, a cancelled run, or the records alone of a failed part."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from corpusmesh_core.orchestration.transitions import SCOPE, SCOPE_RECORDS, SCOPE_RUN
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import DocumentStore, PurgeStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import Claim, StageAttempt
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import VersionRow, VersionState
from corpusmesh_ingest.stages.purge import PurgeStage
from corpusmesh_runtime.worker import TaskContext

SHA256 = "a" * 64
ARTEFACT = "acme/artefacts/run-1/run-1.0.parse.parsed"
ATTEMPTS = [("0", Stage.PARSE), ("0", Stage.CHUNK), ("0-1", Stage.CHUNK), ("0-1", Stage.INDEX)]
"""A batch that died while it was cut was split; nobody noted what it had written by then."""
UNNOTED = ["acme/artefacts/run-1/run-1.0-1.chunk.chunks", "acme/artefacts/run-1/run-1.0.chunk.chunks"]
PICTURES = "acme/artefacts/run-1/run-1.0.parse.pictures/7/"
"""Pictures go with their own document: those of its neighbour in the batch stay."""
ORIGINAL = f"acme/originals/{SHA256}"


class Stores:
    """All four stores, as far as the stage asks them; remembers what was removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.purged: list[int] = []

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> list[VersionRow]:
        return [version(ordinal) for ordinal in ordinals]

    async def remove_originals(
        self, tenant_id: str, ordinals: Sequence[int], remove: Callable[[str], Awaitable[None]]
    ) -> int:
        await remove(SHA256)
        return 1

    async def delete(self, key: str, *, timeout_seconds: float = 10.0) -> None:
        self.removed.append(key)

    async def delete_prefix(self, prefix: str, *, timeout_seconds: float) -> int:
        self.removed.append(prefix)
        return 1

    async def attempts(self, tenant_id: str, ordinals: Sequence[int]) -> list[StageAttempt]:
        return [StageAttempt("run-1", f"run-1.{batch}.{stage}", stage, (7, 8)) for batch, stage in ATTEMPTS]

    async def delete_made_of(self, tenant_id: str, ordinals: Collection[int], *, timeout_seconds: float) -> int:
        self.purged.extend(ordinals)
        return len(ordinals)

    async def count(self, tenant_id: str, space_id: None, selection: object, *, timeout_seconds: float) -> int:
        return 0


def version(ordinal: int) -> VersionRow:
    return VersionRow(
        tenant_id="acme",
        knowledge_base_id="kb",
        document_id=f"d{ordinal}",
        version=1,
        ordinal=Ordinal(ordinal),
        display_name="a.txt",
        original_sha256=SHA256,
        size_bytes=1,
        media_type="text/plain",
        title="",
        page_count=0,
        chunk_count=0,
        record_count=0,
        token_count=0,
        state=VersionState.FAILED,
        failed_stage="index",
        error_reason="",
        error_message="",
        config_hash="",
        artefacts={"parsed": ARTEFACT},
        warnings=(),
        run_id="run-1",
        publish_time=None,
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("stage", "scope", "removed"),
    [
        (Stage.CLEANUP, SCOPE_RECORDS, []),
        (Stage.VERIFY, SCOPE_RECORDS, []),
        (Stage.CLEANUP, SCOPE_RUN, ["acme/artefacts/run-1/"]),
        (Stage.VERIFY, SCOPE_RUN, ["acme/artefacts/run-1/", *UNNOTED, ARTEFACT, PICTURES, ORIGINAL]),
        (Stage.PURGE, None, [*UNNOTED, ARTEFACT, PICTURES, ORIGINAL]),
        (Stage.VERIFY, None, [*UNNOTED, ARTEFACT, PICTURES, ORIGINAL]),
    ],
)
async def test_removes_no_more_than_the_scope_says(stage: Stage, scope: str | None, removed: list[str]) -> None:
    stores = Stores()
    stage_under_test = PurgeStage(
        cast(DocumentStore, stores), cast(PurgeStore, stores), cast(ObjectStore, stores), cast(RecordIndex, stores)
    )
    claim = Claim(
        tenant_id="acme",
        knowledge_base_id="kb",
        run_id="run-1",
        task_id="run-1.0.cleanup",
        stage=stage,
        lane=Lane.BULK,
        parts=(7,),
        attempt=1,
        epoch=1,
        lease_seconds=30.0,
        payload={SCOPE: scope} if scope else {},
    )
    await stage_under_test(TaskContext(claim, 60.0))
    assert stores.purged == [7], "records go in every case"
    assert stores.removed == removed
