"""The last look at an answer: whatever could still be an active address is broken, never removed.

The answer filter takes links out, and taking out can put together what stood apart (`htt[](x)ps://…`). So its output
passes this second scanner, which only inserts blanks and shortens addresses: nothing new can arise from that.
"""

import re
from collections.abc import Collection

from corpusmesh_core.citation.cursor import Cursor
from corpusmesh_core.citation.links import (
    bare_url_text,
    is_active_tag,
    is_allowed_link,
    is_autolink,
    is_plain_target,
    parse_link,
    tag_end,
    url_end,
)
from corpusmesh_core.citation.scanning import StreamScanner

_TRIGGERS = re.compile(r"[\[\]<hHfFwW]")
_SCHEMES = ("http://", "https://", "ftp://")
_MAX_MARKER_CHARACTERS = 24
_CANONICAL = re.compile(r"\[ID:\d{1,18}\]")
_LABEL_RISK = re.compile(r"[\[\]<>!]|://|www\.", re.IGNORECASE)
_ADDRESS_START = re.compile(r"<?(?:[a-z][a-z0-9+.-]*:|[/\\]|www\.)", re.IGNORECASE)


class AddressGuard(StreamScanner):
    """Lets no foreign address through that a client could load or turn into a link.

    Attributes:
        broken_count: Addresses that were shortened or broken.
    """

    def __init__(self, cited: Collection[int], allowed_hosts: Collection[str]) -> None:
        """Start at the beginning of a text.

        Args:
            cited: Labels that the text cites so far, as the first filter finds them; any other marker is broken.
            allowed_hosts: Hosts in lower case whose links stay.
        """
        super().__init__(_TRIGGERS)
        self._cited = cited
        self._allowed_hosts = allowed_hosts
        self.broken_count = 0

    def _step(self, cursor: Cursor, position: int) -> tuple[int, str]:
        character = cursor.at(position)
        if character == "[":
            return self._bracket(cursor, position)
        if character == "]":
            return self._closing(cursor, position)
        if character == "<":
            return self._angle(cursor, position)
        return self._address(cursor, position)

    def _bracket(self, cursor: Cursor, position: int) -> tuple[int, str]:
        marker = self._canonical_marker(cursor, position)
        if marker:
            end = position + len(marker)
            if int(marker[4:-1]) not in self._cited:
                return end, marker.replace(":", " no. ")
            # A marker must not become the label of a link.
            return end, marker + " " if cursor.at(end) == "(" else marker
        if self._begins_marker(cursor, position):
            # Longer than any number of ours, and still a marker to whoever shows the text.
            return position + 4, "[ID no. "
        link = parse_link(cursor, position)
        if (
            link is not None
            and link.target is not None
            and is_allowed_link(link.target, self._allowed_hosts)
            and not _LABEL_RISK.search(link.label)
        ):
            return link.end, cursor.text[position : link.end]
        return position + 1, "["

    def _begins_marker(self, cursor: Cursor, position: int) -> bool:
        is_prefix = all(cursor.at(position + offset) == expected for offset, expected in enumerate("[ID:"))
        return is_prefix and cursor.at(position + 4).isdecimal()

    def _canonical_marker(self, cursor: Cursor, position: int) -> str:
        for offset, expected in enumerate("[ID:"):
            if cursor.at(position + offset) != expected:
                return ""
        end = position + 4
        while end - position < _MAX_MARKER_CHARACTERS and cursor.at(end).isdecimal():
            end += 1
        cursor.at(end)
        match = _CANONICAL.match(cursor.text, position)
        return match.group() if match else ""

    def _closing(self, cursor: Cursor, position: int) -> tuple[int, str]:
        following = cursor.at(position + 1)
        if following == "(":
            end = position + 2
            while end - position < 80 and cursor.at(end) not in {"", ")"}:
                end += 1
            if cursor.at(end) == ")" and is_plain_target(cursor.text[position + 2 : end]):
                return position + 1, "]"
            self.broken_count += 1
            return position + 1, "] "
        if following == ":":
            begin = cursor.skip_blanks(position + 2)
            if cursor.at(begin) == "\n":
                begin = cursor.skip_blanks(begin + 1)
            end = begin
            while end - begin < 40 and cursor.at(end) not in {"", " ", "\t", "\n"}:
                end += 1
            if _ADDRESS_START.match(cursor.text[begin:end]):
                self.broken_count += 1
                return position + 1, "] "
        return position + 1, "]"

    def _angle(self, cursor: Cursor, position: int) -> tuple[int, str]:
        following = cursor.at(position + 1)
        if not (following.isalnum() or following == "/"):
            return position + 1, "<"
        end = tag_end(cursor, position)
        inside = cursor.text[position + 1 : end]
        is_closed = cursor.text[end : end + 1] == ">"
        is_whole = is_closed or end == len(cursor.text)
        if is_whole and not is_active_tag(inside) and not (is_closed and is_autolink(inside)):
            return position + 1, "<"
        self.broken_count += 1
        return position + 1, "< "

    def _address(self, cursor: Cursor, position: int) -> tuple[int, str]:
        if not self._begins_address(cursor, position):
            return position + 1, cursor.at(position)
        end, is_cut = url_end(cursor, position)
        url = cursor.text[position:end]
        replacement = bare_url_text(url, self._allowed_hosts)
        if replacement is None:
            return end, url
        self.broken_count += 1
        # What an over-long address goes on with must not join the host's name to a new one.
        return end, replacement + " " if is_cut else replacement

    def _begins_address(self, cursor: Cursor, position: int) -> bool:
        for scheme in _SCHEMES:
            for offset, expected in enumerate(scheme):
                if cursor.at(position + offset).lower() != expected:
                    break
            else:
                return True
        if self._last_output.isascii() and (self._last_output.isalnum() or self._last_output in {"_", "-"}):
            return False
        return all(cursor.at(position + offset).lower() == expected for offset, expected in enumerate("www."))
