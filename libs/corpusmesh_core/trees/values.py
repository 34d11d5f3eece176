"""What a tree is made of: leaves, clusters, summaries, nodes."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.records import Ordinal
from corpusmesh_core.trees.settings import SummaryMethod

KEY_BYTES: Final = 16
"""Bytes of a content key."""
MAX_LINKED_LEAVES: Final = 1000
"""Leaves that a node's record names in `links`; a node above more names none, and is followed by its children."""
CHILDREN: Final = "children"
"""Attribute of a node's record: ids of the records right beneath it, joined by single spaces."""
LEAF_COUNT: Final = "leaf_count"
"""Attribute of a node's record: chunks that it stands for."""
MADE_BY: Final = "made_by"
"""Attribute of a node's record: `SummaryMethod`, and for a language model its name and the prompt's version."""
FALLBACK: Final = "fallback"
"""Attribute of a node's record: why a language model's summary was not used; missing where it was, or was not asked."""
SPEAKS_OF: Final = "speaks_of"
"""Attribute of a node's record: the heading or the pages that it stands for; missing where it stands for neither."""
TREE_OF: Final = "tree"
"""Attribute of a node's record: `TreeScope` of its tree."""

Vectors = NDArray[np.float32]
"""Shape (n, dimension), float32."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A chunk that a tree stands on.

    Attributes:
        record_id: Its record.
        key: Digest of what is embedded of it, KEY_BYTES: equal texts in one space have equal keys.
        text: Its text.
        token_count: Tokens of the text by the embedder's tokenizer.
        source: Version that it is of.
        title: Title of its document.
        page: First page from 1; 0 where the format has none.
        heading_path: Headings above it, outermost first.
    """

    record_id: str
    key: bytes
    text: str
    token_count: int
    source: Ordinal
    title: str = ""
    page: int = 0
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A text that is summarized with its siblings: a chunk, or a summary of the layer beneath.

    Attributes:
        text: The text.
        token_count: Its tokens.
        leaf_count: Chunks that it stands for; 1 for a chunk.
        title: What it speaks of: title of its document, or its heading.
    """

    text: str
    token_count: int
    leaf_count: int = 1
    title: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Children that get one summary.

    Attributes:
        key: Content key of the node to make, see `node_key`.
        children: The children, in order.
        vectors: Shape (len(children), dimension), float32: their vectors, unit norm.
        sources: Versions beneath, distinct and ascending: what is kept of a language model's answer goes with them.
        title: What it speaks of where that is known before it is summarized: a heading, a page.
    """

    key: bytes
    children: tuple[Child, ...]
    vectors: Vectors
    sources: tuple[Ordinal, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a cluster.

    Attributes:
        text: The text, never empty.
        token_count: Its tokens by the embedder's tokenizer.
        method: Who wrote it.
        model: Model and version of the prompt, such as "gpt-x/tree_summary_v1"; "" for sentences.
        fallback: Why a language model's summary was not used, such as "unfaithful", "unreachable", "unusable",
            "budget_spent" or "errors_spent"; "" where it was, or none was asked for.
        places: For sentences: places of the children that they stand in, ascending; all children otherwise.
    """

    text: str
    token_count: int
    method: SummaryMethod = SummaryMethod.LITE
    model: str = ""
    fallback: str = ""
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A made node.

    Attributes:
        key: Content key, KEY_BYTES.
        layer: From 1.
        children: Places of its children in the layer beneath, ascending; of the leaves for layer 1.
        summary: Its summary.
        leaf_places: Places of the leaves beneath it, distinct and ascending.
        title: What it speaks of.
    """

    key: bytes
    layer: int
    children: tuple[int, ...]
    summary: Summary
    leaf_places: tuple[int, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A whole tree.

    Attributes:
        layers: Nodes of each layer, from the one above the leaves; the last has one node, unless the tree ends early.
        vectors: Vectors of the nodes of each layer, shape (nodes of the layer, dimension).
        cost: What making it cost.
        thresholds: Cosine beneath which neighbours were parted, for each layer; what later changes are judged by.
    """

    layers: tuple[tuple[TreeNode, ...], ...]
    vectors: tuple[Vectors, ...]
    cost: "TreeCost"
    thresholds: tuple[float, ...] = ()


@dataclass(slots=True)
class TreeCost:
    """What making a tree costs, in a plan or a bill; see `corpusmesh.raptor.v1.TreeCost`.

    Attributes:
        leaf_count: Chunks that it stands on.
        layer_node_counts: Nodes on each layer, from the one above the chunks.
        reused_node_count: Nodes taken over with text and vector from the tree before.
        model_node_count: Nodes whose summary a language model writes.
        extractive_node_count: Nodes whose summary is made of sentences.
        model_call_count: Calls; those answered from the cache are not counted.
        input_token_count: Tokens sent.
        output_token_count: Tokens received; in a plan, at most.
        embedded_text_count: Texts embedded.
        embedded_token_count: Tokens of those texts.
        duration_seconds: Seconds of work.
        failed_call_count: Calls that failed or whose answer was of no use.
        stepped_down_reason: Why a language model wrote less than asked; "" where it did not.
    """

    leaf_count: int = 0
    layer_node_counts: list[int] = field(default_factory=list)
    reused_node_count: int = 0
    model_node_count: int = 0
    extractive_node_count: int = 0
    model_call_count: int = 0
    input_token_count: int = 0
    output_token_count: int = 0
    embedded_text_count: int = 0
    embedded_token_count: int = 0
    duration_seconds: float = 0.0
    failed_call_count: int = 0
    stepped_down_reason: str = ""
