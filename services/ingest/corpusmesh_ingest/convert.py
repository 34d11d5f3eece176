"""Wire messages to values and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from google.rpc.status_pb2 import Status

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh_core.enrichment import MetadataSchema
from corpusmesh_core.errors import DocumentError, FailedPreconditionError, InvalidArgumentError
from corpusmesh_core.tenancy import (
    AclEntry,
    DocumentRow,
    MetadataValue,
    VersionRow,
    VersionState,
)
from corpusmesh_ingest.own_settings import put_own_settings
from corpusmesh_runtime.status import to_status
from corpusmesh_runtime.timestamps import timestamp

_MAX_METADATA_KEYS = 64
_MAX_METADATA_CHARACTERS = 4096
_MAX_NAME_CHARACTERS = 1024
_MAX_ACL_ENTRIES = 1000
_WIRE_VERSION_STATES = {
    VersionState.READY: document_pb.Version.STATE_READY,
    VersionState.FAILED: document_pb.Version.STATE_FAILED,
    VersionState.CANCELLED: document_pb.Version.STATE_CANCELLED,
    VersionState.PURGED: document_pb.Version.STATE_PURGED,
}


def document_to_wire(row: DocumentRow, acl: Sequence[AclEntry] | None) -> document_pb.Document:
    """Write a document.

    Args:
        row: The row.
        acl: Its access list; None where the caller may not see it.

    Returns:
        The resource.
    """
    name = f"knowledgeBases/{row.knowledge_base_id}/documents/{row.document_id}"
    return document_pb.Document(
        name=name,
        display_name=row.display_name,
        title=row.title,
        source_uri=row.source_uri,
        metadata={key: metadata_text(value) for key, value in row.metadata.items()},
        access=acl_to_wire(acl) if acl is not None else None,
        published_version=f"{name}/versions/{row.published_version}" if row.published_version else "",
        latest_version=(
            version_to_wire(row.latest, published=row.latest.version == row.published_version) if row.latest else None
        ),
        create_time=timestamp(row.create_time),
        update_time=timestamp(row.update_time),
    )


def version_name(row: VersionRow) -> str:
    """Name a version."""
    return f"knowledgeBases/{row.knowledge_base_id}/documents/{row.document_id}/versions/{row.version}"


def version_to_wire(row: VersionRow, *, published: bool) -> document_pb.Version:
    """Write a version.

    Args:
        row: The row.
        published: Whether the current snapshot holds it.

    Returns:
        The resource.
    """
    version = document_pb.Version(
        name=version_name(row),
        state=_WIRE_VERSION_STATES.get(row.state, document_pb.Version.STATE_PROCESSING),
        published=published,
        media_type=row.media_type,
        size_bytes=row.size_bytes,
        sha256=row.original_sha256,
        page_count=row.page_count,
        chunk_count=row.chunk_count,
        token_count=row.token_count,
        error=part_status(row.error_reason, row.error_message) if row.state is VersionState.FAILED else None,
        warnings=row.warnings,
        run=f"knowledgeBases/{row.knowledge_base_id}/runs/{row.run_id}" if row.run_id else "",
        create_time=timestamp(row.create_time),
    )
    put_own_settings(version, row.config)
    return version


def part_status(reason: str, message: str) -> Status:
    """Write why a part failed.

    Args:
        reason: UPPER_SNAKE reason.
        message: One sentence.

    Returns:
        The status.
    """
    return to_status(DocumentError(reason or "PART_FAILED", message or "the document could not be made searchable"))


def run_status(reason: str, message: str) -> Status:
    """Write why a run as a whole failed.

    Args:
        reason: UPPER_SNAKE reason.
        message: One sentence.

    Returns:
        The status.
    """
    return to_status(FailedPreconditionError(reason, message))


def metadata_text(value: MetadataValue) -> str:
    """Write a metadata value as text."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def metadata_values(
    metadata: Mapping[str, str], *, field: str, schema: MetadataSchema | None = None
) -> dict[str, MetadataValue]:
    """Read and check metadata.

    Args:
        metadata: Keys and values.
        field: The request's field, for the message.
        schema: Types of some of the keys; None for none.

    Returns:
        Values of the schema's keys in the one form of their type, others as text; the store also keeps their number or
        moment where they read as one.

    Raises:
        InvalidArgumentError: METADATA_TOO_LARGE if there are too many keys or one is too long; METADATA_VALUE_INVALID
            if a value is not of the schema's type.
    """
    if len(metadata) > _MAX_METADATA_KEYS:
        raise InvalidArgumentError(
            "METADATA_TOO_LARGE", f"a document takes at most {_MAX_METADATA_KEYS} metadata keys", field=field
        )
    for key, value in metadata.items():
        if not key or len(key) > 128 or len(value) > _MAX_METADATA_CHARACTERS:
            raise InvalidArgumentError(
                "METADATA_TOO_LARGE",
                f"a metadata key takes 1 to 128 characters and its value at most {_MAX_METADATA_CHARACTERS}",
                field=field,
            )
    values: dict[str, MetadataValue] = dict(metadata)
    for entry in schema.fields if schema is not None else ():
        if entry.name in metadata:
            normalized = entry.normalize(metadata[entry.name])
            if normalized is None:
                raise InvalidArgumentError(
                    "METADATA_VALUE_INVALID",
                    f"the value of {entry.name} is no {entry.type} that the knowledge base's metadata schema allows",
                    field=f"{field}.{entry.name}",
                    key=entry.name,
                    type=entry.type,
                )
            values[entry.name] = normalized
    return values


def display_name_of(name: str, *, field: str) -> str:
    """Check a file name, which is data and never a path.

    Args:
        name: The name.
        field: The request's field, for the message.

    Returns:
        The name without control characters.

    Raises:
        InvalidArgumentError: If nothing is left of it or it is too long.
    """
    cleaned = "".join(character for character in name if character.isprintable()).strip()
    if not cleaned or len(name) > _MAX_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "DISPLAY_NAME_INVALID", f"a document needs a name of 1 to {_MAX_NAME_CHARACTERS} characters", field=field
        )
    return cleaned


def name_prefix_of(prefix: str) -> str:
    """Check the beginning of display names.

    Args:
        prefix: The beginning; "" for all names.

    Returns:
        The same.

    Raises:
        InvalidArgumentError: DISPLAY_NAME_INVALID if it is longer than a name.
    """
    if len(prefix) > _MAX_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "DISPLAY_NAME_INVALID",
            f"a display name has at most {_MAX_NAME_CHARACTERS} characters",
            field="display_name_prefix",
        )
    return prefix


def acl_of(access: document_pb.DocumentAccess) -> tuple[AclEntry, ...]:
    """Read an access list.

    Args:
        access: Wire list.

    Returns:
        Its entries.

    Raises:
        InvalidArgumentError: If it is too long or a user has another shape than `users/{user}`.
    """
    entries: list[AclEntry] = []
    for effect, users, groups in (
        ("allow", access.allowed_users, access.allowed_groups),
        ("deny", access.denied_users, access.denied_groups),
    ):
        for user in users:
            if not user.startswith("users/") or not user.removeprefix("users/"):
                raise InvalidArgumentError("USER_NAME_INVALID", "a user is named users/<id>", field="access")
            entries.append(AclEntry("user", user.removeprefix("users/"), effect))
        entries.extend(AclEntry("group", group, effect) for group in groups)
    if len(entries) > _MAX_ACL_ENTRIES:
        raise InvalidArgumentError(
            "ACCESS_LIST_TOO_LONG",
            f"an access list takes at most {_MAX_ACL_ENTRIES} entries; use groups",
            field="access",
        )
    return tuple(dict.fromkeys(entries))


def acl_to_wire(entries: Sequence[AclEntry]) -> document_pb.DocumentAccess:
    """Write an access list."""

    def pick(kind: str, effect: str) -> list[str]:
        prefix = "users/" if kind == "user" else ""
        return [
            prefix + entry.principal_id for entry in entries if entry.principal_kind == kind and entry.effect == effect
        ]

    return document_pb.DocumentAccess(
        allowed_users=pick("user", "allow"),
        allowed_groups=pick("group", "allow"),
        denied_users=pick("user", "deny"),
        denied_groups=pick("group", "deny"),
    )


def run_name(knowledge_base_id: str, run_id: str) -> str:
    """Name a run."""
    return f"knowledgeBases/{knowledge_base_id}/runs/{run_id}"
