# ruff: noqa: N802 (the contract names its methods)
"""Trees of the canned gateway: one tree of a document, one of a knowledge base, and a build in three steps."""

from collections.abc import AsyncIterator
from typing import Any

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh.raptor.v1.tree_service_pb2_grpc import TreeServiceServicer
from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError

COST = pb.TreeCost(
    leaf_count=12,
    node_count=4,
    layer_node_counts=[3, 1],
    extractive_node_count=3,
    model_node_count=1,
    model_call_count=1,
    input_token_count=900,
    output_token_count=80,
    duration_seconds=1.5,
)
LONG = "All about vessels and their moorings, " * 20


def nodes_of(tree: str) -> list[pb.TreeNode]:
    """Make a top over three nodes; the last of them has an escape sequence in its text."""
    low = [
        pb.TreeNode(
            name=f"{tree}/nodes/{place}-tree_node-{place:032x}",
            layer=1,
            text=text,
            token_count=20 + place,
            leaf_count=4,
            title=f"Part {place}",
        )
        for place, text in ((1, "Mooring of vessels."), (2, "Dues in the port."), (3, "Pilots \x1b[31mred\x1b[0m."))
    ]
    low[1].fallback_reason = "unfaithful"
    top = pb.TreeNode(
        name=f"{tree}/nodes/9-tree_node-{9:032x}",
        layer=2,
        text=LONG,
        token_count=99,
        leaf_count=12,
        by_model=True,
        children=[one.name for one in low],
    )
    return [top, *low]


class CannedTreeService(TreeServiceServicer):
    def __init__(self, mesh: Any, abort: Any) -> None:
        self.mesh, self._abort = mesh, abort
        self.built: set[str] = set()

    async def PlanTree(self, request: Any, context: Any) -> Any:
        self.mesh.calls.append("PlanTree")
        return pb.PlanTreeResponse(
            plan=COST,
            max_model_calls=7,
            tenant_tokens_left=-1,
            document_count=5,
            sampled_document_count=5 if request.full else 2,
        )

    async def BuildTree(self, request: Any, context: Any) -> Any:
        self.mesh.request_ids.append(request.request_id)
        kept = self.mesh.knowledge_bases[request.parent]
        if kept.description == "no trees":
            await self._abort(context, FailedPreconditionError("TREE_SCOPE_OFF", "set scope in the section tree"))
        run = run_pb.Run(name=f"{request.parent}/runs/tree-1", kind=run_pb.Run.KIND_TREE, document_count=1)
        run.state = run_pb.Run.STATE_PENDING
        if self.mesh.trees_of_files:
            count = len(request.documents)
            if not count:
                return pb.BuildTreeResponse()
            run.document_count = count
            self.mesh.runs[run.name] = run
            return pb.BuildTreeResponse(run=run.name, document_count=count)
        self.mesh.runs[run.name] = run
        name = f"{request.parent}/trees/dataset"
        self.built.add(name)
        return pb.BuildTreeResponse(
            run=run.name, tree=pb.Tree(name=name, state=pb.Tree.STATE_BUILDING, run=run.name, plan=COST)
        )

    async def GetTree(self, request: Any, context: Any) -> Any:
        if request.name.endswith("/tree") and request.name.removesuffix("/tree") not in self.mesh.documents:
            await self._abort(context, NotFoundError("DOCUMENT_NOT_FOUND", "there is no such document"))
        if request.name.endswith("/dataset") and request.name not in self.built:
            return pb.Tree(name=request.name, state=pb.Tree.STATE_EMPTY)
        return self._ready(request.name)

    async def WatchTree(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for made in (1, 3):
            progress = pb.TreeProgress(layer=1, layer_node_count=3, made_node_count=made)
            tree = pb.Tree(name=request.name, state=pb.Tree.STATE_BUILDING, progress=progress)
            yield pb.WatchTreeResponse(tree=tree, sequence=made)
        tree = self._ready(request.name)
        if "broken" in request.name:
            tree.error_reason, tree.error_message = "BUILD_FAILED", "it broke"
        yield pb.WatchTreeResponse(tree=tree, sequence=4)

    async def CancelTreeBuild(self, request: Any, context: Any) -> Any:
        self.mesh.request_ids.append(request.request_id)
        return pb.CancelTreeBuildResponse(tree=self._ready(request.name))

    async def DeleteTree(self, request: Any, context: Any) -> Any:
        self.built.discard(request.name)
        return pb.DeleteTreeResponse(run=f"{request.name.rsplit('/trees/', 1)[0]}/runs/sweep")

    async def ListTreeNodes(self, request: Any, context: Any) -> Any:
        wanted = [one for one in nodes_of(request.parent) if request.layer in (0, one.layer)]
        if request.parent.endswith("/dataset") and request.parent not in self.built:
            wanted = []
        start = int(request.page_token or 0)
        more = str(start + 2) if len(wanted) > start + 2 else ""
        return pb.ListTreeNodesResponse(nodes=wanted[start : start + 2], next_page_token=more)

    async def GetTreeNode(self, request: Any, context: Any) -> Any:
        tree = request.name.rsplit("/nodes/", 1)[0]
        nodes = nodes_of(tree)
        found = next((one for one in nodes if one.name == request.name), None)
        if found is None:
            await self._abort(context, NotFoundError("TREE_NODE_NOT_FOUND", "there is no such node"))
        document = f"{tree.split('/documents/')[0].split('/trees/')[0]}/documents/d1"
        leaf = pb.TreeLeaf(
            record_id="1-0",
            document=document,
            place=place_pb2.Place(
                version=f"{document}/versions/1", display_name="port.pdf", page=3, heading_path=["Rules"]
            ),
            text="Vessels moor at the quay.",
            title="Port",
        )
        return pb.GetTreeNodeResponse(node=found, children=[] if found.layer == 1 else nodes[1:], leaves=[leaf])

    @staticmethod
    def _ready(name: str) -> pb.Tree:
        return pb.Tree(
            name=name,
            state=pb.Tree.STATE_READY,
            method="watershed",
            layer_node_counts=[3, 1],
            staleness=0.25,
            plan=COST,
            bill=COST,
        )
