"""What an RTF file holds, before it becomes blocks."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class CellDefinition:
    """What a row says of one of its cells: its right edge in twips and how it is merged."""

    right: int = 0
    continues_left: bool = False
    continues_above: bool = False


@dataclass(slots=True)
class Paragraph:
    """A paragraph with what decides its kind.

    Attributes:
        text: Its text.
        story: "body", "footnote", "header" or "footer".
        style: Number of its style.
        outline_level: Heading level from 0, or None.
        list_level: Depth from 1; 0 outside lists.
        list_mark: The number or letter before it.
    """

    text: str
    story: str
    style: int
    outline_level: int | None
    list_level: int
    list_mark: str


@dataclass(slots=True)
class Row:
    """A row of a table: its cells' texts, its left edge and what it says of its cells."""

    cells: list[str]
    left: int
    definitions: list[CellDefinition]


@dataclass(frozen=True, slots=True)
class RtfPicture:
    """A picture's bytes as they lie in the file."""

    content: bytes


@dataclass(slots=True)
class Style:
    """A paragraph style."""

    name: str = ""
    outline_level: int | None = None


@dataclass(slots=True)
class RtfContent:
    """What a file holds.

    Attributes:
        items: Paragraphs, rows and pictures in order; notes follow the paragraph that they belong to.
        styles: Paragraph styles by number.
        info: Title, author, …
        html: The page that the file wraps, where it wraps one (mail).
    """

    items: list[Paragraph | Row | RtfPicture] = field(default_factory=list)
    styles: dict[int, Style] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    html: str = ""
