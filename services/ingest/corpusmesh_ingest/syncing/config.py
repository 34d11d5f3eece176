"""Settings of sources: what the platform opens to whom, and how much a sync may do."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from pydantic import Field

from corpusmesh_runtime.config import Section


class FolderRootSettings(Section):
    """A folder of the workers' machine that sources may read below."""

    path: Path
    """The folder; links that lead out of it are refused."""
    tenants: tuple[str, ...] = ()
    """Tenants whose admins may read it; `*` for all, empty for none."""


class S3ConnectionSettings(Section):
    """An S3 service that sources may read from."""

    url: str = ""
    """Endpoint; empty for the SDK's own choice."""
    region: str = "us-east-1"
    """Region that requests are signed for."""
    access_key_file: Path | None = None
    """File with the access key; None lets the SDK find credentials of the workload."""
    secret_key_file: Path | None = None
    """File with the secret key."""
    buckets: tuple[str, ...] = ()
    """Buckets that may be read."""
    tenants: tuple[str, ...] = ()
    """Tenants whose admins may read it; `*` for all, empty for none."""


class SourceSettings(Section):
    """What sources may read, and how much a sync may do."""

    folder_roots: Mapping[str, FolderRootSettings] = {}
    """Folders that sources may read below, by name: `path`, and `tenants` whose admins may (`*` for all). None: no
    source reads a folder."""
    s3_connections: Mapping[str, S3ConnectionSettings] = {}
    """S3 services that sources may read from, by name: `url`, `region`, `access_key_file`, `secret_key_file`,
    `buckets`, `tenants`. None: no source reads a bucket."""
    web_allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks beside the public internet that web sources may reach, such as an intranet's `10.1.0.0/16`."""
    web_min_delay_seconds: float = Field(default=0.5, ge=0)
    """Least time between two requests to a site."""
    web_max_delay_seconds: float = Field(default=10.0, ge=0)
    """Longest delay that a site's robots.txt may ask for; a longer wish is cut to it."""
    web_request_timeout_seconds: float = Field(default=60.0, gt=0)
    """Longest time of one request to a site."""
    web_max_pages: int = Field(default=20_000, ge=1)
    """Most pages that one web source may ask for."""
    web_max_bytes: int = Field(default=4 * 1024 * 1024 * 1024, ge=1)
    """Most bytes that one sync of a web source may fetch."""
    max_items: int = Field(default=100_000, ge=1)
    """Most documents of one source; a larger one is not synced: divide it by folder or prefix."""
    max_delete_share: float = Field(default=0.5, ge=0, le=1)
    """Largest share of a source's documents that may go with one sync unless a person allows more: an unmounted folder
    is empty too."""
    slice_seconds: float = Field(default=1800.0, gt=0)
    """Time after which a sync gives way to others and goes on with another task; below the worker's longest task."""
    item_timeout_seconds: float = Field(default=300.0, gt=0)
    """Longest time to read one document of a source."""
    schedule_poll_seconds: float = Field(default=15.0, gt=0)
    """Time between two looks at what is due by schedule."""
