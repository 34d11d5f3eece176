"""The JSON shapes of knowledge bases, documents and runs; documented in `docs/guide/cli.md`.

They are stable: keys are added, never renamed or removed.
"""

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh_app.cli.failures import error_shape
from corpusmesh_client import error_from_status
from corpusmesh_client.knowledge_base_settings import settings_to_plain
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
        "settings": settings_to_plain(entry),
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
        "error": status_shape(run, "error"),
        "create_time": time_of(run, "create_time"),
        "end_time": time_of(run, "end_time"),
    }
