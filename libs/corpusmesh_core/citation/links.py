"""Links, images and tags in a model's answer: found so that they can be taken out.

A picture or a link whose address a document's hidden instruction has put together sends data out when a client shows or
follows it (EchoLeak, CVE-2025-32711). The answer's own references are its citations; nothing else needs an address.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from corpusmesh_core.citation.cursor import Cursor

MAX_LABEL_CHARACTERS = 256
MAX_TARGET_CHARACTERS = 2048
_MAX_DEPTH = 8
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ADDRESS_LITERAL = frozenset("0123456789abcdefABCDEF:.%")
_URL_END = frozenset("[] \t\r\n\"'`<>|\\^{}\u00a0\u3000。，、；：！？（）【】《》「」『』“”‘’")
_TRAILING = ".,;:!?)]*_~"
_HARMLESS_TARGET = re.compile(r"[\w\s,+*-]*")
_URL_LIKE = re.compile(r"<?\s*(?:[a-z][a-z0-9+.-]*:|[/\\]|www\.)", re.IGNORECASE)
_AUTOLINK = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[^\s<>@]+@[^\s<>@]+")
_TAG = re.compile(r"/?\s*([A-Za-z][A-Za-z0-9:-]*)(.*)", re.DOTALL)
_LOADING = re.compile(r"//|url\s*\(|\bon\w+\s*=|javascript:|\bdata:|\bsrc|\bhref", re.IGNORECASE)
_DROPPED_NAMES = "script style iframe frame object embed form base meta link svg math template"
_ELEMENT_NAMES = """
a abbr address area article aside audio b bdi bdo blockquote body br button canvas caption center cite code col dd del
details dfn dialog div dl dt em fieldset figcaption figure font footer h1 h2 h3 h4 h5 h6 head header hr html i image img
input ins kbd label legend li main map mark marquee menu nav noscript ol optgroup option output p param picture pre
progress q rp rt ruby s samp section select slot small source span strong sub summary sup table tbody td textarea tfoot
th thead time title tr track u ul use var video wbr
"""
_BARE_TAGS_DROPPED = frozenset(_DROPPED_NAMES.split())
_ELEMENTS = frozenset(_ELEMENT_NAMES.split())


@dataclass(frozen=True, slots=True)
class LinkSyntax:
    """One `[label](target)` or `[label]: target`.

    Attributes:
        label: Text between the brackets.
        target: Address; None where its end is too far away to be read.
        is_definition: Whether it is `[label]: target`.
        end: Position after it; after `(` where `target` is None.
    """

    label: str
    target: str | None
    is_definition: bool
    end: int


def parse_link(cursor: Cursor, start: int) -> LinkSyntax | None:
    """Read a Markdown link or link definition.

    Args:
        cursor: The text.
        start: Position of "[".

    Returns:
        What was found, or None where the brackets are not part of a link.
    """
    close = _label_end(cursor, start)
    if close is None:
        return None
    label = cursor.text[start + 1 : close]
    if cursor.at(close + 1) == "(":
        end = _target_end(cursor, close + 2)
        if end is None:
            return LinkSyntax(label, None, False, close + 2)
        inside = cursor.text[close + 2 : end].strip()
        return LinkSyntax(label, inside, False, end + 1)
    if cursor.at(close + 1) == ":":
        position = cursor.skip_blanks(close + 2)
        if cursor.at(position) == "\n":
            position = cursor.skip_blanks(position + 1)
        end = position
        while end - position < MAX_TARGET_CHARACTERS and cursor.at(end) not in {"", " ", "\t", "\n"}:
            end += 1
        target = cursor.text[position:end]
        if _URL_LIKE.match(target):
            return LinkSyntax(label, target, True, end)
    return None


def _label_end(cursor: Cursor, start: int) -> int | None:
    """Find the "]" that belongs to the "[" at `start`; None where there is none near."""
    return _closing(cursor, start, "[", "]", MAX_LABEL_CHARACTERS)


def _target_end(cursor: Cursor, start: int) -> int | None:
    """Find the ")" that belongs to the "(" before `start`; None where there is none near."""
    return _closing(cursor, start - 1, "(", ")", MAX_TARGET_CHARACTERS)


def _closing(cursor: Cursor, start: int, opener: str, closer: str, max_characters: int) -> int | None:
    limit = start + max_characters
    # Without this, a run of openers costs a look at the whole window for each of them.
    if cursor.text.find(closer, start, limit) < 0 and len(cursor.text) >= limit:
        return None
    depth = 0
    position = start
    while position < limit:
        character = cursor.at(position)
        if character == "" or (character == "\n" and cursor.at(position + 1) == "\n"):
            return None
        if character == "\\":
            position += 1
        elif character == opener:
            depth += 1
            if depth > _MAX_DEPTH:
                return None
        elif character == closer:
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def is_plain_target(target: str) -> bool:
    """Tell whether what stands in parentheses after brackets cannot be an address, as in `handlers[name](request)`.

    Args:
        target: Text between the parentheses.

    Returns:
        True for words alone.
    """
    return _HARMLESS_TARGET.fullmatch(target) is not None


def url_end(cursor: Cursor, start: int) -> tuple[int, bool]:
    """Find where a bare URL ends.

    Args:
        cursor: The text.
        start: Position of its first character.

    Returns:
        Position after its last character, without closing punctuation, and whether the URL is longer than that.
    """
    end = start
    while end - start < MAX_TARGET_CHARACTERS:
        character = cursor.at(end)
        if character == "[" and cursor.text.find("//", start, end) == end - 2:
            literal_end = _after_address_literal(cursor, end)
            if literal_end > end:
                end = literal_end
                continue
        if character == "" or character in _URL_END:
            break
        end += 1
    else:
        return end, True
    while end > start and cursor.text[end - 1] in _TRAILING:
        end -= 1
    return end, False


def _after_address_literal(cursor: Cursor, start: int) -> int:
    """Step over the `[::1]` of a URL; not at all where it is something else."""
    end = start + 1
    while end - start < 48 and cursor.at(end) in _ADDRESS_LITERAL:
        end += 1
    return end + 1 if cursor.at(end) == "]" else start


def host_of(url: str) -> str:
    """Name the host that a browser would ask for a URL.

    Args:
        url: With scheme, or beginning with "//" or "www.".

    Returns:
        Host in lower case without user and port; "" where there is none.
    """
    rest = url if url[:4].lower() == "www." else url.partition("//")[2]
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    host = authority.rpartition("@")[2].lower()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def is_allowed_link(url: str, allowed_hosts: Collection[str]) -> bool:
    """Tell whether a link may stay: an http(s) address on a host of our own, nothing clever in it.

    Args:
        url: The target of a link.
        allowed_hosts: Hosts in lower case.

    Returns:
        True where it may stay.
    """
    is_clean = re.fullmatch(r"https?://[\x21-\x7e]+", url) is not None and "\\" not in url and not _holds_another(url)
    return is_clean and host_of(url) in allowed_hosts


def _holds_another(url: str) -> bool:
    """Tell whether a URL carries a second one, as for a redirect."""
    return "://" in url.partition("//")[2] or "www." in url.partition("//")[2].lower()


def bare_url_text(url: str, allowed_hosts: Collection[str]) -> str | None:
    """Decide what becomes of a URL that stands in the text.

    Args:
        url: As written.
        allowed_hosts: Hosts in lower case whose URLs stay; those of this machine always do.

    Returns:
        None where it stays as it is, else what replaces it: the host's name, without the path that can carry data.
    """
    host = host_of(url)
    if (host in _LOOPBACK or host in allowed_hosts) and not _holds_another(url):
        return None
    name = re.sub(r"[^\w.-]", "", host).replace("www.", "www ")
    # A host of digits alone, or none, could complete the marker that it stands in: `[ID:http://1203]`.
    return name if re.search(r"[^\W\d]", name) else f"{name}…"


def tag_end(cursor: Cursor, start: int) -> int:
    """Find where what begins with "<" ends.

    Args:
        cursor: The text.
        start: Position of "<".

    Returns:
        Position of ">", of the end of the text, or of the last character looked at.
    """
    limit = start + MAX_TARGET_CHARACTERS
    found = cursor.text.find(">", start, limit)
    if found >= 0:
        return found
    if len(cursor.text) < limit:
        cursor.at(len(cursor.text))
    return min(len(cursor.text), limit)


def is_autolink(inside: str) -> bool:
    """Tell whether the text between "<" and ">" is an address.

    Args:
        inside: Text between the angle brackets.

    Returns:
        True for `<https://…>`, `<mailto:…>` and `<name@host>`.
    """
    return _AUTOLINK.fullmatch(inside) is not None


def is_active_tag(inside: str) -> bool:
    """Tell whether the text between "<" and ">" is HTML that could load or do something.

    Args:
        inside: Text between the angle brackets.

    Returns:
        False for what cannot: `<br>`, `</b>`, `List<String>`.
    """
    match = _TAG.fullmatch(inside)
    if match is None:
        return False
    name, attributes = match[1].lower(), match[2]
    if name in _BARE_TAGS_DROPPED:
        return True
    if name in _ELEMENTS:
        return "=" in attributes
    return _LOADING.search(attributes) is not None
