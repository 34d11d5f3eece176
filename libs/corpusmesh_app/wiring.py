"""The composition root: picks the adapters of a process."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

import numpy as np

from corpusmesh.embed.v1 import embed_service_pb2  # noqa: F401 - its descriptor holds the retry rules
from corpusmesh_adapters.connectors import (
    ConnectorSettings,
    FolderRoot,
    S3Connection,
    SettingsConnectorRegistry,
    WebSettings,
)
from corpusmesh_adapters.nats import Broker, BrokerSettings, NatsWorkBroker
from corpusmesh_adapters.opensearch import OpenSearchRecordIndex, OpenSearchSettings
from corpusmesh_adapters.peers import EVALUATION_SERVICE_NAMES, GrpcCandidateJudge, GrpcEmbedder
from corpusmesh_adapters.postgres import (
    Database,
    DatabaseSettings,
    PostgresAuditLog,
    PostgresChunkEditStore,
    PostgresConversationStore,
    PostgresDocumentStore,
    PostgresEvaluationStore,
    PostgresGoldenSetStore,
    PostgresIdempotencyStore,
    PostgresKeyStore,
    PostgresKnowledgeBaseStore,
    PostgresPurgeStore,
    PostgresRetrievalStore,
    PostgresRunStore,
    PostgresSnapshotStore,
    PostgresSourceStore,
    PostgresSyncStore,
    PostgresTenantStore,
    PostgresVocabularyStore,
    WorkLimits,
)
from corpusmesh_adapters.s3 import S3ObjectStore, S3Settings
from corpusmesh_app.settings import MeshSettings, require_setting
from corpusmesh_core.ports.conversations import ConversationStore
from corpusmesh_core.ports.golden_sets import CandidateJudge, EvaluationStore, GoldenSetStore
from corpusmesh_core.ports.retrievals import RetrievalStore
from corpusmesh_core.ports.vocabulary import VocabularyStore
from corpusmesh_embed.module import EMBED_SERVICE_NAMES
from corpusmesh_gateway.handlers import GatewayStores
from corpusmesh_ingest.module import IngestStores
from corpusmesh_ingest.sealing import PasswordSealer
from corpusmesh_runtime.channel import call_metadata, open_bare_channel, open_channel
from corpusmesh_runtime.config import read_secret
from corpusmesh_runtime.identity import IdentitySigner, service_identity
from corpusmesh_runtime.logging import get_logger
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.worker_metrics import MESSAGES_REJECTED_TOTAL

_EMBED_CONNECT_SECONDS = 120.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Adapters:
    """Open connections to the outside systems, for one process."""

    database: Database
    broker: NatsWorkBroker
    index: OpenSearchRecordIndex
    stores: IngestStores
    embedder: GrpcEmbedder
    judge: CandidateJudge


def identity_signer(settings: MeshSettings) -> IdentitySigner:
    """Make the signer of internal identities.

    Args:
        settings: The configuration.

    Returns:
        The signer.

    Raises:
        FailedPreconditionError: If there is no key, or it is too short.
    """
    identity = settings.identity
    keys = [read_secret(path, setting="identity.key_files") for path in identity.key_files]
    return IdentitySigner(
        keys, lifetime_seconds=identity.token_lifetime_seconds, leeway_seconds=identity.leeway_seconds
    )


def password_sealer(settings: MeshSettings) -> PasswordSealer:
    """Make what seals and opens passwords of originals.

    Args:
        settings: The configuration.

    Returns:
        The sealer; its keys are derived from those of the mesh.

    Raises:
        FailedPreconditionError: If there is no key.
    """
    return PasswordSealer([read_secret(path, setting="identity.key_files") for path in settings.identity.key_files])


def url_with_password(url: str, password: str) -> str:
    """Put a password into a URL.

    Args:
        url: `scheme://user@host…`.
        password: The password; "" leaves the URL as it is.

    Returns:
        `scheme://user:password@host…`.
    """
    if not password:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def database_settings(settings: MeshSettings) -> DatabaseSettings:
    """Tell where the metadata store is.

    Args:
        settings: The configuration.

    Returns:
        Settings with the password in the DSN.

    Raises:
        FailedPreconditionError: If no DSN is set or the password's file cannot be read.
    """
    section = settings.postgres
    require_setting(section.dsn, "postgres.dsn")
    password = ""
    if section.password_file is not None:
        password = read_secret(section.password_file, setting="postgres.password_file")
    return DatabaseSettings(
        dsn=url_with_password(section.dsn, password),
        pool_size=section.pool_size,
        command_timeout_seconds=section.command_timeout_seconds,
    )


def gateway_stores(database: Database) -> GatewayStores:
    """Make the stores that the gateway needs.

    Args:
        database: The metadata store.

    Returns:
        The stores.
    """
    return GatewayStores(
        tenants=PostgresTenantStore(database), keys=PostgresKeyStore(database), audit=PostgresAuditLog(database)
    )


@dataclass(frozen=True, slots=True)
class RetrieveStores:
    """What retrieval alone needs of the metadata store.

    Attributes:
        conversations: Conversations.
        retrievals: The ledger of retrievals.
        golden_sets: Golden sets.
        evaluations: What was measured.
        vocabularies: Tenants' own words.
    """

    conversations: ConversationStore
    retrievals: RetrievalStore
    golden_sets: GoldenSetStore
    evaluations: EvaluationStore
    vocabularies: VocabularyStore


def retrieve_stores(database: Database) -> RetrieveStores:
    """Make the stores that retrieval alone needs.

    Args:
        database: The metadata store.

    Returns:
        The stores.
    """
    return RetrieveStores(
        conversations=PostgresConversationStore(database),
        retrievals=PostgresRetrievalStore(database),
        golden_sets=PostgresGoldenSetStore(database),
        evaluations=PostgresEvaluationStore(database),
        vocabularies=PostgresVocabularyStore(database),
    )


def make_rng() -> np.random.Generator:
    """Make dice that nobody can foresee."""
    return np.random.default_rng(secrets.randbits(128))


@asynccontextmanager
async def open_adapters(settings: MeshSettings, signer: IdentitySigner, *, service: str) -> AsyncIterator[Adapters]:
    """Open the connections of a process that serves ingest or retrieve, or works for them.

    Args:
        settings: The configuration.
        signer: Signs calls to the embed service.
        service: Name that those calls are made under.

    Yields:
        The adapters; they are closed at the end.

    Raises:
        UnavailableError: If a system does not answer.
        FailedPreconditionError: If the configuration lacks an address.
    """
    async with AsyncExitStack() as stack:
        database = Database(database_settings(settings))
        await database.open()
        stack.push_async_callback(database.close)
        connection = Broker(_broker_settings(settings), on_event=_log_broker_event)
        await connection.open()
        stack.push_async_callback(connection.close)
        broker = NatsWorkBroker(connection, on_rejected=lambda reason: MESSAGES_REJECTED_TOTAL.labels(reason).inc())
        require_setting(settings.opensearch.url, "opensearch.url")
        index = OpenSearchRecordIndex(_opensearch_settings(settings))
        stack.push_async_callback(index.close)
        objects = S3ObjectStore(_s3_settings(settings))
        stack.callback(objects.close)
        channel = open_channel(
            settings.peers.embed,
            rules=rules_of(EMBED_SERVICE_NAMES).values(),
            signer=signer,
            identity=lambda: service_identity(service),
        )
        stack.push_async_callback(channel.close, None)
        embedder = GrpcEmbedder(channel)
        retrieve = open_bare_channel(settings.peers.retrieve, rules=rules_of(EVALUATION_SERVICE_NAMES).values())
        stack.push_async_callback(retrieve.close, None)
        await embedder.connect(deadline_seconds=_EMBED_CONNECT_SECONDS)
        stores = IngestStores(
            knowledge_bases=PostgresKnowledgeBaseStore(database),
            documents=PostgresDocumentStore(database),
            snapshots=PostgresSnapshotStore(database),
            runs=PostgresRunStore(database, work_limits(settings)),
            purges=PostgresPurgeStore(database),
            edits=PostgresChunkEditStore(database),
            sources=PostgresSourceStore(database),
            syncs=PostgresSyncStore(database),
            connectors=SettingsConnectorRegistry(_connector_settings(settings)),
            idempotency=PostgresIdempotencyStore(database),
            audit=PostgresAuditLog(database),
            objects=objects,
            index=index,
            embedder=embedder,
            page_embedder=embedder,
        )
        yield Adapters(
            database=database,
            broker=broker,
            index=index,
            stores=stores,
            embedder=embedder,
            judge=GrpcCandidateJudge(
                retrieve, lambda tenant_id: call_metadata(signer, service_identity(service, tenant_id=tenant_id))
            ),
        )


def _opensearch_settings(settings: MeshSettings) -> OpenSearchSettings:
    section = settings.opensearch
    password = ""
    if section.password_file is not None:
        password = read_secret(section.password_file, setting="opensearch.password_file")
    return OpenSearchSettings(
        urls=(section.url,),
        username=section.username,
        password=password,
        ca_certificates_path=str(section.ca_certificates_file or ""),
        engine=section.engine,
        shard_count=section.shard_count,
        replica_count=section.replica_count,
    )


def _broker_settings(settings: MeshSettings) -> BrokerSettings:
    section = settings.nats
    require_setting(section.url, "nats.url")
    password = ""
    if section.password_file is not None:
        password = read_secret(section.password_file, setting="nats.password_file")
    # Work that a process had fetched and not yet claimed when it died comes back as soon as what it had claimed.
    return BrokerSettings(url=url_with_password(section.url, password), ack_wait_seconds=settings.ingest.lease_seconds)


def _log_broker_event(event: str) -> None:
    _log.warning("broker connection", event_kind=event)


def _s3_settings(settings: MeshSettings) -> S3Settings:
    section = settings.object_store
    access_key = secret_key = None
    if section.access_key_file is not None and section.secret_key_file is not None:
        access_key = read_secret(section.access_key_file, setting="object_store.access_key_file")
        secret_key = read_secret(section.secret_key_file, setting="object_store.secret_key_file")
    return S3Settings(
        bucket=section.bucket,
        endpoint_url=section.url or None,
        region=section.region,
        access_key=access_key,
        secret_key=secret_key,
    )


def _connector_settings(settings: MeshSettings) -> ConnectorSettings:
    section = settings.ingest.sources
    connections = {}
    for name, entry in section.s3_connections.items():
        setting = f"ingest.sources.s3_connections.{name}"
        access_key = secret_key = None
        if entry.access_key_file is not None and entry.secret_key_file is not None:
            access_key = read_secret(entry.access_key_file, setting=f"{setting}.access_key_file")
            secret_key = read_secret(entry.secret_key_file, setting=f"{setting}.secret_key_file")
        connections[name] = S3Connection(
            buckets=entry.buckets,
            tenants=entry.tenants,
            endpoint_url=entry.url or None,
            region=entry.region,
            access_key=access_key,
            secret_key=secret_key,
        )
    return ConnectorSettings(
        folder_roots={name: FolderRoot(entry.path, entry.tenants) for name, entry in section.folder_roots.items()},
        s3_connections=connections,
        web=WebSettings(
            allowed_networks=section.web_allowed_networks,
            min_delay_seconds=section.web_min_delay_seconds,
            max_delay_seconds=section.web_max_delay_seconds,
            request_timeout_seconds=section.web_request_timeout_seconds,
            max_pages=section.web_max_pages,
            max_bytes=section.web_max_bytes,
            max_page_bytes=settings.ingest.max_document_bytes,
        ),
    )


def work_limits(settings: MeshSettings) -> WorkLimits:
    """Give the bounds of work that waits.

    Args:
        settings: The configuration.

    Returns:
        The bounds.
    """
    section = settings.ingest
    return WorkLimits(
        max_open_tasks=section.max_open_tasks_per_tenant,
        batch_part_count=section.batch_documents,
        batch_bytes=section.batch_bytes,
    )
