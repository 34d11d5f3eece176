"""One request to OpenSearch: deadline, errors translated, engine texts kept inside."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import structlog
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import ConnectionError as OpenSearchConnectionError
from opensearchpy.exceptions import ConnectionTimeout, ImproperlyConfigured, TransportError

from corpusmesh_adapters.opensearch.settings import OpenSearchSettings
from corpusmesh_core.errors import (
    AlreadyExistsError,
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)

_LOG = structlog.get_logger("corpusmesh.opensearch")
_NDJSON = {"content-type": "application/x-ndjson"}
_JSON = {"content-type": "application/json"}


class Transport:
    """A connection pool and the one way to use it."""

    def __init__(self, settings: OpenSearchSettings) -> None:
        """Prepare the pool; nothing is sent yet.

        Args:
            settings: Where the cluster is.

        Raises:
            FailedPreconditionError: If the addresses or certificates cannot be used.
        """
        try:
            context = (
                ssl.create_default_context(cafile=settings.ca_certificates_path)
                if settings.ca_certificates_path
                else None
            )
            self._client = AsyncOpenSearch(
                hosts=list(settings.urls),
                http_auth=(settings.username, settings.password) if settings.username else None,
                ssl_context=context,
                maxsize=settings.connection_count,
                # Who retries what is decided here, item by item, not by the library's defaults.
                max_retries=0,
                http_compress=False,
            )
        except (ImproperlyConfigured, OSError, ValueError) as error:
            raise FailedPreconditionError(
                "INDEX_SETTINGS_INVALID", "the addresses or certificates of the index cannot be used"
            ) from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout_seconds: float,
        body: Mapping[str, Any] | str | bytes | None = None,
        params: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> Any:
        """Send one request.

        Args:
            method: HTTP method.
            path: Path with leading slash.
            timeout_seconds: Deadline of the whole call.
            body: JSON object, or newline-delimited JSON as text or bytes.
            params: Query parameters.
            is_repeatable: Whether to try once more where the connection breaks; for reads.

        Returns:
            The decoded response.

        Raises:
            CorpusMeshError: In place of anything that the client raises.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                try:
                    return await self._send(method, path, timeout_seconds, body, params)
                except OpenSearchConnectionError as error:
                    if isinstance(error, ConnectionTimeout) or not is_repeatable:
                        raise
                return await self._send(method, path, timeout_seconds, body, params)
        except (TimeoutError, ConnectionTimeout) as error:
            raise DeadlineExceededError(
                "INDEX_DEADLINE_EXCEEDED",
                f"the index did not answer within {timeout_seconds:.1f} s",
                timeout_seconds=f"{timeout_seconds:.1f}",
            ) from error
        except OpenSearchConnectionError as error:
            raise UnavailableError("INDEX_UNAVAILABLE", "the index does not answer; try again") from error
        except TransportError as error:
            raise translate(error, method, path) from error

    async def _send(
        self,
        method: str,
        path: str,
        timeout_seconds: float,
        body: Mapping[str, Any] | str | bytes | None,
        params: Mapping[str, str] | None,
    ) -> Any:
        headers = _JSON if body is None or isinstance(body, Mapping) else _NDJSON
        return await self._client.transport.perform_request(
            method,
            path,
            params={**(params or {}), "request_timeout": timeout_seconds},
            body=body,
            headers=headers,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def translate(error: TransportError, method: str, path: str) -> CorpusMeshError:
    """Turn a response with an error status into one of ours; the engine's text goes to the log alone.

    Args:
        error: What the client raised.
        method: HTTP method of the request.
        path: Path of the request.

    Returns:
        The error to raise.
    """
    status = error.status_code if isinstance(error.status_code, int) else 0
    kind = str(error.error)
    if status == 404 and kind == "index_not_found_exception":
        return NotFoundError("SPACE_NOT_FOUND", "the embedding space does not exist; create it first")
    if status == 429:
        return OverloadedError("INDEX_OVERLOADED", "the index refuses more work now; try again")
    if status in {502, 503, 504}:
        return UnavailableError("INDEX_UNAVAILABLE", "the index does not answer; try again", status=status)
    if status in {401, 403}:
        return FailedPreconditionError("INDEX_ACCESS_DENIED", "the index refuses the configured credentials")
    if kind == "resource_already_exists_exception":
        return AlreadyExistsError("SPACE_EXISTS", "the embedding space exists already")
    # The reason may quote the query or a document, so only its type is logged.
    _LOG.error("index request refused", method=method, path=path, status=status, kind=kind)
    return InternalError("INDEX_REQUEST_REFUSED", "the index refused a request", status=status, kind=kind)


def check_response(response: dict[str, object]) -> None:
    """Refuse the answer to a search that failed or misses shards.

    Args:
        response: The answer.

    Raises:
        NotFoundError: SPACE_NOT_FOUND if the index does not exist.
        UnavailableError: INDEX_UNAVAILABLE if it, or a shard of it, does not answer now.
        InternalError: INDEX_REQUEST_REFUSED if it does not understand the search.
    """
    error = response.get("error")
    if error is not None:
        kind = str(error.get("type", "")) if isinstance(error, dict) else ""
        if kind == "index_not_found_exception":
            raise NotFoundError("SPACE_NOT_FOUND", "the embedding space does not exist; create it first")
        if response.get("status") in {429, 502, 503, 504}:
            raise UnavailableError("INDEX_UNAVAILABLE", "the index does not answer; try again")
        raise InternalError("INDEX_REQUEST_REFUSED", "the index refused a search", kind=kind)
    shards = response["_shards"]
    if isinstance(shards, dict) and shards["failed"]:
        raise UnavailableError("INDEX_UNAVAILABLE", "some shards of the index do not answer; try again")
