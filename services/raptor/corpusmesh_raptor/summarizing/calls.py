"""What a language model is asked for one cluster, and what of its answer is the summary."""

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from corpusmesh_core.ports.chat import ChatMessage
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.prompts.tree_summary_v1 import TREE_SUMMARY_VERSION
from corpusmesh_core.trees.child_budget import answer_tokens, block_count, cut_children, readable_tokens
from corpusmesh_core.trees.faithfulness import unsupported
from corpusmesh_core.trees.settings import TreeSettings
from corpusmesh_core.trees.values import Cluster
from corpusmesh_core.trees.writing import read_summary, render_summary_messages, summary_instructions
from corpusmesh_runtime.model_calls import UNUSABLE, CallOrder

PURPOSE: Final = "tree"
"""Purpose of usage entries."""
TREE_BUDGET_SPENT: Final = "TREE_BUDGET_SPENT"
TREE_TIME_SPENT: Final = "TREE_TIME_SPENT"
UNFAITHFUL: Final = "unfaithful"
TOO_MANY: Final = "context_too_small"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What a model reads of a cluster.

    Attributes:
        instructions: What it is to do.
        texts: What it reads of each child; none where its context is too small for so many.
        block_count: Blocks that they are quoted in.
        topic: Heading that they stand under; "" for none.
        known: What the summary may say: the children as they are, with their titles.
    """

    instructions: str
    texts: tuple[str, ...]
    block_count: int
    topic: str
    known: tuple[str, ...]


def make_order(cluster: Cluster, settings: TreeSettings, counter: TextTokenizer, *, model: str) -> CallOrder | None:
    """Prepare what a model is asked for a cluster.

    Args:
        cluster: The cluster.
        settings: How trees are made.
        counter: The embedder's tokenizer.
        model: The model.

    Returns:
        The order; None where the model's context is too small for so many children.
    """
    children = cluster.children
    whole = [child.text for child in children]
    instructions = summary_instructions(whole, wish=settings.prompt, max_tokens=settings.effective_summary_tokens)
    prompt_tokens = sum(counter.count_tokens([instructions, cluster.title]))
    room = readable_tokens(settings, len(children), prompt_tokens)
    if room < len(children):
        return None
    texts = cut_children(whole, [child.token_count for child in children], counter, room)
    digest = hashlib.sha256()
    for part in (model, instructions, TREE_SUMMARY_VERSION, cluster.title, *texts):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    excerpt = Excerpt(
        instructions=instructions,
        texts=tuple(texts),
        block_count=block_count(settings, len(children), prompt_tokens),
        topic=cluster.title,
        known=(cluster.title, *(part for child in children for part in (child.title, child.text))),
    )
    return CallOrder(
        key=digest.digest(),
        sources=tuple(cluster.sources),
        render=partial(_render, excerpt),
        check=partial(_check, excerpt, counter, settings.effective_summary_tokens),
        max_answer_tokens=answer_tokens(settings),
    )


def _render(excerpt: Excerpt, rng: np.random.Generator) -> tuple[ChatMessage, ...]:
    return render_summary_messages(
        excerpt.instructions, excerpt.texts, topic=excerpt.topic, block_count=excerpt.block_count, rng=rng
    )


def _check(excerpt: Excerpt, counter: TextTokenizer, max_tokens: int, answer: str) -> tuple[str, str]:
    text = read_summary(answer, excerpt.texts, counter, max_tokens=max_tokens)
    if text is None:
        return "", UNUSABLE
    if next(unsupported(text, excerpt.known), None) is not None:
        return "", UNFAITHFUL
    return text, ""
