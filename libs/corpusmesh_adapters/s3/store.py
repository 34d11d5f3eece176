"""`ObjectStore` on boto3, in a bounded thread pool."""

import asyncio
import base64
import contextlib
import hashlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from corpusmesh_adapters.s3.failures import is_missing, translated
from corpusmesh_adapters.s3.spool import Spooled, spool
from corpusmesh_adapters.s3.threads import BoundedThreads
from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
)
from corpusmesh_core.ports.objects import ObjectInfo

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

T = TypeVar("T")
_PIECE_BYTES = 1 << 20
_CLEANUP_SECONDS = 10.0
_MEDIA_TYPE = "application/octet-stream"  # a store that also serves browsers must never guess from content


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the object store is and how hard to try.

    Attributes:
        bucket: The one bucket of the mesh.
        endpoint_url: Base URL of the service; None for the SDK's own choice.
        region: Region name; SeaweedFS takes any.
        access_key: Access key; None lets the SDK find credentials (workload identity).
        secret_key: Secret of the access key.
        thread_count: Calls under way at once, also the size of the connection pool.
        max_waiting_count: Calls that may wait for a thread before OBJECT_STORE_BUSY.
        connect_timeout_seconds: Bound of one connection attempt.
        read_timeout_seconds: Longest silence on an open connection.
        max_attempt_count: Attempts of one request, the first included.
        multipart_threshold_bytes: Content above this is uploaded in parts.
        part_size_bytes: Length of a part, at least 5 MiB (the protocol's bound).
    """

    bucket: str
    endpoint_url: str | None = None
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    thread_count: int = 16
    max_waiting_count: int = 256
    connect_timeout_seconds: float = 2.0
    read_timeout_seconds: float = 15.0
    max_attempt_count: int = 3
    multipart_threshold_bytes: int = 16 << 20
    part_size_bytes: int = 8 << 20


class S3ObjectStore:
    """Objects in one bucket; see `corpusmesh_core.ports.objects.ObjectStore` for the contract of each method."""

    def __init__(self, settings: S3Settings) -> None:
        """Make the client; nothing is sent yet.

        Args:
            settings: Where and how.
        """
        self._settings = settings
        self._threads = BoundedThreads("s3", settings.thread_count, settings.max_waiting_count)
        self._client: S3Client = boto3.session.Session().client(
            "s3",
            endpoint_url=settings.endpoint_url,
            region_name=settings.region,
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            config=Config(
                connect_timeout=settings.connect_timeout_seconds,
                read_timeout=settings.read_timeout_seconds,
                max_pool_connections=settings.thread_count,
                retries={"total_max_attempts": settings.max_attempt_count, "mode": "standard"},
                s3={"addressing_style": "path" if settings.endpoint_url else "auto"},
                # We send our own digests and check our own; trailers are what S3 look-alikes know least.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def close(self) -> None:
        """Refuse further calls and close idle connections."""
        self._threads.close()
        self._client.close()

    async def ensure_bucket(self, *, timeout_seconds: float = 10.0) -> None:
        """Create the bucket where it does not exist yet; for set-up, not part of the port.

        Args:
            timeout_seconds: Bound of the whole call.
        """

        def call() -> None:
            try:
                self._client.head_bucket(Bucket=self._settings.bucket)
            except ClientError as error:
                if not is_missing(error):
                    raise
                with contextlib.suppress(
                    self._client.exceptions.BucketAlreadyOwnedByYou, self._client.exceptions.BucketAlreadyExists
                ):
                    self._client.create_bucket(Bucket=self._settings.bucket)

        await self._run("ensure_bucket", call, _deadline_after(timeout_seconds))

    async def put(
        self, key: str, data: bytes | AsyncIterable[bytes], *, sha256: str | None = None, timeout_seconds: float = 60.0
    ) -> ObjectInfo:
        """Write one object; see the port."""
        deadline = _deadline_after(timeout_seconds)
        async with spool(data, self._threads, max_byte_count=None, deadline=deadline) as content:
            if sha256 is not None and content.sha256 != sha256:
                raise InvalidArgumentError(
                    "OBJECT_DIGEST_MISMATCH", "the data does not have the SHA-256 that was announced", field="sha256"
                )
            await self._upload(key, content, deadline)
        return ObjectInfo(key, content.byte_count, content.sha256)

    async def put_content(
        self,
        prefix: str,
        data: bytes | AsyncIterable[bytes],
        *,
        max_byte_count: int,
        timeout_seconds: float = 60.0,
    ) -> ObjectInfo:
        """Write one object under its own digest; see the port."""
        _check_prefix(prefix)
        deadline = _deadline_after(timeout_seconds)
        async with spool(data, self._threads, max_byte_count=max_byte_count, deadline=deadline) as content:
            key = prefix + content.sha256
            known = await self._head(key, deadline)
            if known is None or (known.byte_count, known.sha256) != (content.byte_count, content.sha256):
                await self._upload(key, content, deadline)
        return ObjectInfo(key, content.byte_count, content.sha256)

    async def get(
        self, key: str, *, max_byte_count: int = 64 << 20, sha256: str | None = None, timeout_seconds: float = 30.0
    ) -> bytes:
        """Read one object whole; see the port."""
        deadline = _deadline_after(timeout_seconds)
        give_up_at = time.monotonic() + timeout_seconds

        def call() -> tuple[bytes, str]:
            response = self._client.get_object(Bucket=self._settings.bucket, Key=key)
            with contextlib.closing(response["Body"]) as body:
                if response["ContentLength"] > max_byte_count:
                    raise InvalidArgumentError(
                        "OBJECT_TOO_LARGE",
                        f"the object is longer than {max_byte_count} bytes; read it as a stream",
                        limit_bytes=max_byte_count,
                    )
                pieces = []
                while piece := body.read(_PIECE_BYTES):
                    pieces.append(piece)
                    if time.monotonic() > give_up_at:
                        raise DeadlineExceededError("OBJECT_STORE_DEADLINE", "the object could not be read in time")
            return b"".join(pieces), response["Metadata"].get("sha256", "")

        content, stored = await self._run("get", call, deadline)
        # The expected digest may be absent for an object that somebody else put there: then nothing can be checked.
        expected = sha256 or stored
        if expected and await self._run("hash", lambda: hashlib.sha256(content).hexdigest(), deadline) != expected:
            raise _corrupt()
        return content

    async def open_stream(
        self, key: str, *, sha256: str | None = None, timeout_seconds: float = 300.0
    ) -> AsyncIterator[bytes]:
        """Read one object piece by piece; see the port."""
        deadline = _deadline_after(timeout_seconds)
        response = await self._run(
            "get", lambda: self._client.get_object(Bucket=self._settings.bucket, Key=key), deadline
        )
        body: StreamingBody = response["Body"]
        digest = hashlib.sha256()

        def read_piece() -> bytes:
            piece: bytes = body.read(_PIECE_BYTES)
            digest.update(piece)
            return piece

        try:
            while piece := await self._run("get", read_piece, deadline):
                yield piece
        finally:
            body.close()
        expected = sha256 or response["Metadata"].get("sha256", "")
        if expected and digest.hexdigest() != expected:
            raise _corrupt()

    async def head(self, key: str, *, timeout_seconds: float = 10.0) -> ObjectInfo | None:
        """Tell whether an object exists; see the port."""
        return await self._head(key, _deadline_after(timeout_seconds))

    async def delete(self, key: str, *, timeout_seconds: float = 10.0) -> None:
        """Delete one object; see the port."""
        await self._run(
            "delete",
            lambda: self._client.delete_object(Bucket=self._settings.bucket, Key=key),
            _deadline_after(timeout_seconds),
        )

    async def delete_prefix(self, prefix: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete every object under a prefix; see the port."""
        _check_prefix(prefix)
        deadline = _deadline_after(timeout_seconds)
        deleted_count = 0
        while keys := await self._run("list", lambda: self._page(prefix, "")[0], deadline):
            batch = [info.key for info in keys]
            await self._run("delete", lambda batch=batch: self._delete_batch(batch), deadline)  # type: ignore[misc]
            deleted_count += len(batch)
        return deleted_count

    async def list_prefix(
        self, prefix: str, *, max_object_count: int = 100_000, timeout_seconds: float = 60.0
    ) -> AsyncIterator[ObjectInfo]:
        """List the objects under a prefix; see the port."""
        _check_prefix(prefix)
        deadline = _deadline_after(timeout_seconds)
        token, listed_count = "", 0
        while True:
            page, token = await self._run("list", lambda token=token: self._page(prefix, token), deadline)  # type: ignore[misc]
            for info in page:
                if listed_count == max_object_count:
                    return
                listed_count += 1
                yield info
            if not token:
                return

    async def _run(self, operation: str, call: Callable[[], T], deadline: float) -> T:
        with translated(operation):
            return await self._threads.run(call, deadline=deadline)

    async def _head(self, key: str, deadline: float) -> ObjectInfo | None:
        def call() -> ObjectInfo | None:
            try:
                response = self._client.head_object(Bucket=self._settings.bucket, Key=key)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise
            return ObjectInfo(
                key, response["ContentLength"], response["Metadata"].get("sha256", ""), response["LastModified"]
            )

        return await self._run("head", call, deadline)

    async def _upload(self, key: str, content: Spooled, deadline: float) -> None:
        if content.byte_count > self._settings.multipart_threshold_bytes:
            await self._upload_parts(key, content, deadline)
            return
        # The service compares this digest with what it received before the object becomes visible.
        checksum = base64.b64encode(bytes.fromhex(content.sha256)).decode()
        await self._run(
            "put",
            lambda: self._client.put_object(
                Bucket=self._settings.bucket,
                Key=key,
                Body=content.file,
                ContentLength=content.byte_count,
                ContentType=_MEDIA_TYPE,
                ChecksumSHA256=checksum,
                Metadata={"sha256": content.sha256},
            ),
            deadline,
        )

    async def _upload_parts(self, key: str, content: Spooled, deadline: float) -> None:
        created = await self._run(
            "put",
            lambda: self._client.create_multipart_upload(
                Bucket=self._settings.bucket, Key=key, ContentType=_MEDIA_TYPE, Metadata={"sha256": content.sha256}
            ),
            deadline,
        )
        upload_id = created["UploadId"]
        try:
            parts: list[CompletedPartTypeDef] = []
            part_count = -(-content.byte_count // self._settings.part_size_bytes)
            for number in range(1, part_count + 1):
                upload = self._part_upload(key, upload_id, number, content.file)
                parts.append({"PartNumber": number, "ETag": await self._run("put", upload, deadline)})
            await self._run(
                "put",
                lambda: self._client.complete_multipart_upload(
                    Bucket=self._settings.bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
                ),
                deadline,
            )
        except (CorpusMeshError, asyncio.CancelledError):
            await asyncio.shield(self._abort(key, upload_id))
            raise

    def _part_upload(self, key: str, upload_id: str, number: int, file: IO[bytes]) -> Callable[[], str]:
        def call() -> str:
            part = file.read(self._settings.part_size_bytes)
            md5 = hashlib.md5(part, usedforsecurity=False).digest()
            response = self._client.upload_part(
                Bucket=self._settings.bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                Body=part,
                ContentMD5=base64.b64encode(md5).decode(),
            )
            return response["ETag"]

        return call

    async def _abort(self, key: str, upload_id: str) -> None:
        """Drop the parts of a failed upload; where even that fails, the bucket's life-cycle rule has to do it."""
        with contextlib.suppress(CorpusMeshError):
            await self._run(
                "abort",
                lambda: self._client.abort_multipart_upload(Bucket=self._settings.bucket, Key=key, UploadId=upload_id),
                _deadline_after(_CLEANUP_SECONDS),
            )

    def _page(self, prefix: str, token: str) -> tuple[list[ObjectInfo], str]:
        if token:
            response = self._client.list_objects_v2(
                Bucket=self._settings.bucket, Prefix=prefix, ContinuationToken=token
            )
        else:
            response = self._client.list_objects_v2(Bucket=self._settings.bucket, Prefix=prefix)
        infos = [
            ObjectInfo(entry["Key"], entry["Size"], "", entry["LastModified"]) for entry in response.get("Contents", [])
        ]
        return infos, response.get("NextContinuationToken", "")

    def _delete_batch(self, keys: list[str]) -> None:
        response = self._client.delete_objects(
            Bucket=self._settings.bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
        )
        if response.get("Errors"):
            raise InternalError(
                "OBJECT_DELETE_FAILED",
                "the object store did not delete every object",
                failed_count=len(response["Errors"]),
            )


def _deadline_after(timeout_seconds: float) -> float:
    return asyncio.get_running_loop().time() + timeout_seconds


def _check_prefix(prefix: str) -> None:
    if not prefix.endswith("/") or prefix.startswith("/"):
        raise InvalidArgumentError(
            "OBJECT_KEY_INVALID", "a prefix names a folder: it ends with '/' and does not begin with it", field="prefix"
        )


def _corrupt() -> InternalError:
    return InternalError(
        "OBJECT_CORRUPT", "the stored bytes do not have the SHA-256 taken when they were written; upload it again"
    )
