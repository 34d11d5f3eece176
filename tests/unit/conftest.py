"""Unit tests touch nothing outside: a connection is an error."""

import socket
from typing import NoReturn

import pytest


class NetworkTouchedError(AssertionError):
    """A unit test opened a connection."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make connections raise. The event loop's own socket pair does not connect, so it goes on working."""

    def refuse(_self: socket.socket, *_arguments: object) -> NoReturn:
        raise NetworkTouchedError("a unit test opened a connection; pass a fake port, or move it to tests/integration")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
