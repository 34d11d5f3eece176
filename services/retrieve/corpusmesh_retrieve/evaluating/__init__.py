"""Golden sets, and what is measured with them."""

from collections.abc import Callable

import grpc.aio

from corpusmesh.retrieve.v1.evaluation_service_pb2_grpc import add_EvaluationServiceServicer_to_server
from corpusmesh_retrieve.evaluating.config import EvaluationSettings
from corpusmesh_retrieve.evaluating.handlers import EvaluationHandlers, EvaluationTools

__all__ = ["EvaluationHandlers", "EvaluationSettings", "EvaluationTools", "evaluation_servicer"]


def evaluation_servicer(tools: EvaluationTools, settings: EvaluationSettings) -> Callable[[grpc.aio.Server], None]:
    """Make what adds the evaluation service to a server.

    Args:
        tools: What it stands on.
        settings: Its bounds.

    Returns:
        The function.
    """
    handlers = EvaluationHandlers(tools, settings)

    def add(server: grpc.aio.Server) -> None:
        add_EvaluationServiceServicer_to_server(handlers, server)

    return add
