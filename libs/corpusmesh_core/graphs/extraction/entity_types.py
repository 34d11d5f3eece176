"""Types of entities by cheap cues: what a name ends with, and what the sentence says that it is."""

import re
from functools import lru_cache
from typing import Final

from corpusmesh_core.graphs.extraction.wordlists import (
    EVENT_NOUNS,
    ORGANIZATION_NOUNS,
    PERSON_NOUNS,
    PLACE_NOUNS,
    WORK_NOUNS,
)

PERSON: Final = "person"
ORGANIZATION: Final = "organization"
PLACE: Final = "geo"
EVENT: Final = "event"
WORK: Final = "work"
CATEGORY: Final = "category"

_BY_TAG: Final = {
    "nr": PERSON,
    "nrt": PERSON,
    "nrfg": PERSON,
    "ns": PLACE,
    "nt": ORGANIZATION,
    "n": CATEGORY,
    "vn": CATEGORY,
}
_NOUNS: Final = {
    word: kind
    for kind, words in (
        (ORGANIZATION, ORGANIZATION_NOUNS),
        (PLACE, PLACE_NOUNS),
        (EVENT, EVENT_NOUNS),
        (WORK, WORK_NOUNS),
        (PERSON, PERSON_NOUNS),
    )
    for word in words
}
_CHINESE_ENDINGS: Final = (
    (ORGANIZATION, "公司 大学 学院 学校 中学 小学 银行 集团 协会 学会 委员会 政府 法院 医院 研究所 研究院 组织 俱乐部"),
    (ORGANIZATION, "乐团 出版社 党 队 部 局 厂"),
    (PLACE, "省 市 县 区 镇 乡 村 国 岛 山 河 江 湖 海 洋 州 路 街 桥 站 机场 公园 寺 宫 城"),
    (EVENT, "战争 战役 之战 革命 运动会 锦标赛 大赛 世界杯 奥运会 起义 事件 条约 会议 赛"),
    (PERSON, "王 帝 后 公 侯 伯爵 公爵 总统 主席 教授 博士 将军"),
)
_ENDINGS: Final = tuple((ending, kind) for kind, words in _CHINESE_ENDINGS for ending in words.split())
_FORM_OF_ADDRESS: Final = re.compile(
    r"\b(?:mr|mrs|ms|miss|dr|prof|sir|lady|lord|king|queen|prince|princess|duke|duchess|emperor|empress|pope|saint|st|president|"
    r"sultan|count|countess|earl|baron|general|captain|colonel)\b\.?",
    re.IGNORECASE,
)
_LIFE: Final = re.compile(r"\s?\(\s?(?:born|b\.|died|d\.|né|née|(?:[^()]{0,60}\d{3,4}\s?[–—-]))", re.IGNORECASE)
_IS_A: Final = re.compile(
    r"(?:\s?\([^()]{0,200}\))?[^.;:]{0,80}?\b(?:is|was|are|were)\b(?:\s+\w+ly)?\s+(?:an?|the|one of the)\s+"
    r"([^.;:,(]{0,100})",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[a-z]+")
_STOPS: Final = frozenset(["of", "in", "from", "by", "who", "which", "that", "for", "with", "at", "on"])
_FIRST_NOUNS: Final = frozenset(
    ("university", "institute", "ministry", "department", "bank", "battle", "treaty", "lake", "mount", "city")
)
_LOOK_AHEAD: Final = 420


def type_of_name(name: str, tag: str = "") -> str:
    """Tell the type of an entity by its name alone.

    Args:
        name: The name.
        tag: What the dictionary of the Chinese segmenter says of it, "" where it says nothing.

    Returns:
        A type, "" where the name does not tell.
    """
    if tag and (kind := _BY_TAG.get(tag, "")) not in ("", CATEGORY):
        return kind
    return _by_ending(name) or _BY_TAG.get(tag, "")


@lru_cache(maxsize=50_000)
def _by_ending(name: str) -> str:
    if not name.isascii():
        for ending, kind in _ENDINGS:
            if name.endswith(ending) and len(name) > len(ending):
                return kind
    words = _WORD.findall(name.lower())
    if len(words) < 2:
        return ""
    if _FORM_OF_ADDRESS.match(name) is not None:
        return PERSON
    kind = _NOUNS.get(words[-1], "")
    if not kind and words[0] in _FIRST_NOUNS:
        kind = _NOUNS.get(words[0], "")
    return kind if kind != PERSON else ""


def type_in_sentence(text: str, end: int, stop: int) -> str:
    """Tell the type of an entity by what follows its name in a sentence: "(born 1950) is an American writer".

    Args:
        text: The text.
        end: Where the name ends.
        stop: Where the sentence ends.

    Returns:
        A type, "" where the sentence does not tell.
    """
    behind = text[end : min(stop, end + _LOOK_AHEAD)]
    match = _IS_A.match(behind)
    if match is not None:
        found = ""
        for word in _WORD.findall(match.group(1).lower()):
            if word in _STOPS and found:
                break
            found = _NOUNS.get(word, found)
        if found:
            return found
    return PERSON if _LIFE.match(behind) is not None else ""
