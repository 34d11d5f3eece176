"""Soft clustering in a process that can be killed, behind the port `SoftClusterer`."""

import asyncio
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from corpusmesh_adapters.clustering.frames import ANSWER, answer_bytes, request_head, unpack_answer
from corpusmesh_adapters.clustering.mixture import SMALL
from corpusmesh_core.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from corpusmesh_core.ports.clustering import MAX_VECTORS_PER_CALL
from corpusmesh_core.trees.values import Vectors

_NEEDED: Final = ("umap", "sklearn")


class MixtureProcess:
    """UMAP and a Gaussian mixture in one warm process, a layer at a time.

    The process starts with the first layer, and is ended when it was idle for a while: it holds some 400 MB. A call
    that is cancelled or over its time kills it; the next call starts another. Use as
    `async with MixtureProcess() as clusterer`.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = 300.0,
        command: Sequence[str] | None = None,
        needed: Sequence[str] = _NEEDED,
    ) -> None:
        """Create it; nothing is started.

        Args:
            idle_seconds: How long the process stays when there is nothing to do.
            command: Starts a process that speaks `frames`, given the id of this one; None starts
                `corpusmesh_adapters.clustering.child`.
            needed: Modules that must be installed.
        """
        self._command = tuple(command or (sys.executable, "-m", "corpusmesh_adapters.clustering.child"))
        self._idle_seconds = idle_seconds
        self._needed = tuple(needed)
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        """Id of the process; None while there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def cluster(self, vectors: Vectors, *, seed: int, timeout_seconds: float) -> tuple[NDArray[np.int32], ...]:
        """Cluster the nodes of a layer, see `SoftClusterer.cluster`."""
        count = len(vectors)
        if count > MAX_VECTORS_PER_CALL:
            raise InvalidArgumentError(
                "TREE_LAYER_TOO_LARGE",
                f"The method mixture takes layers of {MAX_VECTORS_PER_CALL:,} nodes; use watershed for larger trees.",
                limit=MAX_VECTORS_PER_CALL,
            )
        if missing := [name for name in self._needed if importlib.util.find_spec(name) is None]:
            raise FailedPreconditionError(
                "TREE_METHOD_UNAVAILABLE",
                "The method mixture needs umap-learn and scikit-learn: pip install corpusmesh[trees].",
                missing=" ".join(missing),
            )
        if count <= SMALL:
            return (np.arange(count, dtype=np.int32),) if count else ()
        try:
            async with asyncio.timeout(timeout_seconds), self._turn:
                return await self._trip(np.ascontiguousarray(vectors, dtype=np.float32), seed)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "TREE_CLUSTERING_TIMEOUT", "The method mixture took longer than the time it was given."
            ) from error

    async def close(self) -> None:
        """End the process."""
        self._stay()
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            await process.wait()
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.cleanup)
            self._scratch = None

    async def _trip(self, vectors: Vectors, seed: int) -> tuple[NDArray[np.int32], ...]:
        """Have the process cluster; it is killed where that does not come to its end, as nothing else stops it."""
        self._stay()
        try:
            process = await self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(request_head(vectors, seed))
            process.stdin.write(vectors.data.cast("B"))
            await process.stdin.drain()
            cluster_count, byte_count = answer_bytes(await process.stdout.readexactly(ANSWER.size))
            clusters = unpack_answer(cluster_count, await process.stdout.readexactly(byte_count))
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            await self.close()
            raise UnavailableError(
                "TREE_CLUSTERING_STOPPED",
                "The process of the method mixture ended in the middle; its standard error says why.",
            ) from error
        except BaseException:
            if self._process is not None:
                _kill(self._process)
                self._process = None
            raise
        self._ending = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)
        return clusters

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_clean_environment(self._cache_folder()),
                cwd="/",
                start_new_session=True,
            )
        return self._process

    def _cache_folder(self) -> str:
        """Say where umap's compiled code is kept; it does not load where that is nowhere.

        Beside its source as a rule, which saves every process but the first 16 seconds. An image may be read-only.
        """
        if given := os.environ.get("NUMBA_CACHE_DIR"):
            return given
        found = importlib.util.find_spec(self._needed[0])
        places = found.submodule_search_locations if found is not None else None
        if places and os.access(places[0], os.W_OK):
            return ""
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="corpusmesh-umap-")
        return self._scratch.name

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end_idle(self) -> None:
        if self._process is not None and not self._turn.locked():
            _kill(self._process)
            self._process = None


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()


def _clean_environment(cache_folder: str) -> dict[str, str]:
    # Nothing of this process's environment, where keys and passwords live; only where its code is found. One core: the
    # vectors of a mesh are made on the others.
    environment = {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    return environment | ({"NUMBA_CACHE_DIR": cache_folder} if cache_folder else {})
