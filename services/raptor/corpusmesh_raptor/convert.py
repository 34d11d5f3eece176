"""Trees, nodes and costs as the contract writes them."""

from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.tree_search import children_of, leaf_count_of
from corpusmesh_core.trees.settings import SummaryMethod
from corpusmesh_core.trees.telling import TreeProgress
from corpusmesh_core.trees.values import FALLBACK, MADE_BY, SPEAKS_OF, TreeCost
from corpusmesh_raptor.names import TreeName
from corpusmesh_runtime.places import place_to_wire


def cost_to_wire(cost: TreeCost) -> pb.TreeCost:
    """Write a cost.

    Args:
        cost: The cost.

    Returns:
        The message.
    """
    return pb.TreeCost(
        leaf_count=cost.leaf_count,
        node_count=sum(cost.layer_node_counts),
        layer_node_counts=cost.layer_node_counts,
        reused_node_count=cost.reused_node_count,
        model_node_count=cost.model_node_count,
        extractive_node_count=cost.extractive_node_count,
        model_call_count=cost.model_call_count,
        input_token_count=cost.input_token_count,
        output_token_count=cost.output_token_count,
        embedded_text_count=cost.embedded_text_count,
        embedded_token_count=cost.embedded_token_count,
        duration_seconds=cost.duration_seconds,
        failed_call_count=cost.failed_call_count,
        stepped_down_reason=cost.stepped_down_reason,
    )


def progress_to_wire(progress: TreeProgress) -> pb.TreeProgress:
    """Write how far a build is.

    Args:
        progress: The progress.

    Returns:
        The message.
    """
    return pb.TreeProgress(
        layer=progress.layer,
        layer_node_count=progress.layer_node_count,
        made_node_count=progress.made_node_count,
        cost=cost_to_wire(progress.cost),
    )


def node_to_wire(record: Record, tree: TreeName) -> pb.TreeNode:
    """Write a node.

    Args:
        record: Its record.
        tree: Its tree.

    Returns:
        The message.
    """
    attributes = record.attributes
    return pb.TreeNode(
        name=f"{tree.text}/nodes/{record.record_id}",
        layer=record.layer,
        text=record.text,
        token_count=record.token_count,
        by_model=is_by_model(record),
        fallback_reason=attributes.get(FALLBACK, ""),
        children=[f"{tree.text}/nodes/{child}" for child in children_of(record)] if record.layer > 1 else [],
        leaf_count=leaf_count_of(record),
        title=" › ".join(record.heading_path) or attributes.get(SPEAKS_OF, "") or record.title,
    )


def leaf_to_wire(record: Record) -> pb.TreeLeaf:
    """Write a chunk that a node stands for.

    Args:
        record: Its record.

    Returns:
        The message.
    """
    document = f"knowledgeBases/{record.knowledge_base_id}/documents/{record.document_id}"
    return pb.TreeLeaf(
        record_id=record.record_id,
        document=document,
        place=place_to_wire(record, document),
        text=record.text,
        title=record.title,
    )


def is_by_model(record: Record) -> bool:
    """Tell who wrote a node's summary.

    Args:
        record: Its record.

    Returns:
        True for a language model.
    """
    return record.kind is RecordKind.TREE_NODE and record.attributes.get(MADE_BY, "").startswith(SummaryMethod.LLM)
