"""Stage sync: a knowledge base is brought up to date with a source (ADR-0009)."""

from dataclasses import dataclass, replace

from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.runs import RunStore
from corpusmesh_core.ports.sources import ConnectorRegistry, SyncStore
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.tenancy import Access, Role
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.syncing.intake import Intake, IntakeBounds
from corpusmesh_ingest.syncing.session import SyncSession
from corpusmesh_runtime.worker import TaskContext


@dataclass(frozen=True, slots=True)
class SyncDependencies:
    """What the stage stands on."""

    syncs: SyncStore
    connectors: ConnectorRegistry
    knowledge_bases: KnowledgeBaseStore
    documents: DocumentStore
    runs: RunStore
    objects: ObjectStore
    settings: IngestSettings


class SyncStage:
    """Does one task of a sync; doing it again takes in what is missing and nothing twice."""

    def __init__(self, dependencies: SyncDependencies) -> None:
        """Create the stage.

        Args:
            dependencies: What it stands on.
        """
        self._stores = dependencies

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Sync a source, or a slice of it.

        Args:
            context: The claim and its time.

        Returns:
            Whether another task has to go on.
        """
        stores, claim = self._stores, context.claim
        sync = await stores.syncs.open_sync(claim)
        knowledge_base = await stores.knowledge_bases.get(sync.identity, claim.knowledge_base_id, Access.WRITE)
        # The owner's right to write is checked above; access lists that the source itself sets must not keep the sync
        # from the documents that it has brought.
        identity = replace(sync.identity, role=Role.OWNER)
        source = sync.source
        async with stores.connectors.connect(claim.tenant_id, source.spec.place) as connector:
            intake = Intake(
                context=context,
                identity=identity,
                knowledge_base=knowledge_base,
                source_id=source.source_id,
                metadata=dict(source.spec.metadata),
                start_time=sync.start_time,
                connector=connector,
                objects=stores.objects,
                runs=stores.runs,
                documents=stores.documents,
                bounds=IntakeBounds(stores.settings.max_document_bytes, stores.settings.sources.item_timeout_seconds),
            )
            session = SyncSession(
                context=context,
                sync=sync,
                identity=identity,
                connector=connector,
                intake=intake,
                store=stores.syncs,
                documents=stores.documents,
                settings=stores.settings.sources,
            )
            return await session.run()
