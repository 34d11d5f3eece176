"""What a tree would cost, from its chunks: they are grouped as a build groups them, and counted as it sends them.

No model is called. The vector of a node is taken to be the mean of its children's, which is what a lite node has; where
a language model writes, the layers above the first are near it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_core.trees.child_budget import block_count, readable_tokens, share_tokens
from corpusmesh_core.trees.clustering import group_layer
from corpusmesh_core.trees.extractive import extract_budget
from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.sections import Section, group_leaves
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeSettings
from corpusmesh_core.trees.values import Child, Leaf, TreeCost, Vectors
from corpusmesh_core.trees.vectors import node_vector
from corpusmesh_core.trees.watershed import neighbour_cosines

PROMPT_TOKENS: Final = 225
"""Tokens of the instructions of a summary."""
DELIMITER_TOKENS: Final = 33
"""Tokens of the delimiters of a block."""
_BY_DOCUMENT: Final = frozenset({TreeMethod.PAGE, TreeMethod.SECTION})


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a layer is planned over.

    Attributes:
        vectors: Shape (n, dimension).
        children: Their tokens and leaves; without texts.
        keys: Content keys.
    """

    vectors: Vectors
    children: tuple[Child, ...]
    keys: tuple[bytes, ...]


def plan_tree(
    leaves: Sequence[Leaf],
    vectors: Vectors,
    settings: TreeSettings,
    *,
    fingerprint: bytes = b"",
    known: Collection[bytes] = (),
) -> TreeCost:
    """Plan one tree.

    Args:
        leaves: Its leaves, in the order of the build; their texts are not read.
        vectors: Their vectors, shape (leaves, dimension), unit norm.
        settings: How it is made.
        fingerprint: See `summary_fingerprint`; needed where nodes are known.
        known: Content keys of the nodes of the tree before: what they stand for is taken over.

    Returns:
        The cost, without time. Tokens received, and those of texts to embed, are the most there can be.
    """
    cost = TreeCost(leaf_count=len(leaves))
    prompt_tokens = PROMPT_TOKENS + estimate_tokens(settings.prompt)
    kept = frozenset(known)
    ground = _Ground(vectors, tuple(Child("", leaf.token_count) for leaf in leaves), tuple(leaf.key for leaf in leaves))
    while groups := _group(leaves, ground, settings, is_first=not cost.layer_node_counts):
        cost.layer_node_counts.append(len(groups))
        made = np.zeros((len(groups), ground.vectors.shape[1]), np.float32)
        children: list[Child] = []
        keys: list[bytes] = []
        for row, group in enumerate(groups):
            own = tuple(ground.children[place] for place in group.places)
            made[row] = node_vector(own, ground.vectors[np.array(group.places, np.int64)])
            keys.append(node_key(fingerprint, [ground.keys[place] for place in group.places], group.title))
            if keys[-1] in kept:
                cost.reused_node_count += 1
                tokens = summary_tokens(own, settings)
            else:
                tokens = plan_node(own, settings, prompt_tokens, cost)
            children.append(Child("", tokens, sum(child.leaf_count for child in own)))
        ground = _Ground(made, tuple(children), tuple(keys))
    return cost


def _group(leaves: Sequence[Leaf], ground: _Ground, settings: TreeSettings, *, is_first: bool) -> Sequence[Section]:
    if is_first and settings.method in _BY_DOCUMENT and len(leaves) > settings.small_layer_size:
        cosines = neighbour_cosines(ground.vectors)
        return group_leaves(leaves, settings.method, max_size=settings.max_cluster_size, cosines=cosines)
    grouping = group_layer(ground.vectors, settings)
    return [Section("", tuple(one.tolist())) for one in grouping.clusters] if grouping is not None else ()


def summary_tokens(children: Sequence[Child], settings: TreeSettings) -> int:
    """Tell how long the summary of a cluster may be.

    Args:
        children: The children; their texts are not read.
        settings: How the tree is made.

    Returns:
        Tokens at most.
    """
    if settings.summaries is SummaryMethod.LLM:
        return settings.effective_summary_tokens
    return extract_budget(children, settings.effective_summary_tokens)


def plan_node(children: Sequence[Child], settings: TreeSettings, prompt_tokens: int, cost: TreeCost) -> int:
    """Plan a node that is made.

    Args:
        children: What it stands on; their texts are not read.
        settings: How the tree is made.
        prompt_tokens: Tokens of the instructions.
        cost: Bill that is added to.

    Returns:
        Tokens of its summary at most.
    """
    tokens = summary_tokens(children, settings)
    counts = [child.token_count for child in children]
    room = readable_tokens(settings, len(counts), prompt_tokens)
    if settings.summaries is not SummaryMethod.LLM or room < len(counts):
        cost.extractive_node_count += 1
        return tokens
    cost.model_node_count += 1
    cost.model_call_count += 1
    cost.input_token_count += prompt_tokens + sum(share_tokens(counts, room))
    cost.input_token_count += DELIMITER_TOKENS * block_count(settings, len(counts), prompt_tokens)
    cost.output_token_count += tokens
    cost.embedded_text_count += 1
    cost.embedded_token_count += tokens
    return tokens
