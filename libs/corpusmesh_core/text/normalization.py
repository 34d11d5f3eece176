"""Fold the ways in which one text can be written into one."""

import re
import unicodedata
from functools import cache

from opencc import OpenCC

_IDEOGRAPH = re.compile(r"[\u3400-\u4DBF\u4E00-\u9FFF]")
_IDEOGRAPH_RANGES = ((0x3400, 0x4DC0), (0x4E00, 0xA000))


@cache
def _simplified_by_traditional() -> dict[int, str]:
    """Make the character table traditional → simplified, once.

    Characters, not phrases: a table keeps the number of characters, is a hundred times faster than phrase conversion,
    and what matters here is that both scripts give the same tokens, not that the text reads well.
    """
    converter = OpenCC("t2s")
    characters = [chr(code) for start, end in _IDEOGRAPH_RANGES for code in range(start, end)]
    folded = converter.convert("\n".join(characters)).split("\n")
    return {ord(old): new for old, new in zip(characters, folded, strict=True) if old != new}


def normalize(text: str) -> str:
    """Fold width, compatibility forms, case and Chinese script.

    Args:
        text: Any text.

    Returns:
        NFKC form, case-folded, traditional Chinese characters as simplified ones. Applying it twice changes nothing.
    """
    if text.isascii():
        return text.lower()
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    folded = text.casefold()
    if _IDEOGRAPH.search(folded):
        folded = folded.translate(_simplified_by_traditional())
    # Case folding can undo composition (U+0390) and make new compatibility pairs.
    return folded if unicodedata.is_normalized("NFKC", folded) else unicodedata.normalize("NFKC", folded)
