"""Where things stand on a PDF page, and the lines of text that stand there."""

from dataclasses import dataclass

from corpusmesh_core.documents import Box

Edges = tuple[float, float, float, float]
"""Left, top, right and bottom as displayed; or left, bottom, right and top in PDF coordinates where it says so."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Maps PDF coordinates of a page to points from the top left of the page as displayed.

    Attributes:
        page: Page number from 1.
        left: Left edge of the visible box in PDF coordinates.
        bottom: Its bottom edge.
        right: Its right edge.
        top: Its top edge.
        rotation: How the page is turned for display: 0, 90, 180 or 270 degrees clockwise.
    """

    page: int
    left: float
    bottom: float
    right: float
    top: float
    rotation: int

    @property
    def width(self) -> float:
        """Width as displayed, in points."""
        return self.top - self.bottom if self.rotation in (90, 270) else self.right - self.left

    @property
    def height(self) -> float:
        """Height as displayed, in points."""
        return self.right - self.left if self.rotation in (90, 270) else self.top - self.bottom

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """Map a rectangle.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            What of the rectangle is displayed, to a tenth of a point.
        """
        x0, y0, x1, y1 = self.edges(left, bottom, right, top)
        return Box(self.page, round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1))

    def edges(self, left: float, bottom: float, right: float, top: float) -> Edges:
        """Map a rectangle.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            Left, top, right and bottom of what of it is displayed.
        """
        left, right = max(left, self.left), min(right, self.right)
        bottom, top = max(bottom, self.bottom), min(top, self.top)
        if left > right:
            left, right = right, left
        if bottom > top:
            bottom, top = top, bottom
        if self.rotation == 90:
            return bottom - self.bottom, left - self.left, top - self.bottom, right - self.left
        if self.rotation == 180:
            return self.right - right, bottom - self.bottom, self.right - left, top - self.bottom
        if self.rotation == 270:
            return self.top - top, self.right - right, self.top - bottom, self.right - left
        return left - self.left, self.top - top, right - self.left, self.top - bottom

    def holds(self, left: float, bottom: float, right: float, top: float) -> bool:
        """Say whether all of a rectangle lies on an upright page: the common case, where mapping it is a subtraction.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            False where `edges` and `shows` have to look closer.
        """
        return (
            not self.rotation
            and left >= self.left
            and right <= self.right
            and bottom >= self.bottom
            and top <= self.top
        )

    def shows(self, left: float, bottom: float, right: float, top: float) -> bool:
        """Say whether any of a rectangle is displayed.

        Args:
            left: Its left edge in PDF coordinates.
            bottom: Its bottom edge.
            right: Its right edge.
            top: Its top edge.

        Returns:
            False if all of it lies beside the page.
        """
        return right >= self.left and left <= self.right and top >= self.bottom and bottom <= self.top


@dataclass(slots=True)
class Line:
    """One line of text; not frozen, because thousands are made and a frozen one takes three times as long to make.

    Attributes:
        text: Its text.
        box: Where it stands.
        size: Font size in points, as drawn.
        bold: Whether it begins and ends in a bold font.
        hyphenated: Whether a word goes on in the next line.
        direction: Quarter turns of its writing on the displayed page: 0 to the right, 1 upwards, 2 to the left and
            upside down, 3 downwards.
        cells: Texts and boxes of its parts where wide gaps part it like cells of a table; empty otherwise.
    """

    text: str
    box: Box
    size: float
    bold: bool = False
    hyphenated: bool = False
    direction: int = 0
    cells: tuple[tuple[str, Box], ...] = ()
