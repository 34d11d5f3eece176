"""Graphs and what they cost as the contract writes them."""

from collections.abc import Callable

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.graphs.records import FALLBACK, MADE_BY, MEMBER_COUNT, PARENT, WEIGHT
from corpusmesh_core.graphs.settings import ReportMethod
from corpusmesh_core.graphs.telling import GraphProgress, bill_values
from corpusmesh_core.graphs.values import GraphBill
from corpusmesh_core.records import Record
from corpusmesh_graph.names import community_name, document_name, entity_name, relation_name
from corpusmesh_graph.scenes import GraphScene
from corpusmesh_runtime.places import place_to_wire


def cost_to_wire(bill: GraphBill) -> pb.GraphCost:
    """Write a bill.

    Args:
        bill: What a build costs or has cost.

    Returns:
        The message, which has the fields of a bill.
    """
    return pb.GraphCost(**bill_values(bill))  # type: ignore[arg-type]


def progress_to_wire(progress: GraphProgress) -> pb.GraphProgress:
    """Write how far a build is.

    Args:
        progress: The progress.

    Returns:
        The message.
    """
    return pb.GraphProgress(
        phase=progress.phase,
        total_count=progress.total_count,
        done_count=progress.done_count,
        cost=cost_to_wire(progress.cost),
    )


def entity_to_wire(scene: GraphScene, place: int) -> pb.Entity:
    """Write an entity as lists show it.

    Args:
        scene: What the caller may see.
        place: The entity's place in its graph.

    Returns:
        The message.
    """
    graph = scene.graph
    title = graph.name(place)
    return pb.Entity(
        name=entity_name(scene.knowledge_base_id, int(graph.entity_keys[place])),
        title=title,
        type=graph.type(place),
        aliases=[name for name in graph.names(place) if name != title],
        rank=float(graph.page_rank[place]),
        degree=scene.degree(place),
        document_count=int(graph.document_frequency[place]),
        chunk_count=scene.chunk_count(place),
    )


def relation_to_wire(scene: GraphScene, place: int, *, title_of: Callable[[int], str] | None = None) -> pb.Relation:
    """Write a relation without what documents say of it.

    Args:
        scene: What the caller may see.
        place: The relation's place in its graph.
        title_of: Gives the name of an entity by its place, where they are known already.

    Returns:
        The message.
    """
    graph = scene.graph
    source, target = graph.relation_ends[place].tolist()
    keys = [int(graph.entity_keys[end]) for end in (source, target)]
    offsets = graph.relation_passages.indptr
    named = title_of or graph.name
    return pb.Relation(
        name=relation_name(scene.knowledge_base_id, *keys),
        source=entity_name(scene.knowledge_base_id, keys[0]),
        target=entity_name(scene.knowledge_base_id, keys[1]),
        source_title=named(source),
        target_title=named(target),
        weight=float(graph.relation_weights[place]),
        chunk_count=int(offsets[place + 1] - offsets[place]),
    )


def passage_to_wire(record: Record) -> pb.GraphPassage:
    """Write a chunk that something of a graph stands in.

    Args:
        record: Its record.

    Returns:
        The message.
    """
    document = document_name(record.knowledge_base_id, record.document_id)
    return pb.GraphPassage(
        record_id=record.record_id,
        document=document,
        place=place_to_wire(record, document),
        text=record.text,
        title=record.title,
    )


def community_to_wire(record: Record, *, with_report: bool = False) -> pb.Community:
    """Write a community.

    Args:
        record: The record of its report.
        with_report: Whether to write the report too.

    Returns:
        The message.
    """
    attributes = record.attributes
    return pb.Community(
        name=community_name(record.knowledge_base_id, community_key_of(record)),
        level=record.layer - 1,
        title=record.title,
        report=record.text if with_report else "",
        weight=float(attributes.get(WEIGHT, "0")),
        entity_count=int(attributes.get(MEMBER_COUNT, "0")),
        parent=community_name(record.knowledge_base_id, attributes.get(PARENT, "")),
        by_model=attributes.get(MADE_BY, "") not in ("", ReportMethod.LITE),
        fallback_reason=attributes.get(FALLBACK, ""),
    )


def community_key_of(record: Record) -> str:
    """Read which community a report is of.

    Args:
        record: The record of a report.

    Returns:
        Sixteen hexadecimal digits.
    """
    return record.record_id.rsplit("-", 1)[1]
