"""From a compound question to its parts, and from a special one to the general one behind it, without a model.

A question that compares two things, or asks several, is answered by passages that each know only a part of it; one
vector lies between them and finds neither (seed 003, query transformation).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from corpusmesh_core.query.understanding.follow_up import stand_alone
from corpusmesh_core.query.understanding.words import is_number, quoted_of, telling_phrases, words_of
from corpusmesh_core.text import normalize

MAX_PARTS: Final = 6
"""Most parts of one question."""
_MAX_READ_CHARACTERS: Final = 600
"""Longest question that is taken apart; a longer one is a text, and its patterns would take long."""
_MAX_PART_CHARACTERS: Final = 300
_MAX_NAME_CHARACTERS: Final = 80
_MIN_REMAINING_WORDS: Final = 2
_MARK: Final = re.compile(r"(?<=[?？])\s*")
_ENGLISH_ASK: Final = r"who|whom|whose|what|when|where|why|how|which"
_CHINESE_ASK: Final = "什么|怎么|怎样|如何|为什么|为何|多少|几|哪|谁|何时|是否|吗|多久|多长|多大|有没有"
_CLAUSES: Final = re.compile(
    rf",?\s+(?:and|as well as)\s+(?:also\s+)?(?=(?:(?:in|at|for|by|on|to|from|since|with)\s+)?(?:{_ENGLISH_ASK})\b)"
    rf"|[;；]\s*|，?(?:并且|以及|还有|另外|同时)(?=[^，,？?]*(?:{_CHINESE_ASK}))",
    re.IGNORECASE,
)
_COMPARE: Final = (
    re.compile(
        r"\bcompar(?:e|ing|ison\s+(?:of|between))\s+(?P<one>.+?)\s+(?:and|with|to|vs\.?|versus|against)\s+(?P<two>.+?)"
        r"(?:\s+(?:in terms of|with respect to|with regard to|regarding|on|in|for|by)\s+(?P<aspects>[^?.]+?))?"
        r"\s*[?.]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:difference|differences|relationship|relation|similarit(?:y|ies))\s+between\s+(?P<one>.+?)\s+and\s+"
        r"(?P<two>.+?)(?:\s+(?:in terms of|with respect to|regarding|in|for)\s+(?P<aspects>[^?.]+?))?\s*[?.]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^what\s+(?:has\s+|have\s+|is\s+|are\s+)?(?:changed?|changes|differs?|different|new)\s+(?:between|from)\s+"
        r"(?P<one>.+?)\s+(?:and|to)\s+(?P<two>.+?)(?:\s+(?:in terms of|with respect to|regarding)\s+"
        r"(?P<aspects>[^?.]+?))?\s*[?.]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^how\s+(?:do|does|did|is|are)\s+(?P<one>.+?)\s+(?:differ|different)\s+from\s+(?P<two>.+?)"
        r"(?:\s+(?:in terms of|with respect to|regarding)\s+(?P<aspects>[^?.]+?))?\s*[?.]*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:对比|比较|相比)(?:一下)?(?P<one>[^，,？?]{1,40}?)(?:和|与|跟|及|同|、)(?P<two>[^，,？?]{1,40}?)"
        r"(?:(?:在|就)(?P<aspects>[^，,？?]{1,60}?)(?:上|方面|中|而言)?(?:的)?(?:区别|差异|差别|不同|异同|表现|优劣)?)?[？?。]*$"
    ),
    re.compile(
        r"^(?P<one>[^，,？?]{1,40}?)(?:和|与|跟|及)(?P<two>[^，,？?]{1,40}?)(?:之间)?"
        r"(?:在(?P<aspects>[^，,？?]{1,60}?)(?:上|方面|中))?(?:的|有何|有什么|有哪些|有)*(?:主要|本质)?(?:区别|差异|差别|不同|异同|关系|联系)"
    ),
)
_CHOICE: Final = re.compile(
    r"^(?P<ask>.*?)[,:]\s*(?P<one>[^,:?]{2,100}?)\s*,?\s+or\s+(?P<two>[^,?]{2,100}?)\s*\?*$"
    r"|^(?P<ask_zh>.*?)[，：](?P<one_zh>[^，：？?]{1,40}?)(?:还是|或者?)(?P<two_zh>[^，？?]{1,40}?)[？?]*$",
    re.IGNORECASE,
)
_BOTH: Final = re.compile(
    r"^(?:are|were|do|did|does|is|was|have|has)\s+(?:both\s+)?(?:the\s+)?(?P<one>\S.*?)\s+and\s+(?P<two>.+?)\s+"
    r"(?P<rest>(?:both|share|shared|have|located|from|of the same|in the same|the same|born|also|part of|work|released|"
    r"based)\b.*)$",
    re.IGNORECASE,
)
_RESPECTIVELY: Final = re.compile(
    r"^(?P<one>[^，,？?]{1,40}?)(?:和|与|跟|及|以及)(?P<two>[^，,？?]{1,40}?)(?P<rest>(?:的[^，,？?]{0,20})?分别.+)$"
)
_LIST: Final = re.compile(r"\s*(?:,\s*and\s+|,|、|，|\band\b|和|与|及)\s*", re.IGNORECASE)
_ASIDE: Final = re.compile(r"\s*[(（\[【][^)）\]】]{0,200}[)）\]】]")
_TIME: Final = re.compile(
    r"\s*\b(?:in|on|at|since|after|before|by|until|during|from|between)\s+(?:the\s+)?(?:year\s+)?(?:early\s+|late\s+|mid-)?"
    r"(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)\s+)?"
    r"(?:\d{1,2}(?:st|nd|rd|th)?,?\s+)?\d{4}(?:s|-\d{2}-\d{2})?(?:\s*(?:and|to|-|–)\s*\d{4})?\b"
    r"|(?:在|自|从|截至)?[（(]?\d{4}年(?:\d{1,2}月)?(?:\d{1,2}[日号])?(?:之前|之后|以前|以后|以来|期间|到|至)*[）)]?",
    re.IGNORECASE,
)
_THAT_OF: Final = re.compile(r"^(?:that|those|the\s+ones?)\s+(?P<link>of|from|for|in)\s+(?P<rest>.+)$", re.IGNORECASE)
_DANGLING: Final = re.compile(r"\b(?:of|in|from|to|for|at|by|between)(?:\s+(?:and|or)\b|\s*[?.,，？]|$)", re.IGNORECASE)
_LEAD: Final = re.compile(r"^(?:(?:the|a|an|both|either)\s+|[a-z]+,\s*)+")


def parts_of(question: str) -> tuple[str, ...]:
    """Take a compound question apart.

    Args:
        question: The question.

    Returns:
        Its parts, each a question or a phrase that can be searched by itself, at most 6; none for a question that has
        but one part.
    """
    text = " ".join(question.split())
    if len(text) > _MAX_READ_CHARACTERS:
        return ()
    clauses = _clauses(text)
    if len(clauses) > 1:
        return _distinct(_resolved(clauses), text)
    text = clauses[0] if clauses else text
    return _distinct(_compared(text) or _chosen(text), text)


def general_question(question: str) -> str:
    """Step back from a question: leave out what makes it special.

    Args:
        question: The question.

    Returns:
        The question without what stands in brackets, without times and numbers, and without what it quotes, where
        something telling remains; "" where nothing was left out, too little remains, the rest is no sentence any more,
        or it is a text of its own.
    """
    text = " ".join(question.split())
    if len(text) > _MAX_READ_CHARACTERS:
        return ""
    general = _TIME.sub("", _ASIDE.sub("", text))
    quoted = quoted_of(general)
    if len(telling_phrases(general)) > len(quoted) + 1:
        for quote in quoted:
            general = re.sub(rf"\s*[\"“「『《]{re.escape(quote)}[\"”」』》]", "", general)
    general = _without_numbers(general)
    general = re.sub(r"\s+([?？.,，])", r"\1", " ".join(general.split())).strip(" ,，、")
    if normalize(general) == normalize(text) or _DANGLING.search(general):
        return ""
    telling = [word for word in words_of(general) if word.is_telling]
    return general if len(telling) >= _MIN_REMAINING_WORDS else ""


def _clauses(text: str) -> list[str]:
    clauses: list[str] = []
    for sentence in _MARK.split(text):
        clauses.extend(part.strip(" ,，") for part in _CLAUSES.split(sentence))
    return [clause for clause in clauses if telling_phrases(clause) or len(words_of(clause)) > 1]


def _resolved(clauses: Sequence[str]) -> list[str]:
    """Let each part stand alone: "and where did he die" speaks of whom the part before asked about."""
    return [stand_alone(clause, clauses[:place]) for place, clause in enumerate(clauses)]


def _compared(text: str) -> list[str]:
    for pattern in _COMPARE:
        found = pattern.search(text)
        if found is None:
            continue
        things = [thing for name in (found["one"], _named(found["one"], found["two"])) for thing in _things(name)]
        aspects = [part for part in _LIST.split(found["aspects"] or "") if part.strip()]
        if len(things) < 2 or not all(map(_is_name, things)):
            continue
        return [f"{thing} {aspect.strip()}" for thing, aspect in product(things, aspects)] or things
    found = _RESPECTIVELY.match(text)
    if found is not None:
        rest = found["rest"].replace("分别", "", 1)
        return [f"{thing.strip()}{rest}" for thing in (found["one"], found["two"])]
    found = _BOTH.match(text)
    if found is not None and _is_name(found["one"]) and _is_name(found["two"]):
        return [_bare(found["one"]), _bare(found["two"])]
    return []


def _named(one: str, two: str) -> str:
    """Give the second of two compared things its name: "that of 2025" beside "the policy of 2023"."""
    found = _THAT_OF.match(two.strip())
    if found is None:
        return two
    head, link, _ = one.partition(f" {found['link'].lower()} ")
    return f"{head}{link}{found['rest']}" if link else two


def _chosen(text: str) -> list[str]:
    found = _CHOICE.match(text)
    if found is None:
        return []
    ask = found["ask"] if found["ask"] is not None else found["ask_zh"]
    names = [found[name] for name in ("one", "two", "one_zh", "two_zh") if found[name] is not None]
    things = [thing for name in names for thing in _things(name)]
    if not words_of(ask) or not all(map(_is_name, things)):
        return []
    return things


def _things(text: str) -> list[str]:
    is_list = "," in text or "、" in text
    return [_bare(part) for part in (_LIST.split(text) if is_list else (text,)) if part.strip()]


def _bare(name: str) -> str:
    return _LEAD.sub("", name.strip()).strip(" ,，的")


def _is_name(text: str) -> bool:
    return 0 < len(text.strip()) <= _MAX_NAME_CHARACTERS and bool(words_of(text)) and bool(re.search(r"\w", text))


def _without_numbers(text: str) -> str:
    numbers = [word for word in words_of(text) if is_number(word.text)]
    # A number behind a name belongs to it ("Windows 11"); one that stands alone is a detail.
    kept = {normalize(phrase) for phrase in telling_phrases(text)}
    for word in reversed(numbers):
        if not any(normalize(word.text) in phrase.split() for phrase in kept):
            text = text[: word.start].rstrip() + " " + text[word.end :].lstrip()
    return text


def _distinct(parts: Iterable[str], question: str) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for part in parts:
        text = part.strip()[:_MAX_PART_CHARACTERS]
        if text and normalize(text) != normalize(question):
            found.setdefault(normalize(text), text)
    kept = tuple(found.values())[:MAX_PARTS]
    return kept if len(kept) > 1 else ()
