"""The retrieve service as one unit that a process starts and stops."""

from collections.abc import Callable, Sequence
from typing import Final

import grpc.aio

from corpusmesh.retrieve.v1 import (
    answer_service_pb2,
    conversation_service_pb2,
    evaluation_service_pb2,
    ledger_service_pb2,
    research_service_pb2,
    retrieval_service_pb2,
    vocabulary_service_pb2,
)
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import add_AnswerServiceServicer_to_server
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import add_RetrievalServiceServicer_to_server
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_retrieve.answer_handlers import AnswerHandlers
from corpusmesh_retrieve.asking import SessionOpener
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.handlers import RetrievalHandlers
from corpusmesh_retrieve.ledger import Recorder
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.service import GuardedService

RETRIEVE_SERVICE_NAMES: Final = tuple(
    service.full_name
    for descriptor in (
        retrieval_service_pb2.DESCRIPTOR,
        answer_service_pb2.DESCRIPTOR,
        conversation_service_pb2.DESCRIPTOR,
        evaluation_service_pb2.DESCRIPTOR,
        ledger_service_pb2.DESCRIPTOR,
        research_service_pb2.DESCRIPTOR,
        vocabulary_service_pb2.DESCRIPTOR,
    )
    for service in descriptor.services_by_name.values()
)


class RetrieveService(GuardedService):
    """The gRPC server of the retrieve service; an asynchronous context manager."""

    def __init__(
        self,
        settings: RetrieveSettings,
        *,
        searcher: Searcher,
        answers: AnswerHandlers,
        recorder: Recorder,
        servicers: Sequence[Callable[[grpc.aio.Server], None]],
        open_session: SessionOpener,
        knowledge_bases: KnowledgeBaseStore,
        signer: IdentitySigner,
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            searcher: Runs searches.
            answers: Answers questions.
            recorder: Records searches of knowledge bases that keep a ledger.
            servicers: Each adds the handlers of one more service of `RETRIEVE_SERVICE_NAMES`.
            open_session: Gives a request its access to the language model.
            knowledge_bases: Guards the knowledge bases that a request names.
            signer: Verifies who calls.
        """
        self._retrieval = RetrievalHandlers(searcher, settings, open_session, recorder)
        self._answers = answers
        self._servicers = tuple(servicers)
        super().__init__(
            "retrieve",
            settings.server,
            service_names=RETRIEVE_SERVICE_NAMES,
            register=self._register,
            knowledge_bases=knowledge_bases,
            signer=signer,
        )

    def _register(self, server: grpc.aio.Server) -> None:
        add_RetrievalServiceServicer_to_server(self._retrieval, server)
        add_AnswerServiceServicer_to_server(self._answers, server)
        for add in self._servicers:
            add(server)
