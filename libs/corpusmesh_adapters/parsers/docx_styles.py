"""What Word's styles and numbering say of a paragraph (ECMA-376 Part 1, 17.7 and 17.9)."""

import re
from dataclasses import dataclass, field

from lxml import etree

from corpusmesh_core.documents import BlockKind

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LIST_STYLE = re.compile(r"\Alist(?: bullet| number| continue)?(?: (\d))?\Z", re.IGNORECASE)
_CODE_STYLES = frozenset(["html preformatted", "code", "source code", "preformatted text", "macro"])
_PLACEHOLDER = re.compile(r"%(\d)")
_MAX_BASES = 16
_MAX_HEADING_LEVEL = 9
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_UNITS = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_HAN_DIGITS = "〇一二三四五六七八九"
_HAN_FORMATS = frozenset(
    ["chineseCounting", "chineseCountingThousand", "japaneseCounting", "ideographTraditional", "taiwaneseCounting"]
)
_SYMBOLS = frozenset(["bullet", "none"])


@dataclass(slots=True)
class _Style:
    """A paragraph style."""

    name: str
    based_on: str
    outline_level: int | None
    number: str
    number_level: int
    breaks_page: bool


@dataclass(slots=True)
class _Level:
    """A level of a numbering: its number format, its pattern and where it starts."""

    number_format: str
    pattern: str
    start: int


@dataclass(frozen=True, slots=True)
class ParagraphRole:
    """What a paragraph is.

    Attributes:
        kind: Its kind.
        level: Heading or list depth from 1, 0 elsewhere.
        label: The number or letter that Word shows before it, "" for bullets and for none.
        breaks_page: Whether it starts a page.
    """

    kind: BlockKind
    level: int = 0
    label: str = ""
    breaks_page: bool = False


@dataclass(slots=True)
class WordStyles:
    """Styles and numbering of one document."""

    _styles: dict[str, _Style] = field(default_factory=dict)
    _levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    _abstract_of: dict[str, str] = field(default_factory=dict)
    _counters: dict[str, dict[int, int]] = field(default_factory=dict)

    def learn_styles(self, root: etree._Element) -> None:
        """Take in a style sheet.

        Args:
            root: Of word/styles.xml.
        """
        for style in root.iter(f"{W}style"):
            if style.get(f"{W}type") != "paragraph":
                continue
            properties = style.find(f"{W}pPr")
            number, number_level = _numbering(properties)
            self._styles[style.get(f"{W}styleId", "")] = _Style(
                value(style.find(f"{W}name")).lower(),
                value(style.find(f"{W}basedOn")),
                _level(_find(properties, "outlineLvl")),
                number,
                number_level,
                is_on(_find(properties, "pageBreakBefore")),
            )

    def learn_numbering(self, root: etree._Element) -> None:
        """Take in numbering definitions.

        Args:
            root: Of word/numbering.xml.
        """
        for abstract in root.iter(f"{W}abstractNum"):
            levels: dict[int, _Level] = {}
            for level in abstract.iter(f"{W}lvl"):
                depth, start = level.get(f"{W}ilvl", ""), value(level.find(f"{W}start"))
                if depth.isdecimal() and len(depth) < 3:
                    levels[int(depth)] = _Level(
                        value(level.find(f"{W}numFmt")),
                        value(level.find(f"{W}lvlText")),
                        int(start) if start.isdecimal() and len(start) < 6 else 1,
                    )
            self._levels[abstract.get(f"{W}abstractNumId", "")] = levels
        for number in root.iter(f"{W}num"):
            self._abstract_of[number.get(f"{W}numId", "")] = value(number.find(f"{W}abstractNumId"))

    def role(self, properties: etree._Element | None) -> ParagraphRole:
        """Say what a paragraph is; numbered ones are counted, so each is to be asked once, in order.

        Args:
            properties: Its `pPr`.

        Returns:
            Its kind, level and label.
        """
        outline = _level(_find(properties, "outlineLvl"))
        number, depth = _numbering(properties)
        breaks = is_on(_find(properties, "pageBreakBefore"))
        names: list[str] = []
        style_id = value(_find(properties, "pStyle"))
        for _ in range(_MAX_BASES):
            style = self._styles.get(style_id)
            if style is None:
                break
            names.append(style.name)
            if outline is None:
                outline = style.outline_level
            if not number:
                number, depth = style.number, style.number_level
            breaks = breaks or style.breaks_page
            style_id = style.based_on
        label = self._label(number, depth) if number not in ("", "0") else ""
        kind, level = _kind(names, outline, depth + 1 if number not in ("", "0") else 0)
        if kind is BlockKind.HEADING and not any(character.isalpha() for character in label):
            label = ""  # "2.1" before a heading is its place in the outline, which its level says already
        return ParagraphRole(kind, level, label, breaks)

    def is_heading(self, properties: etree._Element | None) -> bool:
        """Say whether a paragraph is a heading, without counting it.

        Args:
            properties: Its `pPr`.

        Returns:
            True if it or its style has an outline level.
        """
        outline = _level(_find(properties, "outlineLvl"))
        style_id = value(_find(properties, "pStyle"))
        for _ in range(_MAX_BASES):
            style = self._styles.get(style_id)
            if outline is not None or style is None:
                break
            outline, style_id = style.outline_level, style.based_on
        return outline is not None and outline < _MAX_HEADING_LEVEL

    def _label(self, number: str, depth: int) -> str:
        abstract = self._abstract_of.get(number, "")
        levels = self._levels.get(abstract, {})
        level = levels.get(depth)
        if level is None:
            return ""
        counters = self._counters.setdefault(abstract, {})
        counters[depth] = counters.get(depth, level.start - 1) + 1
        for deeper in [each for each in counters if each > depth]:
            del counters[deeper]
        if level.number_format in _SYMBOLS:
            return ""

        def shown(match: re.Match[str]) -> str:
            at = int(match.group(1)) - 1
            other = levels.get(at)
            count = counters.get(at, other.start if other is not None else 1)
            return format_number(count, other.number_format if other is not None else "decimal")

        return _PLACEHOLDER.sub(shown, level.pattern).strip()


def _kind(names: list[str], outline: int | None, list_depth: int) -> tuple[BlockKind, int]:
    for name in names:
        if name == "title":
            return BlockKind.TITLE, 0
        if name == "caption":
            return BlockKind.CAPTION, 0
        if name in _CODE_STYLES:
            return BlockKind.CODE, 0
    if outline is not None and outline < _MAX_HEADING_LEVEL:
        return BlockKind.HEADING, outline + 1
    if list_depth:
        return BlockKind.LIST_ITEM, list_depth
    for name in names:
        match = _LIST_STYLE.match(name)
        if match and name != "list":
            return BlockKind.LIST_ITEM, int(match.group(1) or 1)
    return BlockKind.PARAGRAPH, 0


def value(element: etree._Element | None) -> str:
    """Read an element's `w:val`.

    Args:
        element: Any element, or None.

    Returns:
        The value, "" where there is none.
    """
    return "" if element is None else str(element.get(f"{W}val", ""))


def is_on(element: etree._Element | None) -> bool:
    """Say whether a switch of Word's is on: there, and not set to false.

    Args:
        element: The switch, or None.

    Returns:
        True if it is on.
    """
    return element is not None and value(element) not in ("0", "false", "off")


def format_number(count: int, number_format: str) -> str:
    """Write a number as Word does.

    Args:
        count: At least 1.
        number_format: Word's name of the format.

    Returns:
        The number; decimal for formats that are not known.
    """
    if number_format in ("lowerLetter", "upperLetter") and count > 0:
        letter = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letter[:10].upper() if number_format == "upperLetter" else letter[:10]
    if number_format in ("lowerRoman", "upperRoman") and 0 < count < 4000:
        rest, roman = count, ""
        for worth, sign in _ROMAN:
            roman += sign * (rest // worth)
            rest %= worth
        roman += _ROMAN_UNITS[rest]
        return roman.upper() if number_format == "upperRoman" else roman
    if number_format in _HAN_FORMATS and 0 < count < 100:
        tens, units = divmod(count, 10)
        ten = {0: "", 1: "十"}.get(tens, f"{_HAN_DIGITS[tens]}十")
        return ten + (_HAN_DIGITS[units] if units else "")
    return f"{count:02d}" if number_format == "decimalZero" else str(count)


def _find(properties: etree._Element | None, name: str) -> etree._Element | None:
    return None if properties is None else properties.find(f"{W}{name}")


def _level(element: etree._Element | None) -> int | None:
    level = value(element)
    return int(level) if level.isdecimal() and len(level) < 3 else None


def _numbering(properties: etree._Element | None) -> tuple[str, int]:
    numbering = _find(properties, "numPr")
    if numbering is None:
        return "", 0
    depth = value(numbering.find(f"{W}ilvl"))
    return value(numbering.find(f"{W}numId")), int(depth) if depth.isdecimal() and len(depth) < 2 else 0
