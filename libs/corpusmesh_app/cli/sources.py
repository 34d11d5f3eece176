"""What `corpusmesh ingest` is given: files, folders and URLs, as documents to upload."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusmesh_client import UploadItem
from corpusmesh_core.errors import NotFoundError

_MAX_NAME_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that one upload stream carries.

    Attributes:
        items: The documents.
        size_bytes: Bytes of all of them.
    """

    items: tuple[UploadItem, ...]
    size_bytes: int


def is_url(source: str) -> bool:
    """Tell whether a source is a URL rather than a path.

    Args:
        source: What was given.

    Returns:
        True if it begins with a scheme and `://`.
    """
    scheme, separator, _ = source.partition("://")
    return bool(separator) and scheme.isalpha()


def collect_files(path: Path) -> list[UploadItem]:
    """Describe a file, or every file below a folder.

    Hidden files and folders, links that lead to folders, and what is no regular file (a pipe would wait for ever) are
    left out. Below a folder the display name is the path from there, so that equal names in two folders stay two
    documents.

    Args:
        path: File or folder.

    Returns:
        The documents, by name.

    Raises:
        NotFoundError: If there is no such file or folder, or nothing to read in it.
    """
    if path.is_dir():
        items = [
            UploadItem(display_name=_name(str(file.relative_to(path).as_posix())), content=file)
            for file in sorted(_walk(path))
        ]
        if not items:
            raise NotFoundError("FOLDER_EMPTY", f"the folder {path} holds no file to ingest", path=path)
        return items
    if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
        raise NotFoundError("FILE_NOT_FOUND", f"there is no file or folder {path}", path=path)
    return [UploadItem(display_name=_name(path.name), content=path)]


def folder_prefix(folder: str) -> str:
    """Give the beginning of the display names of documents in a folder.

    Args:
        folder: The folder; "" for all documents.

    Returns:
        The folder with "/" at its end.
    """
    return f"{folder.strip('/')}/" if folder.strip("/") else ""


def batches(items: Sequence[UploadItem], *, max_count: int, max_bytes: int) -> Iterator[Batch]:
    """Cut documents into upload streams that are neither long nor large.

    Args:
        items: The documents.
        max_count: Documents of one stream.
        max_bytes: Bytes of one stream; a single larger document has a stream of its own.

    Yields:
        The batches, in order.
    """
    pending: list[UploadItem] = []
    pending_bytes = 0
    for item in items:
        size = _size(item)
        if pending and (len(pending) == max_count or pending_bytes + size > max_bytes):
            yield Batch(tuple(pending), pending_bytes)
            pending, pending_bytes = [], 0
        pending.append(item)
        pending_bytes += size
    if pending:
        yield Batch(tuple(pending), pending_bytes)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            file = Path(root) / name
            if not name.startswith(".") and file.is_file():
                yield file


def _size(item: UploadItem) -> int:
    if isinstance(item.content, bytes):
        return len(item.content)
    try:
        return item.content.stat().st_size
    except OSError:
        return 0  # reported when its turn comes


def _name(text: str) -> str:
    # A file name may hold bytes that are no UTF-8; the contract's strings may not.
    return text.encode("utf-8", "replace").decode("utf-8")[-_MAX_NAME_CHARACTERS:]
