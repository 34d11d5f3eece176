"""Resource names of trees and their nodes."""

import re
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError

_ID = r"[a-z0-9-]{1,63}"
_BASE = rf"knowledgeBases/(?P<base>{_ID})"
_DATASET = rf"{_BASE}/trees/dataset"
_TREE = rf"{_BASE}/(?:trees/dataset|documents/(?P<document>{_ID})/tree)"
_KNOWLEDGE_BASE: Final = re.compile(_BASE)
_DOCUMENT: Final = re.compile(rf"{_BASE}/documents/(?P<document>{_ID})")
_DATASET_TREE: Final = re.compile(_DATASET)
_ANY_TREE: Final = re.compile(_TREE)
_NODE: Final = re.compile(rf"{_TREE}/nodes/(?P<record>[0-9]{{1,10}}-tree_node-[A-Za-z0-9_-]{{1,64}})")


@dataclass(frozen=True, slots=True)
class TreeName:
    """A tree.

    Attributes:
        knowledge_base_id: Its knowledge base.
        document_id: Its document; "" for the tree of the knowledge base.
    """

    knowledge_base_id: str
    document_id: str = ""

    @property
    def is_of_document(self) -> bool:
        """Whether it is the tree of a document."""
        return bool(self.document_id)

    @property
    def text(self) -> str:
        """The name as the contract writes it."""
        base = f"knowledgeBases/{self.knowledge_base_id}"
        return f"{base}/documents/{self.document_id}/tree" if self.document_id else f"{base}/trees/dataset"


def tree_of(name: str, *, field: str = "name") -> TreeName:
    """Read the name of any tree.

    Args:
        name: The name.
        field: The request's field, for the message.

    Returns:
        Its parts.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape.
    """
    match = _ANY_TREE.fullmatch(name)
    if match is None:
        raise _invalid(field, "a tree", "knowledgeBases/<id>/trees/dataset or knowledgeBases/<id>/documents/<id>/tree")
    return TreeName(match["base"], match["document"] or "")


def dataset_tree_of(name: str) -> TreeName:
    """Read the name of the tree of a knowledge base.

    Args:
        name: The name.

    Returns:
        Its parts.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape.
    """
    match = _DATASET_TREE.fullmatch(name)
    if match is None:
        raise _invalid("name", "the tree of a knowledge base", "knowledgeBases/<id>/trees/dataset")
    return TreeName(match["base"])


def node_of(name: str) -> tuple[TreeName, str]:
    """Read the name of a node.

    Args:
        name: The name.

    Returns:
        Its tree and its record.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape.
    """
    match = _NODE.fullmatch(name)
    if match is None:
        raise _invalid("name", "a node", "<tree>/nodes/<record>")
    return TreeName(match["base"], match["document"] or ""), match["record"]


def knowledge_base_of(name: str) -> str:
    """Read the name of a knowledge base.

    Args:
        name: The name.

    Returns:
        Its id.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape.
    """
    match = _KNOWLEDGE_BASE.fullmatch(name)
    if match is None:
        raise _invalid("parent", "a knowledge base", "knowledgeBases/<id>")
    return match["base"]


def document_of(name: str, knowledge_base_id: str) -> str:
    """Read the name of a document of a knowledge base.

    Args:
        name: The name.
        knowledge_base_id: The knowledge base that it must be in.

    Returns:
        Its id.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape or is in another knowledge base.
    """
    match = _DOCUMENT.fullmatch(name)
    if match is None or match["base"] != knowledge_base_id:
        raise _invalid("documents", "documents of that knowledge base", "knowledgeBases/<id>/documents/<id>")
    return match["document"]


def tree_not_found() -> NotFoundError:
    """Make the one error for trees that are unknown, gone or hidden."""
    return NotFoundError("TREE_NOT_FOUND", "there is no such tree, or you may not see it")


def node_not_found() -> NotFoundError:
    """Make the one error for nodes that are unknown, gone or hidden."""
    return NotFoundError("TREE_NODE_NOT_FOUND", "there is no such node, or you may not see it; list those that you may")


def _invalid(field: str, what: str, shape: str) -> InvalidArgumentError:
    return InvalidArgumentError("RESOURCE_NAME_INVALID", f"{field} must name {what}: {shape}", field=field, shape=shape)
