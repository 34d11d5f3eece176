"""What people give for graphs: corrections, triples; and the proof of erasure."""

from collections.abc import AsyncIterator, Sequence

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh.graph.v1.graph_input_service_pb2_grpc import GraphInputServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id


def triples_name(document: str) -> str:
    """Name the triples of a document.

    Args:
        document: `knowledgeBases/*/documents/*`.

    Returns:
        `knowledgeBases/*/documents/*/triples`.
    """
    return f"{document}/triples"


class GraphInputCalls:
    """Calls on what people give for graphs."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._input_caller = caller
        self._input_stub = GraphInputServiceStub(caller.channel)

    async def correct(
        self, name: str, correction: pb.Correction, *, request_id: str | None = None
    ) -> pb.CreateCorrectionResponse:
        """Correct a graph by hand, and begin the build that makes it hold.

        Args:
            name: `knowledgeBases/*/graph`.
            correction: The correction.
            request_id: UUID; None to have one made.

        Returns:
            The correction and the run.
        """
        request = pb.CreateCorrectionRequest(
            parent=name, correction=correction, request_id=request_id or new_request_id()
        )
        return await self._input_caller.unary(
            self._input_stub.CreateCorrection, request, timeout_seconds=self._input_caller.deadlines.write_seconds
        )

    def corrections(self, name: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Correction]:
        """List corrections in the order in which they are applied, over all pages.

        Args:
            name: `knowledgeBases/*/graph`.
            page_size: Entries read at once.

        Returns:
            The corrections.
        """
        return self._input_caller.pages(
            lambda token: self._input_caller.unary(
                self._input_stub.ListCorrections,
                pb.ListCorrectionsRequest(parent=name, page_size=page_size, page_token=token),
                timeout_seconds=self._input_caller.deadlines.read_seconds,
            ),
            lambda page: page.corrections,
        )

    async def delete_correction(self, name: str, *, request_id: str | None = None) -> str:
        """Take a correction back.

        Args:
            name: `knowledgeBases/*/graph/corrections/*`.
            request_id: UUID; None to have one made.

        Returns:
            The run that makes it hold no more.
        """
        request = pb.DeleteCorrectionRequest(name=name, request_id=request_id or new_request_id())
        response = await self._input_caller.unary(
            self._input_stub.DeleteCorrection, request, timeout_seconds=self._input_caller.deadlines.write_seconds
        )
        return response.run

    async def put_triples(
        self, name: str, triples: Sequence[pb.Triple], *, request_id: str | None = None
    ) -> pb.PutTriplesResponse:
        """Replace the facts of a document, and begin the build that reads them.

        Args:
            name: `knowledgeBases/*/documents/*/triples`.
            triples: The facts, 1 to 5,000.
            request_id: UUID; None to have one made.

        Returns:
            How many were stored, and the run.
        """
        request = pb.PutTriplesRequest(name=name, triples=triples, request_id=request_id or new_request_id())
        return await self._input_caller.unary(
            self._input_stub.PutTriples, request, timeout_seconds=self._input_caller.deadlines.write_seconds
        )

    async def triples(self, name: str) -> pb.Triples:
        """Read the facts of a document.

        Args:
            name: `knowledgeBases/*/documents/*/triples`.

        Returns:
            The facts.
        """
        return await self._input_caller.unary(
            self._input_stub.GetTriples,
            pb.GetTriplesRequest(name=name),
            timeout_seconds=self._input_caller.deadlines.read_seconds,
        )

    async def delete_triples(self, name: str, *, request_id: str | None = None) -> str:
        """Take the facts of a document back.

        Args:
            name: `knowledgeBases/*/documents/*/triples`.
            request_id: UUID; None to have one made.

        Returns:
            The run that forgets them; "" where there were none.
        """
        request = pb.DeleteTriplesRequest(name=name, request_id=request_id or new_request_id())
        response = await self._input_caller.unary(
            self._input_stub.DeleteTriples, request, timeout_seconds=self._input_caller.deadlines.write_seconds
        )
        return response.run

    async def verify_erasure(self, name: str, document: str) -> pb.VerifyErasureResponse:
        """Count what is left of a document in all that a graph is kept in.

        Args:
            name: `knowledgeBases/*/graph`.
            document: `knowledgeBases/*/documents/*`, deleted or not.

        Returns:
            The counts.
        """
        return await self._input_caller.unary(
            self._input_stub.VerifyErasure,
            pb.VerifyErasureRequest(name=name, document=document),
            timeout_seconds=self._input_caller.deadlines.read_seconds,
        )
