"""Checks that every request of the retrieve service passes, and names that its answers carry."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.request_limits import MAX_KNOWLEDGE_BASES
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.policy import knowledge_base_id_of

if TYPE_CHECKING:
    # The settings of conversations are part of it, and conversations check their knowledge bases here.
    from corpusmesh_retrieve.config import RetrieveSettings


def knowledge_base_ids_of(names: Sequence[str], *, field: str = "knowledge_bases") -> tuple[str, ...]:
    """Read the knowledge bases of a request.

    Args:
        names: Resource names.
        field: Their field in the request.

    Returns:
        Their ids, each once.

    Raises:
        InvalidArgumentError: If a name is none, or there are more than 16.
    """
    identifiers = tuple(dict.fromkeys(knowledge_base_id_of(name, field=field) for name in names))
    if len(identifiers) > MAX_KNOWLEDGE_BASES:
        raise InvalidArgumentError(
            "KNOWLEDGE_BASES_INVALID",
            f"name at most {MAX_KNOWLEDGE_BASES} knowledge bases",
            field=field,
        )
    return identifiers


def check_query(query: str, field: str, settings: "RetrieveSettings") -> None:
    """Refuse a question that asks nothing, or is too long.

    Args:
        query: The question.
        field: Its field in the request.
        settings: Bounds.

    Raises:
        InvalidArgumentError: QUERY_EMPTY or QUERY_TOO_LONG.
    """
    if not query.strip():
        raise InvalidArgumentError("QUERY_EMPTY", f"{field} is empty; ask something", field=field)
    if len(query) > settings.max_query_characters:
        raise InvalidArgumentError(
            "QUERY_TOO_LONG",
            f"{field} takes at most {settings.max_query_characters:,} characters",
            field=field,
            limit=settings.max_query_characters,
        )


def snapshot_names(outcome: SearchOutcome) -> list[str]:
    """Name the snapshots that a search saw.

    Args:
        outcome: The search.

    Returns:
        Resource names; a knowledge base that publishes nothing is left out.
    """
    return [f"knowledgeBases/{key}/snapshots/{value}" for key, value in outcome.snapshots.items() if value]
