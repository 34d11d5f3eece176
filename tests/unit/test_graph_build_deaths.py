"""A build of a knowledge base's graph comes out the same wherever its process dies (invariant 1)."""

import contextlib
from collections.abc import Sequence

import numpy as np
import pytest

from corpusmesh_core.graphs.settings import GraphSettings, GraphVectors
from corpusmesh_graph.config import GraphServiceSettings
from tests.support.graph_builds import NER, GraphWorld, columns, content
from tests.support.tree_builds import Death, Fuse

IN_ONE = GraphServiceSettings()
IN_SLICES = GraphServiceSettings(slice_seconds=1e-9, batch_documents=2)
WITH_VECTORS = GraphSettings(methods=NER.methods, vectors=GraphVectors.ALL)

TOWNS = ("Basel", "Geneva", "Zurich", "Lausanne", "Lucerne", "Lugano")
PEOPLE = ("Leonhard Euler", "Daniel Bernoulli", "Jakob Bernoulli", "Nicolaus Fuss", "Johann Heinrich Lambert")


def texts_of(number: int, edition: str = "first") -> list[str]:
    person, town, other = PEOPLE[number % 5], TOWNS[number % 6], PEOPLE[(number + 2) % 5]
    return [
        f"{person} was born in {town}. He worked with {other} at the Academy of {town} on the {edition} edition.",
        f"{other} wrote letters to {person}. The University of {town} keeps them in its library.",
    ]


def library(graph: GraphSettings = NER, count: int = 5) -> GraphWorld:
    world = GraphWorld(graph)
    for number in range(count):
        world.put(number + 1, f"d{number}", texts_of(number))
    return world


def change(world: GraphWorld) -> None:
    """A document is changed, one is only written again, one is new, one is gone."""
    world.put(101, "d2", texts_of(2, "second"))
    world.put(102, "d3", texts_of(3))
    world.put(103, "new", texts_of(23, "third"))
    world.remove("d4")


async def built(*, changed: bool, graph: GraphSettings = NER, settings: GraphServiceSettings = IN_ONE) -> GraphWorld:
    world = library(graph)
    await world.build(settings)
    if changed:
        change(world)
        await world.build(settings)
    return world


async def begun(*, changed: bool, graph: GraphSettings = NER) -> GraphWorld:
    world = library(graph)
    if changed:
        await world.build(IN_SLICES)
        change(world)
    return world


def same(world: GraphWorld, expected: GraphWorld) -> None:
    assert content(world) == content(expected)
    assert columns(world) == columns(expected)
    assert world.builds.row.sources == expected.builds.row.sources
    assert world.ledger().texts.tolist() == expected.ledger().texts.tolist()


@pytest.mark.parametrize("changed", [False, True], ids=["the first build", "an update"])
async def test_slices_decide_nothing(changed: bool) -> None:
    expected = await built(changed=changed)
    assert len(content(expected)) > 30
    same(await built(changed=changed, settings=IN_SLICES), expected)


@pytest.mark.parametrize(
    ("changed", "graph"),
    [(False, NER), (True, WITH_VECTORS)],
    ids=["the first build", "an update with vectors"],
)
async def test_death_at_any_step_changes_nothing(changed: bool, graph: GraphSettings) -> None:
    expected = await built(changed=changed, graph=graph)
    step_count = await (await begun(changed=changed, graph=graph)).build(IN_SLICES)
    assert step_count > 10
    for step in range(1, step_count + 1):
        world = await begun(changed=changed, graph=graph)
        task = world.begin()
        with contextlib.suppress(Death):
            await task.work(Fuse(dies_at=step), IN_SLICES)
            raise AssertionError(f"it lives on after step {step}")
        await task.work(Fuse(), IN_SLICES)
        same(world, expected)


async def deaths(world: GraphWorld, steps: Sequence[int]) -> None:
    task = world.begin()
    for place, step in enumerate(steps):
        with contextlib.suppress(Death):
            await task.work(Fuse(dies_at=step), IN_SLICES if place % 2 else IN_ONE)
            return
    await task.work(Fuse(), IN_ONE)


async def test_many_deaths_in_a_row_change_nothing() -> None:
    expected = await built(changed=True)
    rng = np.random.default_rng(7)
    for _ in range(6):
        world = await begun(changed=True)
        await deaths(world, rng.integers(1, 15, size=5).tolist())
        same(world, expected)


async def test_two_workers_at_the_same_slice_do_the_same() -> None:
    expected = await built(changed=True)
    world = await begun(changed=True)
    task = world.begin()
    await task.attempt(Fuse(), IN_SLICES)
    await task.work(Fuse(), IN_ONE)
    same(world, expected)
