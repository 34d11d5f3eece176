"""What a tree would cost, before anything is called."""

from dataclasses import replace

import numpy as np
import pytest

from corpusmesh_core.trees.cost import DELIMITER_TOKENS, PROMPT_TOKENS, plan_tree
from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeSettings
from corpusmesh_core.trees.values import Leaf, TreeCost
from tests.support.tree_growing import make_leaves, walk

LLM = TreeSettings(summaries=SummaryMethod.LLM)
LITE = TreeSettings()


def leaves_of(count: int, tokens: int) -> tuple[Leaf, ...]:
    return tuple(replace(leaf, token_count=tokens) for leaf in make_leaves([f"word{place}" for place in range(count)]))


def plan(count: int, tokens: int = 300, settings: TreeSettings = LLM, **more: object) -> TreeCost:
    return plan_tree(leaves_of(count, tokens), walk(count), settings, **more)  # type: ignore[arg-type]


def test_a_small_document_is_one_call_that_sends_its_chunks_and_the_prompt() -> None:
    cost = plan(5)
    assert cost.layer_node_counts == [1]
    assert (cost.model_call_count, cost.model_node_count, cost.embedded_text_count) == (1, 1, 1)
    assert cost.input_token_count == PROMPT_TOKENS + 5 * (300 + DELIMITER_TOKENS)
    assert cost.output_token_count == cost.embedded_token_count == LLM.effective_summary_tokens


def test_a_lite_tree_costs_no_call_and_embeds_nothing() -> None:
    cost = plan(100, settings=LITE)
    assert cost.extractive_node_count == sum(cost.layer_node_counts) > 20
    assert (cost.model_call_count, cost.input_token_count, cost.embedded_text_count) == (0, 0, 0)


def test_every_node_is_a_call_and_layers_shrink_to_one() -> None:
    cost = plan(500)
    assert cost.model_call_count == sum(cost.layer_node_counts)
    assert cost.layer_node_counts == sorted(cost.layer_node_counts, reverse=True)
    assert cost.layer_node_counts[-1] == 1
    # The peer's defaults cost about 0.43 calls a chunk at equal depth.
    assert cost.model_call_count <= 0.45 * 500


def test_children_that_do_not_fit_are_counted_as_far_as_they_are_read() -> None:
    small = replace(LLM, context_tokens=1024, summary_tokens=64)
    assert plan(8, tokens=5000, settings=small).input_token_count < 1024
    assert plan(8, tokens=5000).input_token_count < LLM.context_tokens


def test_a_wish_of_the_editors_is_sent_with_every_call() -> None:
    wish = "Name all engines and their builders. " * 10
    plain, wished = plan(100), plan(100, settings=replace(LLM, prompt=wish))
    assert wished.input_token_count - plain.input_token_count == pytest.approx(93 * plain.model_call_count, rel=0.1)


def test_known_nodes_cost_nothing_and_their_layers_are_still_counted() -> None:
    leaves = leaves_of(5, 300)
    key = node_key(b"f", [leaf.key for leaf in leaves])
    cost = plan_tree(leaves, walk(5), LLM, fingerprint=b"f", known=[key])
    assert (cost.reused_node_count, cost.model_call_count, cost.input_token_count) == (1, 0, 0)
    assert cost.layer_node_counts == [1]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_summarize_costs_nothing(count: int) -> None:
    assert plan_tree(leaves_of(count, 10), np.zeros((count, 4), np.float32), LLM) == TreeCost(leaf_count=count)


def test_pages_are_planned_as_pages() -> None:
    leaves = tuple(replace(leaf, page=1 + place // 4, token_count=300) for place, leaf in enumerate(leaves_of(40, 300)))
    cost = plan_tree(leaves, walk(40), replace(LLM, method=TreeMethod.PAGE))
    assert cost.layer_node_counts[0] == 10
