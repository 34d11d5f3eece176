"""Trees over chunks: plan, build, describe, watch, cancel, delete, and their nodes."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh.raptor.v1.tree_service_pb2_grpc import TreeServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_client.watching import watch_to_the_end

UNDER_WAY = frozenset({pb.Tree.STATE_BUILDING, pb.Tree.STATE_DELETING})


def dataset_tree_name(knowledge_base: str) -> str:
    """Name the tree of a knowledge base.

    Args:
        knowledge_base: `knowledgeBases/{knowledge_base}`.

    Returns:
        `knowledgeBases/*/trees/dataset`.
    """
    return f"{knowledge_base}/trees/dataset"


def document_tree_name(document: str) -> str:
    """Name the tree of a document.

    Args:
        document: `knowledgeBases/*/documents/*`.

    Returns:
        `knowledgeBases/*/documents/*/tree`.
    """
    return f"{document}/tree"


class TreeCalls:
    """Calls on trees."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = TreeServiceStub(caller.channel)

    async def plan(
        self, knowledge_base: str, *, documents: Sequence[str] = (), full: bool = False
    ) -> pb.PlanTreeResponse:
        """Tell what a build would cost.

        Args:
            knowledge_base: `knowledgeBases/{knowledge_base}`.
            documents: `knowledgeBases/*/documents/*`, where trees are made of single documents; none for all.
            full: Whether to plan a build of the whole rather than of what has changed.

        Returns:
            The plan, and what bounds it.
        """
        request = pb.PlanTreeRequest(parent=knowledge_base, documents=documents, full=full)
        return await self._caller.unary(
            self._stub.PlanTree, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def build(
        self,
        knowledge_base: str,
        *,
        documents: Sequence[str] = (),
        full: bool = False,
        request_id: str | None = None,
    ) -> pb.BuildTreeResponse:
        """Build the tree of a knowledge base, or the trees of its documents that are missing or outdated.

        Args:
            knowledge_base: `knowledgeBases/{knowledge_base}`.
            documents: `knowledgeBases/*/documents/*`, where trees are made of single documents; none for all.
            full: Whether to build the whole anew rather than what has changed.
            request_id: UUID; None to have one made.

        Returns:
            The run; without one where there is nothing to do.
        """
        request = pb.BuildTreeRequest(
            parent=knowledge_base, documents=documents, full=full, request_id=request_id or new_request_id()
        )
        return await self._caller.unary(
            self._stub.BuildTree, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def get(self, name: str) -> pb.Tree:
        """Describe a tree, as far as the caller may see it.

        Args:
            name: `knowledgeBases/*/trees/dataset` or `knowledgeBases/*/documents/*/tree`.

        Returns:
            The tree.
        """
        request = pb.GetTreeRequest(name=name)
        return await self._caller.unary(
            self._stub.GetTree, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def cancel(self, name: str, *, request_id: str | None = None) -> pb.Tree:
        """Stop the build that is under way; the tree stays as it was published.

        Args:
            name: `knowledgeBases/*/trees/dataset`.
            request_id: UUID; None to have one made.

        Returns:
            The tree.
        """
        request = pb.CancelTreeBuildRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.CancelTreeBuild, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.tree

    async def delete(self, name: str, *, request_id: str | None = None) -> str:
        """Delete the tree of a knowledge base.

        Args:
            name: `knowledgeBases/*/trees/dataset`.
            request_id: UUID; None to have one made.

        Returns:
            The run that removes it, `knowledgeBases/*/runs/*`.
        """
        request = pb.DeleteTreeRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.DeleteTree, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.run

    def nodes(self, tree: str, *, layer: int = 0, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.TreeNode]:
        """List the nodes of a tree that the caller may see, from the top down, over all pages.

        Args:
            tree: `knowledgeBases/*/trees/dataset` or `knowledgeBases/*/documents/*/tree`.
            layer: Only this layer, from 1; 0 for all.
            page_size: Entries read at once.

        Returns:
            The nodes.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListTreeNodes,
                pb.ListTreeNodesRequest(parent=tree, layer=layer, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.nodes,
        )

    async def node(self, name: str) -> pb.GetTreeNodeResponse:
        """Read a node with its children and the chunks that it stands for.

        Args:
            name: `{tree}/nodes/{record}`.

        Returns:
            The node with what is beneath it.
        """
        request = pb.GetTreeNodeRequest(name=name)
        return await self._caller.unary(
            self._stub.GetTreeNode, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def watch(
        self, name: str, *, silence_seconds: float = 30.0, give_up_after_seconds: float = 120.0
    ) -> AsyncIterator[pb.Tree]:
        """Follow the build of a tree until it has ended, over broken connections and restarts of the mesh.

        Args:
            name: `knowledgeBases/*/trees/dataset`.
            silence_seconds: Silence after which the stream is opened again.
            give_up_after_seconds: How long the mesh may fail to answer before the failure is raised.

        Yields:
            The tree at every change; the last one is not being built any more.

        Raises:
            CorpusMeshError: If the tree cannot be read, or the mesh did not answer for too long.
        """
        states = watch_to_the_end(
            f"the tree {name}",
            lambda: self._stream(name),
            lambda tree: tree.state not in UNDER_WAY,
            silence_seconds=silence_seconds,
            give_up_after_seconds=give_up_after_seconds,
        )
        async for tree in states:
            yield tree

    async def _stream(self, name: str) -> AsyncGenerator[pb.Tree, None]:
        stream = self._caller.stream(
            self._stub.WatchTree,
            pb.WatchTreeRequest(name=name),
            timeout_seconds=self._caller.deadlines.watch_seconds,
        )
        async with aclosing(stream):
            async for response in stream:
                yield response.tree
