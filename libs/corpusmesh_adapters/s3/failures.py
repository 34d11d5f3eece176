"""From botocore's exceptions to ours, without endpoint, credential or key in the text."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from corpusmesh_core.errors import (
    CorpusMeshError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)

_MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
_DENIED = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Forbidden"})
_DIGEST = frozenset({"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch"})
_BUSY = frozenset(
    {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "OperationAborted"}
)


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turn what the S3 client raises into the error tree.

    Args:
        operation: What was tried, one word, for the error's metadata.

    Yields:
        Nothing.

    Raises:
        CorpusMeshError: In place of any botocore exception.
    """
    try:
        yield
    except ClientError as error:
        raise _from_response(operation, error) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise FailedPreconditionError(
            "OBJECT_STORE_ACCESS_DENIED", "no credentials for the object store are configured", operation=operation
        ) from error
    except BotoCoreError as error:
        raise UnavailableError(
            "OBJECT_STORE_UNAVAILABLE", "the object store does not answer; try again", operation=operation
        ) from error


def is_missing(error: ClientError) -> bool:
    """Tell whether a response says that the object does not exist.

    Args:
        error: What the client raised.

    Returns:
        True for a missing object, False for a missing bucket or anything else.
    """
    return str(error.response.get("Error", {}).get("Code", "")) in _MISSING


def _from_response(operation: str, error: ClientError) -> CorpusMeshError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _MISSING:
        return NotFoundError("OBJECT_NOT_FOUND", "the object does not exist", operation=operation)
    if code == "NoSuchBucket":
        return FailedPreconditionError(
            "OBJECT_BUCKET_MISSING", "the configured bucket does not exist; create it", operation=operation
        )
    if code in _DENIED:
        return FailedPreconditionError(
            "OBJECT_STORE_ACCESS_DENIED", "the object store refuses the configured credentials", operation=operation
        )
    if code in _DIGEST:
        return InvalidArgumentError(
            "OBJECT_DIGEST_MISMATCH", "the object store received other bytes than were sent", operation=operation
        )
    if code in _BUSY or status >= 500 or status == 429:
        return UnavailableError(
            "OBJECT_STORE_UNAVAILABLE", "the object store is busy; try again", operation=operation, code=code
        )
    return InternalError(
        "OBJECT_STORE_FAULT", f"the object store refused {operation} with {code}", operation=operation, code=code
    )
