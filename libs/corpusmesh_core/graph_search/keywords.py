"""What a question is looked up by in a graph: particular words for entities, general words for relations, types.

References:
    Guo et al.: LightRAG, 2024 (dual-level retrieval); seeds `001_a712496f9ddeda4f.txt` (1-3),
    `000_3271a9def2ed8e29.txt` (3.3, step 1).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.keys import canonical_name
from corpusmesh_core.query.understanding.words import telling_phrases

MAX_KEYWORDS: Final = 32
"""Most keywords of one level."""
MAX_NAMED: Final = 5
"""Most entities that the search for knowledge looks for (seed)."""
MAX_TYPES: Final = 8
"""Most types that an answer may have."""
_SHORT_QUESTION: Final = 50
"""Characters of a question from which on nothing is looked up where there are no keywords (seed)."""
_MAX_CHARACTERS: Final = 128
_SEPARATORS: Final = re.compile(r"[,，、;；\n]+")
_NO_KEYWORD: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069<>{}|\\`]|https?:|www\.", re.IGNORECASE
)
_QUOTES: Final = " \t\"'“”‘’.。"
_PLACES: Final = "city|country|place|town|state|river|region"
_BODIES: Final = "company|organi[sz]ation|institution|university|team|agency|club|band|party"
_EVENTS: Final = "event|war|battle|conference|festival|election|treaty"
_TYPE_WORDS: Final = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("person", r"\b(?:who|whom|whose)\b|谁|何人|哪位|什么人"),
        (
            "geo",
            rf"\b(?:where|(?:which|what) (?:{_PLACES}))\b|哪里|哪儿|何[处地]|什么地方|哪个(?:城市|国家|地方|省|市)",
        ),
        ("organization", rf"\b(?:which|what) (?:{_BODIES})\b|(?:哪家|哪个|什么)(?:公司|组织|机构|大学|学校|企业|部门)"),
        ("event", rf"\b(?:which|what) (?:{_EVENTS})\b|(?:哪场|哪次|什么)(?:事件|战争|战役|会议|活动|选举)"),
    )
)
"""Which types answer which question, of the types that graphs have by default; the first that fits comes first."""


@dataclass(frozen=True, slots=True)
class GraphKeywords:
    """Words that a graph is looked up by.

    Attributes:
        high: General words (topics, kinds of relations), for relations.
        low: Particular words (names, terms), for entities.
        types: Types that the answer may have, in lower case.
    """

    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look up by words."""
        return not (self.high or self.low)


def read_keywords_of_levels(answer: object) -> GraphKeywords | None:
    """Read `{"high_level_keywords": [text], "low_level_keywords": [text]}`, tolerant of form.

    Args:
        answer: JSON value of a model's answer.

    Returns:
        The keywords, none at all for a question that asks for nothing; None if it is no such answer.
    """
    high, low = _listed(answer, "high_level_keywords", "high"), _listed(answer, "low_level_keywords", "low")
    if high is None and low is None:
        return None
    return GraphKeywords(high or (), low or ())


def read_knowledge_terms(answer: object, types: Collection[str]) -> GraphKeywords | None:
    """Read `{"answer_type_keywords": [text], "entities_from_query": [text]}`, tolerant of form.

    Args:
        answer: JSON value of a model's answer.
        types: Types that the graph has, in lower case.

    Returns:
        Entities as particular words, at most MAX_NAMED, and those types that the graph has; None if it is no such
        answer.
    """
    names = _listed(answer, "entities_from_query", "entities")
    wanted = _listed(answer, "answer_type_keywords", "types")
    if names is None and wanted is None:
        return None
    folded = dict.fromkeys(name.casefold() for name in wanted or ())
    return GraphKeywords(
        low=(names or ())[:MAX_NAMED], types=tuple(name for name in folded if name in types)[:MAX_TYPES]
    )


def keywords_by_rule(question: str, names: Sequence[str]) -> GraphKeywords:
    """Tell the keywords of a question without a model: what it names is particular, the rest is general.

    Args:
        question: The question.
        names: Names in it as they are written; those inside of others are left out.

    Returns:
        The keywords.
    """
    low = _outermost(names)
    rest = question
    for name in sorted(low, key=len, reverse=True):
        rest = re.sub(re.escape(name), "\n", rest, flags=re.IGNORECASE)
    high = tuple(phrase for part in rest.split("\n") for phrase in telling_phrases(part))
    return GraphKeywords(high[:MAX_KEYWORDS], low[:MAX_KEYWORDS])


def types_by_rule(question: str, types: Collection[str]) -> tuple[str, ...]:
    """Tell which types an answer may have, without a model.

    Args:
        question: The question.
        types: Types that the graph has, in lower case.

    Returns:
        Those that the question asks for by its question word, or names.
    """
    words = f" {canonical_name(question[:_MAX_CHARACTERS])} "
    named = [name for name in sorted(types) if name and f" {canonical_name(name)} " in words]
    asked = [name for name, pattern in _TYPE_WORDS if name in types and pattern.search(question)]
    return tuple(dict.fromkeys((*asked, *named)))[:MAX_TYPES]


def with_fallback(keywords: GraphKeywords, question: str) -> GraphKeywords:
    """Look a short question up itself where it has no keywords (seed).

    Args:
        keywords: Its keywords.
        question: The question.

    Returns:
        The same; the question as the one particular word where there are none and it is short.
    """
    text = question.strip()
    if keywords.is_empty and text and len(text) < _SHORT_QUESTION:
        return GraphKeywords(low=(text,), types=keywords.types)
    return keywords


def _listed(answer: object, *names: str) -> tuple[str, ...] | None:
    if not isinstance(answer, dict):
        return None
    for name in names:
        value = answer.get(name)
        if isinstance(value, str):
            value = _SEPARATORS.split(value)
        if isinstance(value, list):
            return _clean(item for item in value if isinstance(item, str))
    return None


def _clean(items: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for item in items:
        text = " ".join(item.split()).strip(_QUOTES)
        if text and len(text) <= _MAX_CHARACTERS and not _NO_KEYWORD.search(text):
            found.setdefault(text.casefold(), text)
    return tuple(found.values())[:MAX_KEYWORDS]


def _outermost(names: Sequence[str]) -> tuple[str, ...]:
    distinct = list({name.casefold(): name for name in names if name.strip()}.values())
    return tuple(
        name
        for name in distinct
        if not any(len(other) > len(name) and name.casefold() in other.casefold() for other in distinct)
    )
