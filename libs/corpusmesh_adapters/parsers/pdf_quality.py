"""Tells a text layer that can be searched from one that is garbage.

The tests are those of RAGFlow's DeepDOC (private use, replacement, control characters and `(cid:n)`; punctuation soup
of subset fonts), and the one for GBK bytes shown as Latin-1.
"""

import re
import string
from dataclasses import dataclass

_BAD = re.compile(r"[\ue000-\uf8ff\ufffd\x00-\x08\x0e-\x1f\U000f0000-\U0010ffff]|\(cid:\d+\)")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LATIN1 = re.compile(
    "[\u00a1-\u00ff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2030\u2039\u203a\u20ac\u2122]"
)
_LETTER = re.compile(r"\w")
_LEADERS = re.compile(r"[.\u2026_\-\u00b7\u2022\u2027=|]")
_ARABIC = re.compile("[\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufefc]")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[\u064b-\u0652])")
_SCRIPT_CHANGE = re.compile("(?<=[A-Za-z0-9])(?=[\u0620-\u064a])|(?<=[\u0620-\u064a])(?=[A-Za-z0-9])")
_ASCII_TEXT = (string.ascii_letters + string.digits + string.whitespace).encode()
_ASCII_SPACE = string.whitespace.encode()
_MIN_CHARACTERS = 20
_BAD_SHARE = 0.3
_PUNCTUATION_SHARE = 0.4
_LATIN1_SHARE = 0.5
_ARABIC_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """What a page's text layer is worth.

    Attributes:
        is_garbled: Whether nothing of it may be indexed.
        gbk_text: The page's text, where it was GBK shown as Latin-1 and could be read again.
    """

    is_garbled: bool
    gbk_text: str = ""


def judge_layer(text: str) -> LayerVerdict:
    """Judge the text layer of one page.

    Args:
        text: All text of the page.

    Returns:
        Whether it is garbled; a page with hardly any text never is.
    """
    if _is_plain(text):
        return LayerVerdict(is_garbled=False)
    bare = "".join(text.split())
    if len(bare) < _MIN_CHARACTERS:
        return LayerVerdict(is_garbled=False)
    bad = sum(len(match) if match.startswith("(cid") else 1 for match in _BAD.findall(bare))
    if bad >= _BAD_SHARE * len(bare):
        return LayerVerdict(is_garbled=True)
    cjk = len(_CJK.findall(bare))
    if cjk < 0.05 * len(bare) and len(_LATIN1.findall(bare)) >= _LATIN1_SHARE * len(bare):
        return LayerVerdict(is_garbled=True, gbk_text=_as_gbk(text))
    marks = len(bare) - len(_LETTER.findall(bare)) - len(_LEADERS.findall(bare))
    return LayerVerdict(is_garbled=marks > _PUNCTUATION_SHARE * len(bare) and cjk < 0.05 * len(bare))


def is_arabic(text: str) -> bool:
    """Say whether a page has so much Arabic that its ligatures matter.

    Args:
        text: All text of the page.

    Returns:
        True if at least a fifth of its letters are Arabic.
    """
    if _foreign_share(text) < _ARABIC_SHARE / 2:
        return False
    letters = len(_LETTER.findall(text))
    return letters > 0 and len(_ARABIC.findall(text)) >= _ARABIC_SHARE * letters


def spaced_arabic(text: str) -> str:
    """Set the spaces of an Arabic line right: PDFium drops those beside Latin words and puts some before vowel marks.

    Args:
        text: A line.

    Returns:
        The line with a space wherever the script changes, and none before a combining mark.
    """
    return _SCRIPT_CHANGE.sub(" ", _SPACE_BEFORE_MARK.sub("", text))


def _is_plain(text: str) -> bool:
    """Spare a page of mostly Latin words the slow tests: none of them could find anything there."""
    latin = text.encode("ascii", "ignore")
    foreign = len(text) - len(latin)
    marks = len(latin.translate(None, _ASCII_TEXT))
    visible = foreign + len(latin.translate(None, _ASCII_SPACE))
    return marks + foreign < _BAD_SHARE * visible and "(cid:" not in text


def _foreign_share(text: str) -> float:
    return 1.0 - len(text.encode("ascii", "ignore")) / max(len(text), 1)


def _as_gbk(text: str) -> str:
    lines = []
    for line in text.splitlines():
        try:
            lines.append(line.encode("cp1252").decode("gbk"))
        except UnicodeError:
            try:
                lines.append(line.encode("latin-1").decode("gbk"))
            except UnicodeError:
                return ""
    found = "\n".join(lines)
    return found if len(_CJK.findall(found)) * 2 >= len("".join(found.split())) else ""
