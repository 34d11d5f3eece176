"""What builds tell of themselves: it is read as it was written, and what is no such value reads as nothing."""

import json

from corpusmesh_core.trees.telling import (
    TreeFigures,
    TreeProgress,
    cost_of,
    cost_values,
    figures_of,
    figures_values,
    progress_of,
    progress_values,
)
from corpusmesh_core.trees.values import TreeCost

COST = TreeCost(
    leaf_count=40,
    layer_node_counts=[12, 4, 1],
    reused_node_count=3,
    model_node_count=5,
    extractive_node_count=9,
    model_call_count=6,
    input_token_count=7000,
    output_token_count=800,
    embedded_text_count=14,
    embedded_token_count=1500,
    duration_seconds=2.5,
    failed_call_count=1,
    stepped_down_reason="TREE_BUDGET_SPENT",
)


def test_a_cost_survives_storage() -> None:
    assert cost_of(json.loads(json.dumps(cost_values(COST)))) == COST


def test_figures_and_progress_survive_storage() -> None:
    figures = TreeFigures("watershed", 0.1, 0.2, True, COST)
    assert figures_of(json.loads(json.dumps(figures_values(figures)))) == figures
    progress = TreeProgress(2, 40, 8, COST)
    assert progress_of(json.loads(json.dumps(progress_values(progress)))) == progress


def test_what_is_no_cost_reads_as_none() -> None:
    assert cost_of(None) == cost_of("x") == cost_of({}) == TreeCost()
    assert cost_of({"leaf_count": "many", "layer_node_counts": 3, "stepped_down_reason": 1}) == TreeCost()
    assert figures_of({"drift": None, "method": 5}) == TreeFigures()
    assert progress_of({}) == TreeProgress()


def test_a_cost_is_copied_when_it_is_written() -> None:
    cost = TreeCost(layer_node_counts=[1])
    values = cost_values(cost)
    cost.layer_node_counts.append(2)
    assert values["layer_node_counts"] == [1]
