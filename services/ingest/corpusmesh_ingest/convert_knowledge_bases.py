"""Messages of knowledge bases to values and back."""

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import SECTIONS, settings_from_plain, settings_to_plain
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy import KnowledgeBase, Permission
from corpusmesh_ingest.configuration import (
    ENRICHMENT,
    at_field,
    checked_config,
    chunking_of,
    section_of,
    without_defaults,
)
from corpusmesh_ingest.names import parse_name
from corpusmesh_runtime.timestamps import timestamp

_FIELD = "knowledge_base"
_PERMISSIONS = {
    pb.PERMISSION_UNSPECIFIED: Permission.PRIVATE,
    pb.PERMISSION_PRIVATE: Permission.PRIVATE,
    pb.PERMISSION_TEAM: Permission.TEAM,
}
_WIRE_PERMISSIONS = {
    Permission.PRIVATE: pb.PERMISSION_PRIVATE,
    Permission.TEAM: pb.PERMISSION_TEAM,
}


def permission_of(value: "pb.Permission.ValueType") -> Permission:
    """Read a permission.

    Args:
        value: Wire value.

    Returns:
        The permission; private where it is not set.

    Raises:
        InvalidArgumentError: If this release does not know the value.
    """
    if value not in _PERMISSIONS:
        raise InvalidArgumentError(
            "PERMISSION_UNKNOWN", "permission must be private or team", field="knowledge_base.permission"
        )
    return _PERMISSIONS[value]


def config_of(wanted: pb.KnowledgeBase, *, embedder_max_tokens: int) -> dict[str, object]:
    """Read and check the configuration of a new knowledge base.

    Args:
        wanted: The message.
        embedder_max_tokens: Tokens that the embedder reads of one text.

    Returns:
        The configuration.

    Raises:
        InvalidArgumentError: If a setting is unknown or out of range; the field is named.
    """
    return changed_config({}, wanted, frozenset(SECTIONS.values()), embedder_max_tokens=embedder_max_tokens)


def changed_config(
    current: dict[str, object], wanted: pb.KnowledgeBase, paths: frozenset[str], *, embedder_max_tokens: int
) -> dict[str, object]:
    """Put the settings that a request changes in place of a knowledge base's own.

    Args:
        current: Its configuration.
        wanted: The message.
        paths: Fields that the request changes; a field that is not set returns to its defaults.
        embedder_max_tokens: Tokens that the embedder reads of one text.

    Returns:
        The new configuration.

    Raises:
        InvalidArgumentError: If a setting is unknown or out of range; the field is named.
    """
    with at_field(_FIELD):
        plain = settings_to_plain(wanted)
    asked = {section: plain.get(section, {}) for section, path in SECTIONS.items() if path in paths}
    for values in section_of(asked, ENRICHMENT).values():
        for name in values.get("tag_sets", ()):
            parse_name("knowledge base", f"knowledgeBases/{name}", field=f"{_FIELD}.enrichment_settings.tags.tag_sets")
    checked = checked_config(asked, embedder_max_tokens=embedder_max_tokens, field=_FIELD)
    return without_defaults({**current, **checked})


def knowledge_base_to_wire(row: KnowledgeBase) -> pb.KnowledgeBase:
    """Write a knowledge base.

    Args:
        row: The row, with counts.

    Returns:
        The resource.
    """
    name = f"knowledgeBases/{row.knowledge_base_id}"
    message = settings_from_plain({name: section_of(row.config, name) for name in SECTIONS if name in row.config})
    template, _ = chunking_of(row.config)
    message.chunk_settings.template = template
    message.MergeFrom(
        pb.KnowledgeBase(
            name=name,
            display_name=row.display_name,
            description=row.description,
            permission=_WIRE_PERMISSIONS[row.permission],
            space=row.space_id,
            owner=f"users/{row.owner_user_id}",
            current_snapshot=f"{name}/snapshots/{row.current_snapshot_id}" if row.current_snapshot_id else "",
            document_count=max(0, row.document_count),
            chunk_count=max(0, row.chunk_count),
            create_time=timestamp(row.create_time),
            update_time=timestamp(row.update_time),
            etag=row.etag,
        )
    )
    return message
