"""The metadata store on PostgreSQL 16 or newer."""

from corpusmesh_adapters.postgres.build_store import PostgresBuildStore
from corpusmesh_adapters.postgres.chunk_edits import PostgresChunkEditStore
from corpusmesh_adapters.postgres.completions import PostgresCompletionCache
from corpusmesh_adapters.postgres.conversations import PostgresConversationStore
from corpusmesh_adapters.postgres.database import Database, DatabaseSettings
from corpusmesh_adapters.postgres.documents import PostgresDocumentStore
from corpusmesh_adapters.postgres.golden_sets import PostgresEvaluationStore, PostgresGoldenSetStore
from corpusmesh_adapters.postgres.graph_inputs import PostgresGraphInputStore
from corpusmesh_adapters.postgres.knowledge_bases import PostgresKnowledgeBaseStore
from corpusmesh_adapters.postgres.migrate import migrate
from corpusmesh_adapters.postgres.purges import PostgresPurgeStore
from corpusmesh_adapters.postgres.records_of_calls import PostgresAuditLog, PostgresIdempotencyStore
from corpusmesh_adapters.postgres.relay import OutboxRelay, RelaySettings
from corpusmesh_adapters.postgres.retrievals import PostgresRetrievalStore
from corpusmesh_adapters.postgres.run_creation import WorkLimits
from corpusmesh_adapters.postgres.runs import PostgresRunStore
from corpusmesh_adapters.postgres.snapshots import PostgresSnapshotStore
from corpusmesh_adapters.postgres.sources import PostgresSourceStore
from corpusmesh_adapters.postgres.sweeper import PostgresTaskSweeper
from corpusmesh_adapters.postgres.syncs import PostgresSyncStore
from corpusmesh_adapters.postgres.task_queue import PostgresTaskQueue
from corpusmesh_adapters.postgres.tenants import PostgresKeyStore, PostgresTenantStore
from corpusmesh_adapters.postgres.usage import PostgresUsageLedger
from corpusmesh_adapters.postgres.vocabularies import PostgresVocabularyStore

__all__ = [
    "Database",
    "DatabaseSettings",
    "OutboxRelay",
    "PostgresAuditLog",
    "PostgresBuildStore",
    "PostgresChunkEditStore",
    "PostgresCompletionCache",
    "PostgresConversationStore",
    "PostgresDocumentStore",
    "PostgresEvaluationStore",
    "PostgresGoldenSetStore",
    "PostgresGraphInputStore",
    "PostgresIdempotencyStore",
    "PostgresKeyStore",
    "PostgresKnowledgeBaseStore",
    "PostgresPurgeStore",
    "PostgresRetrievalStore",
    "PostgresRunStore",
    "PostgresSnapshotStore",
    "PostgresSourceStore",
    "PostgresSyncStore",
    "PostgresTaskQueue",
    "PostgresTaskSweeper",
    "PostgresTenantStore",
    "PostgresUsageLedger",
    "PostgresVocabularyStore",
    "RelaySettings",
    "WorkLimits",
    "migrate",
]
