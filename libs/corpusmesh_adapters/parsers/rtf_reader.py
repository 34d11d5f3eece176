"""Reads RTF control words into paragraphs, cells, notes and pictures (RTF specification 1.9.1, Microsoft 2008)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape

from corpusmesh_adapters.parsers.failures import over_limit
from corpusmesh_adapters.parsers.rtf_values import CellDefinition, Paragraph, Row, RtfContent, RtfPicture, Style
from corpusmesh_adapters.parsers.rtf_words import (
    CODECS_OF_CHARSETS,
    INFO_FIELDS,
    MARKS,
    SKIPPED,
    STORIES,
    TRANSPARENT,
    codec_of_page,
)
from corpusmesh_core.ports.parsing import ParseLimits

_TOKEN = re.compile(r"\\([A-Za-z]{1,32})(-?\d{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\([^A-Za-z'])|([{}])|([^\\{}]+)|\\", re.S)
_LINE_ENDS = {10: None, 13: None}
_LOW_SURROGATES = range(0xDC00, 0xE000)
_BODY, _SKIP, _FONTS, _STYLES, _INFO, _PICTURE, _LIST_MARK, _HTML_TAG = (
    "body",
    "skip",
    "fonts",
    "styles",
    "info",
    "picture",
    "list mark",
    "html tag",
)


@dataclass(slots=True)
class _State:
    """What a group inherits from the group around it."""

    destination: str = _BODY
    story: str = "body"
    outer: str = _BODY
    codec: str = ""
    fallback_count: int = 1
    is_hidden: bool = False
    style: int = 0
    outline_level: int | None = None
    list_number: int = 0
    list_level: int = 0
    in_table: bool = False
    table_depth: int = 1
    is_html_rtf: bool = False


class RtfReader:
    """One pass over one file."""

    def __init__(self, content: bytes, limits: ParseLimits, *, keep_pictures: bool) -> None:
        """Prepare a pass.

        Args:
            content: The file.
            limits: How deep groups may be nested.
            keep_pictures: Whether pictures are collected.
        """
        # Latin-1 maps bytes to characters one to one; what they mean depends on the font.
        self._source = content.decode("latin-1")
        self._limits = limits
        self._keep_pictures = keep_pictures
        self._out = RtfContent()
        self._state = _State()
        self._stack: list[_State] = []
        self._codec = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._bytes = bytearray()
        self._skip_fallback = 0
        self._is_starred = False
        self._texts: dict[str, list[str]] = {}
        self._cells: list[str] = []
        self._nested_cells: list[str] = []
        self._definitions: list[CellDefinition] = []
        self._left = 0
        self._pending = CellDefinition()
        self._definitions_closed = True
        self._notes: list[Paragraph] = []
        self._mark: list[str] = []
        self._picture: list[str] = []
        self._words: list[str] = []
        self._style = Style()
        self._style_number = 0
        self._info_key = ""
        self._html: list[str] = []
        self._wraps_html = False

    def read(self) -> RtfContent:
        """Read the file to its end, however it ends.

        Returns:
            Its content.

        Raises:
            DocumentError: DOCUMENT_RESOURCE_LIMIT if groups are nested too deeply.
        """
        source, position, end = self._source, 0, len(self._source)
        match = _TOKEN.match
        while position < end:
            token = match(source, position)
            if token is None:
                break
            position = token.end()
            word, number, byte, symbol, brace, text = token.groups()
            if text is not None:
                self._text(text)
            elif word is not None:
                if word == "bin":
                    position = self._binary(position, int(number or 0))
                else:
                    self._word(word, None if number is None else int(number))
            elif byte is not None:
                self._byte(int(byte, 16))
            elif brace == "{":
                self._open()
            elif brace == "}":
                self._close()
            elif symbol is not None:
                self._symbol(symbol)
        self._end_paragraph()
        self._flush_row()
        self._out.html = "".join(self._html) if self._wraps_html else ""
        return self._out

    # Text

    def _text(self, text: str) -> None:
        if self._skip_fallback:
            skipped = min(self._skip_fallback, len(text))
            self._skip_fallback -= skipped
            text = text[skipped:]
        if self._state.destination == _SKIP:
            return
        text = text.translate(_LINE_ENDS)  # line ends in the file are none in the text
        if not text:
            return
        if self._state.destination == _PICTURE:
            if self._keep_pictures:
                self._picture.append(text)
            return
        self._bytes += text.encode("latin-1")

    def _byte(self, value: int) -> None:
        if self._skip_fallback:
            self._skip_fallback -= 1
        elif self._state.destination != _SKIP:
            self._bytes.append(value)

    def _flush_bytes(self) -> None:
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            self._emit(data.decode("ascii" if data.isascii() else self._state.codec or self._codec, "replace"))

    def _emit(self, text: str) -> None:
        state = self._state
        destination = state.destination
        if destination == _HTML_TAG:
            self._html.append(text)
        elif destination == _LIST_MARK:
            self._mark.append(text)
        elif destination in (_FONTS, _STYLES, _INFO):
            self._words.append(text)
        elif destination == _BODY and not state.is_hidden:
            if self._wraps_html:
                if not state.is_html_rtf:
                    self._html.append(escape(text, quote=False))
            else:
                self._texts.setdefault(state.story, []).append(text)

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._is_starred = True
            return
        if self._skip_fallback and symbol in "\\{}":
            self._skip_fallback -= 1
            return
        if symbol in "\\{}":
            self._text(symbol)
            return
        self._flush_bytes()
        shown = {"~": "\u00a0", "_": "-", "\r": "\n", "\n": "\n", "\t": "\t"}.get(symbol, "")
        if symbol in "\r\n":
            self._end_paragraph()
        elif shown:
            self._emit(shown)

    def _binary(self, position: int, byte_count: int) -> int:
        end = min(position + max(byte_count, 0), len(self._source))
        if self._state.destination == _PICTURE and self._keep_pictures:
            self._picture.append(self._source[position:end].encode("latin-1").hex())
        return end

    # Groups

    def _open(self) -> None:
        self._flush_bytes()
        self._skip_fallback = 0
        self._is_starred = False
        if len(self._stack) >= self._limits.max_depth * 10:
            raise over_limit("max_depth", self._limits.max_depth, "its groups are nested more than ten times as deep")
        self._stack.append(self._state)
        self._state = replace(self._state)

    def _close(self) -> None:
        self._flush_bytes()
        self._skip_fallback = 0
        if not self._stack:
            return
        ended, self._state = self._state, self._stack.pop()
        self._end_words(ended)
        if ended.story != self._state.story:
            self._add_paragraph(ended)
        if ended.destination == _PICTURE != self._state.destination:
            self._end_picture()

    def _end_words(self, ended: _State) -> None:
        """Take in an entry of the font table, the style sheet or the information group."""
        if ended.destination == _STYLES and self._state.destination == _STYLES:
            self._style.name = "".join(self._words).strip().rstrip(";")
            self._out.styles[self._style_number] = self._style
            self._style, self._style_number = Style(), 0
        elif ended.destination == _INFO and self._info_key and self._words:
            self._out.info.setdefault(self._info_key, "".join(self._words))
            self._info_key = ""
        elif ended.destination != _FONTS:
            return
        self._words.clear()

    def _end_picture(self) -> None:
        digits = "".join("".join(self._picture).split())
        self._picture.clear()
        if self._state.is_hidden or self._state.destination == _SKIP or not digits:
            return
        try:
            self._out.items.append(RtfPicture(bytes.fromhex(digits[: len(digits) // 2 * 2])))
        except ValueError:
            return

    # Control words

    def _word(self, word: str, number: int | None) -> None:
        self._flush_bytes()
        starred, self._is_starred = self._is_starred, False
        if word == "u":
            self._unicode(number or 0)
            return
        self._skip_fallback = 0
        if self._enter(word, starred) or self._state.destination == _SKIP:
            return
        if word in MARKS:
            self._emit(MARKS[word])
        elif word in _PARAGRAPH_WORDS:
            _PARAGRAPH_WORDS[word](self, number)
        elif word in _TABLE_WORDS:
            _TABLE_WORDS[word](self, number)

    def _unicode(self, number: int) -> None:
        self._skip_fallback = self._state.fallback_count
        if self._state.destination == _SKIP:
            return
        code = number & 0xFFFF
        character = chr(code)
        if code in _LOW_SURROGATES:
            texts = self._texts.get(self._state.story)
            if texts and len(texts[-1]) == 1 and 0xD800 <= ord(texts[-1]) < 0xDC00:
                high = ord(texts.pop())
                character = chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00))
        self._emit(character)

    def _enter(self, word: str, starred: bool) -> bool:
        """Turn to the destination that a control word opens; say whether it does."""
        state = self._state
        if word == "ud":
            state.destination = state.outer
        elif word == "upr":
            state.outer, state.destination = state.destination, _SKIP
        elif state.destination == _SKIP:
            return True
        elif word in ("fonttbl", "stylesheet", "info", "pict"):
            state.destination = {"fonttbl": _FONTS, "stylesheet": _STYLES, "info": _INFO, "pict": _PICTURE}[word]
        elif word == "htmltag":
            state.destination = _HTML_TAG if self._wraps_html else _SKIP
        elif word in ("listtext", "pntext"):
            self._mark.clear()
            state.destination = _LIST_MARK
        elif word in STORIES:
            state.story, state.destination = STORIES[word], _BODY
            state.in_table = False
        elif word in INFO_FIELDS and state.destination == _INFO:
            self._info_key = INFO_FIELDS[word]
        elif word in SKIPPED or (starred and word not in TRANSPARENT and state.destination != _STYLES):
            state.destination = _SKIP
        elif state.destination == _INFO and not self._info_key:
            return True
        else:
            return starred
        return True

    def _reset_paragraph(self, _: int | None) -> None:
        state = self._state
        state.style, state.outline_level, state.list_number, state.list_level = 0, None, 0, 0
        state.in_table, state.table_depth = False, 1

    def _set_style(self, number: int | None) -> None:
        if self._state.destination == _STYLES:
            self._style_number = number or 0
        else:
            self._state.style = number or 0

    def _set_outline_level(self, number: int | None) -> None:
        level = number if number is not None and 0 <= number < 9 else None
        if self._state.destination == _STYLES:
            self._style.outline_level = level
        else:
            self._state.outline_level = level

    def _set_code_page(self, number: int | None) -> None:
        self._codec = codec_of_page(number or 1252)

    def _set_font(self, number: int | None) -> None:
        if self._state.destination == _FONTS:
            self._font = number or 0
        else:
            self._state.codec = self._fonts.get(number or 0, "")

    def _set_charset(self, number: int | None) -> None:
        if self._state.destination == _FONTS:
            self._fonts[self._font] = CODECS_OF_CHARSETS.get(number or 0, "")

    def _set(self, name: str, value: object) -> None:
        setattr(self._state, name, value)

    def _plain(self, _: int | None) -> None:
        self._state.is_hidden = False

    def _start_html(self, _: int | None) -> None:
        self._wraps_html = True

    # Paragraphs and rows

    def _end_paragraph(self, _: int | None = None) -> None:
        if self._wraps_html:
            if self._state.destination == _BODY and not self._state.is_html_rtf:
                self._html.append("\n")
            return
        if self._state.destination == _BODY:
            self._add_paragraph(self._state)

    def _add_paragraph(self, state: _State) -> None:
        parts = self._texts.get(state.story)
        in_cell = state.in_table and state.story == _BODY
        if in_cell:
            # The texts of a cell's paragraphs stay together until the cell ends.
            if parts:
                parts.append("\n")
            return
        text = "".join(parts or ())
        if parts:
            parts.clear()
        mark = "".join(self._mark).strip() if state.story == _BODY else ""
        if state.story == _BODY:
            self._mark.clear()
            self._flush_row()
        if text.strip():
            level = state.list_level + 1 if state.list_number or mark else 0
            paragraph = Paragraph(text, state.story, state.style, state.outline_level, level, mark)
            (self._out.items if state.story == _BODY else self._notes).append(paragraph)
        if state.story == _BODY:
            self._out.items += self._notes
            self._notes.clear()

    def _end_cell(self, _: int | None) -> None:
        self._cells.append(self._taken_text())
        self._mark.clear()

    def _end_nested_cell(self, _: int | None) -> None:
        self._nested_cells.append(self._taken_text())

    def _end_nested_row(self, _: int | None) -> None:
        # A table in a cell is text of the cell, a line per row.
        self._texts.setdefault(_BODY, []).append("\n" + "\t".join(self._nested_cells) + "\n")
        self._nested_cells.clear()
        self._definitions_closed = True

    def _taken_text(self) -> str:
        parts = self._texts.get(_BODY, [])
        text = "".join(parts).strip()
        parts.clear()
        return text

    def _end_row(self, _: int | None) -> None:
        if self._cells:
            self._out.items.append(Row(self._cells, self._left, list(self._definitions)))
            self._out.items += self._notes
        self._notes.clear()
        self._cells = []
        self._definitions_closed = True

    def _flush_row(self) -> None:
        """Keep the cells of a row that the file's end cut off."""
        if self._cells:
            self._end_row(None)

    def _start_definitions(self, _: int | None) -> None:
        self._definitions, self._pending, self._left = [], CellDefinition(), 0

    def _set_left(self, number: int | None) -> None:
        self._left = number or 0

    def _define_cell(self, number: int | None) -> None:
        self._pending.right = number or 0
        if len(self._definitions) < self._limits.max_cells:
            self._definitions.append(self._pending)
        self._pending = CellDefinition()

    def _merge_left(self, _: int | None) -> None:
        self._pending.continues_left = True

    def _merge_above(self, _: int | None) -> None:
        self._pending.continues_above = True


_PARAGRAPH_WORDS: dict[str, Callable[[RtfReader, int | None], None]] = {
    "par": RtfReader._end_paragraph,
    "sect": RtfReader._end_paragraph,
    "page": RtfReader._end_paragraph,
    "pard": RtfReader._reset_paragraph,
    "plain": RtfReader._plain,
    "s": RtfReader._set_style,
    "outlinelevel": RtfReader._set_outline_level,
    "ls": lambda self, number: self._set("list_number", number or 0),
    "ilvl": lambda self, number: self._set("list_level", min(max(number or 0, 0), 8)),
    "intbl": lambda self, _: self._set("in_table", True),
    "itap": lambda self, number: self._set("in_table", (number or 0) > 0),
    "v": lambda self, number: self._set("is_hidden", number != 0),
    "deleted": lambda self, number: self._set("is_hidden", number != 0),
    "uc": lambda self, number: self._set("fallback_count", min(max(1 if number is None else number, 0), 16)),
    "ansicpg": RtfReader._set_code_page,
    "f": RtfReader._set_font,
    "fcharset": RtfReader._set_charset,
    "mac": lambda self, _: self._set_code_page(10000),
    "pc": lambda self, _: self._set_code_page(437),
    "pca": lambda self, _: self._set_code_page(850),
    "fromhtml": RtfReader._start_html,
    "htmlrtf": lambda self, number: self._set("is_html_rtf", number != 0),
}
_TABLE_WORDS: dict[str, Callable[[RtfReader, int | None], None]] = {
    "cell": RtfReader._end_cell,
    "row": RtfReader._end_row,
    "nestcell": RtfReader._end_nested_cell,
    "nestrow": RtfReader._end_nested_row,
    "trowd": RtfReader._start_definitions,
    "trleft": RtfReader._set_left,
    "cellx": RtfReader._define_cell,
    "clmrg": RtfReader._merge_left,
    "clvmrg": RtfReader._merge_above,
}
