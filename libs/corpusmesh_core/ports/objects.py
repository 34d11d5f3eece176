"""Port of the object store: originals by content hash, artefacts by run (design, section 4).

Messages and rows carry keys, never payloads; every call has a deadline; every byte that is read back is checked against
the SHA-256 that was taken when it was written.
"""

import re
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from corpusmesh_core.errors import InvalidArgumentError

_TENANT = re.compile(r"[a-z0-9-]{1,63}")
_RUN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_KEY_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What the store knows of one object.

    Attributes:
        key: Its key, without the bucket.
        byte_count: Its length.
        sha256: Hex digest taken when it was written; "" where a listing does not tell.
        modified_at: When it was written; None right after a write.
    """

    key: str
    byte_count: int
    sha256: str = ""
    modified_at: datetime | None = None


class ObjectStore(Protocol):
    """Bytes by key. All digests are lower-case hex SHA-256; all timeouts bound the whole call.

    Every method raises `UnavailableError` where the store does not answer, `DeadlineExceededError` where the time is
    over, `OverloadedError` where too many calls wait and `FailedPreconditionError` where bucket or credentials are
    wrong.
    """

    async def put(
        self, key: str, data: bytes | AsyncIterable[bytes], *, sha256: str | None = None, timeout_seconds: float = 60.0
    ) -> ObjectInfo:
        """Write one object, replacing what was there; a failed write leaves nothing new.

        Args:
            key: Where to write, see `artefact_key`.
            data: The bytes, or pieces of them; pieces are spooled to disk, never held whole in memory.
            sha256: Expected digest; None takes the digest of what arrives.
            timeout_seconds: Bound of the whole call.

        Returns:
            Key, length and digest of what was written.

        Raises:
            InvalidArgumentError: OBJECT_DIGEST_MISMATCH where the data has another digest than expected.
        """
        ...

    async def put_content(
        self,
        prefix: str,
        data: bytes | AsyncIterable[bytes],
        *,
        max_byte_count: int,
        timeout_seconds: float = 60.0,
    ) -> ObjectInfo:
        """Write one object under `prefix` + its own digest; the same content is stored once.

        An object found here may be under purge: `PurgeStore.remove_originals` and `RunStore.ingest` settle that.

        Args:
            prefix: Ends with "/", see `originals_prefix`.
            data: The bytes, or pieces of them; pieces are spooled to disk, never held whole in memory.
            max_byte_count: Longest content taken.
            timeout_seconds: Bound of the whole call.

        Returns:
            Key, length and digest of the content.

        Raises:
            InvalidArgumentError: OBJECT_TOO_LARGE where more than `max_byte_count` arrive; nothing is written then.
        """
        ...

    async def get(
        self, key: str, *, max_byte_count: int = 64 << 20, sha256: str | None = None, timeout_seconds: float = 30.0
    ) -> bytes:
        """Read one object whole and check its digest.

        Args:
            key: What to read.
            max_byte_count: Longest object taken into memory.
            sha256: Expected digest; None checks against the one stored beside the object.
            timeout_seconds: Bound of the whole call.

        Returns:
            The bytes.

        Raises:
            NotFoundError: OBJECT_NOT_FOUND.
            InvalidArgumentError: OBJECT_TOO_LARGE where it is longer than `max_byte_count`.
            InternalError: OBJECT_CORRUPT where the bytes do not have the digest.
        """
        ...

    def open_stream(
        self, key: str, *, sha256: str | None = None, timeout_seconds: float = 300.0
    ) -> AsyncIterator[bytes]:
        """Read one object piece by piece; the digest is checked after the last piece.

        A caller must not act on the content before the iterator has ended without an error.

        Args:
            key: What to read.
            sha256: Expected digest; None checks against the one stored beside the object.
            timeout_seconds: Bound from the first to the last piece.

        Returns:
            Pieces of at most 1 MiB.

        Raises:
            NotFoundError: OBJECT_NOT_FOUND.
            InternalError: OBJECT_CORRUPT where the bytes do not have the digest.
        """
        ...

    async def head(self, key: str, *, timeout_seconds: float = 10.0) -> ObjectInfo | None:
        """Tell whether an object exists.

        Args:
            key: What to look for.
            timeout_seconds: Bound of the whole call.

        Returns:
            What is known of it, or None where it does not exist.
        """
        ...

    async def delete(self, key: str, *, timeout_seconds: float = 10.0) -> None:
        """Delete one object; deleting what is not there is no error.

        Args:
            key: What to delete.
            timeout_seconds: Bound of the whole call.
        """
        ...

    async def delete_prefix(self, prefix: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete every object under a prefix.

        Args:
            prefix: Ends with "/", so that run 1 never takes run 10 with it.
            timeout_seconds: Bound of the whole call; what is not deleted by then stays, and a second call goes on.

        Returns:
            How many objects were deleted.
        """
        ...

    def list_prefix(
        self, prefix: str, *, max_object_count: int = 100_000, timeout_seconds: float = 60.0
    ) -> AsyncIterator[ObjectInfo]:
        """List the objects under a prefix in key order.

        Args:
            prefix: Ends with "/".
            max_object_count: Where to stop.
            timeout_seconds: Bound from the first to the last entry.

        Returns:
            Entries without digest.
        """
        ...


def originals_prefix(tenant_id: str) -> str:
    """Name the folder of a tenant's originals.

    Args:
        tenant_id: Pattern ``[a-z0-9-]{1,63}``.

    Returns:
        ``<tenant>/originals/``.

    Raises:
        InvalidArgumentError: If the tenant id does not fit its pattern.
    """
    if not _TENANT.fullmatch(tenant_id):
        raise InvalidArgumentError("OBJECT_KEY_INVALID", "the tenant id must match [a-z0-9-]{1,63}", field="tenant_id")
    return f"{tenant_id}/originals/"


def original_key(tenant_id: str, sha256: str) -> str:
    """Name an original by its content; a file name is data and never part of a key.

    Args:
        tenant_id: Pattern ``[a-z0-9-]{1,63}``.
        sha256: 64 lower-case hex digits.

    Returns:
        ``<tenant>/originals/<sha256>``.

    Raises:
        InvalidArgumentError: If a part does not fit its pattern.
    """
    if not _SHA256.fullmatch(sha256):
        raise InvalidArgumentError("OBJECT_KEY_INVALID", "a digest is 64 lower-case hex digits", field="sha256")
    return originals_prefix(tenant_id) + sha256


def artefacts_prefix(tenant_id: str, run_id: str) -> str:
    """Name the folder of everything that one run wrote.

    Args:
        tenant_id: Pattern ``[a-z0-9-]{1,63}``.
        run_id: Pattern ``[A-Za-z0-9_-]{1,128}``.

    Returns:
        ``<tenant>/artefacts/<run>/``.

    Raises:
        InvalidArgumentError: If a part does not fit its pattern.
    """
    if not _TENANT.fullmatch(tenant_id):
        raise InvalidArgumentError("OBJECT_KEY_INVALID", "the tenant id must match [a-z0-9-]{1,63}", field="tenant_id")
    if not _RUN.fullmatch(run_id):
        raise InvalidArgumentError("OBJECT_KEY_INVALID", "the run id must match [A-Za-z0-9_-]{1,128}", field="run_id")
    return f"{tenant_id}/artefacts/{run_id}/"


def artefact_key(tenant_id: str, run_id: str, name: str) -> str:
    """Name one artefact of a run.

    Args:
        tenant_id: Pattern ``[a-z0-9-]{1,63}``.
        run_id: Pattern ``[A-Za-z0-9_-]{1,128}``.
        name: Made by us, segments of ``[A-Za-z0-9._-]`` that begin with a letter or digit, joined by "/".

    Returns:
        ``<tenant>/artefacts/<run>/<name>``.

    Raises:
        InvalidArgumentError: If a part does not fit its pattern.
    """
    key = artefacts_prefix(tenant_id, run_id) + name
    if len(key) > _MAX_KEY_CHARACTERS or not all(_SEGMENT.fullmatch(segment) for segment in name.split("/")):
        raise InvalidArgumentError(
            "OBJECT_KEY_INVALID", "an artefact's name is made of [A-Za-z0-9._-] segments joined by '/'", field="name"
        )
    return key
