"""Turns bytes of any encoding into text."""

import codecs
import re
import unicodedata
from dataclasses import dataclass

from charset_normalizer import from_bytes

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 64 * 1024
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_WIDE_SAMPLE_BYTES = 4_096
_FIRST_HANGUL, _LAST_HANGUL, _ENDINGS_PER_VOWEL = 0xAC00, 0xD7A3, 28
_COMMON_ENDINGS = frozenset([0, 1, 4, 8, 16, 17, 19, 20, 21])  # none, g, n, l, m, b, s, ss, ng
_MOST_RARE_ENDINGS = 0.15
# What a browser takes these labels to be: the larger code page that contains the labelled one.
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "iso-8859-1": "cp1252", "euc_kr": "cp949"}


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text and how it was read.

    Attributes:
        text: The text, without a byte order mark.
        encoding: Python's name of the encoding.
        replaced_count: Bytes or sequences that stand for nothing in it, now U+FFFD.
    """

    text: str
    encoding: str
    replaced_count: int = 0


def decode(content: bytes, declared: str = "") -> DecodedText:
    """Decode text of unknown encoding: byte order mark, NUL pattern, UTF-8, the declared encoding, statistics.

    Args:
        content: The bytes.
        declared: Encoding that the document names, "" where it names none.

    Returns:
        The text; it is never refused.
    """
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _decoded(content, encoding)
    wide = wide_encoding(content)
    if wide:
        return _decoded(content, wide)
    try:
        return DecodedText(content.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    encoding = _known(declared) or _by_statistics(content)
    return _decoded(content, encoding)


def wide_encoding(content: bytes) -> str:
    """Recognise UTF-16 and UTF-32 without a byte order mark by where their NULs stand.

    Args:
        content: The bytes.

    Returns:
        Python's name of the encoding, "" if it is neither.
    """
    sample = content[: _WIDE_SAMPLE_BYTES - _WIDE_SAMPLE_BYTES % 4]
    if len(sample) < 2 or len(content) % 2 or b"\0" not in sample:
        return ""
    lanes = [sample[lane::4].count(0) / max(len(sample) // 4, 1) for lane in range(4)]
    if len(content) % 4 == 0:
        if lanes[3] > 0.95 and lanes[2] > 0.95 and lanes[0] < 0.5:
            return "utf-32-le"
        if lanes[0] > 0.95 and lanes[1] > 0.95 and lanes[3] < 0.5:
            return "utf-32-be"
    low, high = sample[0::2].count(0), sample[1::2].count(0)
    if low + high == 0 or min(low, high) * 8 > max(low, high):
        return ""
    encoding = "utf-16-le" if high > low else "utf-16-be"
    # Bytes of a program have NULs too; text in UTF-16 decodes without error and has no controls.
    text = sample.decode(encoding, "replace")
    odd = sum(1 for character in text if character == "\ufffd" or _is_odd(character))
    return encoding if odd * 50 <= len(text) else ""


def _is_odd(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs") and character not in "\t\r\n\f"


def _known(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name if encoding else ""
    except LookupError:
        return ""
    return _WIDER.get(encoding.lower(), _WIDER.get(name, name)) if not name.startswith(("utf-16", "utf-32")) else ""


def _by_statistics(content: bytes) -> str:
    # The telling bytes may come late (a long ASCII head): look where the first ones are, cut at line ends.
    first = _NON_ASCII.search(content)
    start = max(content.rfind(b"\n", 0, first.start()) + 1 if first else 0, (first.start() if first else 0) - 1_024)
    sample = content[start : start + _SAMPLE_BYTES]
    if start + _SAMPLE_BYTES < len(content):
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    best = from_bytes(sample).best()
    if best is None:
        return "cp1252"
    encoding = _WIDER.get(best.encoding, best.encoding)
    return "gb18030" if encoding == "cp949" and _is_chinese_taken_for_korean(sample) else encoding


def _is_chinese_taken_for_korean(sample: bytes) -> bool:
    """Look at the last letters of syllables: in Korean nine endings make up nearly all, in Chinese bytes far less."""
    try:
        sample.decode("gb18030")
    except UnicodeDecodeError:
        return False
    endings = [
        (ord(character) - _FIRST_HANGUL) % _ENDINGS_PER_VOWEL
        for character in sample.decode("cp949", "replace")
        if _FIRST_HANGUL <= ord(character) <= _LAST_HANGUL
    ]
    rare = sum(ending not in _COMMON_ENDINGS for ending in endings)
    return rare > _MOST_RARE_ENDINGS * len(endings)


def _decoded(content: bytes, encoding: str) -> DecodedText:
    text = content.decode(encoding, "replace")
    return DecodedText(text.removeprefix("\ufeff"), encoding.removesuffix("-sig"), text.count("\ufffd"))
