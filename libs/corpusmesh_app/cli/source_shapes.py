"""Sources and their syncs in JSON."""

from google.protobuf.json_format import MessageToDict

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.ingest.v1 import source_service_pb2 as pb
from corpusmesh_app.cli.shapes import Shape, status_shape, time_of
from corpusmesh_client.names import identifier_of


def source_shape(source: pb.Source) -> Shape:
    """Describe a source.

    Args:
        source: The source.

    Returns:
        Its shape.
    """
    kind = source.WhichOneof("place") or ""
    place = MessageToDict(getattr(source, kind), preserving_proto_field_name=True) if kind else {}
    return {
        "name": source.name,
        "id": identifier_of(source.name),
        "display_name": source.display_name,
        "kind": kind,
        "place": place,
        "state": pb.Source.State.Name(source.state).removeprefix("STATE_").lower(),
        "schedule_seconds": source.schedule_seconds,
        "access": MessageToDict(source.access, preserving_proto_field_name=True),
        "metadata": dict(source.metadata),
        "owner": source.owner,
        "item_count": source.item_count,
        "failed_item_count": source.failed_item_count,
        "last_run": source.last_run or None,
        "error": status_shape(source, "error"),
        "last_sync_time": time_of(source, "last_sync_time"),
        "next_sync_time": time_of(source, "next_sync_time"),
        "create_time": time_of(source, "create_time"),
        "update_time": time_of(source, "update_time"),
    }


def item_shape(item: pb.SourceItem) -> Shape:
    """Describe an item of a source.

    Args:
        item: The item.

    Returns:
        Its shape.
    """
    return {
        "key": item.key,
        "display_name": item.display_name,
        "document": item.document or None,
        "state": pb.SourceItem.State.Name(item.state).removeprefix("STATE_").lower(),
        "error": status_shape(item, "error"),
        "update_time": time_of(item, "update_time"),
    }


def sync_shape(run: run_pb.Run) -> Shape:
    """Describe what a sync has done.

    Args:
        run: Its run.

    Returns:
        Its shape.
    """
    sync = run.sync
    return {
        "run": run.name,
        "state": run_pb.Run.State.Name(run.state).removeprefix("STATE_").lower(),
        "error": status_shape(run, "error"),
        "source": sync.source,
        "listed_count": sync.listed_count,
        "added_count": sync.added_count,
        "changed_count": sync.changed_count,
        "access_changed_count": sync.access_changed_count,
        "unchanged_count": sync.unchanged_count,
        "removed_count": sync.removed_count,
        "failed_count": sync.failed_count,
        "runs": list(sync.runs),
    }
