"""What a search notes of each entity, relation, report and passage of a graph that it looked at (ADR-0014)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corpusmesh_core.graphs.keys import key_text

MAX_STEPS: Final = 400
"""Most steps that an explanation tells of."""


class StepKind(StrEnum):
    """What was looked at."""

    ENTITY = "entity"
    RELATION = "relation"
    COMMUNITY_REPORT = "community_report"
    CHUNK = "chunk"


class StepReason(StrEnum):
    """Why it was looked at."""

    NAMED = "named"
    """The question names it."""
    SIMILAR = "similar"
    """It is like the question, or like words of it."""
    TYPE = "type"
    """It is of a type that the answer may have."""
    NEIGHBOUR = "neighbour"
    """It stands next to something that was found."""
    SEED = "seed"
    """A walk starts from it."""
    WALK = "walk"
    """A walk came by."""
    REPORT = "report"
    """A community that holds something that was found is reported on by it."""


class StepOutcome(StrEnum):
    """What became of it."""

    KEPT = "kept"
    DROPPED = "dropped"
    SEED = "seed"


@dataclass(frozen=True, slots=True)
class GraphStep:
    """Something of a graph that a search looked at; all of it such as the caller may see.

    Attributes:
        kind: What it is.
        name: `knowledgeBases/*/graph/entities/*` for an entity, else the id of a record.
        label: Its name for people; of a relation both names; "" for a passage.
        reason: Why it was looked at.
        score: Its score, on the scale of the mode.
        hop: Hops from what the question names.
        outcome: What became of it.
    """

    kind: StepKind
    name: str
    label: str
    reason: StepReason
    score: float
    hop: int = 0
    outcome: StepOutcome = StepOutcome.KEPT


def entity_name(knowledge_base_id: str, key: int) -> str:
    """Name an entity.

    Args:
        knowledge_base_id: Its knowledge base.
        key: Its key.

    Returns:
        `knowledgeBases/*/graph/entities/*`.
    """
    return f"knowledgeBases/{knowledge_base_id}/graph/entities/{key_text(key)}"
