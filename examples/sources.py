"""Reads the source texts: Markdown into titles, sections and blocks."""

import html
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARAGRAPH_KINDS = {"bullet_list_open": "bullet", "ordered_list_open": "number", "blockquote_open": "quote"}
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Run:
    """Text in one style."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False


@dataclass(frozen=True)
class Item:
    """One block: kind is heading, paragraph, bullet, number, code, quote or table."""

    kind: str
    runs: tuple[Run, ...] = ()
    level: int = 0
    number: int = 0
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        """The block's text without styles."""
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True)
class Source:
    """A source text."""

    title: str
    language: str
    markdown: str
    items: tuple[Item, ...] = field(repr=False)


def read_source(path: Path, language: str) -> Source:
    """Read one source text; its first heading is its title."""
    markdown = path.read_text(encoding="utf-8")
    items = tuple(_items(MARKDOWN.parse(markdown)))
    if not items or items[0].kind != "heading" or items[0].level != 1:
        raise ValueError(f"{path.name} does not begin with a title")
    return Source(items[0].text, language, markdown, items)


def _items(tokens: list[Token]) -> list[Item]:
    found: list[Item] = []
    kind, number = "paragraph", 0
    rows: list[tuple[str, ...]] = []
    for position, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                found.append(Item("heading", _runs(tokens[position + 1]), level=int(token.tag[1])))
            case "bullet_list_open" | "ordered_list_open" | "blockquote_open":
                kind, number = _PARAGRAPH_KINDS[token.type], 0
            case "bullet_list_close" | "ordered_list_close" | "blockquote_close":
                kind = "paragraph"
            case "list_item_open":
                number += 1
            case "paragraph_open":
                found.append(Item(kind, _runs(tokens[position + 1]), number=number))
            case "fence":
                found.append(Item("code", (Run(token.content.rstrip("\n"), code=True),)))
            case "table_open":
                rows = []
            case "tr_open":
                rows.append(_cells(tokens, position))
            case "table_close":
                found.append(Item("table", rows=tuple(rows)))
    return found


def _cells(tokens: list[Token], row: int) -> tuple[str, ...]:
    cells = []
    for position in range(row + 1, len(tokens)):
        if tokens[position].type == "tr_close":
            break
        if tokens[position].type in {"th_open", "td_open"}:
            cells.append("".join(run.text for run in _runs(tokens[position + 1])))
    return tuple(cells)


def _runs(inline: Token) -> tuple[Run, ...]:
    runs: list[Run] = []
    bold = italic = False
    for child in inline.children or []:
        match child.type:
            case "strong_open" | "strong_close":
                bold = child.type == "strong_open"
            case "em_open" | "em_close":
                italic = child.type == "em_open"
            case "text" | "code_inline":
                runs.append(Run(child.content, bold, italic, child.type == "code_inline"))
            case "softbreak":
                runs.append(Run(" ", bold, italic))
    return tuple(run for run in runs if run.text)


def escape(text: str) -> str:
    """Make a text fit for XML."""
    return html.escape(text, quote=False)
