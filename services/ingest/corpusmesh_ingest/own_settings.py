"""Settings that a document has of its own, in place of its knowledge base's."""

from collections.abc import Mapping

from google.protobuf.message import Message

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import SECTIONS, settings_from_plain, settings_to_plain
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_core.tenancy import Access, Identity
from corpusmesh_ingest.configuration import checked_config, enrichment_of, section_of

_OWN = ("chunk_settings", "parse_settings", "enrichment_settings")


async def own_config_of(
    request: Message, knowledge_bases: KnowledgeBaseStore, identity: Identity, *, embedder_max_tokens: int
) -> dict[str, object]:
    """Read and check the settings of a request.

    Args:
        request: A message with some of the fields `chunk_settings`, `parse_settings`, `enrichment_settings`.
        knowledge_bases: Tells whether the caller may read tag sets.
        identity: Caller.
        embedder_max_tokens: Tokens that the embedder reads of one text.

    Returns:
        The sections that are set; one that says no more than the defaults is there and empty.

    Raises:
        InvalidArgumentError: If a setting is unknown or out of range, or a tag set is none that the caller may read.
    """
    message = pb.KnowledgeBase()
    given = frozenset(path for path in _OWN if _has(request, path))
    for path in given:
        getattr(message, path).CopyFrom(getattr(request, path))
    plain = settings_to_plain(message)
    asked = {section: plain.get(section, {}) for section, path in SECTIONS.items() if path in given}
    try:
        config = checked_config(asked, embedder_max_tokens=embedder_max_tokens, field="")
    except InvalidArgumentError as error:
        error.field = (error.field or "").lstrip(".")
        raise
    await _check_tag_sets(config, knowledge_bases, identity)
    return config


async def _check_tag_sets(
    config: Mapping[str, object], knowledge_bases: KnowledgeBaseStore, identity: Identity
) -> None:
    names = enrichment_of(config).tags.tag_sets
    if not names:
        return
    try:
        await knowledge_bases.check(identity, names, Access.READ)
    except NotFoundError as error:
        raise InvalidArgumentError(
            "TAG_SET_UNKNOWN",
            f"{error.message}; a tag set is a knowledge base that you may read",
            field="enrichment_settings.tags.tag_sets",
            knowledge_base=error.metadata.get("knowledge_base", ""),
        ) from error


def put_own_settings(version: document_pb.Version, config: Mapping[str, object]) -> None:
    """Show what a version has of its own.

    Args:
        version: The message to set it in.
        config: The version's own configuration.
    """
    message = settings_from_plain({name: section_of(config, name) for name in SECTIONS if name in config})
    for path in _OWN:
        if message.HasField(path):  # type: ignore[arg-type]
            getattr(version, path).CopyFrom(getattr(message, path))


def _has(request: Message, path: str) -> bool:
    return path in request.DESCRIPTOR.fields_by_name and request.HasField(path)
