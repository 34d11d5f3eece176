"""Resource names of graphs and what is in them."""

import re
from typing import Final

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError

_ID = r"[a-z0-9-]{1,63}"
_GRAPH_SHAPE: Final = "knowledgeBases/<id>/graph"
_GRAPH: Final = re.compile(rf"knowledgeBases/(?P<base>{_ID})/graph")


def graph_name(knowledge_base_id: str) -> str:
    """Name the graph of a knowledge base.

    Args:
        knowledge_base_id: The knowledge base.

    Returns:
        `knowledgeBases/*/graph`.
    """
    return f"knowledgeBases/{knowledge_base_id}/graph"


def graph_of(name: str, *, field: str = "name") -> str:
    """Read the name of a graph.

    Args:
        name: The name.
        field: The request's field, for the message.

    Returns:
        Its knowledge base.

    Raises:
        InvalidArgumentError: RESOURCE_NAME_INVALID if it has another shape.
    """
    match = _GRAPH.fullmatch(name)
    if match is None:
        raise _invalid(field, "the graph of a knowledge base", _GRAPH_SHAPE)
    return match["base"]


def graph_not_found() -> NotFoundError:
    """Make the one error for graphs that are unknown, gone or hidden."""
    return NotFoundError("GRAPH_NOT_FOUND", "there is no such graph, or you may not see it")


def _invalid(field: str, what: str, shape: str) -> InvalidArgumentError:
    return InvalidArgumentError("RESOURCE_NAME_INVALID", f"{field} must name {what}: {shape}", field=field, shape=shape)
