"""Configuration shared by every process: frozen models whose fields carry default, unit and docstring.

A value comes from, in order of weight: an environment variable `CORPUSMESH_<SECTION>__<FIELD>`, the YAML file named by
`--config` or `CORPUSMESH_CONFIG`, the default. Secrets come from files, never from values.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from corpusmesh_core.errors import FailedPreconditionError


class Section(BaseModel):
    """A part of the configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ServerSettings(Section):
    """How a gRPC server listens, bounds what it takes and ends."""

    listen_host: str = "127.0.0.1"
    """Address to listen on; loopback unless a pod's network policy guards the port."""
    listen_port: int = Field(default=0, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    max_receive_message_bytes: int = Field(default=4 * 1024 * 1024, ge=64 * 1024)
    """Largest message taken from a caller."""
    max_send_message_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    """Largest message given to a caller."""
    max_concurrent_rpcs: int = Field(default=512, ge=1)
    """Calls handled at once; one more is refused with RESOURCE_EXHAUSTED."""
    default_deadline_seconds: float = Field(default=60.0, gt=0)
    """Deadline of a unary call whose caller gave none."""
    max_deadline_seconds: float = Field(default=3600.0, gt=0)
    """Longest deadline granted; also that of a stream whose caller gave none."""
    keepalive_time_seconds: float = Field(default=30.0, gt=0)
    """Silence after which a connection is probed."""
    keepalive_timeout_seconds: float = Field(default=10.0, gt=0)
    """Silence after a probe that ends the connection."""
    max_connection_age_seconds: float = Field(default=600.0, gt=0)
    """Age at which a connection is renewed, so that clients find new pods."""
    max_connection_age_grace_seconds: float = Field(default=3600.0, gt=0)
    """How long calls of an aged connection may still run; less than `max_deadline_seconds` cuts long streams short."""
    drain_wait_seconds: float = Field(default=0.0, ge=0)
    """How long a stopping server says NOT_SERVING before it refuses new calls; a few seconds behind a load balancer."""
    drain_grace_seconds: float = Field(default=10.0, ge=0)
    """How long a stopping server lets running calls end."""
    reflection_enabled: bool = True
    """Whether gRPC reflection answers; switch it off where the contract must not be readable."""


class OperationsSettings(Section):
    """The inner HTTP port of a process: /livez, /readyz and /metrics; never reachable from outside the mesh."""

    listen_host: str = "127.0.0.1"
    """Address to listen on; loopback unless a pod's network policy guards the port."""
    listen_port: int = Field(default=0, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""


class LogSettings(Section):
    """How a process writes its log."""

    level: str = "info"
    """Least level written: debug, info, warning, error."""
    format: str = "json"
    """"json" for machines, "console" for people."""


class TelemetrySettings(Section):
    """Where traces go."""

    otlp_endpoint: str = ""
    """OTLP gRPC endpoint of the collector; empty to export none (context still travels with every call)."""
    sample_ratio: float = Field(default=0.1, ge=0, le=1)
    """Share of new traces that are recorded."""


class IdentitySettings(Section):
    """How services prove to each other for whom they act."""

    key_files: tuple[Path, ...] = ()
    """Files with the signing keys of the mesh, 32 bytes or more each, in hexadecimal. The first one signs; all of them
    verify, so that a key is rotated by putting the new one first and removing the old one later."""
    token_lifetime_seconds: float = Field(default=60.0, gt=0, le=3600)
    """How long an internal identity is accepted."""
    leeway_seconds: float = Field(default=30.0, ge=0, le=60)
    """Clock difference tolerated."""


def read_secret(path: Path, *, setting: str) -> str:
    """Read a secret from its file.

    Args:
        path: The file.
        setting: Name of the setting that holds the path, for the message.

    Returns:
        The content without surrounding white space.

    Raises:
        FailedPreconditionError: If the file cannot be read or is empty.
    """
    try:
        value = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise FailedPreconditionError(
            "SECRET_FILE_UNREADABLE",
            f"the file of {setting} cannot be read ({error.strerror}); mount it and check its mode",
            setting=setting,
        ) from error
    if not value:
        raise FailedPreconditionError("SECRET_FILE_EMPTY", f"the file of {setting} is empty", setting=setting)
    return value
