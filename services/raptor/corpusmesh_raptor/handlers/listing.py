"""Pages of the nodes of a tree, from the top down."""

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.builds import BuildState
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.records import Record
from corpusmesh_core.trees.skeleton import Skeleton
from corpusmesh_raptor.convert import node_to_wire
from corpusmesh_raptor.handlers.nodes import NodeReader
from corpusmesh_raptor.handlers.shapes import SkeletonShelf, visible_nodes
from corpusmesh_raptor.names import TreeName
from corpusmesh_runtime.build_views import BuildView, BuildViewer
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.page_tokens import (
    checked_page_size,
    make_pinned_token,
    read_pinned_token,
    within_page,
)

_MAX_PAGE_SIZE = 500
_READ_SECONDS = 10.0


class NodeLister:
    """Lists nodes; all pages of a listing are of the snapshot of the first."""

    def __init__(self, nodes: NodeReader, viewer: BuildViewer, objects: ObjectStore) -> None:
        """Create it.

        Args:
            nodes: Reads nodes.
            viewer: What callers may see.
            objects: Holds the structure of the trees of knowledge bases.
        """
        self._nodes = nodes
        self._viewer = viewer
        self._shelf = SkeletonShelf(objects)

    async def page(self, name: TreeName, request: pb.ListTreeNodesRequest) -> pb.ListTreeNodesResponse:
        """Give a page.

        Args:
            name: The tree.
            request: Layer and page.

        Returns:
            The page.

        Raises:
            InvalidArgumentError: If layer, page size or token are none.
            NotFoundError: If the knowledge base is unknown or forbidden, or the first page's snapshot is gone.
        """
        if request.layer < 0:
            raise InvalidArgumentError("TREE_LAYER_INVALID", "layer counts from 1; 0 is for all", field="layer")
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        listing = f"{request.parent}/nodes/{request.layer}"
        snapshot_id, start = read_pinned_token(listing, request.page_token)
        view = await self._viewer.look(name.knowledge_base_id, snapshot_id=snapshot_id)
        records, count = await self._slice(view, name, request.layer, start, size)
        page = within_page(node_to_wire(record, name) for record in records)
        # A node that is not there any more is left out of its page; what did not fit into one begins the next.
        following = start + (len(page) if len(page) < len(records) else size)
        more = following < count
        return pb.ListTreeNodesResponse(
            nodes=page,
            next_page_token=make_pinned_token(listing, view.inputs.snapshot_id, following) if more else "",
        )

    async def _slice(
        self, view: BuildView, name: TreeName, layer: int, start: int, size: int
    ) -> tuple[list[Record], int]:
        if name.is_of_document:
            return await self._nodes.page_of_document(view, name, layer, start=start, size=size)
        skeleton = await self._shape(view)
        if skeleton is None or skeleton.space_id != view.inputs.space_id:
            return [], 0
        record_ids, count = await visible_nodes(skeleton, view.inputs, layer, start=start, size=size)
        return await self._nodes.fetch(view, record_ids), count

    async def _shape(self, view: BuildView) -> Skeleton | None:
        row = view.row
        if row is None or row.state is BuildState.DELETING:
            # Nothing of it is visible any more, and its shape may be swept already.
            return None
        seconds = min(_READ_SECONDS, require_call().remaining_seconds())
        try:
            return await self._shelf.read(row, timeout_seconds=seconds)
        except NotFoundError:
            # A newer build has taken its place since the row was read.
            again = (await self._viewer.look(row.knowledge_base_id)).row
            if again is None or again.state is BuildState.DELETING:
                return None
            return await self._shelf.read(again, timeout_seconds=seconds)
