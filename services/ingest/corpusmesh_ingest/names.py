"""Resource names below a knowledge base."""

import re
from dataclasses import dataclass

from corpusmesh_core.errors import InvalidArgumentError

_IDENTIFIER = r"[a-z0-9-]{1,63}"
_PATTERNS = {
    "knowledge base": re.compile(rf"knowledgeBases/({_IDENTIFIER})"),
    "document": re.compile(rf"knowledgeBases/({_IDENTIFIER})/documents/({_IDENTIFIER})"),
    "version": re.compile(rf"knowledgeBases/({_IDENTIFIER})/documents/({_IDENTIFIER})/versions/([1-9][0-9]{{0,8}})"),
    "snapshot": re.compile(rf"knowledgeBases/({_IDENTIFIER})/snapshots/([1-9][0-9]{{0,8}})"),
    "run": re.compile(rf"knowledgeBases/({_IDENTIFIER})/runs/([A-Za-z0-9_-]{{1,128}})"),
}
_SHAPES = {
    "knowledge base": "knowledgeBases/<id>",
    "document": "knowledgeBases/<id>/documents/<id>",
    "version": "knowledgeBases/<id>/documents/<id>/versions/<number>",
    "snapshot": "knowledgeBases/<id>/snapshots/<number>",
    "run": "knowledgeBases/<id>/runs/<id>",
}


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A parsed name.

    Attributes:
        knowledge_base_id: Its knowledge base.
        identifier: The document, run or snapshot; "" for a knowledge base.
        version: Version number; 0 where the name has none.
    """

    knowledge_base_id: str
    identifier: str = ""
    version: int = 0


def parse_name(kind: str, name: str, *, field: str = "name") -> ResourceName:
    """Parse a resource name.

    Args:
        kind: One of "knowledge base", "document", "version", "snapshot", "run".
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
    parts = match.groups()
    return ResourceName(
        knowledge_base_id=parts[0],
        identifier=parts[1] if len(parts) > 1 else "",
        version=int(parts[2]) if len(parts) > 2 else 0,
    )
