"""Runs: read, list, cancel, retry, and a watch that survives broken connections."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from corpusmesh.ingest.v1 import run_service_pb2 as pb
from corpusmesh.ingest.v1.run_service_pb2_grpc import RunServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_client.watching import watch_to_the_end

ENDED_STATES = frozenset({pb.Run.STATE_CANCELLED, pb.Run.STATE_SUCCEEDED, pb.Run.STATE_FAILED})


def has_ended(run: pb.Run) -> bool:
    """Tell whether a run has ended.

    Args:
        run: The run.

    Returns:
        True if nothing of it will change but by a retry.
    """
    return run.state in ENDED_STATES


class RunCalls:
    """Calls on runs."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = RunServiceStub(caller.channel)

    async def get(self, name: str) -> pb.Run:
        """Read a run.

        Args:
            name: `knowledgeBases/*/runs/*`.

        Returns:
            The run.
        """
        request = pb.GetRunRequest(name=name)
        return await self._caller.unary(self._stub.GetRun, request, timeout_seconds=self._caller.deadlines.read_seconds)

    def list(self, parent: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Run]:
        """List the runs of a knowledge base, newest first, over all pages.

        Args:
            parent: `knowledgeBases/{knowledge_base}`.
            page_size: Entries read at once.

        Returns:
            The runs.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListRuns,
                pb.ListRunsRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.runs,
        )

    async def cancel(self, name: str, *, request_id: str | None = None) -> pb.Run:
        """Ask a run to stop.

        Args:
            name: `knowledgeBases/*/runs/*`.
            request_id: UUID; None to have one made.

        Returns:
            The run.
        """
        request = pb.CancelRunRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.CancelRun, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.run

    async def retry(
        self, name: str, *, skip_publish_gate: bool = False, request_id: str | None = None
    ) -> pb.RetryRunResponse:
        """Run the failed parts of a run again.

        Args:
            name: `knowledgeBases/*/runs/*`.
            skip_publish_gate: Whether to publish without asking the knowledge base's gate.
            request_id: UUID; None to have one made.

        Returns:
            The run and how many parts go again.
        """
        request = pb.RetryRunRequest(
            name=name, skip_publish_gate=skip_publish_gate, request_id=request_id or new_request_id()
        )
        return await self._caller.unary(
            self._stub.RetryRun, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def watch(
        self, name: str, *, silence_seconds: float = 30.0, give_up_after_seconds: float = 120.0
    ) -> AsyncIterator[pb.Run]:
        """Follow a run until it has ended, over broken connections and restarts of the mesh.

        Every stream of the mesh begins with the run as it is, so a new stream resumes without a gap. A stream that is
        silent is opened again: nothing waits for ever.

        Args:
            name: `knowledgeBases/*/runs/*`.
            silence_seconds: Silence after which the stream is opened again.
            give_up_after_seconds: How long the mesh may fail to answer before the failure is raised.

        Yields:
            The run at every change; the last one has ended.

        Raises:
            CorpusMeshError: If the run cannot be read, or the mesh did not answer for too long.
        """
        states = watch_to_the_end(
            f"the run {name}",
            lambda: self._stream(name),
            has_ended,
            silence_seconds=silence_seconds,
            give_up_after_seconds=give_up_after_seconds,
        )
        async for run in states:
            yield run

    async def wait(self, name: str) -> pb.Run:
        """Wait until a run has ended.

        Args:
            name: `knowledgeBases/*/runs/*`.

        Returns:
            The run as it ended.
        """
        last = pb.Run(name=name)
        async for run in self.watch(name):
            last = run
        return last

    async def _stream(self, name: str) -> AsyncGenerator[pb.Run, None]:
        stream = self._caller.stream(
            self._stub.WatchRun,
            pb.WatchRunRequest(name=name),
            timeout_seconds=self._caller.deadlines.watch_seconds,
        )
        async with aclosing(stream):
            async for response in stream:
                yield response.run
