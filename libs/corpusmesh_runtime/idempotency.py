"""The same request id gives the first response again (AIP-155)."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.metadata import IdempotencyStore
from corpusmesh_runtime.context import require_call

_Response = TypeVar("_Response", bound=Message)


async def once(
    store: IdempotencyStore,
    method: str,
    request_id: str,
    request: Message,
    response_type: type[_Response],
    act: Callable[[], Awaitable[_Response]],
) -> _Response:
    """Act once for a request id.

    Args:
        store: First responses.
        method: Name of the method.
        request_id: UUID of the request; "" to act every time.
        request: The request, to tell another one with the same id.
        response_type: Class of the response.
        act: What the method does.

    Returns:
        The first response.

    Raises:
        InvalidArgumentError: If the id is no UUID, or was used for another request.
        ConflictError: If the first call with this id still goes on.
    """
    if not request_id:
        return await act()
    try:
        uuid.UUID(request_id)
    except ValueError as error:
        raise InvalidArgumentError("REQUEST_ID_INVALID", "request_id must be a UUID", field="request_id") from error
    identity = require_call().identity
    fingerprint = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
    stored = await store.begin(identity, method, request_id, fingerprint)
    if stored is not None:
        response = response_type()
        response.ParseFromString(stored)
        return response
    done = False
    try:
        response = await act()
        await store.finish(identity, method, request_id, response.SerializeToString())
        done = True
    finally:
        if not done:
            await store.abandon(identity, method, request_id)
    return response
