"""Handlers of `RunService`."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from corpusmesh.ingest.v1 import run_service_pb2 as pb
from corpusmesh.ingest.v1.run_service_pb2_grpc import RunServiceServicer
from corpusmesh_core.orchestration.values import Run, RunKind, RunState
from corpusmesh_core.ports.metadata import IdempotencyStore
from corpusmesh_core.ports.runs import RunRecord, RunStore
from corpusmesh_core.ports.work import EventFeed
from corpusmesh_ingest.convert import part_status, run_name, run_status, version_name
from corpusmesh_ingest.handlers.paging import make_page_token, page_size_of, read_page_token
from corpusmesh_ingest.names import parse_name
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.timestamps import timestamp
from corpusmesh_runtime.watching import watch_changes

_MAX_FAILED_PARTS = 100
_KINDS = {
    RunKind.INGEST: pb.Run.KIND_INGEST,
    RunKind.PURGE: pb.Run.KIND_PURGE,
    RunKind.SYNC: pb.Run.KIND_SYNC,
    RunKind.TREE: pb.Run.KIND_TREE,
    RunKind.TREE_REMOVAL: pb.Run.KIND_TREE,
    RunKind.GRAPH: pb.Run.KIND_GRAPH,
    RunKind.GRAPH_REMOVAL: pb.Run.KIND_GRAPH,
}
_STATES = {
    RunState.PENDING: pb.Run.STATE_PENDING,
    RunState.RUNNING: pb.Run.STATE_RUNNING,
    RunState.CANCELLING: pb.Run.STATE_CANCELLING,
    RunState.CANCELLED: pb.Run.STATE_CANCELLED,
    RunState.SUCCEEDED: pb.Run.STATE_SUCCEEDED,
    RunState.FAILED: pb.Run.STATE_FAILED,
}


class RunHandlers(RunServiceServicer):
    """Runs: how far they are, cancel and retry."""

    def __init__(self, runs: RunStore, events: EventFeed, idempotency: IdempotencyStore) -> None:
        """Create the handlers.

        Args:
            runs: The runs.
            events: Tells that a run has moved.
            idempotency: First responses.
        """
        self._runs = runs
        self._events = events
        self._idempotency = idempotency

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.Run:
        """See the contract."""
        name = parse_name("run", request.name)
        record = await self._runs.get(require_call().identity, name.knowledge_base_id, name.identifier)
        return await self._to_wire(record)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        """See the contract."""
        name = parse_name("knowledge base", request.parent, field="parent")
        size = page_size_of(request.page_size)
        listing = f"{request.parent}/runs"
        after = read_page_token(listing, request.page_token)
        rows = await self._runs.list(require_call().identity, name.knowledge_base_id, after, size + 1)
        page = rows[:size]
        more = make_page_token(listing, page[-1].run.run_id) if len(rows) > size else ""
        return pb.ListRunsResponse(runs=[await self._to_wire(row) for row in page], next_page_token=more)

    async def WatchRun(self, request: pb.WatchRunRequest, context: Any) -> AsyncIterator[pb.WatchRunResponse]:
        """See the contract."""
        name = parse_name("run", request.name)
        identity = require_call().identity

        async def read() -> RunRecord:
            return await self._runs.get(identity, name.knowledge_base_id, name.identifier)

        states = watch_changes(
            self._events,
            f"events.run.{identity.tenant_id}.{name.identifier}",
            read,
            mark_of=lambda record: record.run.sequence,
            has_ended=lambda record: record.run.state.is_ended,
        )
        sequence = 0
        async with contextlib.aclosing(states):
            async for record in states:
                sequence += 1
                yield pb.WatchRunResponse(run=await self._to_wire(record), sequence=sequence)

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        """See the contract."""
        name = parse_name("run", request.name)
        record = await self._runs.cancel(require_call().identity, name.knowledge_base_id, name.identifier)
        return pb.CancelRunResponse(run=await self._to_wire(record))

    async def RetryRun(self, request: pb.RetryRunRequest, context: Any) -> pb.RetryRunResponse:
        """See the contract."""

        async def act() -> pb.RetryRunResponse:
            name = parse_name("run", request.name)
            record, count = await self._runs.retry(
                require_call().identity,
                name.knowledge_base_id,
                name.identifier,
                skip_publish_gate=request.skip_publish_gate,
            )
            return pb.RetryRunResponse(run=await self._to_wire(record), retried_count=count)

        return await once(self._idempotency, "RetryRun", request.request_id, request, pb.RetryRunResponse, act)

    async def _to_wire(self, record: RunRecord) -> pb.Run:
        run = record.run
        failed = []
        if run.failed_part_count:
            failed = [
                pb.FailedPart(
                    version=version_name(version),
                    display_name=version.display_name,
                    stage=version.failed_stage,
                    error=part_status(version.error_reason, version.error_message),
                )
                for version in await self._runs.failed_versions(
                    require_call().identity, record.knowledge_base_id, run.run_id, _MAX_FAILED_PARTS
                )
            ]
        return pb.Run(
            name=run_name(record.knowledge_base_id, run.run_id),
            kind=_KINDS[run.kind],
            state=_STATES[run.state],
            document_count=run.part_count,
            succeeded_count=run.succeeded_part_count,
            failed_count=run.failed_part_count,
            stages=stage_progress(run),
            failed_parts=failed,
            create_time=timestamp(record.create_time),
            end_time=timestamp(record.end_time),
            error=run_status(run.error_reason, run.error_message) if run.error_reason else None,
            sync=_sync_summary(record) if run.kind is RunKind.SYNC else None,
        )


def stage_progress(run: Run) -> list[pb.StageProgress]:
    """Tell how far the stages of a run are.

    Args:
        run: The run.

    Returns:
        Stages that have begun, in order, without those that had nothing to do.
    """
    stages: list[pb.StageProgress] = []
    arrived = run.part_count
    for stage in run.pipeline:
        if arrived == 0:
            break
        passed, skipped = run.passed.get(stage, 0), run.skipped.get(stage, 0)
        if arrived > skipped:
            done = passed - skipped
            stages.append(
                pb.StageProgress(stage=stage.value, done_count=done, open_count=max(0, arrived - skipped - done))
            )
        arrived = passed
    return stages


def _sync_summary(record: RunRecord) -> pb.SyncSummary:
    result = record.result
    parent = f"knowledgeBases/{record.knowledge_base_id}"
    return pb.SyncSummary(
        source=f"{parent}/sources/{result.get('source', '')}",
        listed_count=result.get("listed", 0),
        added_count=result.get("added", 0),
        changed_count=result.get("changed", 0),
        access_changed_count=result.get("access", 0),
        unchanged_count=result.get("unchanged", 0),
        removed_count=result.get("removed", 0),
        failed_count=result.get("failed", 0),
        runs=[run_name(record.knowledge_base_id, run_id) for run_id in result.get("runs", ())],
    )
