"""Fixtures that all tests share: one set of real servers for the whole session, and a tenant of one's own."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from corpusmesh_app.stack import Stack, StackEndpoints, StackSettings, install_opensearch


@pytest.fixture(scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """One running stack for the session; started by the first test that asks."""
    await asyncio.to_thread(install_opensearch)
    running = Stack(StackSettings(data_directory=tmp_path_factory.mktemp("stack")))
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


@pytest.fixture(scope="session")
async def stack_endpoints(stack: Stack) -> StackEndpoints:
    """Where the session's servers answer."""
    return stack.endpoints


@pytest.fixture
def tenant_id() -> str:
    """A tenant that no other test has."""
    return f"test-{uuid.uuid4().hex}"
