"""Describes trees: what of them the caller may see, and how they are doing for those who may write."""

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.artefacts.names import TREE as TREE_ARTEFACT
from corpusmesh_core.artefacts.trees import unpack_trees
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.builds import BuildRow, BuildState
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.tenancy import DocumentRow, VersionRow
from corpusmesh_core.trees.figures import staleness, wants_full_build
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_core.trees.telling import cost_of, figures_of, progress_of
from corpusmesh_raptor.convert import cost_to_wire, progress_to_wire
from corpusmesh_raptor.handlers import absence
from corpusmesh_raptor.handlers.nodes import NodeReader
from corpusmesh_raptor.names import TreeName
from corpusmesh_runtime.artefact_access import find_artefacts
from corpusmesh_runtime.build_views import BuildView, BuildViewer
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.timestamps import timestamp

_READ_SECONDS = 10.0


class TreeDescriber:
    """Describes trees as the caller may see them."""

    def __init__(self, viewer: BuildViewer, nodes: NodeReader, documents: DocumentStore, objects: ObjectStore) -> None:
        """Create it.

        Args:
            viewer: What callers may see.
            nodes: Counts nodes.
            documents: Documents that have trees.
            objects: Holds what those trees cost.
        """
        self._objects = objects
        self._viewer = viewer
        self._nodes = nodes
        self._documents = documents

    async def describe(self, name: TreeName) -> pb.Tree:
        """Describe a tree.

        Args:
            name: The tree.

        Returns:
            The tree; empty where nothing of it is visible.

        Raises:
            NotFoundError: If its knowledge base or document is unknown or forbidden.
        """
        document = await self.require_document(name)
        view = await self._viewer.look(name.knowledge_base_id)
        counts = await self._nodes.count_layers(view, name)
        if document is None:
            return _of_dataset(view, name, counts)
        tree = _of_document(view, name, counts)
        version = await self._published_version(document)
        if not counts:
            tree.empty_reason = absence.of_document(view, version)
        elif version is not None:
            await self._put_making(tree, view, version)
        return tree

    async def require_document(self, name: TreeName) -> DocumentRow | None:
        """Give the document of a tree.

        Args:
            name: The tree.

        Returns:
            The document; None for the tree of a knowledge base.

        Raises:
            NotFoundError: DOCUMENT_NOT_FOUND if it is unknown or forbidden.
        """
        if not name.is_of_document:
            return None
        return await self._documents.get(require_call().identity, name.knowledge_base_id, name.document_id)

    async def _published_version(self, document: DocumentRow) -> VersionRow | None:
        rows = await self._documents.list_versions(
            require_call().identity,
            document.knowledge_base_id,
            document.document_id,
            document.published_version + 1,
            1,
        )
        return rows[0] if rows and rows[0].version == document.published_version else None

    async def _put_making(self, tree: pb.Tree, view: BuildView, version: VersionRow) -> None:
        """Say when the tree of a document was published, and to those who may write how it was made."""
        moment = timestamp(version.publish_time)
        if moment is not None:
            tree.publish_time.CopyFrom(moment)
        if not view.may_write:
            return
        tree.run = f"knowledgeBases/{version.knowledge_base_id}/runs/{version.run_id}" if version.run_id else ""
        tree.outdated = version.config_hash != config_hash(view.inputs.config)
        seconds = min(_READ_SECONDS, require_call().remaining_seconds())
        found = await find_artefacts(self._objects, [version], TREE_ARTEFACT, unpack_trees, timeout_seconds=seconds)
        for made in found.values():
            tree.bill.CopyFrom(cost_to_wire(made.tree.cost))
            tree.staleness = staleness(added=made.changed_count, changed=0, removed=0, leaf_count=len(made.positions))
            tree.wants_full_build = wants_full_build(tree.staleness, 0.0)

    def watched(self, name: TreeName) -> "WatchedTree":
        """Prepare to describe a tree again and again.

        Args:
            name: The tree of a knowledge base.

        Returns:
            What describes it.
        """
        return WatchedTree(name, self._viewer, self._nodes)


class WatchedTree:
    """Describes one tree again and again; nodes are counted anew only where something else is published."""

    def __init__(self, name: TreeName, viewer: BuildViewer, nodes: NodeReader) -> None:
        """Create it.

        Args:
            name: The tree of a knowledge base.
            viewer: What callers may see.
            nodes: Counts nodes.
        """
        self._name = name
        self._viewer = viewer
        self._nodes = nodes
        self._counted: tuple[object, list[int]] = (None, [])

    async def run_id(self) -> str:
        """Tell which run moves it.

        Returns:
            Its run; "none" where nothing was ever built.
        """
        view = await self._viewer.look(self._name.knowledge_base_id)
        return (view.row.run_id if view.row is not None else "") or "none"

    async def read(self) -> pb.Tree:
        """Describe it.

        Returns:
            The tree as it is now.
        """
        view = await self._viewer.look(self._name.knowledge_base_id)
        mark = (view.inputs.snapshot_id, view.inputs.hidden, view.inputs.space_id)
        if self._counted[0] != mark:
            self._counted = (mark, await self._nodes.count_layers(view, self._name))
        return _of_dataset(view, self._name, self._counted[1])


def _of_dataset(view: BuildView, name: TreeName, counts: list[int]) -> pb.Tree:
    tree = pb.Tree(
        name=name.text,
        state=pb.Tree.STATE_READY if counts else pb.Tree.STATE_EMPTY,
        layer_node_counts=counts,
    )
    row = view.row
    if row is None:
        tree.empty_reason = absence.of_dataset(view, row)
        return tree
    figures = figures_of(row.figures)
    tree.method = figures.method
    if not view.is_restricted:
        # That a build is under way, and when one ended, tells of documents that were published.
        tree.state = _state_of(row, tree.state)
        moment = timestamp(row.publish_time)
        if moment is not None:
            tree.publish_time.CopyFrom(moment)
        if row.snapshot_id:
            tree.snapshot = f"knowledgeBases/{name.knowledge_base_id}/snapshots/{row.snapshot_id}"
    if view.shows_figures:
        _put_figures(tree, view, row, name)
    if tree.state == pb.Tree.STATE_EMPTY:
        tree.empty_reason = absence.of_dataset(view, row)
    return tree


def _put_figures(tree: pb.Tree, view: BuildView, row: BuildRow, name: TreeName) -> None:
    figures = figures_of(row.figures)
    tree.run = f"knowledgeBases/{name.knowledge_base_id}/runs/{row.run_id}" if row.run_id else ""
    tree.error_reason, tree.error_message = row.error_reason, row.error_message
    tree.staleness, tree.drift = figures.staleness, figures.drift
    tree.wants_full_build = figures.wants_full_build
    tree.outdated = view.is_outdated
    if row.plan:
        tree.plan.CopyFrom(cost_to_wire(cost_of(row.plan)))
    if row.figures:
        tree.bill.CopyFrom(cost_to_wire(figures.bill))
    if row.is_building:
        tree.progress.CopyFrom(progress_to_wire(progress_of(row.progress)))


def _of_document(view: BuildView, name: TreeName, counts: list[int]) -> pb.Tree:
    if not counts:
        return pb.Tree(name=name.text, state=pb.Tree.STATE_EMPTY)
    return pb.Tree(
        name=name.text,
        state=pb.Tree.STATE_READY,
        layer_node_counts=counts,
        method=_method_of(view),
        snapshot=f"knowledgeBases/{name.knowledge_base_id}/snapshots/{view.inputs.snapshot_id}",
    )


def _method_of(view: BuildView) -> str:
    try:
        settings = TreeSettings.of(view.inputs.config)
    except InvalidArgumentError:
        return ""
    return settings.method if settings.scope is TreeScope.FILE else ""


def _state_of(row: BuildRow, shown: pb.Tree.State.ValueType) -> pb.Tree.State.ValueType:
    if row.state is BuildState.DELETING:
        return pb.Tree.STATE_DELETING
    return pb.Tree.STATE_BUILDING if row.is_building else shown
