"""What a source reads, as values, and the bounds that every such value keeps."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from corpusmesh_core.errors import InvalidArgumentError

DEFAULT_MAX_DEPTH = 5
DEFAULT_MAX_PAGES = 1000
DEFAULT_MAX_BYTES = 1 << 30
MAX_KEY_BYTES = 2000
"""Longest key of an item in UTF-8: what an index entry of the store holds."""
_MAX_DEPTH = 32
_MAX_PATTERNS = 64
_MAX_PATTERN_CHARACTERS = 256
_MAX_URL_CHARACTERS = 2000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class SourceKind(StrEnum):
    """What kind of place a source reads."""

    FOLDER = "folder"
    S3 = "s3"
    WEB = "web"


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """Files below a folder of the platform.

    Attributes:
        root: Name of a configured root.
        path: Folder below it, segments joined by "/"; "" for the root itself.
        include: Patterns of file names or paths to take; empty for all.
        exclude: Patterns to leave out.
    """

    root: str
    path: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class S3Place:
    """Objects of a bucket.

    Attributes:
        connection: Name of a configured connection.
        bucket: Bucket that the connection allows.
        prefix: What keys begin with; "" for all.
        include: Patterns of keys below the prefix to take; empty for all.
        exclude: Patterns to leave out.
    """

    connection: str
    bucket: str
    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebPlace:
    """Pages of one host.

    Attributes:
        url: First page, or a sitemap.
        max_depth: Links followed from the first page.
        max_pages: Pages looked at by one sync.
        max_bytes: Bytes fetched by one sync.
        path_prefix: What the paths of pages begin with.
    """

    url: str
    max_depth: int = DEFAULT_MAX_DEPTH
    max_pages: int = DEFAULT_MAX_PAGES
    max_bytes: int = DEFAULT_MAX_BYTES
    path_prefix: str = "/"


SourcePlace: TypeAlias = FolderPlace | S3Place | WebPlace
"""What a source reads."""

PLATFORM_KINDS = frozenset({SourceKind.FOLDER, SourceKind.S3})
"""Kinds that reach the platform's own systems: only admins set them."""


def kind_of(place: SourcePlace) -> SourceKind:
    """Tell the kind of a place.

    Args:
        place: The place.

    Returns:
        Its kind.
    """
    match place:
        case FolderPlace():
            return SourceKind.FOLDER
        case S3Place():
            return SourceKind.S3
        case WebPlace():
            return SourceKind.WEB


def place_to_json(place: SourcePlace) -> dict[str, Any]:
    """Write a place as JSON values.

    Args:
        place: The place.

    Returns:
        What `place_from_json` reads.
    """
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(place).items()}


def place_from_json(kind: SourceKind, values: Mapping[str, Any]) -> SourcePlace:
    """Read a place.

    Args:
        kind: Its kind.
        values: What `place_to_json` wrote.

    Returns:
        The place.
    """
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    match kind:
        case SourceKind.FOLDER:
            return FolderPlace(**given)
        case SourceKind.S3:
            return S3Place(**given)
        case SourceKind.WEB:
            return WebPlace(**given)


def check_place(place: SourcePlace) -> None:
    """Check what can be checked without looking at the place.

    Args:
        place: The place.

    Raises:
        InvalidArgumentError: SOURCE_PLACE_INVALID if a value is out of its bounds.
    """
    match place:
        case FolderPlace():
            _check_name(place.root, "source.folder.root")
            segments = place.path.split("/") if place.path else []
            if any(segment in ("", ".", "..") or "\x00" in segment for segment in segments):
                raise _invalid("a folder's path is made of names joined by '/', without '..'", "source.folder.path")
            _check_patterns((*place.include, *place.exclude))
        case S3Place():
            _check_name(place.connection, "source.s3.connection")
            if not _BUCKET.fullmatch(place.bucket):
                raise _invalid("this is no name of a bucket", "source.s3.bucket")
            if len(place.prefix.encode()) > MAX_KEY_BYTES // 2:
                raise _invalid("a prefix takes at most 1,000 bytes", "source.s3.prefix")
            _check_patterns((*place.include, *place.exclude))
        case WebPlace():
            _check_web(place)


def is_wanted(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Tell whether a path is one to take.

    Args:
        path: Path below the place, segments joined by "/".
        include: Patterns of which one must fit; empty for any.
        exclude: Patterns of which none may fit.

    Returns:
        True if it is. A pattern without "/" is compared with the last segment, another one with the whole path.
    """

    def fits(pattern: str) -> bool:
        return fnmatch.fnmatchcase(path if "/" in pattern else path.rsplit("/", 1)[-1], pattern)

    return (not include or any(map(fits, include))) and not any(map(fits, exclude))


def _check_web(place: WebPlace) -> None:
    scheme, separator, rest = place.url.partition("://")
    if not separator or scheme.lower() not in ("http", "https") or not rest or len(place.url) > _MAX_URL_CHARACTERS:
        raise _invalid(
            f"a site is named by an http or https URL of at most {_MAX_URL_CHARACTERS} characters", "source.web.url"
        )
    if not 0 <= place.max_depth <= _MAX_DEPTH:
        raise _invalid(f"a crawl is at most {_MAX_DEPTH} links deep", "source.web.max_depth")
    if place.max_pages < 1 or place.max_bytes < 1:
        raise _invalid("a crawl takes at least one page and one byte", "source.web.max_pages")
    if not place.path_prefix.startswith("/") or len(place.path_prefix) > _MAX_URL_CHARACTERS:
        raise _invalid("a path begins with '/'", "source.web.path_prefix")


def _check_name(name: str, field: str) -> None:
    if not _NAME.fullmatch(name):
        raise _invalid("name an entry of the configuration: a-z, 0-9, '.', '_' and '-', at most 63", field)


def _check_patterns(patterns: Sequence[str]) -> None:
    if len(patterns) > _MAX_PATTERNS or any(not 0 < len(pattern) <= _MAX_PATTERN_CHARACTERS for pattern in patterns):
        raise _invalid(
            f"at most {_MAX_PATTERNS} patterns of 1 to {_MAX_PATTERN_CHARACTERS} characters are taken", "source"
        )


def _invalid(message: str, field: str) -> InvalidArgumentError:
    return InvalidArgumentError("SOURCE_PLACE_INVALID", message, field=field)
