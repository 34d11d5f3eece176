"""How one call is made: metadata, deadline, another try where the mesh invites one, typed failures."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from corpusmesh_client.channel import ConnectionSettings
from corpusmesh_client.errors import error_from_rpc, retry_delay_seconds
from corpusmesh_core.errors import CorpusMeshError, UnavailableError

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ItemT = TypeVar("ItemT")

_MAX_RETRY_DELAY_SECONDS = 10.0
MAX_PAGE_SIZE = 500


class Page(Protocol):
    """A page of a list."""

    @property
    def next_page_token(self) -> str:
        """Token of the next page; empty at the end."""


PageT = TypeVar("PageT", bound=Page)


def new_request_id() -> str:
    """Make an identifier for a call that changes something, so that trying it again is harmless.

    Returns:
        A random UUID.
    """
    return str(uuid.uuid4())


class Caller:
    """Makes calls on one channel for one identity."""

    def __init__(self, channel: grpc.aio.Channel, settings: ConnectionSettings) -> None:
        """Create the caller.

        Args:
            channel: Where calls go.
            settings: Key, deadlines and attempts.
        """
        self.channel = channel
        self.deadlines = settings.deadlines
        self._address = settings.address
        self._api_key = settings.api_key
        self._max_attempts = max(1, settings.max_attempts)

    def metadata(self) -> grpc.aio.Metadata:
        """Give the metadata of a call.

        Returns:
            The key, and a fresh identifier that names the call in the mesh's log.
        """
        pairs = [("corpusmesh-request-id", new_request_id())]
        if self._api_key:
            pairs.append(("authorization", f"Bearer {self._api_key}"))
        return grpc.aio.Metadata(*pairs)

    async def unary(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        *,
        timeout_seconds: float,
        idempotent: bool = True,
    ) -> ResponseT:
        """Make a call with one request and one response.

        Args:
            method: Method of a stub.
            request: The request.
            timeout_seconds: Deadline over all attempts.
            idempotent: Whether a refusal for overload may be answered by another try.

        Returns:
            The response.

        Raises:
            CorpusMeshError: If the call failed.
        """
        deadline = time.monotonic() + timeout_seconds
        attempt = 1
        while True:
            try:
                return await method(request, timeout=max(0.001, deadline - time.monotonic()), metadata=self.metadata())
            except grpc.aio.AioRpcError as error:
                delay = self._delay_before_retry(error) if idempotent and attempt < self._max_attempts else None
                if delay is None or time.monotonic() + delay >= deadline:
                    raise self.translate(error) from error
                await asyncio.sleep(delay)
                attempt += 1

    async def stream(
        self,
        method: "grpc.aio.UnaryStreamMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        *,
        timeout_seconds: float,
    ) -> AsyncGenerator[ResponseT, None]:
        """Make a call with one request and many responses.

        Args:
            method: Method of a stub.
            request: The request.
            timeout_seconds: Deadline of the whole stream.

        Yields:
            The responses.

        Raises:
            CorpusMeshError: If the call failed.
        """
        call = method(request, timeout=timeout_seconds, metadata=self.metadata())
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise self.translate(error) from error
        finally:
            call.cancel()

    async def pages(
        self,
        fetch: Callable[[str], Awaitable[PageT]],
        items_of: Callable[[PageT], Iterable[ItemT]],
    ) -> AsyncIterator[ItemT]:
        """Walk all pages of a list.

        Args:
            fetch: Reads the page of a token.
            items_of: Takes the entries out of a page.

        Yields:
            The entries.
        """
        token = ""
        while True:
            page = await fetch(token)
            for item in items_of(page):
                yield item
            token = page.next_page_token
            if not token:
                return

    def translate(self, error: grpc.aio.AioRpcError) -> CorpusMeshError:
        """Rebuild the failure of a call, and say in plain words when the gateway cannot be reached at all.

        Args:
            error: What gRPC raised.

        Returns:
            The typed failure.
        """
        rebuilt = error_from_rpc(error)
        if isinstance(rebuilt, UnavailableError) and rebuilt.reason == grpc.StatusCode.UNAVAILABLE.name:
            return UnavailableError(
                "GATEWAY_UNREACHABLE",
                f"the gateway at {self._address} does not answer; check that the mesh runs and the address is right",
                address=self._address,
                cause=rebuilt.message,
            )
        return rebuilt

    def _delay_before_retry(self, error: grpc.aio.AioRpcError) -> float | None:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            return None  # UNAVAILABLE is tried again by gRPC itself, by the service config
        delay = retry_delay_seconds(error)
        return None if delay is None else min(delay, _MAX_RETRY_DELAY_SECONDS)
