"""The JSON shapes of graphs, and how they are written in a terminal; documented in `docs/guide/cli.md`."""

from collections.abc import Mapping

from google.protobuf import json_format

from corpusmesh.graph.v1 import graph_input_service_pb2 as input_pb
from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.shapes import Shape, time_of
from corpusmesh_app.cli.tree_shapes import many
from corpusmesh_client.names import document_of

_ABSENCES = {
    "GRAPH_OFF": "no graph: the knowledge base asks for none (section `graph`, methods)",
    "NOT_BUILT": "not built yet: corpusmesh graph build --kb {knowledge_base}",
    "NO_ENTITIES": "no graph: nothing was found that has a name",
}
_COUNTS = tuple(
    field.name
    for field in pb.GraphCost.DESCRIPTOR.fields
    if field.name not in ("duration_seconds", "stepped_down_reason")
)


def graph_state(graph: pb.Graph) -> str:
    """Give the name of a graph's state.

    Args:
        graph: The graph.

    Returns:
        Such as "ready".
    """
    return pb.Graph.State.Name(graph.state).removeprefix("STATE_").lower()


def cost_shape(cost: pb.GraphCost) -> Shape:
    """Describe a cost.

    Args:
        cost: The cost.

    Returns:
        Its shape.
    """
    return {
        **{name: getattr(cost, name) for name in _COUNTS},
        "duration_seconds": cost.duration_seconds,
        "stepped_down_reason": cost.stepped_down_reason or None,
    }


def graph_shape(graph: pb.Graph) -> Shape:
    """Describe a graph.

    Args:
        graph: The graph.

    Returns:
        Its shape; what the caller is not told, or what is not there, is null.
    """
    progress = graph.progress
    return {
        "name": graph.name,
        "state": graph_state(graph),
        "empty_reason": graph.empty_reason or None,
        "entity_count": graph.entity_count,
        "relation_count": graph.relation_count,
        "report_count": graph.report_count,
        "run": graph.run or None,
        "error_reason": graph.error_reason or None,
        "error_message": graph.error_message or None,
        "outdated": graph.outdated,
        "plan": cost_shape(graph.plan) if graph.HasField("plan") else None,
        "bill": cost_shape(graph.bill) if graph.HasField("bill") else None,
        "publish_time": time_of(graph, "publish_time"),
        "snapshot": graph.snapshot or None,
        "progress": {
            "phase": progress.phase,
            "total_count": progress.total_count,
            "done_count": progress.done_count,
            "cost": cost_shape(progress.cost),
        }
        if graph.HasField("progress")
        else None,
    }


def entity_shape(entity: pb.Entity) -> Shape:
    """Describe an entity.

    Args:
        entity: The entity.

    Returns:
        Its shape.
    """
    return {
        "name": entity.name,
        "title": entity.title,
        "type": entity.type or None,
        "description": entity.description or None,
        "merged_by_model": entity.merged_by_model,
        "aliases": list(entity.aliases),
        "rank": entity.rank,
        "degree": entity.degree,
        "document_count": entity.document_count,
        "chunk_count": entity.chunk_count,
        "methods": list(entity.methods),
    }


def relation_shape(relation: pb.Relation) -> Shape:
    """Describe a relation.

    Args:
        relation: The relation.

    Returns:
        Its shape.
    """
    return {
        "name": relation.name,
        "source": relation.source,
        "target": relation.target,
        "source_title": relation.source_title,
        "target_title": relation.target_title,
        "predicate": relation.predicate or None,
        "description": relation.description or None,
        "merged_by_model": relation.merged_by_model,
        "keywords": list(relation.keywords),
        "weight": relation.weight,
        "confidence": relation.confidence,
        "methods": list(relation.methods),
        "chunk_count": relation.chunk_count,
    }


def passage_shape(passage: pb.GraphPassage) -> Shape:
    """Describe a chunk that something of a graph stands in.

    Args:
        passage: The chunk.

    Returns:
        Its shape.
    """
    return {
        "record_id": passage.record_id,
        "document": passage.document,
        "version": passage.place.version,
        "title": passage.title,
        "display_name": passage.place.display_name,
        "page": passage.place.page,
        "heading_path": list(passage.place.heading_path),
        "text": passage.text,
    }


def community_shape(community: pb.Community) -> Shape:
    """Describe a community.

    Args:
        community: The community.

    Returns:
        Its shape.
    """
    return {
        "name": community.name,
        "level": community.level,
        "title": community.title,
        "report": community.report or None,
        "weight": community.weight,
        "entity_count": community.entity_count,
        "parent": community.parent or None,
        "by_model": community.by_model,
        "fallback_reason": community.fallback_reason or None,
    }


def pair_shape(pair: pb.ResolvedPair) -> Shape:
    """Describe two names that were held to be one.

    Args:
        pair: The pair.

    Returns:
        Its shape.
    """
    return {
        "entity": pair.entity,
        "title": pair.title,
        "other_title": pair.other_title,
        "reason": pair.reason,
        "score": pair.score,
        "method": pair.method,
        "key": pair.key,
        "other_key": pair.other_key,
    }


def correction_shape(correction: input_pb.Correction) -> Shape:
    """Describe a correction.

    Args:
        correction: The correction.

    Returns:
        Its shape: `change` says which one, and a field of that name has what was given.
    """
    kind = correction.WhichOneof("change") or ""
    change = getattr(correction, kind) if kind else None
    return {
        "name": correction.name,
        "change": kind,
        kind: json_format.MessageToDict(change, preserving_proto_field_name=True) if change is not None else None,
        "user": correction.user,
        "create_time": time_of(correction, "create_time"),
    }


def triple_shape(triple: input_pb.Triple) -> Shape:
    """Describe a fact.

    Args:
        triple: The fact.

    Returns:
        Its shape, which `graph triples put` reads.
    """
    return {field.name: getattr(triple, field.name) for field, _ in triple.ListFields()}


def headline(graph: pb.Graph) -> str:
    """Say in a line what a graph is.

    Args:
        graph: The graph.

    Returns:
        State, counts of what is visible, and for those who may know how it is doing.
    """
    parts = [_why_empty(graph) or graph_state(graph)]
    if graph.entity_count:
        counts = (many(graph.entity_count, "entity"), many(graph.relation_count, "relation"))
        parts.append(", ".join((*counts, many(graph.report_count, "report"))).replace("entitys", "entities"))
    if graph.HasField("progress"):
        progress = graph.progress
        parts.append(f"{progress.phase} {progress.done_count:,} of {progress.total_count:,}")
    if graph.HasField("bill"):
        bill = graph.bill
        covered = bill.document_count + bill.reused_document_count
        parts.append(f"{many(covered, 'document')}, {many(bill.model_call_count, 'call')} of a model")
    if graph.outdated:
        parts.append("outdated")
    if graph.error_message:
        parts.append(f"last build failed: {graph.error_message}")
    return " · ".join(parts)


def entity_line(entity: pb.Entity) -> str:
    """Say in a line what an entity is.

    Args:
        entity: The entity.

    Returns:
        Name, type, other names and counts.
    """
    kind = f" ({entity.type})" if entity.type else ""
    also = f" · also {', '.join(entity.aliases)}" if entity.aliases else ""
    counts = f"{many(entity.degree, 'relation')}, {many(entity.document_count, 'document')}"
    return plain(f"{entity.title}{kind} · {counts} · rank {entity.rank:.4f}{also}")


def relation_line(relation: pb.Relation) -> str:
    """Say in a line what a relation is.

    Args:
        relation: The relation.

    Returns:
        Both names and how they are related.
    """
    arrow = f"– {relation.predicate} →" if relation.predicate else "–"
    return plain(f"{relation.source_title} {arrow} {relation.target_title} · {relation.weight:.2f}")


def place_line(passage: pb.GraphPassage) -> str:
    """Say where a chunk stands.

    Args:
        passage: The chunk.

    Returns:
        File, page and headings.
    """
    parts = [passage.place.display_name or document_of(passage.document)]
    if passage.place.page:
        parts.append(f"page {passage.place.page}")
    if passage.place.heading_path:
        parts.append(" > ".join(passage.place.heading_path))
    return plain(", ".join(parts))


def render_cost(columns: Mapping[str, pb.GraphCost]) -> list[tuple[str, ...]]:
    """Write costs side by side.

    Args:
        columns: Cost by heading.

    Returns:
        Lines of a table: what, and a cell for each cost.
    """
    costs = list(columns.values())
    lines: list[tuple[str, ...]] = [
        ("Documents read", *(f"{cost.document_count:,}" for cost in costs)),
        ("  taken over", *(f"{cost.reused_document_count:,}" for cost in costs)),
        ("Chunks read", *(f"{cost.chunk_count:,}" for cost in costs)),
        ("Entities, relations", *(f"{cost.entity_count:,}, {cost.relation_count:,}" for cost in costs)),
        ("Reports", *(f"{cost.report_count:,}" for cost in costs)),
        ("  taken over", *(f"{cost.reused_report_count:,}" for cost in costs)),
        ("Calls", *(f"{cost.model_call_count:,}" for cost in costs)),
        ("Tokens sent, received", *(f"{cost.input_token_count:,}, {cost.output_token_count:,}" for cost in costs)),
        ("Tokens embedded", *(f"{cost.embedded_token_count:,}" for cost in costs)),
        ("Seconds", *(f"{cost.duration_seconds:.1f}" for cost in costs)),
    ]
    if any(cost.stepped_down_reason for cost in costs):
        lines.append(("Stepped down", *(cost.stepped_down_reason for cost in costs)))
    return lines


def _why_empty(graph: pb.Graph) -> str:
    sentence = _ABSENCES.get(graph.empty_reason, "") if graph.state == pb.Graph.STATE_EMPTY else ""
    return sentence.format(knowledge_base=graph.name.split("/")[1]) if sentence else ""
