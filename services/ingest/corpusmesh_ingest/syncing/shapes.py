"""Sources on the wire and as values."""

from collections.abc import Sequence
from dataclasses import replace

from corpusmesh.ingest.v1 import source_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.sources import ItemRow, SourceRecord, SourceSpec, SourceState
from corpusmesh_core.sources import (
    AccessRule,
    FolderPlace,
    ItemState,
    S3Place,
    SourcePlace,
    WebPlace,
    check_place,
    check_rule,
)
from corpusmesh_core.sources.places import DEFAULT_MAX_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_MAX_PAGES
from corpusmesh_ingest.convert import metadata_values, run_name, run_status
from corpusmesh_runtime.timestamps import timestamp

UPDATABLE = ("display_name", "place", "schedule_seconds", "state", "access", "metadata")
_MAX_NAME_CHARACTERS = 256
_MAX_METADATA_KEYS = 32
_MIN_SCHEDULE_SECONDS = 300
_MAX_SCHEDULE_SECONDS = 31 * 24 * 3600
_STATES = {
    SourceState.ACTIVE: pb.Source.STATE_ACTIVE,
    SourceState.PAUSED: pb.Source.STATE_PAUSED,
    SourceState.DELETING: pb.Source.STATE_DELETING,
}
_ITEM_STATES = {
    ItemState.ACTIVE: pb.SourceItem.STATE_ACTIVE,
    ItemState.FAILED: pb.SourceItem.STATE_FAILED,
    ItemState.REMOVED: pb.SourceItem.STATE_REMOVED,
}


def spec_of(source: pb.Source) -> SourceSpec:
    """Read and check what people say of a new source.

    Args:
        source: Wire source.

    Returns:
        The values.

    Raises:
        InvalidArgumentError: If one is out of its bounds.
    """
    place = place_of(source)
    spec = SourceSpec(
        display_name=source.display_name or _name_of(place),
        place=place,
        schedule_seconds=source.schedule_seconds,
        state=_state_of(source),
        access=_access_of(source.access),
        metadata={key: str(value) for key, value in metadata_values(source.metadata, field="source.metadata").items()},
    )
    _check(spec)
    return spec


def merged_spec(current: SourceSpec, source: pb.Source, paths: Sequence[str]) -> SourceSpec:
    """Put new values in place of a source's old ones.

    Args:
        current: What it is now.
        source: New values.
        paths: Fields to take, out of `UPDATABLE`.

    Returns:
        The values after the change.

    Raises:
        InvalidArgumentError: If one is out of its bounds, or the place is of another kind.
    """
    spec = current
    if "place" in paths:
        place = place_of(source)
        if type(place) is not type(current.place):
            raise InvalidArgumentError(
                "SOURCE_KIND_FIXED", "the kind of a source cannot be changed; create another one", field="source"
            )
        spec = replace(spec, place=place)
    if "display_name" in paths:
        spec = replace(spec, display_name=source.display_name or _name_of(spec.place))
    if "schedule_seconds" in paths:
        spec = replace(spec, schedule_seconds=source.schedule_seconds)
    if "state" in paths:
        spec = replace(spec, state=_state_of(source))
    if "access" in paths:
        spec = replace(spec, access=_access_of(source.access))
    if "metadata" in paths:
        values = metadata_values(source.metadata, field="source.metadata")
        spec = replace(spec, metadata={key: str(value) for key, value in values.items()})
    _check(spec)
    return spec


def changed_paths(request: pb.UpdateSourceRequest) -> list[str]:
    """Tell which fields an update sets.

    Args:
        request: The update.

    Returns:
        Paths out of `UPDATABLE`.

    Raises:
        InvalidArgumentError: If the mask names another one.
    """
    source = request.source
    if not request.HasField("update_mask"):
        is_set = {
            "place": source.WhichOneof("place") is not None,
            "access": source.HasField("access"),
        }
        return [path for path in UPDATABLE if is_set.get(path, bool(path != "place" and getattr(source, path, None)))]
    paths = list(request.update_mask.paths)
    if paths == ["*"]:
        return list(UPDATABLE)
    if unknown := [path for path in paths if path not in UPDATABLE]:
        raise InvalidArgumentError(
            "UPDATE_MASK_INVALID",
            f"update_mask takes {', '.join(UPDATABLE)} or *, not {unknown[0][:64]}",
            field="update_mask",
        )
    return paths


def place_of(source: pb.Source) -> SourcePlace:
    """Read and check what a source reads.

    Args:
        source: Wire source.

    Returns:
        The place.

    Raises:
        InvalidArgumentError: If it names none, or a value is out of its bounds.
    """
    place: SourcePlace
    match source.WhichOneof("place"):
        case "folder":
            folder = source.folder
            path = folder.path.strip("/")
            place = FolderPlace(folder.root, path, tuple(folder.include), tuple(folder.exclude))
        case "s3":
            s3 = source.s3
            place = S3Place(s3.connection, s3.bucket, s3.prefix, tuple(s3.include), tuple(s3.exclude))
        case "web":
            web = source.web
            place = WebPlace(
                url=web.url,
                max_depth=web.max_depth or DEFAULT_MAX_DEPTH,
                max_pages=web.max_pages or DEFAULT_MAX_PAGES,
                max_bytes=web.max_bytes or DEFAULT_MAX_BYTES,
                path_prefix=web.path_prefix or "/",
            )
        case _:
            raise InvalidArgumentError(
                "SOURCE_PLACE_MISSING", "say what the source reads: folder, s3 or web", field="source"
            )
    check_place(place)
    return place


def source_to_wire(row: SourceRecord) -> pb.Source:
    """Write a source.

    Args:
        row: The row.

    Returns:
        The resource.
    """
    spec = row.spec
    source = pb.Source(
        name=source_name(row.knowledge_base_id, row.source_id),
        display_name=spec.display_name,
        schedule_seconds=spec.schedule_seconds,
        state=_STATES[spec.state],
        access=pb.SourceAccess(
            follows_source=spec.access.follows_source,
            principals=spec.access.principals,
            allowed_users=[f"users/{user}" for user in spec.access.allowed_users],
            allowed_groups=spec.access.allowed_groups,
        ),
        metadata=spec.metadata,
        owner=f"users/{row.owner_user_id}",
        item_count=row.item_count,
        failed_item_count=row.failed_item_count,
        last_run=run_name(row.knowledge_base_id, row.last_run_id) if row.last_run_id else "",
        error=run_status(row.error_reason, row.error_message) if row.error_reason else None,
        last_sync_time=timestamp(row.last_sync_time),
        next_sync_time=timestamp(row.next_sync_time) if spec.state is SourceState.ACTIVE else None,
        create_time=timestamp(row.create_time),
        update_time=timestamp(row.update_time),
        etag=row.etag,
    )
    match spec.place:
        case FolderPlace() as folder:
            source.folder.CopyFrom(
                pb.FolderPlace(root=folder.root, path=folder.path, include=folder.include, exclude=folder.exclude)
            )
        case S3Place() as s3:
            source.s3.CopyFrom(
                pb.S3Place(
                    connection=s3.connection, bucket=s3.bucket, prefix=s3.prefix, include=s3.include, exclude=s3.exclude
                )
            )
        case WebPlace() as web:
            source.web.CopyFrom(
                pb.WebPlace(
                    url=web.url,
                    max_depth=web.max_depth,
                    max_pages=web.max_pages,
                    max_bytes=web.max_bytes,
                    path_prefix=web.path_prefix,
                )
            )
    return source


def item_to_wire(knowledge_base_id: str, row: ItemRow) -> pb.SourceItem:
    """Write an item.

    Args:
        knowledge_base_id: Its knowledge base.
        row: The row.

    Returns:
        The item.
    """
    document = f"knowledgeBases/{knowledge_base_id}/documents/{row.document_id}" if row.document_id else ""
    return pb.SourceItem(
        key=row.key,
        display_name=row.display_name,
        document=document,
        state=_ITEM_STATES[row.state],
        error=run_status(row.error_reason, row.error_message) if row.error_reason else None,
        update_time=timestamp(row.update_time),
    )


def source_name(knowledge_base_id: str, source_id: str) -> str:
    """Name a source."""
    return f"knowledgeBases/{knowledge_base_id}/sources/{source_id}"


def _access_of(access: pb.SourceAccess) -> AccessRule:
    users = []
    for user in access.allowed_users:
        if not user.startswith("users/"):
            raise InvalidArgumentError("USER_NAME_INVALID", "a user is named users/<id>", field="source.access")
        users.append(user.removeprefix("users/"))
    return AccessRule(access.follows_source, dict(access.principals), tuple(users), tuple(access.allowed_groups))


def _state_of(source: pb.Source) -> SourceState:
    if source.state == pb.Source.STATE_PAUSED:
        return SourceState.PAUSED
    if source.state in (pb.Source.STATE_UNSPECIFIED, pb.Source.STATE_ACTIVE):
        return SourceState.ACTIVE
    raise InvalidArgumentError("SOURCE_STATE_INVALID", "a source is active or paused", field="source.state")


def _check(spec: SourceSpec) -> None:
    check_rule(spec.access)
    if len(spec.display_name) > _MAX_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "DISPLAY_NAME_TOO_LONG",
            f"a display name takes at most {_MAX_NAME_CHARACTERS} characters",
            field="source.display_name",
        )
    if spec.schedule_seconds and not _MIN_SCHEDULE_SECONDS <= spec.schedule_seconds <= _MAX_SCHEDULE_SECONDS:
        raise InvalidArgumentError(
            "SOURCE_SCHEDULE_INVALID",
            f"a schedule is 0 for none, or {_MIN_SCHEDULE_SECONDS} to {_MAX_SCHEDULE_SECONDS} seconds",
            field="source.schedule_seconds",
        )
    if len(spec.metadata) > _MAX_METADATA_KEYS:
        raise InvalidArgumentError(
            "METADATA_TOO_LARGE",
            f"a source gives at most {_MAX_METADATA_KEYS} metadata keys",
            field="source.metadata",
        )


def _name_of(place: SourcePlace) -> str:
    match place:
        case FolderPlace():
            text = f"{place.root}:/{place.path}"
        case S3Place():
            text = f"s3://{place.bucket}/{place.prefix}"
        case WebPlace():
            text = place.url
    return text[:_MAX_NAME_CHARACTERS]
