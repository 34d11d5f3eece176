"""The nodes of one slice: taken over from the tree before, or summarized, and written to the index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.records import Ordinal, Record, RecordKind, derived_record_id
from corpusmesh_core.trees.settings import SummaryMethod, TreeScope
from corpusmesh_core.trees.skeleton import Skeleton, SkeletonLayer, beneath, leaf_rows
from corpusmesh_core.trees.values import (
    CHILDREN,
    FALLBACK,
    LEAF_COUNT,
    MADE_BY,
    MAX_LINKED_LEAVES,
    TREE_OF,
    Cluster,
    Summary,
    TreeCost,
    Vectors,
)
from corpusmesh_core.trees.vectors import as_kept, needs_embedding, node_vector
from corpusmesh_raptor.dataset.drafts import Draft
from corpusmesh_raptor.dataset.ground import Ground, GroundText, TreeReader, build_visibility
from corpusmesh_raptor.growing import RETRIED_FALLBACKS, SummaryMaker
from corpusmesh_runtime.text_vectors import TextVectors
from corpusmesh_runtime.worker import TaskContext

_DEADLINE_MARGIN_SECONDS: Final = 120.0
"""What is left of a task for writing when its language model has had all the rest."""


@dataclass(frozen=True, slots=True)
class MadeNode:
    """A node that is about to be written.

    Attributes:
        summary: Its summary.
        vector: Its vector, shape (dimension,).
        made_by: See `MADE_BY`.
        title: Title of the document that its first child is of.
        is_fresh: Whether it was summarized now.
    """

    summary: Summary
    vector: NDArray[np.float32]
    made_by: str
    title: str
    is_fresh: bool


@dataclass(frozen=True, slots=True)
class LayerView:
    """A layer while it is made.

    Attributes:
        ground: What it stands on; before the first layer that has no meaning.
        rows: Leaves beneath each place of the ground.
        above: Texts and vectors of its nodes; before the first layer of the leaves.
        above_rows: Leaves beneath each of its nodes.
    """

    ground: Ground
    rows: Sequence[NDArray[np.int32]]
    above: Ground
    above_rows: Sequence[NDArray[np.int32]]

    @classmethod
    def of_leaves(cls, skeleton: Skeleton, leaves: Ground) -> "LayerView":
        """Begin beneath the first layer.

        Args:
            skeleton: The tree.
            leaves: Its leaves.

        Returns:
            The view.
        """
        return cls(Ground(0, leaves.vectors.shape[1]), (), leaves, leaf_rows(skeleton))

    def next_layer(self, layer: SkeletonLayer) -> "LayerView":
        """Go up.

        Args:
            layer: The layer above.

        Returns:
            The view of that layer.
        """
        above = Ground(len(layer), self.above.vectors.shape[1])
        return LayerView(self.above, self.above_rows, above, beneath(self.above_rows, layer))


class NodeMaker:
    """Makes nodes."""

    def __init__(
        self,
        context: TaskContext,
        index: RecordIndex,
        reader: TreeReader,
        session: SummaryMaker,
        embedder: TextVectors,
        *,
        old: Skeleton | None,
    ) -> None:
        """Create it.

        Args:
            context: The build's task.
            index: The index.
            reader: Reads what the index holds.
            session: Makes summaries.
            embedder: Embeds what wants it.
            old: The tree before; None for none.
        """
        self._old = old
        self._context = context
        self._index = index
        self._reader = reader
        self._session = session
        self._embedder = embedder

    async def make(self, draft: Draft, view: LayerView, nodes: Sequence[int], cost: TreeCost) -> None:
        """Make and write some nodes of the last layer.

        Args:
            draft: The build; what was summarized is marked there.
            view: The layer.
            nodes: Places of the nodes, which have ordinals.
            cost: Bill to add to.
        """
        made = await self._taken_over(draft, nodes)
        cost.reused_node_count += len(made)
        rest = [node for node in nodes if node not in made]
        made.update(await self._summarized(draft, view, rest, cost))
        records = [self._record(draft.skeleton, view, node, made[node]) for node in nodes]
        await self._index.write(
            self._context.claim.tenant_id,
            draft.skeleton.space_id,
            records,
            epoch=self._context.claim.epoch,
            timeout_seconds=self._context.remaining_seconds(),
        )
        for node, record in zip(nodes, records, strict=True):
            draft.fresh[node] = made[node].is_fresh
            view.above.put(node, GroundText(record.text, record.token_count, record.title), made[node].vector)

    async def _taken_over(self, draft: Draft, nodes: Sequence[int]) -> dict[int, MadeNode]:
        """Read nodes of the tree before that say the same; what is not there any more is made anew."""
        layer = draft.skeleton.layers[-1]
        ids = {
            node: derived_record_id(
                Ordinal(int(draft.origins[node])), RecordKind.TREE_NODE, bytes(layer.keys[node]).hex()
            )
            for node in nodes
            if draft.origins[node]
        }
        if not ids or self._old is None:
            return {}
        visibility = build_visibility(self._old.versions, self._old.ordinals)
        records = await self._reader.read(list(ids.values()), visibility, with_vectors=True)
        made: dict[int, MadeNode] = {}
        for node, record_id in ids.items():
            record = records.get(record_id)
            if record is None or record.vector is None:
                continue
            fallback = record.attributes.get(FALLBACK, "")
            if draft.is_full and fallback in RETRIED_FALLBACKS:
                continue
            made_by = record.attributes.get(MADE_BY, SummaryMethod.LITE.value)
            method = SummaryMethod.LLM if made_by.startswith(SummaryMethod.LLM) else SummaryMethod.LITE
            summary = Summary(record.text, record.token_count, method=method, fallback=fallback)
            made[node] = MadeNode(summary, record.vector, made_by, record.title, is_fresh=False)
        return made

    async def _summarized(
        self, draft: Draft, view: LayerView, nodes: Sequence[int], cost: TreeCost
    ) -> Mapping[int, MadeNode]:
        if not nodes:
            return {}
        skeleton = draft.skeleton
        number = len(skeleton.layers)
        layer = skeleton.layers[-1]
        places = np.unique(np.concatenate([layer.children_of(node) for node in nodes]))
        await view.ground.load(places, skeleton, number, self._reader)
        clusters = [_cluster(skeleton, view, node) for node in nodes]
        remaining = self._context.remaining_seconds()
        summaries = await self._session.summarize(
            clusters, timeout_seconds=max(1.0, remaining - min(remaining / 2, _DEADLINE_MARGIN_SECONDS))
        )
        embedded = [place for place, summary in enumerate(summaries) if needs_embedding(summary)]
        vectors = await self._embedder.embed(
            [summaries[place].text for place in embedded], cost, timeout_seconds=self._context.remaining_seconds()
        )
        by_place: dict[int, Vectors] = dict(zip(embedded, vectors, strict=True))
        made: dict[int, MadeNode] = {}
        for place, (node, cluster, summary) in enumerate(zip(nodes, clusters, summaries, strict=True)):
            vector = as_kept(node_vector(cluster.children, cluster.vectors, by_place.get(place)))
            title = view.ground.text(int(layer.children_of(node)[0])).title
            made[node] = MadeNode(summary, vector, _made_by(summary), title, is_fresh=True)
        return made

    def _record(self, skeleton: Skeleton, view: LayerView, node: int, made: MadeNode) -> Record:
        number = len(skeleton.layers)
        layer = skeleton.layers[-1]
        leaves = view.above_rows[node]
        owners = np.unique(skeleton.owners[leaves])
        children = [skeleton.ground_record_id(number, int(place)) for place in layer.children_of(node)]
        attributes = {
            CHILDREN: " ".join(children),
            LEAF_COUNT: str(len(leaves)),
            MADE_BY: made.made_by,
            TREE_OF: TreeScope.DATASET.value,
        }
        if made.summary.fallback:
            attributes[FALLBACK] = made.summary.fallback
        are_named = len(leaves) <= MAX_LINKED_LEAVES
        return Record(
            record_id=layer.record_id(node),
            kind=RecordKind.TREE_NODE,
            knowledge_base_id=self._context.claim.knowledge_base_id,
            publisher=Ordinal(int(layer.ordinals[node])),
            sources=tuple(sorted(Ordinal(int(version)) for version in skeleton.versions[owners])),
            text=made.summary.text,
            title=made.title if len(owners) == 1 else "",
            position=node,
            token_count=made.summary.token_count,
            vector=made.vector,
            attributes=attributes,
            links=tuple(skeleton.leaf_record_id(int(leaf)) for leaf in leaves) if are_named else (),
            layer=number,
        )


def _cluster(skeleton: Skeleton, view: LayerView, node: int) -> Cluster:
    layer = skeleton.layers[-1]
    places = layer.children_of(node)
    owners = np.unique(skeleton.owners[view.above_rows[node]])
    return Cluster(
        key=bytes(layer.keys[node]),
        children=tuple(view.ground.child(int(place), len(view.rows[place])) for place in places),
        vectors=view.ground.vectors[places],
        sources=tuple(sorted(Ordinal(int(version)) for version in skeleton.versions[owners])),
    )


def _made_by(summary: Summary) -> str:
    return f"{summary.method.value} {summary.model}" if summary.model else summary.method.value
