"""How much the purge stage removes: a purged document, a cancelled run, or the records alone of a failed part."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import numpy as np
import pytest
import zstandard

from corpusmesh_core.artefacts import VectorSet, pack_chunks, pack_vectors, unpack_chunks, unpack_vectors
from corpusmesh_core.documents import Chunk
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.orchestration.transitions import SCOPE, SCOPE_RECORDS, SCOPE_RUN
from corpusmesh_core.orchestration.values import Lane, Stage
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import DocumentStore, PurgeStore
from corpusmesh_core.ports.objects import ObjectInfo, ObjectStore
from corpusmesh_core.ports.work import Claim, StageAttempt
from corpusmesh_core.records import Ordinal
from corpusmesh_core.tenancy import VersionRow, VersionState
from corpusmesh_ingest.stages.artefact_access import count_written
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
        self.objects = {key: pack_chunks({7: []}) for key in (ARTEFACT, *UNNOTED)}
        self.held = ""
        self.noted: dict[str, str] = {}
        self.purged: list[int] = []

    async def versions_by_ordinal(self, tenant_id: str, ordinals: Sequence[int]) -> list[VersionRow]:
        return [replace(version(n), artefacts={**version(n).artefacts, **self.noted}) for n in ordinals]

    async def list_prefix(self, prefix: str, *, timeout_seconds: float) -> AsyncIterator[ObjectInfo]:
        for key in self.objects:
            if key.startswith(prefix):
                yield ObjectInfo(key, 1)

    async def build_ids(self, tenant_id: str, knowledge_base_id: str) -> list[str]:
        return ["graph"]

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

    async def get(self, key: str, *, max_byte_count: int, timeout_seconds: float) -> bytes:
        if key not in self.objects:
            raise NotFoundError("OBJECT_NOT_FOUND", "there is no such object")
        return self.objects[key]

    async def put(self, key: str, data: bytes, *, timeout_seconds: float) -> None:
        assert self.held == key, "an artefact is rewritten by one purge at a time"
        self.objects[key] = data

    @asynccontextmanager
    async def artefact_lock(self, tenant_id: str, key: str) -> AsyncIterator[None]:
        self.held = key
        yield
        self.held = ""

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


async def test_what_a_build_has_found_in_a_version_goes_with_it() -> None:
    stores = Stores()
    found = {name: f"acme/artefacts/graph/found/{name}" for name in ("1-6-aa", "7-7-bb", "2-30-cc", "8-9-dd")}
    stores.objects |= dict.fromkeys(found.values(), b"")
    await run_stage(stores, Stage.PURGE, None)
    assert {found["7-7-bb"], found["2-30-cc"]} == set(stores.removed) & set(found.values())


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
    await run_stage(stores, stage, scope)
    assert stores.purged == [7], "records go in every case"
    assert stores.removed == removed


async def run_stage(stores: Stores, stage: Stage, scope: str | None = None) -> None:
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


def chunk(text: str) -> Chunk:
    return Chunk(0, text, (), 0, (), 1)


async def test_neighbours_of_a_purged_document_keep_what_was_made_of_them() -> None:
    stores = Stores()
    vectors = "acme/artefacts/run-1/run-1.0-1.chunk.chunks".replace("chunk.chunks", "embed.vectors")
    stores.objects = {
        ARTEFACT: pack_chunks({7: [chunk("secret")], 8: [chunk("kept")]}),
        UNNOTED[0]: pack_chunks({7: [chunk("secret")]}),
        UNNOTED[1]: b"no artefact",
        vectors: pack_vectors({n: VectorSet(np.ones((1, 2), np.float32), np.zeros((1, 16), np.uint8)) for n in (7, 8)}),
    }
    stores.noted = {"vectors": vectors}
    (purged,) = await stores.versions_by_ordinal("acme", [7])
    noted = cast(ObjectStore, stores), cast(PurgeStore, stores), "acme", [purged]
    assert await count_written(*noted, timeout_seconds=5.0) == 4

    await run_stage(stores, Stage.PURGE)

    assert unpack_chunks(stores.objects[ARTEFACT]) == {8: [chunk("kept")]}
    assert list(unpack_vectors(stores.objects[vectors])) == [8]
    assert b"secret" not in zstandard.ZstdDecompressor().decompress(stores.objects[ARTEFACT])
    assert stores.removed == [UNNOTED[0], UNNOTED[1], PICTURES, ORIGINAL], "an empty one and an unreadable one go whole"
    for key in UNNOTED:
        del stores.objects[key]
    assert await count_written(*noted, timeout_seconds=5.0) == 0
