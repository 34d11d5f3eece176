"""What a heading says of the text below it, its numbering and capitals aside."""

import re
from typing import Final

from corpusmesh_core.enrichment.lines import one_line

_NUMBERING: Final = re.compile(
    r"^(?:第\s*[\d.一二三四五六七八九十百零〇]{1,8}\s*[章节条编篇部分款项]{1,2}\s*|[\d一二三四五六七八九十]{1,3}[、.．]\s*|\d+(?:\.\d+)*\.?\s+|"
    r"[(（][\d一二三四五六七八九十a-z]{1,3}[)）]\s*|[A-Z]\.\s+|"
    r"(?:chapter|section|part|article|appendix|annex)\s+(?:\d+(?:\.\d+)*|[ivxlc]+|[a-z])\b[.:\s–—-]*)+",
    re.IGNORECASE,
)
# Headings that any document may have: they say what a part is for and not what it is about.
_EMPTY_ENGLISH: Final = """
introduction overview summary conclusion conclusions abstract background appendix preface notes general example examples
discussion results foreword acknowledgements acknowledgments cover frontmatter miscellaneous
"""
_EMPTY_CHINESE: Final = """
概述 简介 引言 前言 总则 附则 附录 摘要 结论 小结 总结 背景 说明 其他 概况 序言 致谢 正文 封面
"""
_LISTS: Final = """
contents|table of contents|list of figures|list of tables|list of illustrations|illustrations|references
bibliography|works cited|目录|目次|参考文献|图目录|表目录
"""
_EMPTY: Final = frozenset(_EMPTY_ENGLISH.split()) | frozenset(_EMPTY_CHINESE.split())
_LIST_HEADINGS: Final = frozenset(_LISTS.replace("\n", "|").strip("|").split("|"))
_MIN_ACRONYM: Final = 6


def topic_of(heading: str) -> str:
    """Say what a heading is about.

    Args:
        heading: A heading as the document writes it.

    Returns:
        Its words without numbering, capitals only where they are no shouting; "" for a heading that any document may
        have ("Introduction", "总则"), and for one that is a number.
    """
    topic = _NUMBERING.sub("", one_line(heading)).strip(" .:：、–—-")
    if len(topic) < 2 or topic.casefold() in _EMPTY or is_list_heading(topic):
        return ""
    is_shouted = topic.isupper() and topic.isascii() and (" " in topic or len(topic) >= _MIN_ACRONYM)
    return topic.lower() if is_shouted else topic


def is_list_heading(heading: str) -> bool:
    """Say whether what stands below a heading is a list of other places: contents, references.

    Args:
        heading: A heading.

    Returns:
        True for such a heading.
    """
    return _NUMBERING.sub("", one_line(heading)).strip(" .:：").casefold() in _LIST_HEADINGS
