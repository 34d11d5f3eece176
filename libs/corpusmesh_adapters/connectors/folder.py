"""Files below a folder of the platform; nothing outside of its root is read, whatever links say."""

import asyncio
import grp
import os
import pwd
import stat
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO

from corpusmesh_core.errors import DeadlineExceededError, NotFoundError, PermissionDeniedError, UnavailableError
from corpusmesh_core.ports.sources import ConnectorCapabilities
from corpusmesh_core.sources import (
    FailedItem,
    FolderPlace,
    KnownItem,
    ListingEnd,
    ListingEvent,
    SourceGrant,
    SourceItem,
    is_wanted,
)

_PIECE_BYTES = 1 << 20
_ENTRIES_A_STEP = 256
_MAX_DEPTH = 64
FOLDER_CAPABILITIES = ConnectorCapabilities(
    is_incremental=False, reports_removals=False, maps_access=True, concurrent_open_count=4
)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    path: str
    why: str


class FolderConnector:
    """`Connector` for a folder. Hidden files, links to folders and what is no regular file are left out."""

    def __init__(self, root: Path, place: FolderPlace) -> None:
        """Create the connector.

        Args:
            root: The configured root.
            place: What to read below it.
        """
        self._root = Path(os.path.realpath(root))
        self._base = self._root / place.path
        self._place = place

    @property
    def capabilities(self) -> ConnectorCapabilities:
        """See `Connector`."""
        return FOLDER_CAPABILITIES

    async def list(
        self, cursor: str, known: Mapping[str, KnownItem], *, timeout_seconds: float
    ) -> AsyncIterator[ListingEvent]:
        """List the folder; see `Connector`.

        Args:
            cursor: Not used: every listing is whole.
            known: Not used.
            timeout_seconds: Bound of the whole listing.

        Yields:
            Files in the order of their paths; the listing is not complete where a folder could not be read.

        Raises:
            NotFoundError: SOURCE_FOLDER_MISSING if there is no such folder.
            DeadlineExceededError: If the time is over.
        """
        del cursor, known
        deadline = time.monotonic() + timeout_seconds
        await asyncio.to_thread(self._check_base)
        entries = self._walk(self._base, 0)
        is_complete = True
        while step := await asyncio.to_thread(lambda: list(islice(entries, _ENTRIES_A_STEP))):
            for entry in step:
                if isinstance(entry, _Unreadable):
                    is_complete = False
                    yield FailedItem(
                        _text(entry.path),
                        _text(entry.path.rsplit("/", 1)[-1]),
                        "SOURCE_PATH_UNREADABLE",
                        f"the path cannot be read ({entry.why})",
                    )
                else:
                    yield entry
            if time.monotonic() > deadline:
                raise DeadlineExceededError("SOURCE_LISTING_TIMEOUT", "the folder could not be listed in time")
        yield ListingEnd(is_complete=is_complete)

    async def open(self, item: SourceItem, *, timeout_seconds: float) -> AsyncIterator[bytes]:
        """Read a file; see `Connector`.

        Args:
            item: The file.
            timeout_seconds: Bound of the whole reading.

        Yields:
            Pieces.

        Raises:
            DeadlineExceededError: If the time is over.
        """
        deadline = time.monotonic() + timeout_seconds
        descriptor = await asyncio.to_thread(self._open, item.key)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while piece := await asyncio.to_thread(_read_piece, file):
                yield piece
                if time.monotonic() > deadline:
                    raise DeadlineExceededError("SOURCE_READ_TIMEOUT", "the file could not be read in time")

    def _check_base(self) -> None:
        # The real path, so that a link in the middle does not lead out of the root.
        real = Path(os.path.realpath(self._base))
        if not real.is_relative_to(self._root) or not real.is_dir():
            raise NotFoundError(
                "SOURCE_FOLDER_MISSING", "there is no such folder below the root", root=self._place.root
            )

    def _walk(self, folder: Path, depth: int) -> Iterator[SourceItem | FailedItem | _Unreadable]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise NotFoundError(
                    "SOURCE_FOLDER_MISSING", f"the folder cannot be read ({error.strerror})", root=self._place.root
                ) from error
            yield _Unreadable(folder.relative_to(self._base).as_posix(), error.strerror or "error")
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH:
                        yield from self._walk(folder / entry.name, depth + 1)
                    else:
                        yield _Unreadable((folder / entry.name).relative_to(self._base).as_posix(), "too deep")
                    continue
                item = self._item(folder / entry.name, is_link=entry.is_symlink())
            except FileNotFoundError:
                continue  # It went while the folder was read, or is a link to nothing.
            except OSError as error:
                # It may be there all the same: nothing may be taken for gone.
                yield _Unreadable((folder / entry.name).relative_to(self._base).as_posix(), error.strerror or "error")
                continue
            if item is not None:
                yield item

    def _item(self, path: Path, *, is_link: bool) -> SourceItem | FailedItem | None:
        key = path.relative_to(self._base).as_posix()
        if not is_wanted(key, self._place.include, self._place.exclude):
            return None
        if is_link and path.is_dir():
            return None
        if is_link and not Path(os.path.realpath(path)).is_relative_to(self._root):
            return FailedItem(
                _text(key), _text(path.name), "SOURCE_LINK_OUTSIDE", "the link leads out of the folder's root"
            )
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return None
        if key != _text(key):
            return FailedItem(_text(key), _text(path.name), "SOURCE_NAME_INVALID", "the file's name is not UTF-8")
        parent = key.rpartition("/")[0]
        return SourceItem(
            key=key,
            display_name=path.name,
            etag=f"{found.st_size}-{found.st_mtime_ns}",
            size_bytes=found.st_size,
            modified=datetime.fromtimestamp(found.st_mtime, UTC),
            source_uri=f"{self._place.root}:/{'/'.join(part for part in (self._place.path, key) if part)}",
            metadata={"folder": parent} if parent else {},
            grants=_grants(found),
        )

    def _open(self, key: str) -> int:
        path = Path(os.path.realpath(self._base / key))
        try:
            # Not blocking: what was a file when it was listed may be a pipe now.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if isinstance(error, PermissionError):
                raise PermissionDeniedError("SOURCE_FILE_FORBIDDEN", "the file may not be read", key=key) from error
            raise NotFoundError("SOURCE_FILE_GONE", "the file has gone", key=key) from error
        try:
            # What was opened, not what the name leads to by now.
            real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if real.is_relative_to(self._root) and stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
        except OSError:
            pass
        os.close(descriptor)
        raise NotFoundError("SOURCE_FILE_GONE", "the file has gone", key=key)


def _read_piece(file: IO[bytes]) -> bytes:
    try:
        return file.read(_PIECE_BYTES)
    except OSError as error:
        raise UnavailableError("SOURCE_FILE_BROKEN", f"the file cannot be read ({error.strerror})") from error


def _text(name: str) -> str:
    """Give a name that can be kept: bytes that are no UTF-8 are written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\x00", "")


def _grants(found: os.stat_result) -> tuple[SourceGrant, ...]:
    grants = []
    if found.st_mode & stat.S_IRUSR:
        grants.append(SourceGrant(f"user:{_user_name(found.st_uid)}"))
    if found.st_mode & stat.S_IRGRP:
        grants.append(SourceGrant(f"group:{_group_name(found.st_gid)}"))
    if found.st_mode & stat.S_IROTH:
        grants.append(SourceGrant("everyone"))
    return tuple(grants)


@lru_cache(maxsize=1024)
def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


@lru_cache(maxsize=1024)
def _group_name(group_id: int) -> str:
    try:
        return grp.getgrgid(group_id).gr_name
    except KeyError:
        return str(group_id)
