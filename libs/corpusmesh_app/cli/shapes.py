"""The JSON shapes of `--json`, documented in `docs/guide/cli.md`; stable: keys are added, never renamed or removed."""

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from corpusmesh.gateway.v1 import admin_service_pb2 as admin_pb
from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_app.cli.failures import error_shape
from corpusmesh_client import error_from_status
from corpusmesh_client.names import identifier_of

Shape = dict[str, object]


def time_of(message: Message, field: str) -> str | None:
    """Give a time of a message.

    Args:
        message: The message.
        field: Name of a field of the type `Timestamp`.

    Returns:
        ISO 8601 in UTC to the second; None if the field is not set.
    """
    if not message.HasField(field):
        return None
    stamp = getattr(message, field)
    assert isinstance(stamp, Timestamp)
    return Timestamp(seconds=stamp.seconds).ToJsonString()


def status_shape(message: Message, field: str) -> Shape | None:
    """Describe a failure that a message carries.

    Args:
        message: The message.
        field: Name of a field of the type `google.rpc.Status`.

    Returns:
        The failure; None if the field is not set.
    """
    if not message.HasField(field):
        return None
    status = getattr(message, field)
    assert isinstance(status, Status)
    return error_shape(error_from_status(status))


def role_name(role: policy_pb2.Role.ValueType) -> str:
    """Give the name of a role.

    Args:
        role: The role.

    Returns:
        Such as "viewer".
    """
    return policy_pb2.Role.Name(role).removeprefix("ROLE_").lower()


def scope_name(scope: policy_pb2.Scope.ValueType) -> str:
    """Give the name of a scope.

    Args:
        scope: The scope.

    Returns:
        Such as "read".
    """
    return policy_pb2.Scope.Name(scope).removeprefix("SCOPE_").lower()


def version_state(state: document_pb.Version.State.ValueType) -> str:
    """Give the name of a version's state.

    Args:
        state: The state.

    Returns:
        Such as "ready".
    """
    return document_pb.Version.State.Name(state).removeprefix("STATE_").lower()


def run_state(state: run_pb.Run.State.ValueType) -> str:
    """Give the name of a run's state.

    Args:
        state: The state.

    Returns:
        Such as "succeeded".
    """
    return run_pb.Run.State.Name(state).removeprefix("STATE_").lower()


def knowledge_base_shape(entry: knowledge_base_pb.KnowledgeBase) -> Shape:
    """Describe a knowledge base.

    Args:
        entry: The knowledge base.

    Returns:
        Its shape.
    """
    return {
        "name": entry.name,
        "id": identifier_of(entry.name),
        "display_name": entry.display_name,
        "description": entry.description,
        "permission": permission_name(entry.permission),
        "owner": entry.owner,
        "space": entry.space,
        "current_snapshot": entry.current_snapshot or None,
        "document_count": entry.document_count,
        "chunk_count": entry.chunk_count,
        "create_time": time_of(entry, "create_time"),
        "update_time": time_of(entry, "update_time"),
    }


def permission_name(permission: knowledge_base_pb.Permission.ValueType) -> str:
    """Give the name of a knowledge base's permission.

    Args:
        permission: The permission.

    Returns:
        "team" or "private".
    """
    return "team" if permission == knowledge_base_pb.PERMISSION_TEAM else "private"


def snapshot_shape(snapshot: knowledge_base_pb.Snapshot) -> Shape:
    """Describe a snapshot.

    Args:
        snapshot: The snapshot.

    Returns:
        Its shape.
    """
    return {
        "name": snapshot.name,
        "reason": snapshot.reason,
        "version_count": snapshot.version_count,
        "current": snapshot.current,
        "create_time": time_of(snapshot, "create_time"),
    }


def version_shape(version: document_pb.Version) -> Shape:
    """Describe a version.

    Args:
        version: The version.

    Returns:
        Its shape.
    """
    return {
        "name": version.name,
        "version": identifier_of(version.name),
        "state": version_state(version.state),
        "published": version.published,
        "media_type": version.media_type,
        "size_bytes": version.size_bytes,
        "sha256": version.sha256,
        "page_count": version.page_count,
        "chunk_count": version.chunk_count,
        "token_count": version.token_count,
        "error": status_shape(version, "error"),
        "warnings": list(version.warnings),
        "run": version.run or None,
        "create_time": time_of(version, "create_time"),
    }


def access_shape(access: document_pb.DocumentAccess) -> Shape:
    """Describe who may read a document.

    Args:
        access: The access list.

    Returns:
        Its shape.
    """
    return {
        "allowed_users": list(access.allowed_users),
        "allowed_groups": list(access.allowed_groups),
        "denied_users": list(access.denied_users),
        "denied_groups": list(access.denied_groups),
    }


def document_shape(document: document_pb.Document) -> Shape:
    """Describe a document.

    Args:
        document: The document.

    Returns:
        Its shape.
    """
    return {
        "name": document.name,
        "id": identifier_of(document.name),
        "display_name": document.display_name,
        "title": document.title,
        "source_uri": document.source_uri,
        "metadata": dict(document.metadata),
        "access": access_shape(document.access) if document.HasField("access") else None,
        "published_version": document.published_version or None,
        "latest_version": version_shape(document.latest_version) if document.HasField("latest_version") else None,
        "create_time": time_of(document, "create_time"),
        "update_time": time_of(document, "update_time"),
    }


def run_shape(run: run_pb.Run) -> Shape:
    """Describe a run.

    Args:
        run: The run.

    Returns:
        Its shape.
    """
    return {
        "name": run.name,
        "id": identifier_of(run.name),
        "kind": run_pb.Run.Kind.Name(run.kind).removeprefix("KIND_").lower(),
        "state": run_state(run.state),
        "document_count": run.document_count,
        "succeeded_count": run.succeeded_count,
        "failed_count": run.failed_count,
        "stages": [
            {"stage": stage.stage, "done_count": stage.done_count, "open_count": stage.open_count}
            for stage in run.stages
        ],
        "failed_parts": [
            {
                "version": part.version,
                "display_name": part.display_name,
                "stage": part.stage,
                "error": status_shape(part, "error"),
            }
            for part in run.failed_parts
        ],
        "create_time": time_of(run, "create_time"),
        "end_time": time_of(run, "end_time"),
    }


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
    }


def explanation_shape(explanation: retrieval_pb.Explanation) -> Shape:
    """Describe what a search did.

    Args:
        explanation: The explanation.

    Returns:
        Its shape.
    """
    return {
        "stages": [
            {"stage": stage.stage, "duration_milliseconds": stage.duration_milliseconds} for stage in explanation.stages
        ],
        "query_terms": list(explanation.query_terms),
        "visible_version_count": explanation.visible_version_count,
        "candidates": [
            {
                "record_id": candidate.record_id,
                "scores": scores_shape(candidate.scores),
                "dropped_reason": candidate.dropped_reason or None,
            }
            for candidate in explanation.candidates
        ],
        "notes": list(explanation.notes),
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
        "explanation": explanation_shape(response.explanation) if response.HasField("explanation") else None,
    }


def citation_shape(citation: answer_pb.Citation) -> Shape:
    """Describe a citation.

    Args:
        citation: The citation.

    Returns:
        Its shape.
    """
    return {"marker": citation.marker, **hit_shape(citation.hit)}


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
        "notes": list(summary.notes),
    }


def tenant_shape(tenant: admin_pb.Tenant) -> Shape:
    """Describe a tenant.

    Args:
        tenant: The tenant.

    Returns:
        Its shape.
    """
    return {
        "name": tenant.name,
        "id": identifier_of(tenant.name),
        "display_name": tenant.display_name,
        "create_time": time_of(tenant, "create_time"),
    }


def user_shape(user: admin_pb.User) -> Shape:
    """Describe a user.

    Args:
        user: The user.

    Returns:
        Its shape.
    """
    return {
        "name": user.name,
        "id": identifier_of(user.name),
        "display_name": user.display_name,
        "role": role_name(user.role),
        "groups": list(user.groups),
        "disabled": user.disabled,
        "create_time": time_of(user, "create_time"),
    }


def api_key_shape(key: admin_pb.ApiKey) -> Shape:
    """Describe an API key without its secret.

    Args:
        key: The key.

    Returns:
        Its shape.
    """
    return {
        "name": key.name,
        "id": identifier_of(key.name),
        "scope": scope_name(key.scope),
        "create_time": time_of(key, "create_time"),
        "expire_time": time_of(key, "expire_time"),
        "revoke_time": time_of(key, "revoke_time"),
    }


def caller_shape(caller: admin_pb.GetCallerResponse) -> Shape:
    """Describe who the caller is.

    Args:
        caller: The caller.

    Returns:
        Its shape.
    """
    return {
        "tenant": caller.tenant,
        "user": caller.user,
        "role": role_name(caller.role),
        "scope": scope_name(caller.scope),
        "groups": list(caller.groups),
    }
