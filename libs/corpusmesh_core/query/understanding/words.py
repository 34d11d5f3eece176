"""The words of a question as they are written, and which of them tell what it is about.

The model-free forms of understanding stand on this: a telling word is no function word, no word that every question
has, and no number alone; a telling phrase is a run of such words.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corpusmesh_core.text import analyze, is_stop_word, normalize

MAX_READ_CHARACTERS: Final = 4_000
"""Of a longer question, what the rules read."""
_IDEOGRAPHS: Final = r"\u3400-\u9fff"
_TOKEN: Final = re.compile(
    rf"(?P<run>[{_IDEOGRAPHS}]+)"
    rf"|(?P<word>[^\W_{_IDEOGRAPHS}](?:[^\W{_IDEOGRAPHS}]|[-.'’/:&](?=[^\W_{_IDEOGRAPHS}]))*(?:\+\+|[+#])?)"
)
_QUOTED: Final = re.compile(
    r"\"([^\"\n]{2,120})\"|“([^”\n]{2,120})”|「([^」\n]{2,120})」|『([^』\n]{2,120})』|《([^》\n]{2,120})》"
)
_NUMBER: Final = re.compile(r"[\d.,:/\-%]+")
_JOINT: Final = re.compile(r"[ \t\u00a0]*")
_WEAK_ENGLISH: Final = """
tell explain describe list show give find name mean means meant meaning happen happens happened work works worked define
compare compared comparison difference differences differ long short much many often get gets got make makes made take
takes took say says said know knows need needs needed want wants use uses used using kind kinds type types sort reason
reasons example examples detail details case cases thing things way ways still even yet apply applies applied change
changes changed possible true false first last next old new good better best bad worse big bigger biggest small smaller
far high higher low lower come comes came go goes went become becomes became call calls called keep keeps let put see
look think thought help please also another two three both either neither whether same different respectively would
shall must might may else ever never always really actually question answer one ones someone something anything
everything people person year years month months day days week weeks time times today tomorrow yesterday now ok okay
thanks thank yes hello hi vs versus
"""
_WEAK_CHINESE: Final = """
什么 怎么 怎样 如何 哪些 哪个 哪里 哪儿 谁 几 多少 为什么 为何 多久 多长 多大 多高 区别 差别 不同 意思 含义 介绍
解释 说明 告诉 讲讲 说说 谈谈 列出 列举 举例 例子 原因 时候 时间 什么样 情况 问题 方面 分别 比较 对比 相比 能否 可否
是否 可以 能够 需要 应该 必须 有没有 是不是 会不会 能不能 我们 你们 他们 她们 它们 这个 那个 这些 那些 这种 那种 这样
那样 这里 那里 其 其中 前者 后者 上述 然后 还有 另外 以及 而且 并且 那么 因为 所以 如果 但是 或者 还是 之后 之前 以后
以前 以来 期间 今天 明天 昨天 今年 去年 明年 现在 目前 一下 一些 请问 谢谢 你好 好的 具体 主要 一般 通常 相关 有关
进行 使用 做 用 叫 来自
"""
_WEAK: Final = frozenset(_WEAK_ENGLISH.split()) | frozenset(_WEAK_CHINESE.split())


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text.

    Attributes:
        text: As it is written.
        start: Place of its first character.
        is_telling: Whether it says what the text is about.
        is_ideographic: Whether it is written in Chinese characters.
        is_joined: Whether nothing but blanks stands between it and the word before.
    """

    text: str
    start: int
    is_telling: bool
    is_ideographic: bool
    is_joined: bool

    @property
    def end(self) -> int:
        """Place behind its last character."""
        return self.start + len(self.text)

    @property
    def folded(self) -> str:
        """In its one form: width, case and Chinese script folded."""
        return normalize(self.text)


def words_of(text: str) -> tuple[Word, ...]:
    """Cut a text into words.

    Args:
        text: The text; of a very long one the first 4,000 characters.

    Returns:
        Its words in order, Chinese ones as a dictionary cuts them.
    """
    found: list[Word] = []
    end = 0
    for match in _TOKEN.finditer(text[:MAX_READ_CHARACTERS]):
        is_joined = bool(found) and _JOINT.fullmatch(text, end, match.start()) is not None
        start = match.start()
        pieces = _pieces(match.group()) if match.lastgroup == "run" else (match.group(),)
        for piece in pieces:
            found.append(Word(piece, start, is_telling(piece), match.lastgroup == "run", is_joined))
            start += len(piece)
            is_joined = True
        end = match.end()
    return tuple(found)


@lru_cache(maxsize=20_000)
def is_telling(word: str) -> bool:
    """Say whether a word tells what a text is about.

    Args:
        word: One word as it is written.

    Returns:
        False for function words, words that every question has, numbers, lone letters and lone Chinese characters.
    """
    folded = normalize(word)
    if len(folded) < 2 or _NUMBER.fullmatch(folded):
        return False
    return not (is_stop_word(folded) or folded in _WEAK)


def is_number(word: str) -> bool:
    """Say whether a word is a number, a date or a share.

    Args:
        word: One word as it is written.

    Returns:
        True if it has digits and no letters.
    """
    return _NUMBER.fullmatch(word) is not None and any(char.isdigit() for char in word)


def quoted_of(text: str) -> tuple[str, ...]:
    """Name what a text puts in quotation marks.

    Args:
        text: The text.

    Returns:
        The quotes without their marks, in order, distinct.
    """
    matches = _QUOTED.finditer(text[:MAX_READ_CHARACTERS])
    quotes = (" ".join(next(filter(None, match.groups()), "").split()) for match in matches)
    return tuple(dict.fromkeys(quote for quote in quotes if quote))


def telling_phrases(text: str) -> tuple[str, ...]:
    """Name the phrases that tell what a text is about.

    Args:
        text: The text.

    Returns:
        What it quotes first, then its runs of telling words as they are written, in order, distinct. Lone letters,
        numbers and lone Chinese characters are part of a run and make none.
    """
    quotes = quoted_of(text)
    held = tuple(normalize(quote) for quote in quotes)
    runs = (text[run[0].start : run[-1].end] for run in _runs(words_of(text)))
    found: dict[str, str] = {normalize(quote): quote for quote in quotes}
    for run in runs:
        phrase = " ".join(run.split())
        folded = normalize(phrase)
        if not any(folded in quote for quote in held):
            found.setdefault(folded, phrase)
    return tuple(found.values())


def telling_terms(text: str) -> frozenset[str]:
    """Name the fine terms of the telling words of a text.

    Args:
        text: The text.

    Returns:
        Terms as the index has them.
    """
    return frozenset(term for word in words_of(text) if word.is_telling for term in analyze(word.text).fine)


def _runs(words: tuple[Word, ...]) -> list[list[Word]]:
    runs: list[list[Word]] = []
    run: list[Word] = []
    for word in words:
        if run and not word.is_joined:
            runs.append(run)
            run = []
        if word.is_telling or _can_join(word):
            run.append(word)
        elif run:
            runs.append(run)
            run = []
    runs.append(run)
    return [run for run in map(_trimmed, runs) if run]


def _can_join(word: Word) -> bool:
    """Say whether a word may be part of a phrase: a number, a lone character of a word, a capital letter."""
    if is_number(word.text):
        return True
    folded = word.folded
    is_lone = len(folded) == 1 and not is_stop_word(folded) and folded not in _WEAK
    return is_lone and (word.is_ideographic or word.text.isupper())


def _trimmed(run: list[Word]) -> list[Word]:
    """Leave out what stands alone at the ends: a number before, a lone character that is no part of a word."""
    if not any(word.is_telling for word in run):
        # Two lone characters side by side are a word that the dictionary does not have.
        lone = [word for word in run if word.is_ideographic]
        return lone if len(lone) > 1 else []
    first = next(place for place, word in enumerate(run) if word.is_telling)
    # One lone Chinese character before a word belongs to it ("新员工"); so does a capital ("B 树").
    if first and len(run[first - 1].text) == 1 and not run[first - 1].text.isdigit():
        first -= 1
    last = max(place for place, word in enumerate(run) if word.is_telling)
    # What follows a name is often its number ("Windows 11") or its class ("B+ 树").
    if last + 1 < len(run) and (is_number(run[last + 1].text) or len(run[last + 1].text) == 1):
        last += 1
    return run[first : last + 1]


def _pieces(run: str) -> tuple[str, ...]:
    words = analyze(run).coarse
    # Folding replaces characters one by one here; where it would not, the run stays whole.
    if sum(map(len, words)) != len(run):
        return (run,)
    pieces: list[str] = []
    start = 0
    for word in words:
        pieces.append(run[start : start + len(word)])
        start += len(word)
    return tuple(pieces)
