"""HTTP/1.1 with a bound on the time that headers may take; uvicorn itself waits for them without end."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def bounded_protocol(header_timeout_seconds: float) -> type[H11Protocol]:
    """Make the protocol class for a server.

    Args:
        header_timeout_seconds: Time from the first byte of a request (of a new connection, from its beginning) to the
            end of its headers.

    Returns:
        A class for `uvicorn.Config(http=...)`.
    """

    class BoundedH11Protocol(H11Protocol):
        """Closes connections whose headers do not end in time."""

        _header_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to wait for the first request.

            Args:
                transport: The connection.
            """
            super().connection_made(transport)
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            """Take bytes and note whether they end in the midst of headers.

            Args:
                data: The bytes.
            """
            super().data_received(data)
            incomplete = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
            if not incomplete:
                self._stop_waiting()
            elif self._header_timer is None:
                self._wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the connection.

            Args:
                exc: Why it ended.
            """
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_headers(self) -> None:
            self._header_timer = self.loop.call_later(header_timeout_seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

    return BoundedH11Protocol
