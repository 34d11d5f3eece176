"""Settings of what a process keeps of graphs."""

from pathlib import Path

from pydantic import Field

from corpusmesh_runtime.config import Section


class GraphCacheSettings(Section):
    """What a process keeps of graphs that it has read; all of it can be read again."""

    folder: Path | None = None
    """Folder of files that are mapped into memory; None for one of the process's own that goes with it."""
    max_file_bytes: int = Field(default=8 * 1024**3, ge=1024**2)
    """Bytes of those files; the ones not asked for the longest go first."""
    max_memory_bytes: int = Field(default=512 * 1024**2, ge=0)
    """Bytes of views that are kept in memory; larger ones are files."""
    check_seconds: float = Field(default=60.0, gt=0)
    """Time between two looks whether what is kept still belongs to a graph, also where nobody asks for it any more."""
    max_waiting_views: int = Field(default=32, ge=1)
    """Views that are made or wait for it at once; one more is refused with RESOURCE_EXHAUSTED."""
