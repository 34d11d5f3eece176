"""Objects of an S3 bucket that the configuration opens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import boto3
from botocore.config import Config

from corpusmesh_adapters.connectors.settings import S3Connection
from corpusmesh_adapters.s3.failures import translated
from corpusmesh_adapters.s3.threads import BoundedThreads
from corpusmesh_core.ports.sources import ConnectorCapabilities
from corpusmesh_core.sources import KnownItem, ListingEnd, ListingEvent, S3Place, SourceItem, is_wanted

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

T = TypeVar("T")
_PIECE_BYTES = 1 << 20
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_ATTEMPTS = 3
S3_CAPABILITIES = ConnectorCapabilities(
    is_incremental=False, reports_removals=False, maps_access=False, concurrent_open_count=8
)


class S3Connector:
    """`Connector` for a bucket; an ETag tells whether an object has changed, so that nothing is read twice."""

    def __init__(self, connection: S3Connection, place: S3Place) -> None:
        """Make the client; nothing is sent yet.

        Args:
            connection: Service and credentials.
            place: What to read.
        """
        self._place = place
        self._threads = BoundedThreads("s3-source", S3_CAPABILITIES.concurrent_open_count, 64)
        self._client: S3Client = boto3.session.Session().client(
            "s3",
            endpoint_url=connection.endpoint_url,
            region_name=connection.region,
            aws_access_key_id=connection.access_key,
            aws_secret_access_key=connection.secret_key,
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
                max_pool_connections=S3_CAPABILITIES.concurrent_open_count,
                retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
                s3={"addressing_style": "path" if connection.endpoint_url else "auto"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def close(self) -> None:
        """Close idle connections."""
        self._threads.close()
        self._client.close()

    @property
    def capabilities(self) -> ConnectorCapabilities:
        """See `Connector`."""
        return S3_CAPABILITIES

    async def list(
        self, cursor: str, known: Mapping[str, KnownItem], *, timeout_seconds: float
    ) -> AsyncIterator[ListingEvent]:
        """List the objects below the prefix; see `Connector`.

        Args:
            cursor: Not used: every listing is whole, a thousand objects a call.
            known: Not used.
            timeout_seconds: Bound of the whole listing.

        Yields:
            Objects in the order of their keys; marks of folders are left out.
        """
        del cursor, known
        place = self._place
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        token = ""
        while True:
            page = await self._run("list", lambda token=token: self._page(token), deadline)  # type: ignore[misc]
            for entry in page.get("Contents", []):
                key = entry["Key"]
                below = key[len(place.prefix) :].lstrip("/")
                if key.endswith("/") or not below or not is_wanted(below, place.include, place.exclude):
                    continue
                folder = below.rpartition("/")[0]
                yield SourceItem(
                    key=key,
                    display_name=key.rsplit("/", 1)[-1],
                    etag=entry["ETag"].strip('"'),
                    size_bytes=entry["Size"],
                    modified=entry["LastModified"],
                    source_uri=f"s3://{place.bucket}/{key}",
                    metadata={"folder": folder} if folder else {},
                )
            token = page.get("NextContinuationToken", "")
            if not token:
                break
        yield ListingEnd()

    async def open(self, item: SourceItem, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        """Read an object; see `Connector`.

        Args:
            item: The object.
            timeout_seconds: Bound of the whole reading.

        Yields:
            Pieces.
        """
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        response = await self._run(
            "get", lambda: self._client.get_object(Bucket=self._place.bucket, Key=item.key), deadline
        )
        with contextlib.closing(response["Body"]) as body:
            while piece := await self._run("get", lambda: body.read(_PIECE_BYTES), deadline):
                yield piece

    def _page(self, token: str) -> "ListObjectsV2OutputTypeDef":
        if token:
            return self._client.list_objects_v2(
                Bucket=self._place.bucket, Prefix=self._place.prefix, ContinuationToken=token
            )
        return self._client.list_objects_v2(Bucket=self._place.bucket, Prefix=self._place.prefix)

    async def _run(self, operation: str, call: Callable[[], T], deadline: float) -> T:
        with translated(operation):
            return await self._threads.run(call, deadline=deadline)
