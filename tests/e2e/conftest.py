"""Whole meshes, started once for the session by the first test that asks."""

from collections.abc import AsyncIterator

import pytest

from tests.support.mesh import DISTRIBUTED, SINGLE, MeshHarness


@pytest.fixture(scope="session")
async def distributed_mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MeshHarness]:
    """Every service a process of its own."""
    harness = MeshHarness(tmp_path_factory.mktemp("distributed"), DISTRIBUTED, {})
    try:
        await harness.start()
        yield harness
    finally:
        await harness.stop()


@pytest.fixture(scope="session")
async def single_mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MeshHarness]:
    """All services in one process, as `corpusmesh up` runs them."""
    harness = MeshHarness(tmp_path_factory.mktemp("single"), SINGLE, {})
    try:
        await harness.start()
        yield harness
    finally:
        await harness.stop()


@pytest.fixture
def mesh(distributed_mesh: MeshHarness) -> MeshHarness:
    """The mesh that most tests use."""
    return distributed_mesh
