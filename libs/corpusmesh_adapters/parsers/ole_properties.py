"""What an old Office file says of itself: the property set "SummaryInformation", read within the bytes that are there.

The library's own reader believes the counts in the file and loops over four thousand million entries that are not
there; here nothing is believed that the stream is too short for.

References:
    [MS-OLEPS] sections 2.21 (PropertySetStream), 2.15 (TypedPropertyValue).
"""

import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from corpusmesh_adapters.parsers.encodings import decode

if TYPE_CHECKING:
    import olefile

_STREAM = "\x05SummaryInformation"
_MAX_STREAM_BYTES = 1024 * 1024
_MAX_PROPERTIES = 1_000
_NAMES = {2: "title", 3: "subject", 4: "author", 5: "keywords"}
_CREATED = 12
_CODE_PAGE = 1
_TYPE_I2 = 0x0002
_TYPE_LPSTR = 0x001E
_TYPE_LPWSTR = 0x001F
_TYPE_FILETIME = 0x0040
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_UTF_16 = 1200


def summary_of(container: "olefile.OleFileIO[Any]") -> dict[str, str]:
    """Read title, subject, author, keywords and the time of creation.

    Args:
        container: An open OLE file.

    Returns:
        What is there by name; empty for a file without a property set, or with a broken one.
    """
    try:
        if not container.exists(_STREAM) or container.get_size(_STREAM) > _MAX_STREAM_BYTES:
            return {}
        content = container.openstream(_STREAM).read(_MAX_STREAM_BYTES)
        return _read(content)
    except (OSError, ValueError, IndexError, TypeError, struct.error):
        return {}


def _read(content: bytes) -> dict[str, str]:
    (start,) = struct.unpack_from("<I", content, 44)
    _, count = struct.unpack_from("<II", content, start)
    places: dict[int, int] = {}
    for index in range(min(count, _MAX_PROPERTIES)):
        identifier, offset = struct.unpack_from("<II", content, start + 8 + 8 * index)
        places[identifier] = start + offset
    page = _code_page(content, places)
    found: dict[str, str] = {}
    for identifier, name in _NAMES.items():
        if identifier in places and (text := _text(content, places[identifier], page)):
            found[name] = text
    if _CREATED in places and (created := _moment(content, places[_CREATED])):
        found["created"] = created
    return found


def _code_page(content: bytes, places: dict[int, int]) -> int:
    if _CODE_PAGE not in places:
        return 0
    kind, value = struct.unpack_from("<IH", content, places[_CODE_PAGE])
    return int(value) if kind == _TYPE_I2 else 0


def _text(content: bytes, place: int, page: int) -> str:
    kind, length = struct.unpack_from("<II", content, place)
    if kind == _TYPE_LPWSTR:
        raw = content[place + 8 : place + 8 + 2 * length]
        return raw.decode("utf-16-le", "replace").strip("\0 ")
    if kind != _TYPE_LPSTR:
        return ""
    raw = content[place + 8 : place + 8 + length]
    if page == _UTF_16:
        return raw.decode("utf-16-le", "replace").strip("\0 ")
    raw = raw.strip(b"\0 ")
    return decode(raw, f"cp{page}" if page else "").text if raw else ""


def _moment(content: bytes, place: int) -> str:
    kind, ticks = struct.unpack_from("<IQ", content, place)
    if kind != _TYPE_FILETIME or not ticks:
        return ""
    try:
        created = _EPOCH + timedelta(microseconds=ticks // 10)
    except OverflowError:
        return ""
    return created.replace(tzinfo=None).isoformat() if created.year > 1980 else ""
