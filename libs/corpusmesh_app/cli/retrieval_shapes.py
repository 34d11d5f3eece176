"""The JSON shapes of searches and answers, documented in `docs/guide/cli.md` and stable like those of `shapes`."""

from google.protobuf import json_format

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_app.cli.shapes import Shape


def hit_shape(hit: retrieval_pb.SearchHit) -> Shape:
    """Describe a hit.

    Args:
        hit: The hit.

    Returns:
        Its shape.
    """
    return {
        "record_id": hit.record_id,
        "kind": hit.kind,
        "document": hit.document,
        "version": hit.place.version,
        "display_name": hit.place.display_name,
        "title": hit.title,
        "page": hit.place.page,
        "boxes": [
            {"page": box.page, "left": box.left, "top": box.top, "right": box.right, "bottom": box.bottom}
            for box in hit.place.boxes
        ],
        "heading_path": list(hit.place.heading_path),
        "text": hit.text,
        "position": hit.position,
        "token_count": hit.token_count,
        "scores": scores_shape(hit.scores),
        "picture": hit.picture or None,
        "merged_record_ids": list(hit.merged_record_ids),
        "via_record_ids": list(hit.via_record_ids),
        "url": hit.url or None,
        "layer": hit.layer or None,
        "leaves": [leaf_shape(leaf) for leaf in hit.leaves],
    }


def leaf_shape(leaf: retrieval_pb.HitLeaf) -> Shape:
    """Describe a chunk that a node of a tree stands for.

    Args:
        leaf: The chunk.

    Returns:
        Its shape.
    """
    return {
        "record_id": leaf.record_id,
        "document": leaf.document,
        "version": leaf.place.version,
        "display_name": leaf.place.display_name,
        "title": leaf.title,
        "page": leaf.place.page,
        "heading_path": list(leaf.place.heading_path),
    }


def scores_shape(scores: retrieval_pb.Scores) -> Shape:
    """Describe the scores of a candidate.

    Args:
        scores: The scores.

    Returns:
        Their shape.
    """
    return {
        "similarity": scores.similarity,
        "term_similarity": scores.term_similarity,
        "vector_similarity": scores.vector_similarity,
        "lexical_score": scores.lexical_score,
        "lexical_rank": scores.lexical_rank or None,
        "vector_rank": scores.vector_rank or None,
        "page_similarity": scores.page_similarity if scores.HasField("page_similarity") else None,
        "rerank_similarity": scores.rerank_similarity if scores.HasField("rerank_similarity") else None,
    }


def explanation_shape(explanation: retrieval_pb.Explanation) -> Shape:
    """Describe what a search did.

    Args:
        explanation: The explanation.

    Returns:
        Its shape.
    """
    return {
        "stages": [stage_shape(stage) for stage in explanation.stages],
        "query_terms": list(explanation.query_terms),
        "visible_version_count": explanation.visible_version_count,
        "candidates": [
            {
                "record_id": candidate.record_id,
                "scores": scores_shape(candidate.scores),
                "dropped_reason": candidate.dropped_reason or None,
                "vector_weight": candidate.vector_weight,
                "cross_script": candidate.cross_script,
                "rank_feature": candidate.rank_feature,
            }
            for candidate in explanation.candidates
        ],
        "variants": [
            {"text": variant.text, "origin": variant.origin, "weight": variant.weight}
            for variant in explanation.variants
        ],
        "effective_plan": json_format.MessageToDict(explanation.effective_plan, preserving_proto_field_name=True),
        "notes": list(explanation.notes),
        "tree_path": [
            {
                "record_id": step.record_id,
                "layer": step.layer,
                "similarity": step.similarity,
                "outcome": step.outcome,
                "led_to": list(step.led_to),
            }
            for step in explanation.tree_path
        ],
        "graph_path": [
            {
                "kind": step.kind,
                "name": step.name,
                "label": step.label or None,
                "reason": step.reason,
                "score": step.score,
                "hop": step.hop,
                "outcome": step.outcome,
            }
            for step in explanation.graph_path
        ],
    }


def stage_shape(stage: retrieval_pb.StageTiming) -> Shape:
    """Describe what became of a stage.

    Args:
        stage: The stage.

    Returns:
        Its shape.
    """
    return {
        "stage": stage.stage,
        "duration_milliseconds": stage.duration_milliseconds,
        "state": retrieval_pb.StageTiming.State.Name(stage.state).removeprefix("STATE_").lower(),
        "by_model": stage.by_model,
        "detail": stage.detail or None,
    }


def condition_shape(condition: retrieval_pb.MetadataCondition) -> Shape:
    """Describe a condition on metadata.

    Args:
        condition: The condition.

    Returns:
        Its shape.
    """
    name = retrieval_pb.MetadataCondition.Operator.Name(condition.operator)
    return {
        "key": condition.key,
        "operator": name.removeprefix("OPERATOR_").lower(),
        "values": list(condition.values),
    }


def search_shape(response: retrieval_pb.SearchChunksResponse) -> Shape:
    """Describe a page of hits.

    Args:
        response: The page.

    Returns:
        Its shape.
    """
    return {
        "hits": [hit_shape(hit) for hit in response.hits],
        "total_size": response.total_size,
        "next_page_token": response.next_page_token or None,
        "snapshots": list(response.snapshots),
        "unreachable": list(response.unreachable),
        "standalone_query": response.standalone_query or None,
        "inferred_conditions": [condition_shape(condition) for condition in response.inferred_conditions],
        "retrieval": response.retrieval or None,
        "explanation": explanation_shape(response.explanation) if response.HasField("explanation") else None,
    }


def citation_shape(citation: answer_pb.Citation) -> Shape:
    """Describe a citation.

    Args:
        citation: The citation.

    Returns:
        Its shape.
    """
    return {
        "marker": citation.marker,
        **hit_shape(citation.hit),
        "places": [leaf_shape(leaf) for leaf in citation.places],
    }


def answer_shape(question: str, evidence: answer_pb.EvidenceList, summary: answer_pb.AnswerSummary) -> Shape:
    """Describe an answer.

    Args:
        question: The question.
        evidence: What the answer was made from.
        summary: How it was made.

    Returns:
        Its shape.
    """
    return {
        "question": question,
        "text": summary.text,
        "method": answer_pb.AnswerSummary.Method.Name(summary.method).removeprefix("METHOD_").lower(),
        "abstained": summary.abstained,
        "citations": [citation_shape(citation) for citation in summary.citations],
        "evidence": [citation_shape(citation) for citation in evidence.evidence],
        "snapshots": list(evidence.snapshots),
        "dropped_marker_count": summary.dropped_marker_count,
        "unsupported_citation_count": summary.unsupported_citation_count,
        "confidence": summary.confidence,
        "statements": [
            {"statement": item.statement, "markers": list(item.markers), "support": item.support}
            for item in summary.statements
        ],
        "standalone_question": summary.standalone_question or None,
        "inferred_conditions": [condition_shape(condition) for condition in summary.inferred_conditions],
        "retrieval": summary.retrieval or None,
        "stages": [stage_shape(stage) for stage in summary.stages],
        "notes": list(summary.notes),
    }
