"""What many documents say of one relation becomes one description, which stands on all of them."""

from collections.abc import Sequence

import pytest

from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_graph.models import GraphSession
from tests.support.graph_builds import GraphWorld
from tests.unit.test_graph_build_deaths import IN_SLICES, texts_of

SETTINGS = GraphSettings(methods=(GraphMethod.LIGHT, GraphMethod.TRIPLES), merged_description_count=2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What a language model was asked to merge; it writes how much it was given."""
    calls: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = []

    async def merge(
        self: GraphSession, name: str, fragments: Sequence[str], sources: Sequence[int], *, timeout_seconds: float
    ) -> str | None:
        calls.append((name, tuple(fragments), tuple(sources)))
        return f"{name}: {len(fragments)} documents tell of it."

    monkeypatch.setattr(GraphSession, "merge_description", merge)
    monkeypatch.setattr(GraphSession, "described_by", "stub v1")
    return calls


def descriptions(world: GraphWorld) -> list[Record]:
    return [record for record in world.records() if record.kind is RecordKind.DESCRIPTION]


async def test_description_is_made_once_and_again_where_its_documents_change(
    asked: list[tuple[str, tuple[str, ...], tuple[int, ...]]],
) -> None:
    world = GraphWorld(SETTINGS)
    for number in range(4):
        world.put(number + 1, f"d{number}", texts_of(number))
    for number in range(3):
        fact = Triple("Ada Lovelace", f"wrote letter {number} to", "Charles Babbage")
        world.inputs.triples[f"d{number}"] = (fact,)
    await world.build(IN_SLICES)
    [record] = descriptions(world)
    assert record.sources == (1, 2, 3)
    assert record.text.endswith("3 documents tell of it.")
    assert len(asked) == 1
    assert asked[0][2] == (1, 2, 3)

    await world.build()
    world.put(101, "other", texts_of(4))
    await world.build()
    assert descriptions(world) == [record]
    assert len(asked) == 1, "its documents are the same"

    world.remove("d0", is_purged=True)
    await world.build()
    [record] = descriptions(world)
    assert record.sources == (2, 3)
    world.remove("d1", is_purged=True)
    await world.build()
    assert not descriptions(world), "one document speaks for itself"
