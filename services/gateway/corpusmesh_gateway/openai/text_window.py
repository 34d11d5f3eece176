"""Bounds the text of an answer as OpenAI's `stop` and `max_tokens` do."""

from collections.abc import Sequence

from corpusmesh_core.token_estimate import cut_to_tokens, estimate_tokens


class TextWindow:
    """Lets the text of an answer through until a stop text or the bound of tokens comes.

    Attributes:
        text: What came through.
        finish_reason: "stop" or "length" once the answer has been ended here; None before.
    """

    def __init__(self, stops: Sequence[str], max_tokens: int | None) -> None:
        """Create it.

        Args:
            stops: Texts before which the answer ends.
            max_tokens: Most tokens, by estimate; None for no bound.
        """
        self._stops = tuple(stops)
        self._max_tokens = max_tokens
        self._held = ""
        self.text = ""
        self.finish_reason: str | None = None

    def feed(self, piece: str) -> str:
        """Take the next piece.

        Args:
            piece: The piece.

        Returns:
            What may be sent now; a beginning of a stop text is held back until it is clear that it is none.
        """
        if self.finish_reason is not None:
            return ""
        text = self._held + piece
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if places:
            self._held = ""
            sent = self._send(text[: min(places)])
            self.finish_reason = self.finish_reason or "stop"
            return sent
        kept = self._possible_beginning(text)
        self._held = text[len(text) - kept :]
        return self._send(text[: len(text) - kept])

    def end(self) -> str:
        """Take the end of the answer.

        Returns:
            What was held back.
        """
        held, self._held = self._held, ""
        return self._send(held) if self.finish_reason is None else ""

    def _send(self, text: str) -> str:
        if self._max_tokens is not None and estimate_tokens(self.text + text) > self._max_tokens:
            whole = cut_to_tokens(self.text + text, self._max_tokens)
            text = whole[len(self.text) :]
            self.finish_reason = "length"
        self.text += text
        return text

    def _possible_beginning(self, text: str) -> int:
        return max(
            (
                count
                for stop in self._stops
                for count in range(min(len(stop) - 1, len(text)), 0, -1)
                if stop.startswith(text[len(text) - count :])
            ),
            default=0,
        )
