"""What is read of a language model's answer, and how its texts are made fit to be kept."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.answering.fences import visible_text

MAX_RECORDS: Final = 400
"""Entities, and relations, that are taken of one answer."""
MAX_NAME_CHARACTERS: Final = 120
"""Longest name; what is longer is a sentence and no name."""
MAX_DESCRIPTION_CHARACTERS: Final = 1000
"""Longest description; a longer one is cut."""
MAX_KEYWORDS: Final = 10
NO_STRENGTH: Final = 0.5
"""Strength of a relation whose record has none, 0 to 1."""
_MAX_KEYWORD_CHARACTERS: Final = 60
MAX_PREDICATE_CHARACTERS: Final = 120
_MAX_STRENGTH: Final = 10.0
DELIMITER: Final = (
    r"(?:<[ \t]{0,3})?(?:[|｜¦][ \t]{0,3}[#*\\/]{0,3}[ \t]{0,3}){1,4}>?"
    r"|<[ \t]{0,3}[#*]{1,3}[ \t]{0,3}[|｜]?>|<(?:SEP|TUP|tab)>|\t"
)
"""`<|#|>` and `<|>` with what models make of them: `<#|>`, `<|#>`, `<||>`, `|#|`, `|`, `<#>`, `< | # | >`."""
DELIMITERS: Final = re.compile(rf"[ \t]{{0,4}}(?:{DELIMITER})[ \t]{{0,4}}")
QUOTES: Final = "\"'“”‘’`「」『』*_ \t\r\n"
_LIST_SEPARATOR: Final = re.compile(r"[,，、;；/]|\s\|\s")
_PLACEHOLDER: Final = re.compile(
    r"^[<{\[(]?(?:entity[_ ]?(?:name|type|description)?|source(?:[_ ]entity)?|target(?:[_ ]entity)?|name|type"
    r"|description|unknown|none|null|n/?a|未知|无)[>}\])]?$",
    re.IGNORECASE,
)
_MACHINERY: Final = re.compile(
    r"DATA-[0-9a-f]{8,}|<<<|>>>|<\|\w|</?(?:tool_call|function)\b|\[/?INST\]|<</?SYS>>", re.IGNORECASE
)
"""Delimiters of prompts and what steers models and tools: a record that has it is none."""


@dataclass(frozen=True, slots=True)
class ReadEntity:
    """An entity as a model names it.

    Attributes:
        name: One line, 1 to MAX_NAME_CHARACTERS characters, with at least one letter.
        type: As the model says, in lower case; "" where it says none.
        description: One line, at most MAX_DESCRIPTION_CHARACTERS characters; "" for none.
    """

    name: str
    type: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ReadRelation:
    """A relation as a model names it.

    Attributes:
        source: Name of one entity.
        target: Name of the other.
        predicate: How they are related, in few words; "" for none.
        description: As of an entity.
        keywords: At most MAX_KEYWORDS.
        strength: 0 to 1, above 0.
    """

    source: str
    target: str
    predicate: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    strength: float = NO_STRENGTH


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """What an answer holds.

    Attributes:
        entities: In the order of the answer, at most MAX_RECORDS.
        relations: Likewise.
    """

    entities: tuple[ReadEntity, ...] = ()
    relations: tuple[ReadRelation, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        return not self.entities and not self.relations


def clean_name(text: str) -> str:
    """Bring a name into one line without quotes.

    Args:
        text: As a model writes it.

    Returns:
        The name; "" for what can be none: no letter, a placeholder of the prompt, machinery, a whole sentence.
    """
    flat = " ".join(visible_text(text[: 4 * MAX_NAME_CHARACTERS]).split()).strip(QUOTES)
    if not flat or len(flat) > MAX_NAME_CHARACTERS or not any(map(str.isalpha, flat)):
        return ""
    return "" if _PLACEHOLDER.match(flat) or _MACHINERY.search(flat) or DELIMITERS.search(flat) else flat


def clean_text(text: str, limit: int = MAX_DESCRIPTION_CHARACTERS) -> str:
    """Bring a description into one line.

    Args:
        text: As a model writes it.
        limit: Most characters.

    Returns:
        The line; "" where it is a placeholder, or steers models or tools.
    """
    flat = " ".join(visible_text(text[: 4 * limit]).split()).strip('"“”` \t|*')[:limit].strip()
    return "" if _PLACEHOLDER.match(flat) or _MACHINERY.search(flat) else flat


def read_type(text: str) -> str:
    """Bring a type into the form in which it is compared.

    Args:
        text: As a model writes it.

    Returns:
        One line, case folded, without quotes and brackets.
    """
    return " ".join(visible_text(text[:_MAX_KEYWORD_CHARACTERS]).split()).strip(QUOTES + "<>[](){}").casefold()


def read_keywords(fields: Sequence[str]) -> tuple[str, ...]:
    """Split keywords.

    Args:
        fields: Texts, each of which may hold several.

    Returns:
        Distinct keywords, at most MAX_KEYWORDS.
    """
    words = (word.strip(QUOTES + "[]()") for field in fields for word in _LIST_SEPARATOR.split(field[:1000]))
    kept = (clean_text(word, _MAX_KEYWORD_CHARACTERS) for word in words if word)
    return tuple(dict.fromkeys(word for word in kept if any(map(str.isalnum, word))))[:MAX_KEYWORDS]


def read_strength(value: float) -> float:
    """Bring a strength of 1 to 10 into 0 to 1.

    Args:
        value: As a model gives it.

    Returns:
        Above 0 and at most 1; a fraction is taken as it is.
    """
    if not math.isfinite(value) or value <= 0.0:
        return 1.0 / _MAX_STRENGTH
    return value if value < 1.0 else min(value, _MAX_STRENGTH) / _MAX_STRENGTH
