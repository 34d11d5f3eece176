"""What is searched for one question: the question itself and what understanding made of it."""

from dataclasses import dataclass
from enum import StrEnum


class VariantOrigin(StrEnum):
    """What made a variant."""

    QUESTION = "question"
    TRANSLATION = "translation"
    STEP_BACK = "step_back"
    PART = "part"
    HYPOTHETICAL = "hypothetical"
    MEMORY = "memory"
    HOP = "hop"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class QueryVariant:
    """One text that is searched for.

    Attributes:
        text: The text, not empty.
        origin: What made it.
        weight: Its weight against the question's own, above 0, at most 1.
        is_passage: Whether the text looks like a document rather than a question, so that it is embedded as one.
        by_words: Whether it is searched by words.
        by_vector: Whether it is searched by its vector.
    """

    text: str
    origin: VariantOrigin
    weight: float = 1.0
    is_passage: bool = False
    by_words: bool = True
    by_vector: bool = True
