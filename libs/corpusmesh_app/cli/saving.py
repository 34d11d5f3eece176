"""Writes files whole or not at all, originals under names that their uploaders chose."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from corpusmesh_core.errors import FailedPreconditionError


def safe_file_name(display_name: str) -> str:
    """Make a file name of what an uploader called a document: never a path, never hidden, never empty.

    Args:
        display_name: What the uploader said.

    Returns:
        A name of at most 200 bytes.
    """
    name = display_name.replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(character for character in name if character.isprintable()).lstrip(".")
    return name.encode("utf-8")[:200].decode("utf-8", "ignore") or "original"


async def write_whole(pieces: AsyncIterator[bytes], path: Path) -> int:
    """Write a file, whole or not at all, in memory that does not grow with it.

    Args:
        pieces: Its bytes in order.
        path: The file; replaced if it is there.

    Returns:
        Its size in bytes.

    Raises:
        FailedPreconditionError: FILE_NOT_WRITTEN if the file cannot be written.
    """
    folder = path.parent
    size = 0
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".corpusmesh-", delete=False) as file:
            partial = Path(file.name)
            try:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
                    size += len(piece)
                file.flush()
                await asyncio.to_thread(_put, partial, path)
            except BaseException:
                await asyncio.to_thread(partial.unlink, missing_ok=True)
                raise
    except OSError as error:
        raise FailedPreconditionError(
            "FILE_NOT_WRITTEN", f"{path} cannot be written ({error.strerror})", path=path
        ) from error
    return size


def _put(partial: Path, path: Path) -> None:
    partial.chmod(0o644)
    partial.replace(path)
