"""The retrieve service behind the port `CandidateJudge`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import grpc.aio

from corpusmesh.retrieve.v1 import evaluation_service_pb2 as pb
from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import EvaluationServiceStub
from corpusmesh_client.errors import error_from_rpc
from corpusmesh_core.evaluation import GateMeasure
from corpusmesh_core.ports.golden_sets import CandidateMeasures

if TYPE_CHECKING:
    # The class exists in the stubs alone.
    from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import EvaluationServiceAsyncStub

EVALUATION_SERVICE_NAMES = ("corpusmesh.retrieve.v1.EvaluationService",)


class GrpcCandidateJudge:
    """Measures through the retrieve service."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Callable[[str], Mapping[str, str]]) -> None:
        """Create the judge.

        Args:
            channel: Channel to the retrieve service.
            metadata: Gives the metadata of a call for a tenant: who acts.
        """
        self._stub: EvaluationServiceAsyncStub = EvaluationServiceStub(channel)
        self._metadata = metadata

    async def measure(
        self,
        tenant_id: str,
        knowledge_base_id: str,
        golden_set_id: str,
        ordinals: bytes,
        *,
        compare_current: bool,
        timeout_seconds: float,
    ) -> CandidateMeasures:
        """Ask a golden set of what would be published; see `CandidateJudge.measure`.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            golden_set_id: The golden set.
            ordinals: What would be published, a portable roaring bitmap.
            compare_current: Whether to measure what is published now too.
            timeout_seconds: Deadline.

        Returns:
            The measures.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
        """
        request = pb.MeasureCandidateRequest(
            knowledge_base=f"knowledgeBases/{knowledge_base_id}",
            golden_set_id=golden_set_id,
            ordinals=ordinals,
            compare_current=compare_current,
        )
        try:
            response = await self._stub.MeasureCandidate(
                request, timeout=timeout_seconds, metadata=tuple(self._metadata(tenant_id).items())
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        return CandidateMeasures(
            candidate=_values(response.candidate) if response.HasField("candidate") else None,
            question_count=response.candidate.answerable_count,
            candidate_in_common=_values(response.candidate_in_common)
            if response.HasField("candidate_in_common")
            else None,
            current_in_common=_values(response.current_in_common) if response.HasField("current_in_common") else None,
        )


def _values(measures: pb.PlanMeasures) -> dict[str, float]:
    return {measure.value: getattr(measures, measure.value) for measure in GateMeasure}
