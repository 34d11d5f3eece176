"""What the configuration opens to sources, with the tenants that each place is open to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

EVERY_TENANT = "*"


@dataclass(frozen=True, slots=True)
class FolderRoot:
    """A folder that sources may read below.

    Attributes:
        path: The folder.
        tenants: Tenants that it is open to; "*" for all.
    """

    path: Path
    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class S3Connection:
    """An S3 service that sources may read from.

    Attributes:
        buckets: Buckets that may be read.
        tenants: Tenants that it is open to; "*" for all.
        endpoint_url: Base URL of the service; None for the SDK's own choice.
        region: Region that requests are signed for.
        access_key: Access key; None lets the SDK find credentials of the workload.
        secret_key: Secret of the access key.
    """

    buckets: tuple[str, ...]
    tenants: tuple[str, ...]
    endpoint_url: str | None = None
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How web sites are read.

    Attributes:
        allowed_networks: Networks beside the public internet that may be connected to.
        min_delay_seconds: Least time between two requests to a host.
        max_delay_seconds: Longest delay that a site's robots.txt may ask for; a longer wish is cut to it.
        request_timeout_seconds: Longest time of one request with its body.
        max_pages: Most pages that a source may ask for.
        max_bytes: Most bytes that a source may ask for.
        max_page_bytes: Largest page.
        max_attempts: Attempts of one request.
    """

    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    min_delay_seconds: float = 0.5
    max_delay_seconds: float = 10.0
    request_timeout_seconds: float = 60.0
    max_pages: int = 20_000
    max_bytes: int = 4 << 30
    max_page_bytes: int = 256 << 20
    max_attempts: int = 3


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """Everything that sources may read.

    Attributes:
        folder_roots: By name.
        s3_connections: By name.
        web: How web sites are read.
    """

    folder_roots: Mapping[str, FolderRoot] = field(default_factory=dict)
    s3_connections: Mapping[str, S3Connection] = field(default_factory=dict)
    web: WebSettings = field(default_factory=WebSettings)


def is_open_to(tenants: tuple[str, ...], tenant_id: str) -> bool:
    """Tell whether a place is open to a tenant.

    Args:
        tenants: Tenants of the configuration.
        tenant_id: Who asks.

    Returns:
        True if it is named, or all are.
    """
    return EVERY_TENANT in tenants or tenant_id in tenants
