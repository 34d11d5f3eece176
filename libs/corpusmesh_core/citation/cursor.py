"""A text that is still arriving, read so that no decision depends on how it was cut."""


class NeedMoreTextError(Exception):
    """A decision needs characters that have not arrived."""


class Cursor:
    """Characters by position.

    A parser that sees text only through `at` decides alike for any cutting of it: either it sees the same characters,
    or it is asked again when they are there.
    """

    __slots__ = ("is_final", "text")

    def __init__(self, text: str, *, is_final: bool) -> None:
        """Wrap a text.

        Args:
            text: What has arrived.
            is_final: Whether nothing follows it.
        """
        self.text = text
        self.is_final = is_final

    def at(self, position: int) -> str:
        """Read one character.

        Args:
            position: From 0.

        Returns:
            The character, "" past the end of a final text.

        Raises:
            NeedMoreTextError: Past the end of a text that is still arriving.
        """
        if position < len(self.text):
            return self.text[position]
        if self.is_final:
            return ""
        raise NeedMoreTextError

    def skip_blanks(self, position: int, *, limit: int = 8) -> int:
        """Step over spaces and tabs.

        Args:
            position: Where to begin.
            limit: Most characters to step over.

        Returns:
            The position after them.
        """
        end = position + limit
        while position < end and self.at(position) in {" ", "\t", "\u00a0", "\u3000"}:
            position += 1
        return position
