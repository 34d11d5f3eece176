"""URIs of what can be read: a page or a chunk of a version, and a knowledge base."""

import re
from dataclasses import dataclass
from typing import Final

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError

SCHEME: Final = "corpusmesh:///"
PAGE_TEMPLATE: Final = SCHEME + "knowledgeBases/{knowledgeBase}/documents/{document}/versions/{version}/pages/{page}"
CHUNK_TEMPLATE: Final = SCHEME + "knowledgeBases/{knowledgeBase}/documents/{document}/versions/{version}/chunks/{chunk}"
_BASE = r"knowledgeBases/[a-z0-9-]{1,63}"
_PLACE = re.compile(
    rf"(?:{SCHEME})?(?P<version>{_BASE}/documents/[a-z0-9-]{{1,63}}/versions/[1-9][0-9]{{0,8}})"
    r"(?:/pages/(?P<page>[1-9][0-9]{0,5})|/chunks/(?P<position>[0-9]{1,6}))?"
)
_KNOWLEDGE_BASE = re.compile(rf"{SCHEME}({_BASE})")

_SUBJECT = re.compile(rf"(?:{SCHEME})?(?P<base>{_BASE})(?:(?P<document>/documents/[a-z0-9-]{{1,63}})(?:/.*)?)?")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a document.

    Attributes:
        version: `knowledgeBases/*/documents/*/versions/*`.
        page: Page from 1; 0 where a chunk is meant.
        position: Place of the chunk among the chunks of its version, from 0.
    """

    version: str
    page: int = 0
    position: int = 0


def place_of(uri: str) -> Place:
    """Read a place.

    Args:
        uri: URI of a page or chunk, or the name of a version.

    Returns:
        The place.

    Raises:
        InvalidArgumentError: If it has another shape.
    """
    match = _PLACE.fullmatch(uri)
    if match is None:
        raise InvalidArgumentError(
            "RESOURCE_URI_INVALID", f"a URI here looks like {PAGE_TEMPLATE}; take it from a result", field="uri"
        )
    return Place(match["version"], int(match["page"] or 0), int(match["position"] or 0))


def tree_name_of(name: str) -> str:
    """Name the tree over what is named.

    Args:
        name: Name or URI of a knowledge base, a document, or something in a document.

    Returns:
        The tree of the document, or of the knowledge base.

    Raises:
        InvalidArgumentError: If it has another shape.
    """
    match = _SUBJECT.fullmatch(name)
    if match is None:
        raise InvalidArgumentError(
            "RESOURCE_NAME_INVALID",
            "name a document, knowledgeBases/…/documents/…, or a knowledge base, knowledgeBases/…",
            field="name",
        )
    return f"{match['base']}{match['document']}/tree" if match["document"] else f"{match['base']}/trees/dataset"


def graph_name_of(knowledge_base: str) -> str:
    """Name the graph of a knowledge base.

    Args:
        knowledge_base: Its name, or its identifier alone.

    Returns:
        `knowledgeBases/*/graph`.
    """
    return f"knowledgeBases/{knowledge_base.removeprefix('knowledgeBases/')}/graph"


def knowledge_base_of_uri(uri: str) -> str:
    """Read the URI of a knowledge base.

    Args:
        uri: `corpusmesh:///knowledgeBases/{id}`.

    Returns:
        Its name; "" where the URI is none of a knowledge base.
    """
    match = _KNOWLEDGE_BASE.fullmatch(uri)
    return match.group(1) if match is not None else ""


def uri_of(hit: retrieval_pb.SearchHit) -> str:
    """Give the URI that opens what a hit stands on.

    Args:
        hit: The hit.

    Returns:
        That of its page where it has one, else of its chunk; of the first passage that a summary stands on; the address
        of a page of the web; "" for none of them.
    """
    if hit.layer:
        return uri_of_leaf(hit.leaves[0]) if hit.leaves else ""
    if hit.url or not hit.place.version:
        return hit.url
    if hit.place.page:
        return f"{SCHEME}{hit.place.version}/pages/{hit.place.page}"
    return f"{SCHEME}{hit.place.version}/chunks/{hit.position}"


def uri_of_leaf(leaf: retrieval_pb.HitLeaf) -> str:
    """Give the URI that opens a passage beneath a summary.

    Args:
        leaf: The passage.

    Returns:
        That of its page where it has one, else of its chunk; "" for what is in no document.
    """
    if not leaf.place.version:
        return ""
    if leaf.place.page:
        return f"{SCHEME}{leaf.place.version}/pages/{leaf.place.page}"
    position = leaf.record_id.rpartition("-")[2]
    return f"{SCHEME}{leaf.place.version}/chunks/{position}" if position.isdigit() else ""
