"""The ingest service as one unit that a process starts and stops, and the stages of its worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc.aio

from corpusmesh.ingest.v1 import (
    chunk_service_pb2,
    document_service_pb2,
    knowledge_base_service_pb2,
    run_service_pb2,
    source_service_pb2,
)
from corpusmesh.ingest.v1.chunk_service_pb2_grpc import add_ChunkServiceServicer_to_server
from corpusmesh.ingest.v1.document_service_pb2_grpc import add_DocumentServiceServicer_to_server
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import add_KnowledgeBaseServiceServicer_to_server
from corpusmesh.ingest.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server
from corpusmesh.ingest.v1.source_service_pb2_grpc import add_SourceServiceServicer_to_server
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.edits import ChunkEditStore
from corpusmesh_core.ports.embedding import Embedder, TextTokenizer
from corpusmesh_core.ports.golden_sets import CandidateJudge
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
from corpusmesh_core.ports.page_embedding import PageEmbedder
from corpusmesh_core.ports.parsing import DocumentParser, ParseLimits
from corpusmesh_core.ports.runs import RunStore
from corpusmesh_core.ports.sources import ConnectorRegistry, SourceStore, SyncStore
from corpusmesh_core.ports.work import EventFeed
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.enriching import Enricher
from corpusmesh_ingest.handlers import (
    ChunkHandlers,
    DocumentHandlers,
    KnowledgeBaseHandlers,
    RunHandlers,
    SourceHandlers,
)
from corpusmesh_ingest.handlers.chunk_access import ChunkReader
from corpusmesh_ingest.handlers.chunks import ChunkHandlerDependencies
from corpusmesh_ingest.handlers.documents import DocumentDependencies
from corpusmesh_ingest.handlers.editing import ChunkEditor
from corpusmesh_ingest.handlers.knowledge_bases import KnowledgeBaseDependencies
from corpusmesh_ingest.handlers.previews import Previewer, PreviewTools
from corpusmesh_ingest.handlers.reprocessing import DerivationDependencies, Reprocessor
from corpusmesh_ingest.handlers.sources import SourceDependencies
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_ingest.stages.chunk import ChunkDependencies, ChunkStage
from corpusmesh_ingest.stages.embed import EmbedStage
from corpusmesh_ingest.stages.enrich import EnrichDependencies, EnrichStage
from corpusmesh_ingest.stages.index import IndexStage
from corpusmesh_ingest.stages.parse import ParseDependencies, ParseStage, Unseal
from corpusmesh_ingest.stages.publish import PublishStage
from corpusmesh_ingest.stages.purge import PurgeStage
from corpusmesh_ingest.stages.tag_sets import TagSetReader
from corpusmesh_ingest.syncing.stage import SyncDependencies, SyncStage
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.service import GuardedService
from corpusmesh_runtime.worker import StageHandler

INGEST_SERVICE_NAMES: Final = tuple(
    service.full_name
    for descriptor in (
        knowledge_base_service_pb2.DESCRIPTOR,
        document_service_pb2.DESCRIPTOR,
        chunk_service_pb2.DESCRIPTOR,
        run_service_pb2.DESCRIPTOR,
        source_service_pb2.DESCRIPTOR,
    )
    for service in descriptor.services_by_name.values()
)


@dataclass(frozen=True, slots=True)
class IngestStores:
    """The stores that the service and its worker stand on."""

    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    snapshots: SnapshotStore
    runs: RunStore
    purges: PurgeStore
    edits: ChunkEditStore
    sources: SourceStore
    syncs: SyncStore
    connectors: ConnectorRegistry
    idempotency: IdempotencyStore
    audit: AuditLog
    objects: ObjectStore
    index: RecordIndex
    embedder: Embedder
    page_embedder: PageEmbedder


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """What the service works with besides the stores.

    Attributes:
        previews: Cuts documents to look at.
        sealer: Seals passwords of originals.
    """

    previews: PreviewTools
    sealer: PasswordSealer


class IngestService(GuardedService):
    """The gRPC server of the ingest service; an asynchronous context manager."""

    def __init__(
        self,
        settings: IngestSettings,
        stores: IngestStores,
        tools: ServiceTools,
        events: EventFeed,
        signer: IdentitySigner,
    ) -> None:
        """Create the service without starting it.

        Args:
            settings: Its settings.
            stores: What it stands on.
            tools: What it works with.
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
        versions = VersionReader(stores.documents, stores.knowledge_bases)
        chunks = ChunkReader(stores.objects)
        reprocessor = Reprocessor(
            DerivationDependencies(
                knowledge_bases=stores.knowledge_bases,
                documents=stores.documents,
                runs=stores.runs,
                sealer=tools.sealer,
                embedder=stores.embedder,
                max_documents=settings.max_documents_per_upload,
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
                reprocessor=reprocessor,
                sealer=tools.sealer,
                chunks=chunks,
                settings=settings,
            )
        )
        self._chunks = ChunkHandlers(
            ChunkHandlerDependencies(
                versions=versions,
                chunks=chunks,
                audit=stores.audit,
                editor=ChunkEditor(
                    stores.edits,
                    knowledge_bases=stores.knowledge_bases,
                    versions=versions,
                    chunks=chunks,
                    reprocessor=reprocessor,
                ),
                previewer=Previewer(
                    tools.previews,
                    knowledge_bases=stores.knowledge_bases,
                    versions=versions,
                    objects=stores.objects,
                    embedder=stores.embedder,
                ),
            )
        )
        self._runs = RunHandlers(stores.runs, events, stores.idempotency)
        self._sources = SourceHandlers(
            SourceDependencies(
                sources=stores.sources,
                connectors=stores.connectors,
                documents=stores.documents,
                idempotency=stores.idempotency,
                audit=stores.audit,
            )
        )
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
        add_ChunkServiceServicer_to_server(self._chunks, server)
        add_RunServiceServicer_to_server(self._runs, server)
        add_SourceServiceServicer_to_server(self._sources, server)


@dataclass(frozen=True, slots=True)
class StageTools:
    """What the stages work with besides the stores.

    Attributes:
        parser: The parser pool.
        parse_limits: What one document may cost.
        unseal: Opens passwords of originals.
        counter: The embedder's tokenizer.
        embedder_max_tokens: Tokens that the embedder reads of one text, prefix and special tokens included.
        enricher: Makes what a knowledge base asks for besides chunks.
        judge: Measures what would be published, for knowledge bases with a gate.
    """

    parser: DocumentParser
    parse_limits: ParseLimits
    unseal: Unseal
    counter: TextTokenizer
    embedder_max_tokens: int
    enricher: Enricher
    judge: CandidateJudge


def ingest_stages(settings: IngestSettings, stores: IngestStores, tools: StageTools) -> Mapping[Stage, StageHandler]:
    """Make the handlers of every stage that the ingest worker does.

    Args:
        settings: The service's settings.
        stores: What the stages stand on.
        tools: What they work with.

    Returns:
        A handler for every stage.
    """
    purge = PurgeStage(stores.documents, stores.purges, stores.objects, stores.index)
    return {
        Stage.PARSE: ParseStage(
            ParseDependencies(
                documents=stores.documents,
                knowledge_bases=stores.knowledge_bases,
                objects=stores.objects,
                parser=tools.parser,
                limits=tools.parse_limits,
                unseal=tools.unseal,
            )
        ),
        Stage.CHUNK: ChunkStage(
            ChunkDependencies(
                documents=stores.documents,
                knowledge_bases=stores.knowledge_bases,
                objects=stores.objects,
                edits=stores.edits,
                counter=tools.counter,
                embedder_max_tokens=tools.embedder_max_tokens,
            )
        ),
        Stage.ENRICH: EnrichStage(
            EnrichDependencies(
                documents=stores.documents,
                knowledge_bases=stores.knowledge_bases,
                objects=stores.objects,
                tag_sets=TagSetReader(stores.snapshots, stores.index),
                enricher=tools.enricher,
            )
        ),
        Stage.EMBED: EmbedStage(
            stores.documents, stores.knowledge_bases, stores.objects, stores.embedder, stores.page_embedder, settings
        ),
        Stage.INDEX: IndexStage(stores.documents, stores.knowledge_bases, stores.objects, stores.index),
        Stage.PUBLISH: PublishStage(
            stores.documents, stores.knowledge_bases, stores.snapshots, stores.index, tools.judge
        ),
        Stage.PURGE: purge,
        Stage.VERIFY: purge,
        Stage.CLEANUP: purge,
        Stage.SYNC: SyncStage(
            SyncDependencies(
                syncs=stores.syncs,
                connectors=stores.connectors,
                knowledge_bases=stores.knowledge_bases,
                documents=stores.documents,
                runs=stores.runs,
                objects=stores.objects,
                settings=settings,
            )
        ),
    }
