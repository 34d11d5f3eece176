"""The part of a reasoning model's text that is not its answer."""

_OPEN, _CLOSE = "<think>", "</think>"


class LeadingThought:
    """Takes a `<think>…</think>` at the very beginning out of a stream."""

    def __init__(self) -> None:
        """Start at the beginning of a text."""
        self._pending = ""
        self._is_open = False
        self._is_trimming = False
        self._is_done = False

    def feed(self, delta: str, *, is_final: bool = False) -> str:
        """Take the next piece.

        Args:
            delta: The next characters.
            is_final: Whether nothing follows; a thought without end takes all the text with it.

        Returns:
            What belongs to the answer; the same for any cutting of the text.
        """
        if self._is_done:
            return delta
        self._pending += delta
        if not self._is_open and not self._is_trimming:
            begun = self._pending.lstrip()
            if begun.startswith(_OPEN):
                self._is_open = True
                self._pending = begun[len(_OPEN) :]
            elif is_final or not _OPEN.startswith(begun):
                return self._end(self._pending)
            else:
                return ""
        if self._is_open:
            _, found, rest = self._pending.partition(_CLOSE)
            if not found:
                self._pending = self._pending[1 - len(_CLOSE) :]
                return ""
            self._is_open = False
            self._is_trimming = True
            self._pending = rest
        answer = self._pending.lstrip()
        return self._end(answer) if answer else ""

    def _end(self, text: str) -> str:
        self._is_done = True
        self._pending = ""
        return text
