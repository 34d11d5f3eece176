"""A bounded folder of files that are mapped into memory; one folder for each tenant and knowledge base."""

import asyncio
import contextlib
import hashlib
import mmap
import os
import re
import secrets
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_runtime.graphs.metrics import GRAPH_FILE_BYTES

_ID: Final = re.compile(r"[a-z0-9-]{1,63}")
_UNFINISHED: Final = ".part"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class CacheFolder:
    """Files by tenant, knowledge base and name; those not used the longest go where there are too many bytes.

    A file that goes while it is mapped stays readable for whoever maps it. Nothing here is the only copy of anything.
    Not for several threads at once: its methods are for the event loop's thread, but `write` and `content`.
    """

    def __init__(self, root: Path, max_bytes: int) -> None:
        """Create it and take over what an earlier process left.

        Args:
            root: The folder; made where it is not there, and closed to other users.
            max_bytes: Most bytes of files.
        """
        self._root = root
        self._max_bytes = max_bytes
        self._sizes: OrderedDict[Path, int] = OrderedDict()
        root.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        root.chmod(_FOLDER_MODE)
        self._take_over()

    @property
    def byte_count(self) -> int:
        """Bytes of all files."""
        return sum(self._sizes.values())

    def path(self, tenant_id: str, knowledge_base_id: str, name: str, suffix: str) -> Path:
        """Name a file.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            name: What it holds; of it only a digest becomes part of the path.
            suffix: Its kind, such as ".segment".

        Returns:
            Where it is or will be.

        Raises:
            InvalidArgumentError: OBJECT_KEY_INVALID if an id could lead out of its folder.
        """
        if not _ID.fullmatch(tenant_id) or not _ID.fullmatch(knowledge_base_id):
            raise InvalidArgumentError("OBJECT_KEY_INVALID", "an id must match [a-z0-9-]{1,63}", field="tenant_id")
        digest = hashlib.blake2b(name.encode(), digest_size=20).hexdigest()
        return self._root / tenant_id / knowledge_base_id / f"{digest}{suffix}"

    def has(self, path: Path) -> bool:
        """Tell whether a file is there, and remember that it was asked for.

        Args:
            path: See `path`.

        Returns:
            Whether it is there.
        """
        if path in self._sizes and path.exists():
            self._sizes.move_to_end(path)
            return True
        self._sizes.pop(path, None)
        return False

    def owners(self) -> set[tuple[str, str]]:
        """List of whose graphs there are files.

        Returns:
            Tenants and knowledge bases.
        """
        return {(path.parent.parent.name, path.parent.name) for path in self._sizes}

    async def save(self, path: Path, pieces: AsyncIterator[bytes]) -> int:
        """Write a file; nobody sees half of it.

        Args:
            path: See `path`.
            pieces: What it holds.

        Returns:
            Bytes written.
        """
        unfinished = _begin(path)
        try:
            file = await asyncio.to_thread(_create, unfinished)
            try:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
            finally:
                await asyncio.to_thread(file.close)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return self.add(path)

    @staticmethod
    def write(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file in a thread; it counts once `add` was told.

        Args:
            path: See `path`.
            pieces: What it holds.
        """
        unfinished = _begin(path)
        try:
            with _create(unfinished) as file:
                for piece in pieces:
                    file.write(piece)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def add(self, path: Path) -> int:
        """Count a file that was written, and drop the oldest ones where there are too many bytes.

        Args:
            path: See `path`.

        Returns:
            Its bytes; 0 where it has gone already.
        """
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0
        self._sizes[path] = size
        self._sizes.move_to_end(path)
        total = self.byte_count
        while total > self._max_bytes and len(self._sizes) > 1:
            oldest, its_size = self._sizes.popitem(last=False)
            oldest.unlink(missing_ok=True)
            total -= its_size
        GRAPH_FILE_BYTES.set(total)
        return size

    @staticmethod
    def content(path: Path) -> memoryview:
        """Map a file into memory.

        Args:
            path: See `path`.

        Returns:
            Its bytes, for as long as they are held.

        Raises:
            FileNotFoundError: If it has gone meanwhile.
        """
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def forget(self, path: Path) -> None:
        """Remove a file.

        Args:
            path: See `path`.
        """
        self._sizes.pop(path, None)
        path.unlink(missing_ok=True)
        GRAPH_FILE_BYTES.set(self.byte_count)

    def keep_only(self, tenant_id: str, knowledge_base_id: str, keep: Collection[Path], epoch: str) -> None:
        """Remove files of a knowledge base that its graph has no use for any more.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base.
            keep: Files that stay.
            epoch: Files whose suffix begins with it stay too.
        """
        folder = self._root / tenant_id / knowledge_base_id
        for path in [path for path in self._sizes if path.parent == folder]:
            if path not in keep and not path.name.partition(".")[2].startswith(epoch):
                self.forget(path)

    def remove(self) -> None:
        """Remove the whole folder."""
        self._sizes.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _take_over(self) -> None:
        found = []
        for path in self._root.glob("*/*/*"):
            with contextlib.suppress(OSError):
                if path.suffix == _UNFINISHED:
                    path.unlink()
                elif path.is_file():
                    status = path.stat()
                    found.append((status.st_mtime, path, status.st_size))
        self._sizes.update({path: size for _, path, size in sorted(found)})
        if self._sizes:
            self.add(next(reversed(self._sizes)))


def _begin(path: Path) -> Path:
    path.parent.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    return path.with_name(f"{path.name}.{secrets.token_hex(6)}{_UNFINISHED}")


def _create(path: Path) -> BinaryIO:
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, _FILE_MODE))
