"""The ingest service as one unit that a process starts and stops, and the stages of its worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc.aio

from corpusmesh.ingest.v1 import document_service_pb2, knowledge_base_service_pb2, run_service_pb2
from corpusmesh.ingest.v1.document_service_pb2_grpc import add_DocumentServiceServicer_to_server
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import add_KnowledgeBaseServiceServicer_to_server
from corpusmesh.ingest.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.edits import ChunkEditStore
from corpusmesh_core.ports.embedding import Embedder, TextTokenizer
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import (
    AuditLog,
    DocumentStore,
    IdempotencyStore,
    KnowledgeBaseStore,
    PurgeStore,
    SnapshotStore,
)
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.parsing import DocumentParser, ParseOptions
from corpusmesh_core.ports.runs import RunStore
from corpusmesh_core.ports.work import EventFeed
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.handlers import DocumentHandlers, KnowledgeBaseHandlers, RunHandlers
from corpusmesh_ingest.handlers.documents import DocumentDependencies
from corpusmesh_ingest.handlers.knowledge_bases import KnowledgeBaseDependencies
from corpusmesh_ingest.stages.chunk import ChunkStage
from corpusmesh_ingest.stages.embed import EmbedStage
from corpusmesh_ingest.stages.enrich import EnrichStage
from corpusmesh_ingest.stages.index import IndexStage
from corpusmesh_ingest.stages.parse import ParseStage
from corpusmesh_ingest.stages.publish import PublishStage
from corpusmesh_ingest.stages.purge import PurgeStage
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.service import GuardedService
from corpusmesh_runtime.worker import StageHandler

INGEST_SERVICE_NAMES: Final = tuple(
    service.full_name
    for descriptor in (
        knowledge_base_service_pb2.DESCRIPTOR,
        document_service_pb2.DESCRIPTOR,
        run_service_pb2.DESCRIPTOR,
    )
    for service in descriptor.services_by_name.values()
)
_TITLE_TOKENS = 32
"""Room for a title in front of a chunk, out of what the embedder reads."""


@dataclass(frozen=True, slots=True)
class IngestStores:
    """The stores that the service and its worker stand on."""

    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    snapshots: SnapshotStore
    runs: RunStore
    purges: PurgeStore
    edits: ChunkEditStore
    idempotency: IdempotencyStore
    audit: AuditLog
    objects: ObjectStore
    index: RecordIndex
    embedder: Embedder


class IngestService(GuardedService):
    """The gRPC server of the ingest service; an asynchronous context manager."""

    def __init__(
        self, settings: IngestSettings, stores: IngestStores, events: EventFeed, signer: IdentitySigner
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            stores: What it stands on.
            events: Tells that runs have moved.
            signer: Verifies who calls.
        """
        self._knowledge_bases = KnowledgeBaseHandlers(
            KnowledgeBaseDependencies(
                knowledge_bases=stores.knowledge_bases,
                snapshots=stores.snapshots,
                idempotency=stores.idempotency,
                audit=stores.audit,
                embedder=stores.embedder,
                index=stores.index,
            )
        )
        self._documents = DocumentHandlers(
            DocumentDependencies(
                knowledge_bases=stores.knowledge_bases,
                documents=stores.documents,
                snapshots=stores.snapshots,
                runs=stores.runs,
                purges=stores.purges,
                idempotency=stores.idempotency,
                audit=stores.audit,
                objects=stores.objects,
                index=stores.index,
                settings=settings,
            )
        )
        self._runs = RunHandlers(stores.runs, events, stores.idempotency)
        super().__init__(
            "ingest",
            settings.server,
            service_names=INGEST_SERVICE_NAMES,
            register=self._register,
            knowledge_bases=stores.knowledge_bases,
            signer=signer,
        )

    def _register(self, server: grpc.aio.Server) -> None:
        add_KnowledgeBaseServiceServicer_to_server(self._knowledge_bases, server)
        add_DocumentServiceServicer_to_server(self._documents, server)
        add_RunServiceServicer_to_server(self._runs, server)


def ingest_stages(
    settings: IngestSettings,
    stores: IngestStores,
    *,
    parser: DocumentParser,
    parse_options: ParseOptions,
    counter: TextTokenizer,
    embedder_max_tokens: int,
) -> Mapping[Stage, StageHandler]:
    """Make the handlers of every stage that the ingest worker does.

    Args:
        settings: The service's settings.
        stores: What the stages stand on.
        parser: The parser pool.
        parse_options: Limits of one document.
        counter: The embedder's tokenizer.
        embedder_max_tokens: Tokens that the embedder reads of one text, prefix and special tokens taken off.

    Returns:
        A handler for every stage.
    """
    purge = PurgeStage(stores.documents, stores.purges, stores.objects, stores.index)
    return {
        Stage.PARSE: ParseStage(stores.documents, stores.objects, parser, parse_options),
        Stage.CHUNK: ChunkStage(
            stores.documents,
            stores.knowledge_bases,
            stores.objects,
            counter,
            embedder_max_tokens=embedder_max_tokens - _TITLE_TOKENS,
        ),
        Stage.ENRICH: EnrichStage(),
        Stage.EMBED: EmbedStage(stores.documents, stores.knowledge_bases, stores.objects, stores.embedder, settings),
        Stage.INDEX: IndexStage(stores.documents, stores.knowledge_bases, stores.objects, stores.index),
        Stage.PUBLISH: PublishStage(stores.documents, stores.knowledge_bases, stores.snapshots, stores.index),
        Stage.PURGE: purge,
        Stage.VERIFY: purge,
        Stage.CLEANUP: purge,
    }
