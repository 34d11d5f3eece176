"""What the local stack is told (settings) and what it tells (endpoints, states)."""

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr

DEFAULT_S3_BUCKET: Final = "corpusmesh"


class ServerName(enum.StrEnum):
    """The servers that the mesh stands on."""

    OPENSEARCH = "opensearch"
    POSTGRES = "postgres"
    NATS = "nats"
    S3 = "s3"


class ServerState(enum.StrEnum):
    """Where one server is in its life.

    STOPPED → STARTING → READY → (RESTARTING → READY)* → STOPPED; FAILED when restarts were of no use. EXTERNAL servers
    run elsewhere: they are checked once and not supervised.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    EXTERNAL = "external"


class StackSettings(BaseModel):
    """How the local stack runs.

    Attributes:
        data_directory: Everything that the servers keep, their logs and their secrets.
        tools_directory: Where OpenSearch is installed; None for the default (see `default_tools_directory`).
        opensearch_url: An OpenSearch that runs elsewhere; None to run one here. The other three likewise.
        postgres_dsn: `postgresql://user:password@host:port/database`.
        nats_url: `nats://user:password@host:port`.
        s3_url: Endpoint of an S3 service; goes with the two keys.
        s3_access_key: Key id for `s3_url`; an own server makes its own.
        s3_secret_key: Secret of that key.
        s3_bucket: The bucket of the mesh; made if it is not there.
        s3_region: Region that requests are signed for.
        opensearch_heap_mib: Java heap of the own OpenSearch.
        nats_store_limit_gib: Disk that JetStream may use.
        start_timeout_seconds: How long one server may take until it answers.
        max_restart_count: How often one server that died is started again within `restart_window_seconds`.
        restart_window_seconds: The window for `max_restart_count`.
        log_limit_mib: Size at which a server's log is cut; one older part of that size is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_directory: Path
    tools_directory: Path | None = None
    opensearch_url: str | None = None
    postgres_dsn: SecretStr | None = None
    nats_url: SecretStr | None = None
    s3_url: str | None = None
    s3_access_key: str | None = None
    s3_secret_key: SecretStr | None = None
    s3_bucket: str = DEFAULT_S3_BUCKET
    s3_region: str = "us-east-1"
    opensearch_heap_mib: int = Field(default=512, ge=256)
    nats_store_limit_gib: int = Field(default=8, ge=1)
    start_timeout_seconds: float = Field(default=180.0, gt=0)
    max_restart_count: int = Field(default=5, ge=0)
    restart_window_seconds: float = Field(default=300.0, gt=0)
    log_limit_mib: int = Field(default=16, ge=1)


@dataclasses.dataclass(frozen=True, slots=True)
class StackEndpoints:
    """Where the four servers answer. Values with secrets are not shown by `repr`."""

    opensearch_url: str
    postgres_dsn: str = dataclasses.field(repr=False)
    nats_url: str = dataclasses.field(repr=False)
    s3_url: str
    s3_access_key: str = dataclasses.field(repr=False)
    s3_secret_key: str = dataclasses.field(repr=False)
    s3_bucket: str
    s3_region: str


@dataclasses.dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is known of one server.

    Attributes:
        name: Which server.
        state: Where it is in its life.
        pid: Its process, None where none runs here.
        ports: Its ports by purpose, empty for an external one.
        restart_count: How often it was started again after it had died.
        start_seconds: How long its last start took until it answered; None before that.
        log_path: Where it logs; None for an external one.
    """

    name: ServerName
    state: ServerState
    pid: int | None
    ports: Mapping[str, int]
    restart_count: int
    start_seconds: float | None
    log_path: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class StackEvent:
    """A server changed its state.

    Attributes:
        name: Which server.
        state: Its new state.
        detail: Why, for a person; empty if there is nothing to say.
    """

    name: ServerName
    state: ServerState
    detail: str = ""
