"""A build of a knowledge base's tree comes out the same wherever its process dies (invariant 1)."""

import asyncio
import contextlib
from collections.abc import Sequence

import numpy as np
import pytest

from corpusmesh_core.records import VECTOR_DECIMALS
from corpusmesh_core.trees.values import Vectors
from corpusmesh_core.trees.vectors import as_kept
from corpusmesh_raptor.config import RaptorSettings
from tests.support.tree_builds import DIMENSION, Death, Fuse, World, content, shape

IN_ONE = RaptorSettings()
IN_SLICES = RaptorSettings(slice_nodes=2, slice_seconds=1e-9)


def texts_of(document: str, count: int, edition: str = "first") -> list[str]:
    return [
        f"This passage tells of {document} in part {place}. Committee {place} decides it in the {edition} edition."
        for place in range(count)
    ]


def vectors_of(seed: int, count: int) -> Vectors:
    """Vectors around a direction of their own."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=DIMENSION) + 0.7 * rng.normal(size=(count, DIMENSION))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def library() -> World:
    world = World()
    for place in range(8):
        world.put(place + 1, f"d{place}", texts_of(f"d{place}", 5), vectors_of(place, 5))
    return world


def change(world: World) -> None:
    """A document is changed, one is new, one is gone."""
    vectors = vectors_of(2, 5)
    vectors[1] = vectors_of(20, 1)[0]
    world.put(101, "d2", [*texts_of("d2", 1), *texts_of("d2", 5, "second")[1:2], *texts_of("d2", 5)[2:]], vectors)
    world.put(102, "new", texts_of("new", 5), vectors_of(8, 5))
    world.remove("d4")


async def built(*, changed: bool, settings: RaptorSettings = IN_ONE) -> World:
    world = library()
    await world.build(settings)
    if changed:
        change(world)
        await world.build(settings)
    return world


async def begun(*, changed: bool) -> World:
    world = library()
    if changed:
        await world.build(IN_SLICES)
        change(world)
    return world


def same(world: World, expected: World) -> None:
    assert shape(world.skeleton()) == shape(expected.skeleton())
    assert content(world) == content(expected)
    assert world.trees.row.sources == expected.trees.row.sources


@pytest.mark.parametrize("changed", [False, True], ids=["the first build", "an update"])
async def test_slices_decide_nothing(changed: bool) -> None:
    same(await built(changed=changed, settings=IN_SLICES), await built(changed=changed))


@pytest.mark.parametrize("changed", [False, True], ids=["the first build", "an update"])
async def test_death_at_any_step_changes_nothing(changed: bool) -> None:
    expected = await built(changed=changed)
    assert expected.skeleton().changed_leaf_count == (11 if changed else 0), "an update is one"
    step_count = await (await begun(changed=changed)).build(IN_SLICES)
    assert step_count > 15
    for step in range(1, step_count + 1):
        world = await begun(changed=changed)
        task = world.begin()
        with contextlib.suppress(Death):
            await task.work(Fuse(dies_at=step), IN_SLICES)
            raise AssertionError(f"it lives on after step {step}")
        await task.work(Fuse(), IN_SLICES)
        same(world, expected)


async def deaths(world: World, steps: Sequence[int]) -> None:
    task = world.begin()
    for place, step in enumerate(steps):
        # Another release, say: each process works in slices of its own size.
        settings = RaptorSettings(slice_nodes=2 + place, slice_seconds=1e-9 if place % 2 else 60)
        with contextlib.suppress(Death):
            await task.work(Fuse(dies_at=step), settings)
            return
    await task.work(Fuse(), IN_ONE)


@pytest.mark.parametrize("changed", [False, True], ids=["the first build", "an update"])
async def test_many_deaths_in_a_row_change_nothing(changed: bool) -> None:
    expected = await built(changed=changed)
    rng = np.random.default_rng(7)
    for _ in range(8):
        world = await begun(changed=changed)
        await deaths(world, rng.integers(1, 20, size=6).tolist())
        same(world, expected)


@pytest.mark.parametrize("changed", [False, True], ids=["the first build", "an update"])
async def test_two_workers_at_the_same_slice_do_the_same(changed: bool) -> None:
    expected = await built(changed=changed)
    world = await begun(changed=changed)
    task = world.begin()
    while True:
        first, second = await asyncio.gather(
            task.attempt(Fuse(), IN_SLICES), task.attempt(Fuse(), RaptorSettings(slice_nodes=4, slice_seconds=1e-9))
        )
        # Whoever commits first is right; what the other one has written lies beneath it.
        outcome = first if task.slice_count % 2 else second
        task.slice_count += 1
        if outcome.build is not None:
            world.trees.publish(outcome.build)
            break
        task.payload = outcome.payload
    same(world, expected)


def test_vectors_are_rounded_to_the_bit_as_the_index_rounds_them() -> None:
    rng = np.random.default_rng(3)
    # Halves of the last decimal among them: multiples of 2**-8 have no more than eight.
    halves = np.arange(-256, 257) / 256
    values = np.concatenate([rng.normal(size=50_000), rng.normal(size=50_000) * 1e-5, halves]).astype(np.float32)
    kept = as_kept(values)
    expected = np.array([round(value, VECTOR_DECIMALS) for value in values.tolist()], dtype=np.float32)
    assert (kept == expected).all()
    assert (as_kept(kept) == kept).all()
    assert (kept != values).any()
