"""Holds each sentence of an arriving answer back until its end: its citations are settled before it is shown."""

import re

from corpusmesh_core.citation.sentences import split_sentences

_MARKER = re.compile(r"\[ID:\d{1,18}\]")
_TRAILING_MARKERS = re.compile(r"(?:\s*\[ID:\d{1,18}\])+")
_MAX_HELD_CHARACTERS = 4_000
_LOOK_SHARE = 16


class SentenceGate:
    """Cuts a text into segments while it arrives; all segments together are the text.

    A segment is a sentence, the white space before it, and the markers behind it. It is given out once what follows it
    has begun, since a marker may stand behind the full stop.
    """

    def __init__(self) -> None:
        """Start at the beginning of a text."""
        self._pending = ""
        self._next_look = 0

    def feed(self, piece: str) -> list[str]:
        """Take the next piece.

        Args:
            piece: Filtered text; a marker comes whole.

        Returns:
            Segments that are complete.
        """
        self._pending += piece
        if len(self._pending) < self._next_look:
            return []
        segments = _segments(self._pending)
        ready = segments[:-1]
        held = sum(len(segment) for segment in ready)
        if len(self._pending) - held > _MAX_HELD_CHARACTERS:
            # A text without an end is shown nevertheless.
            ready, held = segments, len(self._pending)
        self._pending = self._pending[held:]
        # A look reads all that is held: one for each sixteenth more, or a text without an end takes seconds.
        self._next_look = len(self._pending) + len(self._pending) // _LOOK_SHARE + 1
        return ready

    def finish(self) -> list[str]:
        """End the text.

        Returns:
            The last segments.
        """
        segments, self._pending = _segments(self._pending), ""
        return segments


def split_segments(text: str) -> list[str]:
    """Cut a text that is there whole.

    Args:
        text: Filtered text.

    Returns:
        Its segments; all together are the text.
    """
    return _segments(text)


def _segments(text: str) -> list[str]:
    # A marker is not part of a sentence's form: "… 512 MiB.[ID:7] Larger ones …" are two sentences.
    plain = _MARKER.sub(lambda match: " " * len(match.group()), text)
    ends: list[int] = []
    for span in split_sentences(plain):
        markers = _TRAILING_MARKERS.match(text, span.end)
        ends.append(markers.end() if markers else span.end)
    if not ends:
        return [text] if text else []
    ends[-1] = len(text)
    starts = [0, *ends[:-1]]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]
