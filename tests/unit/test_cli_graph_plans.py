"""How a graph is searched, as the command line says it."""

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_app.cli.graph_plans import with_graph
from corpusmesh_core.errors import InvalidArgumentError


def test_nothing_leaves_the_plan_as_it_is() -> None:
    assert with_graph(pb.RetrievalPlan(preset=pb.PRESET_FAST), "") == pb.RetrievalPlan(preset=pb.PRESET_FAST)


@pytest.mark.parametrize("number", [number for number in pb.GraphPlan.Mode.values() if number])
def test_every_mode_has_a_name(number: pb.GraphPlan.Mode.ValueType) -> None:
    name = pb.GraphPlan.Mode.Name(number).removeprefix("MODE_").lower().replace("_", "-")
    assert with_graph(pb.RetrievalPlan(), name).graph == pb.GraphPlan(mode=number)


def test_settings_stand_behind_the_mode() -> None:
    assert with_graph(pb.RetrievalPlan(), "adjacency:hops=3, relation_rerank=cross-encoder").graph == pb.GraphPlan(
        mode=pb.GraphPlan.MODE_ADJACENCY, hops=3, relation_rerank=pb.GraphPlan.RELATION_RERANK_CROSS_ENCODER
    )
    text = "local:low-level-keywords=Anna Berg|harbour board,chunk_pick=weight,top_k=7"
    assert with_graph(pb.RetrievalPlan(), text).graph == pb.GraphPlan(
        mode=pb.GraphPlan.MODE_LOCAL,
        low_level_keywords=["Anna Berg", "harbour board"],
        chunk_pick=pb.GraphPlan.CHUNK_PICK_WEIGHT,
        top_k=7,
    )
    assert with_graph(pb.RetrievalPlan(), "page-rank:damping=0.3,passage_weight=0").graph == pb.GraphPlan(
        mode=pb.GraphPlan.MODE_PAGE_RANK, damping=0.3, passage_weight=0.0
    )
    assert not with_graph(pb.RetrievalPlan(), "community-global:dynamic_selection=false").graph.dynamic_selection


@pytest.mark.parametrize(
    "text",
    [
        "sideways",
        "local:depth=3",
        "local:hops",
        "adjacency:hops=many",
        "adjacency:relation_rerank=coin",
        "off:mode=2",
        "drift:dynamic_selection=x",
    ],
)
def test_what_is_no_way_to_search_a_graph_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        with_graph(pb.RetrievalPlan(), text)
    assert (caught.value.reason, caught.value.field) == ("PLAN_INVALID", "graph")
