"""What slices of a build have cost, and what of it binds the next one."""

import pytest

from corpusmesh_core.bills import add_bills, with_lost_spending
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import TreeCost
from corpusmesh_raptor.dataset.finishing import binding
from corpusmesh_raptor.summarizing.calls import TREE_BUDGET_SPENT, TREE_TIME_SPENT
from corpusmesh_runtime.model_calls import MODEL_UNREACHABLE


@pytest.mark.parametrize("reason", [TREE_BUDGET_SPENT, MODEL_UNREACHABLE, ""])
def test_a_build_that_has_stepped_down_stays_there(reason: str) -> None:
    spent = TreeCost(model_call_count=7, failed_call_count=3, stepped_down_reason=reason)
    assert binding(spent, TreeSettings()) == spent


def test_calls_that_other_trees_have_lost_bind_no_later_slice() -> None:
    spent = TreeCost(model_call_count=7, failed_call_count=1, stepped_down_reason=MODEL_UNREACHABLE)
    assert binding(spent, TreeSettings()) == TreeCost(model_call_count=7, failed_call_count=1)


def test_a_slice_without_time_for_its_model_takes_none_from_the_next() -> None:
    spent = TreeCost(model_call_count=7, input_token_count=70, stepped_down_reason=TREE_TIME_SPENT)
    assert binding(spent, TreeSettings()) == TreeCost(model_call_count=7, input_token_count=70)
    assert add_bills(spent, TreeCost()).stepped_down_reason == TREE_TIME_SPENT, "the bill says so all the same"


def test_what_an_attempt_that_died_has_spent_counts_and_what_it_made_does_not() -> None:
    before = TreeCost(model_call_count=3, model_node_count=3, layer_node_counts=[3])
    told = TreeCost(model_call_count=5, input_token_count=50, model_node_count=5, layer_node_counts=[5])
    found = with_lost_spending(before, told)
    assert (found.model_call_count, found.input_token_count) == (5, 50)
    assert (found.model_node_count, found.layer_node_counts) == (3, [3])
