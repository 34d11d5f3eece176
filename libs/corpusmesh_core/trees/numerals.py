"""Values of numbers that are written in words."""

from typing import Final

_DIGITS: Final = {
    sign: value
    for value, signs in enumerate(("零〇", "一", "二两兩", "三", "四", "五", "六", "七", "八", "九"))
    for sign in signs
}
_TENS: Final = {"十": 10, "百": 100, "千": 1000}
_SECTIONS: Final = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_ONES: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
""".split()  # noqa: SIM905 - a list of words reads better than a list of quoted words
_TIES: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905 - as above
_WORDS: Final = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * tens for tens, word in enumerate(_TIES, 2)
}
_HUNDRED: Final = 100
_MAX_CHARACTERS: Final = 24


def chinese_value(text: str) -> int | None:
    """Read a Chinese numeral.

    Args:
        text: Signs of numerals and nothing else, such as "三百二十", "二〇二四" or "一万二千".

    Returns:
        Its value; None for what is no number.
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    if all(sign in _DIGITS for sign in text):
        # Signs in a row are the digits of a year or a code.
        return int("".join(str(_DIGITS[sign]) for sign in text))
    total = section = 0
    digit: int | None = None
    for place, sign in enumerate(text):
        if sign in _DIGITS:
            digit = _DIGITS[sign]
        elif sign in _TENS:
            if digit is None and (place > 0 and sign != "十"):
                return None
            section += (1 if digit is None else digit) * _TENS[sign]
            digit = None
        else:
            section += digit or 0
            if section == 0 and total == 0:
                return None
            total = (
                (total + section) * _SECTIONS[sign]
                if _SECTIONS[sign] > total > 0
                else total + section * _SECTIONS[sign]
            )
            section, digit = 0, None
    return total + section + (digit or 0)


def english_value(text: str) -> int | None:
    """Read an English numeral below a thousand.

    Args:
        text: Words such as "twenty-three" or "two hundred and five".

    Returns:
        Its value; None for what is no number.
    """
    total = 0
    for word in text.casefold().replace("-", " ").split():
        if word == "hundred":
            total = max(1, total) * _HUNDRED
        elif word in _WORDS:
            total += _WORDS[word]
        elif word != "and":
            return None
    return total
