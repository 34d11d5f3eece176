"""What a language model wrote, made safe to show: citations that exist, nothing that loads (invariant 9).

Field report FR-A14: markers resolve by label to a record, never by place in a list; unknown ones are dropped and
counted; the streamed and the whole answer are the same.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from corpusmesh_core.citation.cursor import Cursor
from corpusmesh_core.citation.guard import AddressGuard
from corpusmesh_core.citation.links import (
    is_active_tag,
    is_allowed_link,
    is_autolink,
    is_plain_target,
    parse_link,
    tag_end,
)
from corpusmesh_core.citation.markers import MARKER_OPENERS, MarkerGroup, MarkerStyle, parse_marker
from corpusmesh_core.citation.scanning import StreamScanner
from corpusmesh_core.citation.thought import LeadingThought

_TRIGGERS = re.compile(r"[\[【［〔(（\\!<IiＩ \t\u00a0\u3000]")
_MAX_NESTING = 3
_MAX_RANGE_COUNT = 8
# Controls (terminal escapes), zero-width and direction characters, tag characters: nothing that a reader sees.
_INVISIBLE = dict.fromkeys(
    (
        *(code for code in range(0x20) if code not in {0x09, 0x0A}),
        *range(0x7F, 0xA0),
        *(0x00AD, 0x200B, 0x2060, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xE0000, 0xE0080),
    )
)


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """What a filter did to an answer.

    Attributes:
        cited: Labels that the answer cites, in order of first use.
        dropped_marker_count: Markers that named no evidence of this request.
        removed_address_count: Links, images, tags and URLs that were taken out, shortened or broken.
    """

    cited: tuple[int, ...]
    dropped_marker_count: int
    removed_address_count: int


class AnswerFilter:
    """Filters one answer while it arrives."""

    def __init__(self, labels: Sequence[int], *, allowed_hosts: Collection[str] = ()) -> None:
        """Start an answer.

        Args:
            labels: Labels of the evidence, in the evidence's order (a range of labels means this order).
            allowed_hosts: Hosts in lower case whose links may stay in the text.
        """
        self._thought = LeadingThought()
        self._scanner = _AnswerScanner(labels, allowed_hosts)
        self._guard = AddressGuard(self._scanner.cited.keys(), allowed_hosts)

    def feed(self, delta: str) -> str:
        """Take the model's next piece.

        Args:
            delta: Any cutting of the text will do.

        Returns:
            The next piece of the answer, possibly ""; markers in it are whole and spelt `[ID:n]`.
        """
        return self._guard.feed(self._scanner.feed(self._thought.feed(delta.translate(_INVISIBLE))))

    def finish(self) -> str:
        """End the answer.

        Returns:
            Its last piece.
        """
        last = self._scanner.feed(self._thought.feed("", is_final=True), is_final=True)
        return self._guard.feed(last, is_final=True)

    @property
    def outcome(self) -> FilterOutcome:
        """What was done so far."""
        scanner = self._scanner
        return FilterOutcome(
            tuple(scanner.cited), scanner.dropped_marker_count, scanner.removed_count + self._guard.broken_count
        )


def filter_answer(
    text: str, labels: Sequence[int], *, allowed_hosts: Collection[str] = ()
) -> tuple[str, FilterOutcome]:
    """Filter an answer that is there whole.

    Args:
        text: What the model wrote.
        labels: Labels of the evidence, in the evidence's order.
        allowed_hosts: Hosts in lower case whose links may stay in the text.

    Returns:
        The answer and what was done to it; the same as feeding it in pieces.
    """
    answer_filter = AnswerFilter(labels, allowed_hosts=allowed_hosts)
    filtered = answer_filter.feed(text) + answer_filter.finish()
    return filtered, answer_filter.outcome


class _AnswerScanner(StreamScanner):
    """Resolves markers and takes links out; see `AddressGuard` for what follows it."""

    def __init__(self, labels: Sequence[int], allowed_hosts: Collection[str], nesting: int = 0) -> None:
        super().__init__(_TRIGGERS)
        self._labels = labels
        self._order = {label: position for position, label in enumerate(labels)}
        self._allowed_hosts = allowed_hosts
        self._nesting = nesting
        self._just_cited: set[int] = set()
        self.cited: dict[int, None] = {}
        self.dropped_marker_count = 0
        self.removed_count = 0

    def _on_plain(self) -> None:
        self._just_cited.clear()

    def _step(self, cursor: Cursor, position: int) -> tuple[int, str]:
        character = cursor.at(position)
        if character in {" ", "\t", "\u00a0", "\u3000"}:
            return self._blanks(cursor, position)
        if character == "<":
            return self._angle(cursor, position)
        if character == "!":
            return self._exclamation(cursor, position)
        marked = self._marker(cursor, position)
        if marked is not None:
            return marked
        if character == "[":
            return self._link(cursor, position)
        end = position + 1
        if character == "\\":
            end += len(cursor.at(end))
        self._on_plain()
        return end, cursor.text[position:end]

    def _blanks(self, cursor: Cursor, position: int) -> tuple[int, str]:
        """Take the blanks before a marker that is dropped along with it."""
        end = cursor.skip_blanks(position)
        if cursor.at(end) in MARKER_OPENERS:
            group = parse_marker(cursor, end)
            if group is not None and group.style is MarkerStyle.SQUARE and not self._known(group)[0]:
                self.dropped_marker_count += len(group.references)
                return group.end, ""
        return end, cursor.text[position:end]

    def _marker(self, cursor: Cursor, position: int) -> tuple[int, str] | None:
        if cursor.at(position) in {"I", "i", "Ｉ"} and self._last_input.isascii() and self._last_input.isalnum():
            return None
        group = parse_marker(cursor, position)
        if group is None:
            return None
        known, dropped_count = self._known(group)
        if not known and group.style is not MarkerStyle.SQUARE:
            return None
        self.dropped_marker_count += dropped_count
        fresh = [label for label in known if label not in self._just_cited]
        self._just_cited.update(fresh)
        self.cited.update(dict.fromkeys(fresh))
        return group.end, "".join(f"[ID:{label}]" for label in fresh)

    def _known(self, group: MarkerGroup) -> tuple[list[int], int]:
        known: dict[int, None] = {}
        dropped_count = 0
        for first, last in group.references:
            begin, end = self._order.get(first), self._order.get(last)
            if begin is not None and end is not None and begin <= end < begin + _MAX_RANGE_COUNT:
                known.update(dict.fromkeys(self._labels[begin : end + 1]))
                continue
            for number in (first, last):
                if number in self._order:
                    known[number] = None
                else:
                    dropped_count += 1
        return list(known), dropped_count

    def _link(self, cursor: Cursor, position: int) -> tuple[int, str]:
        link = parse_link(cursor, position)
        if link is None or (link.target is not None and not link.is_definition and is_plain_target(link.target)):
            self._on_plain()
            return position + 1, "["
        label = self._nested(link.label)
        if link.target is not None and is_allowed_link(link.target, self._allowed_hosts):
            shown = f"[{label}]: {link.target}" if link.is_definition else f"[{label}]({link.target})"
        else:
            self.removed_count += 1
            shown = label + " (" if link.target is None else label
        self._on_plain()
        return link.end, shown

    def _exclamation(self, cursor: Cursor, position: int) -> tuple[int, str]:
        if cursor.at(position + 1) == "[":
            image = parse_link(cursor, position + 1)
            if image is not None and not image.is_definition:
                self.removed_count += 1
                self._on_plain()
                return image.end, self._nested(image.label)
        self._on_plain()
        return position + 1, "!"

    def _nested(self, label: str) -> str:
        if self._nesting == _MAX_NESTING:
            return ""
        inner = _AnswerScanner(self._labels, self._allowed_hosts, self._nesting + 1)
        shown = inner.feed(label, is_final=True)
        self.cited.update(inner.cited)
        self.dropped_marker_count += inner.dropped_marker_count
        self.removed_count += inner.removed_count
        return shown

    def _angle(self, cursor: Cursor, position: int) -> tuple[int, str]:
        following = cursor.at(position + 1)
        if following.isalnum() or following == "/":
            end = tag_end(cursor, position)
            inside = cursor.text[position + 1 : end]
            is_closed = cursor.text[end : end + 1] == ">"
            if is_closed and is_autolink(inside):
                self.removed_count += 1
                self._on_plain()
                return end + 1, inside
            if is_closed and is_active_tag(inside):
                self.removed_count += 1
                return end + 1, ""
        self._on_plain()
        return position + 1, "<"
