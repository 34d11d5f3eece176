"""Opens OLE files whose sector chains end: a reader that follows a circle of sectors fills memory until it dies."""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import olefile

from corpusmesh_adapters.parsers.failures import corrupt

_LAST_SECTOR = 0xFFFFFFFA


def stream_names(content: bytes) -> list[str]:
    """List what lies in an OLE file, after a look at whether it can be read at bounded cost.

    Args:
        content: The file.

    Returns:
        Names of its outermost streams and storages.

    Raises:
        DocumentError: DOCUMENT_CORRUPT if a chain of sectors runs in a circle, or a stream says that it is longer than
            the file.
    """
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as container:
            if any(_loops(table, start) for table, start in _chains(container, len(content))):
                raise corrupt("the chains of its OLE container run in circles")
            return [entry[0] for entry in container.listdir()]
    except (OSError, ValueError, IndexError, TypeError, struct.error) as error:
        raise corrupt("its OLE container is broken") from error


def _chains(container: Any, byte_count: int) -> Iterator[tuple[Sequence[int], int]]:
    """List the tables of sectors with the starts of the chains in them."""
    yield container.fat, container.first_dir_sector
    yield container.fat, container.first_mini_fat_sector
    yield container.fat, container.root.isectStart
    container.loadminifat()
    for entry in container.direntries:
        if entry is not None and entry.entry_type == olefile.STGTY_STREAM and entry.size:
            if entry.size > byte_count:
                raise corrupt("a stream of its OLE container is longer than the file")
            is_small = entry.size < container.minisectorcutoff
            yield (container.minifat if is_small else container.fat), entry.isectStart


def _loops(table: Sequence[int], start: int) -> bool:
    steps, sector = 0, start
    while sector < min(len(table), _LAST_SECTOR):
        sector = table[sector]
        steps += 1
        if steps > len(table):
            return True
    return False
