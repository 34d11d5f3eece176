"""Reads graphs: segments from the object store into mapped files, and views of callers compiled once (ADR-0014).

What a graph consists of is asked anew for each request, so nothing stale is ever read; what has not changed since is
taken from memory or from a file. A key of the cache names the tenant, the knowledge base, the objects and the documents
that the caller sees of them: two callers share a view only where they see the same.
"""

import asyncio
import hashlib
import tempfile
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from corpusmesh_core.errors import (
    CorpusMeshError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from corpusmesh_core.graphs.compiled import compiled_parts, open_compiled
from corpusmesh_core.graphs.corrections import Corrections, unpack_corrections
from corpusmesh_core.graphs.edits import edits_of
from corpusmesh_core.graphs.resolution import unpack_pairs
from corpusmesh_core.graphs.segments import Segment, pools_of
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.visibility import Visibility
from corpusmesh_runtime.graphs.config import GraphCacheSettings
from corpusmesh_runtime.graphs.folder import CacheFolder
from corpusmesh_runtime.graphs.metrics import (
    GRAPH_COMPILE_SECONDS,
    GRAPH_FETCHED_BYTES_TOTAL,
    GRAPH_VIEW_BYTES,
    GRAPH_VIEWS_TOTAL,
)
from corpusmesh_runtime.graphs.once import Once
from corpusmesh_runtime.logging import get_logger

SEGMENT_PREFIX: Final = "segment."
RESOLUTION: Final = "resolution"
CORRECTIONS: Final = "corrections"
"""Names of a build's artefacts that a view is made of; segments are numbered from 0."""

_MAPPED_BYTES: Final = 8 * 1024**2
"""Bytes from which on a compiled view is a file: then it is there after a restart, and memory may let go of it."""
_READS_IN_FLIGHT: Final = 4
_MAX_OPEN: Final = 4096
_FETCH_SECONDS: Final = 120.0
_CHECK_SECONDS: Final = 10.0
_EPOCH_CHARACTERS: Final = 16
_log = get_logger(__name__)


class ArtefactNames(Protocol):
    """What a reader needs of a `BuildStore` of graphs."""

    async def artefacts(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """See `BuildStore`."""
        ...


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a graph consists of.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        segments: Objects of its segments, in order.
        resolution: Object of the resolved pairs; "" for none.
        corrections: Object of the corrections; "" for none.
    """

    tenant_id: str
    knowledge_base_id: str
    segments: tuple[str, ...]
    resolution: str
    corrections: str

    @property
    def keys(self) -> tuple[str, ...]:
        """All objects."""
        return tuple(key for key in (*self.segments, self.resolution, self.corrections) if key)

    @property
    def epoch(self) -> str:
        """Digest of all that a view of it depends on, but what the caller sees."""
        text = "\0".join(
            (self.tenant_id, self.knowledge_base_id, *self.segments, "", self.resolution, self.corrections)
        )
        return hashlib.blake2b(text.encode(), digest_size=_EPOCH_CHARACTERS // 2).hexdigest()


class GraphReader:
    """Gives each caller the graph of what it may see."""

    def __init__(self, objects: ObjectStore, builds: ArtefactNames, settings: GraphCacheSettings | None = None) -> None:
        """Create it; use it as an asynchronous context manager.

        Args:
            objects: Holds the artefacts.
            builds: Tells which there are.
            settings: What is kept.
        """
        self._objects = objects
        self._builds = builds
        self._settings = settings or GraphCacheSettings()
        self._own_folder: tempfile.TemporaryDirectory[str] | None = None
        self._folder: CacheFolder | None = None
        self._open: OrderedDict[Path, Segment] = OrderedDict()
        self._views: OrderedDict[str, tuple[GraphView, int]] = OrderedDict()
        self._epochs: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._fetching = Once[Path, None](_MAX_OPEN)
        self._opening = Once[Path, Segment](_MAX_OPEN)
        self._making = Once[str, GraphView](self._settings.max_waiting_views)
        self._gate = asyncio.Semaphore(_READS_IN_FLIGHT)
        # One thread: a second one would take the processor from the requests that need no new view.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="graph-views")
        self._checks: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "GraphReader":
        root = self._settings.folder
        if root is None:
            self._own_folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="corpusmesh-graphs-")
            root = Path(self._own_folder.name)
        self._folder = await asyncio.to_thread(CacheFolder, root, self._settings.max_file_bytes)
        self._checks = asyncio.create_task(self._check_again_and_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._checks is not None:
            self._checks.cancel()
            await asyncio.gather(self._checks, return_exceptions=True)
        await self._fetching.close()
        await self._opening.close()
        await self._making.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._views.clear()
        self._open.clear()
        if self._own_folder is not None:
            await asyncio.to_thread(self._own_folder.cleanup)

    async def view(
        self, tenant_id: str, knowledge_base_id: str, visibility: Visibility, *, timeout_seconds: float
    ) -> GraphView | None:
        """Give the graph of a knowledge base as a caller may see it.

        Args:
            tenant_id: Tenant.
            knowledge_base_id: Knowledge base, which the caller may read.
            visibility: What the caller may see.
            timeout_seconds: Bound of the whole call; what is under way then goes on, for the next one.

        Returns:
            The view; None where the knowledge base has no graph.

        Raises:
            DeadlineExceededError: GRAPH_NOT_READY if it takes too long.
            OverloadedError: GRAPH_BUSY if too many views are being made.
            UnavailableError: If a store does not answer, the graph is rebuilt faster than it is read, or an artefact or
                the disk is damaged.
            FailedPreconditionError: GRAPH_TOO_LARGE if it does not fit into the cache.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                for is_last in (False, True):
                    parts = _parts(
                        tenant_id, knowledge_base_id, await self._builds.artefacts(tenant_id, knowledge_base_id)
                    )
                    if not parts.segments:
                        return None
                    try:
                        return await self._view_of(parts, visibility)
                    except NotFoundError:
                        # Merged or swept since they were listed: the list of now names what took their place.
                        if is_last:
                            raise UnavailableError("GRAPH_CHANGED", "the graph changes while it is read") from None
        except TimeoutError as error:
            raise DeadlineExceededError("GRAPH_NOT_READY", "the graph could not be made ready in time") from error
        except (InvalidArgumentError, InternalError, OSError) as error:
            # A search that can do without the graph goes on; whoever runs this hears of it.
            reason = error.reason if isinstance(error, CorpusMeshError) else type(error).__name__
            _log.error("graph cannot be read", reason=reason)
            raise UnavailableError("GRAPH_UNREADABLE", "the graph cannot be read at the moment") from error
        return None

    async def check(self) -> None:
        """Let go of what belongs to no graph of now: of a deleted one, or of a document that was removed from one."""
        for tenant_id, knowledge_base_id in sorted(self._files.owners() | self._epochs.keys()):
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    names = await self._builds.artefacts(tenant_id, knowledge_base_id)
                parts = _parts(tenant_id, knowledge_base_id, names)
            except (CorpusMeshError, TimeoutError) as error:
                _log.warning("graph not checked", error_type=type(error).__name__)
                continue
            # Of what an earlier process left, it is not known what it belonged to.
            self._epochs.setdefault((tenant_id, knowledge_base_id), "")
            self._drop_stale(parts)
            if not parts.segments:
                self._epochs.pop((tenant_id, knowledge_base_id), None)

    async def _check_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._settings.check_seconds)
            await self.check()

    async def _view_of(self, parts: _Parts, visibility: Visibility) -> GraphView:
        self._drop_stale(parts)
        await asyncio.gather(*(self._fetch(parts, key) for key in parts.keys))
        segments = await asyncio.gather(*(self._segment(parts, key) for key in parts.segments))
        seen = await asyncio.to_thread(_digest_of_seen, segments, visibility)
        key = f"{parts.epoch}-{seen}"
        if (known := self._views.get(key)) is not None:
            self._views.move_to_end(key)
            GRAPH_VIEWS_TOTAL.labels("memory").inc()
            return known[0]
        return await self._making.do(key, lambda: self._make(key, parts, segments, visibility))

    async def _fetch(self, parts: _Parts, key: str) -> None:
        """Bring an object onto the disk."""
        path = self._path(parts, key)
        if not self._files.has(path):
            await self._fetching.do(path, lambda: self._download(key, path))

    async def _download(self, key: str, path: Path) -> None:
        async with self._gate:
            info = await self._objects.head(key)
            if info is None:
                raise NotFoundError("OBJECT_NOT_FOUND", "a part of the graph is gone")
            if info.byte_count > self._settings.max_file_bytes:
                raise FailedPreconditionError(
                    "GRAPH_TOO_LARGE", "the graph does not fit into the cache of this service", limit=info.byte_count
                )
            pieces = self._objects.open_stream(key, timeout_seconds=_FETCH_SECONDS)
            GRAPH_FETCHED_BYTES_TOTAL.inc(await self._files.save(path, pieces))

    async def _segment(self, parts: _Parts, key: str) -> Segment:
        path = self._path(parts, key)
        if (known := self._open.get(path)) is not None:
            self._open.move_to_end(path)
            return known
        return await self._opening.do(path, lambda: self._opened(path))

    async def _opened(self, path: Path) -> Segment:
        try:
            # Checked once: what its sums say of a mapped file holds for as long as it is mapped.
            segment = await asyncio.to_thread(lambda: Segment.open(self._files.content(path)))
        except FileNotFoundError as error:
            raise NotFoundError("OBJECT_NOT_FOUND", "a part of the graph is gone") from error
        except InvalidArgumentError:
            self._files.forget(path)
            raise
        self._open[path] = segment
        while len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)
        return segment

    async def _make(self, key: str, parts: _Parts, segments: Sequence[Segment], visibility: Visibility) -> GraphView:
        """Make a view in a thread of its own, from its file or from its segments, and keep it."""
        path = self._files.path(parts.tenant_id, parts.knowledge_base_id, key, f".{parts.epoch}")
        is_there = self._files.has(path)
        loop = asyncio.get_running_loop()
        view, source = await loop.run_in_executor(
            self._thread, self._made, parts, segments, visibility, path if is_there else None
        )
        size = view.graph.nbytes
        if source == "compiled" and size >= _MAPPED_BYTES:
            try:
                await loop.run_in_executor(self._thread, CacheFolder.write, path, compiled_parts(view.graph))
                self._files.add(path)
                view, _ = await loop.run_in_executor(self._thread, self._made, parts, segments, visibility, path)
            except OSError as error:
                _log.warning("view of a graph not written", error_type=type(error).__name__)
        GRAPH_VIEWS_TOTAL.labels(source).inc()
        if self._epochs.get((parts.tenant_id, parts.knowledge_base_id)) == parts.epoch:
            # Of a mapped view memory holds what walks keep of it.
            self._keep(key, view, size // 8 if size >= _MAPPED_BYTES else size)
        else:
            # Something else was published while it was made: nobody will ask for this one again.
            self._files.forget(path)
        return view

    def _made(
        self, parts: _Parts, segments: Sequence[Segment], visibility: Visibility, path: Path | None
    ) -> tuple[GraphView, str]:
        corrections = unpack_corrections(self._bytes(parts, parts.corrections)) if parts.corrections else Corrections()
        if path is not None:
            try:
                graph = open_compiled(CacheFolder.content(path))
                return GraphView(graph, pools_of(segments), edits_of(corrections)), "file"
            except (InvalidArgumentError, FileNotFoundError) as error:
                _log.warning("view of a graph left aside", error_type=type(error).__name__)
        started = time.perf_counter()
        resolved = unpack_pairs(self._bytes(parts, parts.resolution)) if parts.resolution else ()
        view = compile_view(segments, visibility.ordinals, resolved, corrections)
        GRAPH_COMPILE_SECONDS.observe(time.perf_counter() - started)
        return view, "compiled"

    def _bytes(self, parts: _Parts, key: str) -> bytes:
        try:
            return bytes(CacheFolder.content(self._path(parts, key)))
        except FileNotFoundError as error:
            raise NotFoundError("OBJECT_NOT_FOUND", "a part of the graph is gone") from error

    def _keep(self, key: str, view: GraphView, size: int) -> None:
        if size > self._settings.max_memory_bytes:
            return
        self._views[key] = (view, size)
        total = sum(its_size for _, its_size in self._views.values())
        while total > self._settings.max_memory_bytes:
            _, (_, its_size) = self._views.popitem(last=False)
            total -= its_size
        GRAPH_VIEW_BYTES.set(total)

    def _drop_stale(self, parts: _Parts) -> None:
        """Let go of what belongs to the graph as it was."""
        owner = (parts.tenant_id, parts.knowledge_base_id)
        before, epoch = self._epochs.get(owner), parts.epoch
        self._epochs[owner] = epoch
        self._epochs.move_to_end(owner)
        if before is None or before == epoch:
            while len(self._epochs) > _MAX_OPEN:
                self._epochs.popitem(last=False)
            return
        for key in [key for key in self._views if key.startswith(f"{before}-")]:
            del self._views[key]
        keep = {self._path(parts, key) for key in parts.keys}
        self._files.keep_only(*owner, keep, epoch)
        for path in [path for path in self._open if path not in keep and path.parent.parts[-2:] == owner]:
            del self._open[path]

    def _path(self, parts: _Parts, key: str) -> Path:
        return self._files.path(parts.tenant_id, parts.knowledge_base_id, key, ".artefact")

    @property
    def _files(self) -> CacheFolder:
        assert self._folder is not None
        return self._folder


def _parts(tenant_id: str, knowledge_base_id: str, artefacts: Mapping[str, str]) -> _Parts:
    numbered = sorted(
        (int(name.removeprefix(SEGMENT_PREFIX)), key)
        for name, key in artefacts.items()
        if name.startswith(SEGMENT_PREFIX) and name.removeprefix(SEGMENT_PREFIX).isdecimal()
    )
    parts = _Parts(
        tenant_id,
        knowledge_base_id,
        tuple(key for _, key in numbered),
        artefacts.get(RESOLUTION, ""),
        artefacts.get(CORRECTIONS, ""),
    )
    if not all(key.startswith(f"{tenant_id}/") for key in parts.keys):
        raise InternalError("GRAPH_KEY_FOREIGN", "a part of the graph is not the tenant's own")
    return parts


def _digest_of_seen(segments: Sequence[Segment], visibility: Visibility) -> str:
    """Name what a caller sees of segments: documents, not ordinals, so that what is outside makes no difference."""
    digest = hashlib.blake2b(digest_size=20)
    for segment in segments:
        digest.update(np.packbits(segment.shows(visibility.ordinals)).tobytes())
        digest.update(segment.document_count.to_bytes(8, "little"))
    return digest.hexdigest()
