"""Nodes of trees as a caller may see them: counted, listed, and read with what is beneath them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.ports.index import MAX_WINDOW, RecordIndex, RecordSelection
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tree_search import children_of
from corpusmesh_core.trees.settings import TreeScope
from corpusmesh_core.trees.values import TREE_OF
from corpusmesh_core.visibility import VisibilityFilter
from corpusmesh_raptor.names import TreeName, node_not_found
from corpusmesh_runtime.build_views import BuildView
from corpusmesh_runtime.context import require_call

MAX_LEAVES: Final = 200
"""Chunks that are shown of a node."""
MAX_FILE_NODES: Final = 50_000
"""Nodes of a document's tree that are listed; the bound of chunks of a document lies far below."""
_LAYERS_AT_ONCE: Final = 8
_MAX_LAYERS: Final = 128
_MAX_DESCENTS: Final = 32
_INDEX_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class NodeWithLeaves:
    """A node and what is beneath it.

    Attributes:
        node: Its record.
        children: Records of the nodes right beneath it; empty on layer 1.
        leaves: Records of the first chunks that it stands for, at most MAX_LEAVES.
    """

    node: Record
    children: Sequence[Record]
    leaves: Sequence[Record]


class NodeReader:
    """Reads nodes from the index; every query carries the caller's filter."""

    def __init__(self, index: RecordIndex) -> None:
        """Create it.

        Args:
            index: The records.
        """
        self._index = index

    async def count_layers(self, view: BuildView, tree: TreeName) -> list[int]:
        """Count the visible nodes of every layer.

        Args:
            view: What the caller may see.
            tree: The tree.

        Returns:
            Counts from the layer above the chunks up to the last that has a visible node.
        """
        counts: list[int] = []
        visible = view.filter_of(RecordKind.TREE_NODE)
        while not visible.matches_nothing and len(counts) < _MAX_LAYERS:
            first = len(counts) + 1
            found = await asyncio.gather(
                *(self._count(view, tree, visible, layer) for layer in range(first, first + _LAYERS_AT_ONCE))
            )
            counts += found
            # Nothing stands above an empty layer: a node is visible only where all beneath it is.
            if not all(found):
                break
        return counts[: counts.index(0)] if 0 in counts else counts

    async def page_of_document(
        self, view: BuildView, tree: TreeName, layer: int, *, start: int, size: int
    ) -> tuple[list[Record], int]:
        """List a page of the visible nodes of a document's tree; of other layers than the page's nothing is read.

        Args:
            view: What the caller may see.
            tree: The tree of a document.
            layer: Only this layer, from 1; 0 for all.
            start: Place of the first one in the whole list.
            size: Most nodes.

        Returns:
            Records, from the top layer down, each layer in the document's order; and how many the whole list has.
        """
        counts = dict(enumerate(await self.count_layers(view, tree), start=1))
        wanted = [number for number in sorted(counts, reverse=True) if layer in (0, number)]
        passed = skipped = 0
        touched: list[int] = []
        for number in wanted:
            if passed + counts[number] <= start:
                skipped += counts[number]
            elif passed < start + size:
                touched.append(number)
            passed += counts[number]
        records = await self._list_of_document(view, tree, touched) if touched else []
        return records[start - skipped : start - skipped + size], passed

    async def _list_of_document(self, view: BuildView, tree: TreeName, layers: Sequence[int]) -> list[Record]:
        visible = view.filter_of(RecordKind.TREE_NODE)
        if visible.matches_nothing:
            return []
        records = await self._index.scan(
            require_call().identity.tenant_id,
            view.inputs.space_id,
            visible,
            knowledge_base_ids=[tree.knowledge_base_id],
            document_ids=[tree.document_id],
            layers=layers,
            max_count=MAX_FILE_NODES,
            timeout_seconds=_seconds(),
        )
        return sorted(records, key=lambda record: (-record.layer, record.position))

    async def fetch(
        self, view: BuildView, record_ids: Sequence[str], kind: RecordKind = RecordKind.TREE_NODE
    ) -> list[Record]:
        """Read records by id.

        Args:
            view: What the caller may see.
            record_ids: Their ids.
            kind: Their kind.

        Returns:
            The visible ones, in that order.
        """
        visible = view.filter_of(kind)
        found: list[Record] = []
        if visible.matches_nothing:
            return found
        for start in range(0, len(record_ids), MAX_WINDOW):
            found += await self._index.fetch(
                require_call().identity.tenant_id,
                view.inputs.space_id,
                record_ids[start : start + MAX_WINDOW],
                visible,
                timeout_seconds=_seconds(),
            )
        return found

    async def read(self, view: BuildView, tree: TreeName, record_id: str) -> NodeWithLeaves:
        """Read a node with what is beneath it.

        Args:
            view: What the caller may see.
            tree: Its tree.
            record_id: Its record.

        Returns:
            The node with its visible children and chunks.

        Raises:
            NotFoundError: TREE_NODE_NOT_FOUND if the tree has no such node, or the caller may not see it.
        """
        found = await self.fetch(view, [record_id])
        if not found or not _belongs(found[0], tree):
            raise node_not_found()
        node = found[0]
        children = await self.fetch(view, children_of(node)) if node.layer > 1 else []
        leaf_ids = await self._first_leaves(view, node, children)
        return NodeWithLeaves(node, children, await self.fetch(view, leaf_ids, RecordKind.CHUNK))

    async def _first_leaves(self, view: BuildView, node: Record, children: Sequence[Record]) -> Sequence[str]:
        """Name the first chunks of a node that may stand for too many to name them all itself: down, left to right."""
        if node.layer == 1 or node.links:
            return (node.links or children_of(node))[:MAX_LEAVES]
        leaf_ids: dict[str, None] = {}
        waiting, descents = list(reversed(children)), 0
        while waiting and len(leaf_ids) < MAX_LEAVES and descents < _MAX_DESCENTS:
            child = waiting.pop()
            if child.links or child.layer == 1:
                leaf_ids.update(dict.fromkeys(child.links or children_of(child)))
            else:
                descents += 1
                waiting += reversed(await self.fetch(view, children_of(child)))
        return list(leaf_ids)[:MAX_LEAVES]

    async def _count(self, view: BuildView, tree: TreeName, visible: VisibilityFilter, layer: int) -> int:
        # The tree of a knowledge base is of no document; file trees are of one.
        return await self._index.count(
            require_call().identity.tenant_id,
            view.inputs.space_id,
            RecordSelection(
                visibility=visible,
                knowledge_base_ids=(tree.knowledge_base_id,),
                document_ids=(tree.document_id,),
                kinds=(RecordKind.TREE_NODE.value,),
                layers=(layer,),
            ),
            timeout_seconds=_seconds(),
        )


def _belongs(record: Record, tree: TreeName) -> bool:
    scope = TreeScope.FILE if tree.is_of_document else TreeScope.DATASET
    return (
        record.knowledge_base_id == tree.knowledge_base_id
        and record.document_id == tree.document_id
        and record.attributes.get(TREE_OF) == scope
    )


def _seconds() -> float:
    return min(_INDEX_SECONDS, require_call().remaining_seconds())
