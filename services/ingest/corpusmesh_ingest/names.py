"""Resource names below a knowledge base."""

import re
from dataclasses import dataclass

from corpusmesh_core.errors import InvalidArgumentError

_BASE = r"knowledgeBases/(?P<base>[a-z0-9-]{1,63})"
_DOCUMENT = rf"{_BASE}/documents/(?P<id>[a-z0-9-]{{1,63}})"
_VERSION = rf"{_DOCUMENT}/versions/(?P<version>[1-9][0-9]{{0,8}})"
_PATTERNS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "knowledge base": _BASE,
        "document": _DOCUMENT,
        "version": _VERSION,
        "chunk": rf"{_VERSION}/chunks/(?P<part>[pt]?[0-9]{{1,9}})",
        "picture": rf"{_VERSION}/pictures/(?P<part>[a-z0-9-]{{1,40}})",
        "chunk edit": rf"{_DOCUMENT}/chunkEdits/(?P<part>[0-9a-f]{{8}}-[0-9a-f]{{4}})",
        "snapshot": rf"{_BASE}/snapshots/(?P<id>[1-9][0-9]{{0,8}})",
        "run": rf"{_BASE}/runs/(?P<id>[A-Za-z0-9_-]{{1,128}})",
        "source": rf"{_BASE}/sources/(?P<id>[a-z0-9-]{{1,63}})",
    }.items()
}
_SHAPES = {
    "knowledge base": "knowledgeBases/<id>",
    "document": "knowledgeBases/<id>/documents/<id>",
    "version": "knowledgeBases/<id>/documents/<id>/versions/<number>",
    "chunk": "knowledgeBases/<id>/documents/<id>/versions/<number>/chunks/<id>",
    "picture": "knowledgeBases/<id>/documents/<id>/versions/<number>/pictures/<id>",
    "chunk edit": "knowledgeBases/<id>/documents/<id>/chunkEdits/<id>",
    "snapshot": "knowledgeBases/<id>/snapshots/<number>",
    "run": "knowledgeBases/<id>/runs/<id>",
    "source": "knowledgeBases/<id>/sources/<id>",
}


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A parsed name.

    Attributes:
        knowledge_base_id: Its knowledge base.
        identifier: The document, run or snapshot; "" for a knowledge base.
        version: Version number; 0 where the name has none.
        part: The chunk, picture or edit; "" where the name has none.
    """

    knowledge_base_id: str
    identifier: str = ""
    version: int = 0
    part: str = ""


def parse_name(kind: str, name: str, *, field: str = "name") -> ResourceName:
    """Parse a resource name.

    Args:
        kind: One of "knowledge base", "document", "version", "chunk", "picture", "chunk edit", "snapshot", "run",
            "source".
        name: The name.
        field: The request's field, for the message.

    Returns:
        Its parts.

    Raises:
        InvalidArgumentError: If the name has another shape.
    """
    match = _PATTERNS[kind].fullmatch(name)
    if match is None:
        raise InvalidArgumentError(
            "RESOURCE_NAME_INVALID", f"{field} must name a {kind}: {_SHAPES[kind]}", field=field, shape=_SHAPES[kind]
        )
    groups = match.groupdict()
    return ResourceName(
        knowledge_base_id=groups["base"],
        identifier=groups.get("id", ""),
        version=int(groups.get("version", 0)),
        part=groups.get("part", ""),
    )
