"""The configuration of a whole mesh: one section per service and per outside system.

A value comes from, in order of weight: an environment variable `CORPUSMESH_<SECTION>__<FIELD>` (deeper parts joined by
`__`), the YAML file, the default. Secrets are named by the files that hold them.
"""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError
from corpusmesh_embed.config import EmbedSettings
from corpusmesh_gateway.config import GatewaySettings
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_runtime.config import (
    IdentitySettings,
    LogSettings,
    OperationsSettings,
    Section,
    TelemetrySettings,
)
from corpusmesh_runtime.graphs.config import GraphCacheSettings

CONFIG_VARIABLE = "CORPUSMESH_CONFIG"


class PostgresSection(Section):
    """The metadata store."""

    dsn: str = ""
    """`postgresql://user@host:port/database` without a password; empty to run an own server (`corpusmesh up`)."""
    password_file: Path | None = None
    """File with the password; None where the DSN's user needs none."""
    pool_size: int = Field(default=10, ge=2)
    """Most connections of one process."""
    command_timeout_seconds: float = Field(default=10.0, gt=0)
    """Longest statement."""


class OpenSearchSection(Section):
    """The record index."""

    url: str = ""
    """Address of the cluster; empty to run an own server (`corpusmesh up`)."""
    username: str = ""
    """User; empty for none."""
    password_file: Path | None = None
    """File with the user's password."""
    ca_certificates_file: Path | None = None
    """PEM file that signs the cluster's certificate; None for the system's."""
    engine: str = "lucene"
    """k-NN engine of new spaces: "lucene", or "faiss" where its native libraries are installed."""
    shard_count: int = Field(default=1, ge=1)
    """Primary shards of new spaces."""
    replica_count: int = Field(default=0, ge=0)
    """Replicas of new spaces."""


class NatsSection(Section):
    """The streams of work and events."""

    url: str = ""
    """`nats://user@host:port` without a password; empty to run an own server (`corpusmesh up`)."""
    password_file: Path | None = None
    """File with the user's password."""


class ObjectStoreSection(Section):
    """The store of originals and artefacts."""

    url: str = ""
    """Endpoint of an S3 service; empty to run an own server (`corpusmesh up`)."""
    bucket: str = "corpusmesh"
    """The one bucket of the mesh."""
    region: str = "us-east-1"
    """Region that requests are signed for."""
    access_key_file: Path | None = None
    """File with the access key; None lets the SDK find credentials of the workload."""
    secret_key_file: Path | None = None
    """File with the secret key."""


class ChatSection(Section):
    """The language model that writes answers; without one, answers are made of the evidence's own sentences."""

    url: str = ""
    """Base URL of an OpenAI-compatible endpoint, such as `http://host:8000/v1`; empty for none."""
    model: str = ""
    """Name of the model at that endpoint."""
    api_key_file: Path | None = None
    """File with the endpoint's key."""
    max_answer_tokens: int = Field(default=1024, ge=16)
    """Longest answer."""
    deadline_seconds: float = Field(default=60.0, gt=0)
    """Time after which a model-free answer is given instead."""


class WebSearchProvider(StrEnum):
    """Search engines of the web."""

    NONE = "none"
    SEARXNG = "searxng"
    TAVILY = "tavily"


class WebSearchSection(Section):
    """The web as a source of evidence, for requests whose plan says `correction.web`; off unless a provider is named.

    What leaves the installation is the text of a query, made of words that the user wrote alone, and the addresses of
    pages that are read; never text of a document.
    """

    provider: WebSearchProvider = WebSearchProvider.NONE
    """"searxng" for an own search engine that answers with JSON, "tavily" for that service by key, "none" for no web.
    The text of queries is sent to it; text of documents never."""
    url: str = ""
    """Address of the engine, such as `http://searxng:8080`; empty for Tavily's own. It may be a private one."""
    api_key_file: Path | None = None
    """File with the engine's key; needed for Tavily. Read before every search, so that a rotated key works at once."""
    search_timeout_seconds: float = Field(default=8.0, gt=0, le=60)
    """Longest wait for the engine."""
    page_timeout_seconds: float = Field(default=8.0, gt=0, le=60)
    """Longest time of one page, fetching and parsing together."""
    max_page_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """Largest page that is read; of a larger one the engine's own extract is taken."""
    max_concurrent_pages: int = Field(default=8, ge=1, le=64)
    """Pages read at once by one process."""
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks beside the public internet that pages may be read from; empty to reach nothing private."""


class PeersSection(Section):
    """Where the services of the mesh answer, `host:port` or `dns:///name:port`."""

    embed: str = "127.0.0.1:7101"
    """The embed service."""
    ingest: str = "127.0.0.1:7102"
    """The ingest service."""
    retrieve: str = "127.0.0.1:7103"
    """The retrieve service."""
    raptor: str = "127.0.0.1:7104"
    """The raptor service."""
    graph: str = "127.0.0.1:7105"
    """The graph service."""


class MeshSettings(BaseSettings):
    """Everything that a mesh can be told."""

    model_config = SettingsConfigDict(
        env_prefix="CORPUSMESH_",
        env_nested_delimiter="__",
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    identity: IdentitySettings = IdentitySettings()
    """How services prove to each other for whom they act."""
    log: LogSettings = LogSettings()
    """How processes write their logs."""
    telemetry: TelemetrySettings = TelemetrySettings()
    """Where traces go."""
    operations: OperationsSettings = OperationsSettings()
    """The port of probes and metrics."""
    postgres: PostgresSection = PostgresSection()
    """The metadata store."""
    opensearch: OpenSearchSection = OpenSearchSection()
    """The record index."""
    nats: NatsSection = NatsSection()
    """The streams of work and events."""
    object_store: ObjectStoreSection = ObjectStoreSection()
    """The store of originals and artefacts."""
    chat: ChatSection = ChatSection()
    """The language model that writes answers."""
    web_search: WebSearchSection = WebSearchSection()
    """The web as a source of evidence."""
    graph_cache: GraphCacheSettings = GraphCacheSettings()
    """What a process that searches or shows graphs keeps of them."""
    peers: PeersSection = PeersSection()
    """Where the services answer."""
    embed: EmbedSettings = EmbedSettings()
    """The embed service."""
    ingest: IngestSettings = IngestSettings()
    """The ingest service."""
    retrieve: RetrieveSettings = RetrieveSettings()
    """The retrieve service."""
    raptor: RaptorSettings = RaptorSettings()
    """The raptor service."""
    graph: GraphServiceSettings = GraphServiceSettings()
    """The graph service."""
    gateway: GatewaySettings = GatewaySettings()
    """The gateway."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment weigh more than the file, which comes as arguments."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load_settings(path: Path | None) -> MeshSettings:
    """Read the configuration.

    Args:
        path: YAML file; None for defaults and environment alone.

    Returns:
        The settings.

    Raises:
        InvalidArgumentError: If the file cannot be read, or a key or value is wrong; the message names it.
    """
    values: Mapping[str, Any] = {}
    if path is not None:
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise InvalidArgumentError(
                "CONFIG_UNREADABLE", f"the configuration {path} cannot be read: {error}", path=path
            ) from error
        unknown = sorted(set(values) - set(MeshSettings.model_fields)) if isinstance(values, dict) else ["?"]
        if unknown:
            raise InvalidArgumentError(
                "CONFIG_KEY_UNKNOWN",
                f"the configuration has no section {', '.join(unknown)}; it has {', '.join(MeshSettings.model_fields)}",
                path=path,
            )
    try:
        return MeshSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidArgumentError(
            "CONFIG_INVALID", f"configuration {where}: {first['msg']}", field=where, setting=where
        ) from error


def require_setting(value: str, setting: str) -> None:
    """Refuse to start without a setting.

    Args:
        value: What it is set to.
        setting: Its name.

    Raises:
        FailedPreconditionError: CONFIG_MISSING if it is empty.
    """
    if not value:
        raise FailedPreconditionError(
            "CONFIG_MISSING",
            f"set {setting}, or run `corpusmesh up`, which brings a server of its own",
            setting=setting,
        )
