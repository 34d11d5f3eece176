"""Modes of graph search over a real index: what they ask is what it understands."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from corpusmesh_adapters.opensearch import OpenSearchRecordIndex, OpenSearchSettings
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.ports.index import IndexSpace
from corpusmesh_core.query import GraphMode
from corpusmesh_core.records import RecordKind
from tests.support.graph_bench import SPACE, GraphBench, chunks_of, family_shelf, labels_of, report_of

pytestmark = pytest.mark.servers

_SECONDS = 30.0
_TABLE_MODES = (GraphMode.LOCAL, GraphMode.GLOBAL, GraphMode.HYBRID, GraphMode.MIX, GraphMode.KNOWLEDGE)


@pytest.fixture
async def index(stack_endpoints: StackEndpoints, tenant_id: str) -> AsyncIterator[OpenSearchRecordIndex]:
    opened = OpenSearchRecordIndex(OpenSearchSettings(urls=(stack_endpoints.opensearch_url,)))
    space = IndexSpace(SPACE.space_id, SPACE.dimension)
    await opened.ensure_space(tenant_id, space, timeout_seconds=_SECONDS)
    await opened.write(tenant_id, SPACE.space_id, family_shelf().records, epoch=1, timeout_seconds=_SECONDS)
    await opened.refresh(tenant_id, SPACE.space_id, timeout_seconds=_SECONDS)
    yield opened
    await opened.close()


async def test_every_mode_finds_its_way_through_a_real_index(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    for vectors in ("none", "all"):
        bench = GraphBench(index=index, tenant_id=tenant_id, vectors=vectors)
        for mode in (*_TABLE_MODES, GraphMode.ADJACENCY):
            outcome = await bench.search(mode)
            assert report_of(outcome, "graph").state.value == "ran"
            assert not outcome.unreachable
            assert "Euler" in f"{labels_of(outcome, 'entity')}{labels_of(outcome, 'relation')}"
            shown = f"{outcome.graph_path}{outcome.kept}{outcome.leaves}"
            assert "Hidden Press" not in shown
            assert "sealed letter" not in shown
            if mode in _TABLE_MODES:
                table = outcome.kept[0].candidate.record
                assert table.kind is RecordKind.GRAPH_TABLE
                assert outcome.leaves[table.record_id]
        knowledge = await bench.search(GraphMode.KNOWLEDGE)
        assert labels_of(knowledge, "community_report") == ["A family of scholars"]
        led = await bench.search(GraphMode.ADJACENCY, hops=3)
        assert "3-0" in chunks_of(led)[:3], "what the teacher's son did names neither pupil nor teacher"


async def test_searches_by_communities_find_their_reports(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    for vectors in ("none", "all"):
        bench = GraphBench(index=index, tenant_id=tenant_id, vectors=vectors)
        for mode in (GraphMode.COMMUNITY_LOCAL, GraphMode.COMMUNITY_GLOBAL, GraphMode.DRIFT):
            outcome = await bench.search(mode)
            assert report_of(outcome, "graph").state.value == "ran"
            assert not outcome.unreachable
            assert labels_of(outcome, "community_report") == ["A family of scholars"], "the other one is hidden"
            first = outcome.kept[0].candidate.record
            assert "Johann taught Euler" in first.text
            assert {leaf.record_id for leaf in outcome.leaves[first.record_id]} >= {"2-0", "3-0"}
            assert "Hidden Press" not in f"{outcome.graph_path}{outcome.kept}{outcome.leaves}{outcome.variants}"
    everything = await bench.search(GraphMode.COMMUNITY_GLOBAL, "Which topics matter most here?")
    assert labels_of(everything, "community_report") == ["A family of scholars"]


async def test_relations_without_vectors_are_compared_by_words(index: OpenSearchRecordIndex, tenant_id: str) -> None:
    bench = GraphBench(index=index, tenant_id=tenant_id, vectors="entities")
    outcome = await bench.search(GraphMode.GLOBAL, high_level_keywords=("lasting contribution",))
    assert labels_of(outcome, "relation")[0] == "Daniel Bernoulli \u2013 fluid mechanics"
    assert np.isfinite([item.similarity for item in outcome.kept]).all()
