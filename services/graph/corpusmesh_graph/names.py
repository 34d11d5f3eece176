"""Resource names of graphs and what is in them."""

import re
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.graphs.keys import MAX_NAME_CHARACTERS, entity_key, key_text

_ID = r"[a-z0-9-]{1,63}"
_KEY = r"[0-9a-f]{16}"
_BASE = rf"knowledgeBases/(?P<base>{_ID})"
_GRAPH: Final = re.compile(rf"{_BASE}/graph")
_ENTITY: Final = re.compile(rf"{_BASE}/graph/entities/(?P<key>{_KEY}|-)")
_RELATION: Final = re.compile(rf"{_BASE}/graph/relations/(?P<source>{_KEY})-(?P<target>{_KEY})")
_COMMUNITY: Final = re.compile(rf"{_BASE}/graph/communities/(?P<key>{_KEY})")
_CORRECTION: Final = re.compile(rf"{_BASE}/graph/corrections/(?P<id>{_ID})")
_DOCUMENT: Final = re.compile(rf"{_BASE}/documents/(?P<document>{_ID})")
_TRIPLES: Final = re.compile(rf"{_BASE}/documents/(?P<document>{_ID})/triples")
_BY_TITLE: Final = "-"


@dataclass(frozen=True, slots=True)
class Named:
    """Something of a knowledge base.

    Attributes:
        knowledge_base_id: The knowledge base.
        key: Its own id.
    """

    knowledge_base_id: str
    key: str


def graph_name(knowledge_base_id: str) -> str:
    """Name the graph of a knowledge base.

    Args:
        knowledge_base_id: The knowledge base.

    Returns:
        `knowledgeBases/*/graph`.
    """
    return f"knowledgeBases/{knowledge_base_id}/graph"


def entity_name(knowledge_base_id: str, key: int) -> str:
    """Name an entity.

    Args:
        knowledge_base_id: The knowledge base.
        key: Its key.

    Returns:
        `knowledgeBases/*/graph/entities/*`.
    """
    return f"{graph_name(knowledge_base_id)}/entities/{key_text(key)}"


def relation_name(knowledge_base_id: str, source: int, target: int) -> str:
    """Name a relation.

    Args:
        knowledge_base_id: The knowledge base.
        source: Key of one entity.
        target: Key of the other.

    Returns:
        `knowledgeBases/*/graph/relations/*`.
    """
    return f"{graph_name(knowledge_base_id)}/relations/{key_text(source)}-{key_text(target)}"


def community_name(knowledge_base_id: str, key: str) -> str:
    """Name a community.

    Args:
        knowledge_base_id: The knowledge base.
        key: Its key.

    Returns:
        `knowledgeBases/*/graph/communities/*`; "" for no key.
    """
    return f"{graph_name(knowledge_base_id)}/communities/{key}" if key else ""


def correction_name(knowledge_base_id: str, correction_id: str) -> str:
    """Name a correction.

    Args:
        knowledge_base_id: The knowledge base.
        correction_id: Its id.

    Returns:
        `knowledgeBases/*/graph/corrections/*`.
    """
    return f"{graph_name(knowledge_base_id)}/corrections/{correction_id}"


def document_name(knowledge_base_id: str, document_id: str) -> str:
    """Name a document.

    Args:
        knowledge_base_id: The knowledge base.
        document_id: Its id.

    Returns:
        `knowledgeBases/*/documents/*`.
    """
    return f"knowledgeBases/{knowledge_base_id}/documents/{document_id}"


def graph_of(name: str, *, field: str = "name") -> str:
    """Read the name of a graph.

    Args:
        name: The name.
        field: The request's field, for the message.

    Returns:
        Its knowledge base.
    """
    match = _match(_GRAPH, name, field, "the graph of a knowledge base", "knowledgeBases/<id>/graph")
    return match["base"]


def entity_of(name: str, title: str) -> tuple[str, int]:
    """Read the name of an entity.

    Args:
        name: The name; with `-` in place of the key, `title` tells which one.
        title: Name as it is written; "" where there is a key.

    Returns:
        Its knowledge base, and its key; 0 for a title of which no name is left.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID or GRAPH_TITLE_INVALID.
    """
    match = _match(
        _ENTITY, name, "name", "an entity", "knowledgeBases/<id>/graph/entities/<16 hexadecimal digits or ->"
    )
    is_by_title = match["key"] == _BY_TITLE
    if is_by_title != bool(title) or len(title) > MAX_NAME_CHARACTERS:
        raise InvalidArgumentError(
            "GRAPH_TITLE_INVALID",
            f"title names an entity as it is written, in at most {MAX_NAME_CHARACTERS} characters, where name ends in"
            " /entities/-, and is empty otherwise",
            field="title",
        )
    return match["base"], entity_key(title) if is_by_title else int(match["key"], 16)


def entity_key_of(name: str, knowledge_base_id: str, *, field: str) -> int:
    """Read how an entity of a known graph is named: by resource name, by key, or as it is written.

    Args:
        name: One of the three.
        knowledge_base_id: Knowledge base of the graph.
        field: The request's field, for the message.

    Returns:
        Its key.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if nothing is named, or an entity of another graph.
    """
    match = _ENTITY.fullmatch(name)
    if match is not None and match["base"] == knowledge_base_id and match["key"] != _BY_TITLE:
        return int(match["key"], 16)
    if re.fullmatch(_KEY, name):
        return int(name, 16)
    # A name that is written like a resource name of something else was meant as one.
    key = 0 if name.startswith("knowledgeBases/") or len(name) > MAX_NAME_CHARACTERS else entity_key(name)
    if not key:
        shape = "knowledgeBases/<id>/graph/entities/<key>, a key, or a name as it is written"
        raise _invalid(field, "an entity of that graph", shape)
    return key


def relation_of(name: str) -> tuple[str, int, int]:
    """Read the name of a relation.

    Args:
        name: The name.

    Returns:
        Its knowledge base, and the keys of its ends.
    """
    match = _match(_RELATION, name, "name", "a relation", "knowledgeBases/<id>/graph/relations/<key>-<key>")
    return match["base"], int(match["source"], 16), int(match["target"], 16)


def community_of(name: str) -> Named:
    """Read the name of a community.

    Args:
        name: The name.

    Returns:
        Its parts.
    """
    match = _match(_COMMUNITY, name, "name", "a community", "knowledgeBases/<id>/graph/communities/<key>")
    return Named(match["base"], match["key"])


def correction_of(name: str) -> Named:
    """Read the name of a correction.

    Args:
        name: The name.

    Returns:
        Its parts.
    """
    match = _match(_CORRECTION, name, "name", "a correction", "knowledgeBases/<id>/graph/corrections/<id>")
    return Named(match["base"], match["id"])


def document_of(name: str, knowledge_base_id: str, *, field: str) -> str:
    """Read the name of a document of a knowledge base.

    Args:
        name: The name.
        knowledge_base_id: The knowledge base that it must be in.
        field: The request's field, for the message.

    Returns:
        Its id.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape or is in another knowledge base.
    """
    match = _DOCUMENT.fullmatch(name)
    if match is None or match["base"] != knowledge_base_id:
        raise _invalid(field, "a document of that knowledge base", "knowledgeBases/<id>/documents/<id>")
    return match["document"]


def triples_of(name: str) -> Named:
    """Read the name of the triples of a document.

    Args:
        name: The name.

    Returns:
        Knowledge base and document.
    """
    shape = "knowledgeBases/<id>/documents/<id>/triples"
    match = _match(_TRIPLES, name, "name", "the triples of a document", shape)
    return Named(match["base"], match["document"])


def entity_not_found() -> NotFoundError:
    """Make the one error for entities that are unknown, gone or hidden."""
    return NotFoundError("GRAPH_ENTITY_NOT_FOUND", "there is no such entity, or you may not see it; list those you may")


def relation_not_found() -> NotFoundError:
    """Make the one error for relations that are unknown, gone or hidden."""
    return NotFoundError("GRAPH_RELATION_NOT_FOUND", "there is no such relation, or you may not see it")


def community_not_found() -> NotFoundError:
    """Make the one error for communities that are unknown, gone or hidden."""
    return NotFoundError("GRAPH_COMMUNITY_NOT_FOUND", "there is no such community, or you may not see it")


def _match(pattern: re.Pattern[str], name: str, field: str, what: str, shape: str) -> re.Match[str]:
    match = pattern.fullmatch(name)
    if match is None:
        raise _invalid(field, what, shape)
    return match


def _invalid(field: str, what: str, shape: str) -> InvalidArgumentError:
    return InvalidArgumentError("RESOURCE_NAME_INVALID", f"{field} must name {what}: {shape}", field=field, shape=shape)
