"""Grows a tree over leaves: layer by layer, taking over what a tree before has made of the same leaves.

Each layer is grouped (`corpusmesh_raptor.grouping`), nodes whose content key is known are taken over with text
and vector, all others are summarized, and what was made is the ground of the next layer; until one node is left (seed
`000_3271a9def2ed8e29.txt`, section 2). Nothing is written anywhere: a growth that is cancelled leaves nothing behind.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts import embedded_text
from corpusmesh_core.records import Ordinal
from corpusmesh_core.trees.keys import node_key
from corpusmesh_core.trees.sections import Section
from corpusmesh_core.trees.values import (
    KEY_BYTES,
    Child,
    Cluster,
    GrownTree,
    Leaf,
    Summary,
    TreeCost,
    TreeNode,
    Vectors,
)
from corpusmesh_core.trees.vectors import needs_embedding, node_vector
from corpusmesh_raptor.grouping import Grouper
from corpusmesh_runtime.text_vectors import TextVectors

BATCH_CLUSTERS: Final = 128
"""Clusters that are summarized and embedded before progress is told."""
RETRIED_FALLBACKS: Final = frozenset({"unreachable", "misconfigured", "budget_spent", "errors_spent"})
"""Why a language model was not heard, where it may be heard the next time: such a node is not taken over."""


LayerTold = Callable[[int, int, int], Awaitable[None]]
"""Told of a layer, how many nodes it gets and how many of them are made."""


class SummaryMaker(Protocol):
    """Makes summaries; see `corpusmesh_raptor.summarizing.SummarySession`."""

    fingerprint: bytes

    async def summarize(self, clusters: Sequence[Cluster], *, timeout_seconds: float) -> list[Summary]:
        """Make one summary for each cluster, in order."""
        ...


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node of a tree before.

    Attributes:
        summary: Its summary.
        vector: Its vector, shape (dimension,).
    """

    summary: Summary
    vector: NDArray[np.float32]

    @property
    def may_be_better(self) -> bool:
        """Whether a language model may write now what it could not before."""
        return self.summary.fallback in RETRIED_FALLBACKS


@dataclass(frozen=True, slots=True)
class Ground:
    """What a layer is made over: leaves, or the layer beneath.

    Attributes:
        children: What is summarized of each.
        keys: Content key of each.
        vectors: Shape (n, dimension).
        leaf_places: Places of the leaves beneath each, ascending.
        sources: Versions beneath each, ascending.
        is_new: Whether each was made now, whatever its key: what is above it is made too.
    """

    children: tuple[Child, ...]
    keys: tuple[bytes, ...]
    vectors: Vectors
    leaf_places: tuple[NDArray[np.int32], ...]
    sources: tuple[tuple[Ordinal, ...], ...]
    is_new: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class MadeLayer:
    """A layer of a tree.

    Attributes:
        nodes: Its nodes, in order.
        ground: The same as what the next layer is made over; its keys are content keys, which two nodes may share.
    """

    nodes: tuple[TreeNode, ...]
    ground: Ground


@dataclass(frozen=True, slots=True)
class GrowingTools:
    """What a tree is grown with.

    Attributes:
        session: Makes summaries.
        embedder: Embeds those that want it.
        cost: Bill that is added to; the session's too.
        remaining_seconds: Tells how much time is left; raises where it is over.
        told: Told of progress.
        title: What goes before the text of a node where it is embedded: title of the document; "" for many.
    """

    session: SummaryMaker
    embedder: TextVectors
    cost: TreeCost
    remaining_seconds: Callable[[], float]
    told: LayerTold | None = None
    title: str = ""


@dataclass(slots=True)
class _Drafts:
    """Nodes of a layer on their way."""

    clusters: list[Cluster]
    found: dict[bytes, KnownNode] = field(default_factory=dict)
    new: set[bytes] = field(default_factory=set)


async def grow(
    leaves: Sequence[Leaf],
    vectors: Vectors,
    grouper: Grouper,
    tools: GrowingTools,
    reuse: Mapping[bytes, KnownNode] | None = None,
) -> GrownTree:
    """Grow the tree of leaves.

    Args:
        leaves: The leaves, in order.
        vectors: Their vectors, shape (leaves, dimension).
        grouper: Puts each layer into groups; one that has grouped nothing yet.
        tools: What nodes are made with.
        reuse: Nodes of the tree before, by content key; what is found here costs nothing.

    Returns:
        The tree; without layers where there is nothing to summarize: one leaf, or none.

    Raises:
        DeadlineExceededError: If the time is over.
        FailedPreconditionError: SPACE_WITHOUT_MODEL, see `TextVectors.embed`.
        UnavailableError: If the embed service does not answer.
    """
    began = monotonic()
    ground = leaf_ground(leaves, vectors)
    tools.cost.leaf_count += len(leaves)
    layers: list[MadeLayer] = []
    thresholds: list[float] = []
    while groups := await grouper.group(leaves, ground.vectors, timeout_seconds=tools.remaining_seconds()):
        made = await make_layer(len(layers) + 1, ground, groups.sections, tools, reuse or {})
        layers.append(made)
        thresholds.append(groups.threshold)
        tools.cost.layer_node_counts.append(len(made.nodes))
        ground = made.ground
    tools.cost.duration_seconds += monotonic() - began
    return GrownTree(
        _distinctly_named([layer.nodes for layer in layers]),
        tuple(layer.ground.vectors for layer in layers),
        tools.cost,
        tuple(thresholds),
    )


def leaf_ground(leaves: Sequence[Leaf], vectors: Vectors) -> Ground:
    """Make leaves the ground of the first layer.

    Args:
        leaves: The leaves.
        vectors: Their vectors.

    Returns:
        The ground.
    """
    return Ground(
        children=tuple(
            Child(leaf.text, leaf.token_count, 1, leaf.heading_path[-1] if leaf.heading_path else leaf.title)
            for leaf in leaves
        ),
        keys=tuple(leaf.key for leaf in leaves),
        vectors=vectors,
        leaf_places=tuple(np.arange(len(leaves), dtype=np.int32).reshape(-1, 1)),
        sources=tuple((leaf.source,) for leaf in leaves),
        is_new=(False,) * len(leaves),
    )


async def make_layer(
    layer: int,
    ground: Ground,
    sections: Sequence[Section],
    tools: GrowingTools,
    reuse: Mapping[bytes, KnownNode],
) -> MadeLayer:
    """Make the nodes of one layer.

    Nodes with equal content keys (a page that occurs twice) are made once.

    Args:
        layer: From 1.
        ground: What it is made over.
        sections: Places in the ground of each node's children, and what it speaks of where that is known.
        tools: What nodes are made with.
        reuse: Known nodes by content key.

    Returns:
        The layer.

    Raises:
        DeadlineExceededError: If the time is over.
        FailedPreconditionError: SPACE_WITHOUT_MODEL, see `TextVectors.embed`.
        UnavailableError: If the embed service does not answer.
    """
    drafts = await asyncio.to_thread(_draft, ground, sections, tools.session.fingerprint, reuse)
    tools.cost.reused_node_count += sum(cluster.key not in drafts.new for cluster in drafts.clusters)
    wanted = list({cluster.key: cluster for cluster in drafts.clusters if cluster.key in drafts.new}.values())
    ready = len(drafts.clusters) - len(wanted)
    for start in range(0, len(wanted), BATCH_CLUSTERS):
        if tools.told is not None:
            await tools.told(layer, len(drafts.clusters), ready + start)
        batch = wanted[start : start + BATCH_CLUSTERS]
        summaries = await tools.session.summarize(batch, timeout_seconds=tools.remaining_seconds())
        drafts.found.update(await _with_vectors(batch, summaries, tools))
    if tools.told is not None:
        await tools.told(layer, len(drafts.clusters), len(drafts.clusters))
    return await asyncio.to_thread(_settled, layer, ground, sections, drafts)


def _draft(
    ground: Ground, sections: Sequence[Section], fingerprint: bytes, reuse: Mapping[bytes, KnownNode]
) -> _Drafts:
    drafts = _Drafts([])
    for section in sections:
        places = section.places
        key = node_key(fingerprint, [ground.keys[place] for place in places], section.title)
        sources = {source for place in places for source in ground.sources[place]}
        drafts.clusters.append(
            Cluster(
                key=key,
                children=tuple(ground.children[place] for place in places),
                vectors=ground.vectors[np.array(places, dtype=np.int64)],
                sources=tuple(sorted(sources)),
                title=section.title,
            )
        )
        known = reuse.get(key)
        if known is None or known.may_be_better or any(ground.is_new[place] for place in places):
            drafts.new.add(key)
        else:
            drafts.found[key] = known
    return drafts


async def _with_vectors(
    clusters: Sequence[Cluster], summaries: Sequence[Summary], tools: GrowingTools
) -> dict[bytes, KnownNode]:
    made: dict[bytes, KnownNode] = {}
    embedded = [place for place, summary in enumerate(summaries) if needs_embedding(summary)]
    vectors = await tools.embedder.embed(
        [_embedded(tools.title, clusters[place].title, summaries[place].text) for place in embedded],
        tools.cost,
        timeout_seconds=tools.remaining_seconds(),
    )
    by_place = dict(zip(embedded, vectors, strict=True))
    for place, (cluster, summary) in enumerate(zip(clusters, summaries, strict=True)):
        made[cluster.key] = KnownNode(summary, node_vector(cluster.children, cluster.vectors, by_place.get(place)))
    return made


def _embedded(title: str, heading: str, text: str) -> str:
    return embedded_text(title, heading, text) if title else text


def _settled(layer: int, ground: Ground, sections: Sequence[Section], drafts: _Drafts) -> MadeLayer:
    nodes: list[TreeNode] = []
    children: list[Child] = []
    leaf_places: list[NDArray[np.int32]] = []
    vectors = np.zeros((len(sections), ground.vectors.shape[1]), dtype=np.float32)
    for row, (section, cluster) in enumerate(zip(sections, drafts.clusters, strict=True)):
        known = drafts.found[cluster.key]
        beneath = np.unique(np.concatenate([ground.leaf_places[place] for place in section.places]))
        vectors[row] = known.vector
        leaf_places.append(beneath)
        children.append(Child(known.summary.text, known.summary.token_count, len(beneath), section.title))
        nodes.append(
            TreeNode(
                key=cluster.key,
                layer=layer,
                children=section.places,
                summary=known.summary,
                leaf_places=tuple(beneath.tolist()),
                title=section.title,
            )
        )
    return MadeLayer(
        nodes=tuple(nodes),
        ground=Ground(
            children=tuple(children),
            keys=tuple(cluster.key for cluster in drafts.clusters),
            vectors=vectors,
            leaf_places=tuple(leaf_places),
            sources=tuple(cluster.sources for cluster in drafts.clusters),
            is_new=tuple(cluster.key in drafts.new for cluster in drafts.clusters),
        ),
    )


def _distinctly_named(layers: Sequence[tuple[TreeNode, ...]]) -> tuple[tuple[TreeNode, ...], ...]:
    """Give nodes with one content key keys of their own, the first of them its own: records are named by keys."""
    seen: Counter[bytes] = Counter()
    named: list[tuple[TreeNode, ...]] = []
    for nodes in layers:
        layer: list[TreeNode] = []
        for node in nodes:
            count = seen[node.key]
            seen[node.key] += 1
            layer.append(node if not count else replace(node, key=_again(node.key, count)))
        named.append(tuple(layer))
    return tuple(named)


def _again(key: bytes, count: int) -> bytes:
    return hashlib.blake2b(key + count.to_bytes(8, "big"), digest_size=KEY_BYTES).digest()
