"""A text filter that works while the text arrives and gives the same result for any cutting of it."""

import re
from abc import ABC, abstractmethod

from corpusmesh_core.citation.cursor import Cursor, NeedMoreTextError


class StreamScanner(ABC):
    """Copies text and hands over to `_step` wherever a trigger character stands.

    `_step` sees the text through a cursor alone, so it never decides on less than it needs; what it returns is emitted
    whole, so no construct is ever cut in two.
    """

    def __init__(self, triggers: re.Pattern[str]) -> None:
        """Start at the beginning of a text.

        Args:
            triggers: Matches one character at which `_step` must look.
        """
        self._triggers = triggers
        self._pending = ""
        self._last_input = ""
        self._last_output = ""

    def feed(self, delta: str, *, is_final: bool = False) -> str:
        """Take the next piece.

        Args:
            delta: The next characters.
            is_final: Whether nothing follows.

        Returns:
            What is decided by now.
        """
        cursor = Cursor(self._pending + delta, is_final=is_final)
        text = cursor.text
        position = 0
        pieces: list[str] = []
        try:
            while position < len(text):
                found = self._triggers.search(text, position)
                plain_end = found.start() if found else len(text)
                if plain_end > position:
                    self._take(text[position:plain_end], text[plain_end - 1], pieces)
                    position = plain_end
                    self._on_plain()
                if found:
                    end, output = self._step(cursor, position)
                    self._take(output, text[end - 1], pieces)
                    position = end
        except NeedMoreTextError:
            pass
        self._pending = text[position:]
        return "".join(pieces)

    def _take(self, output: str, last_input: str, pieces: list[str]) -> None:
        pieces.append(output)
        self._last_input = last_input
        self._last_output = output[-1:] or self._last_output

    def _on_plain(self) -> None:  # noqa: B027 - most scanners need not know
        """Hear that plain text was copied."""

    @abstractmethod
    def _step(self, cursor: Cursor, position: int) -> tuple[int, str]:
        """Decide what becomes of the text at a trigger.

        Args:
            cursor: The text.
            position: Of the trigger character.

        Returns:
            Position after what was decided, greater than `position`, and what stands in its place.

        Raises:
            NeedMoreTextError: Where that cannot be decided yet; nothing may have been changed then.
        """
