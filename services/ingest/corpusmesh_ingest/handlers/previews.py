"""Cuts documents to look at: in a parser process of its own, and nothing is stored."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from corpusmesh.ingest.v1 import chunk_service_pb2 as pb
from corpusmesh_core.artefacts import PARSED, unpack_readings
from corpusmesh_core.chunking import chunk_with_warnings
from corpusmesh_core.documents import ChunkRole, ParsedDocument
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, OverloadedError
from corpusmesh_core.ports.embedding import Embedder, TextTokenizer
from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore, original_key
from corpusmesh_core.ports.parsing import DocumentParser, ParseLimits
from corpusmesh_core.tenancy import Access, VersionRow
from corpusmesh_ingest.configuration import Config, ParseSection, chunk_settings, effective_config
from corpusmesh_ingest.convert import display_name_of
from corpusmesh_ingest.convert_chunks import chunk_to_wire
from corpusmesh_ingest.handlers.paging import page_size_of, within_page
from corpusmesh_ingest.handlers.version_access import VersionReader
from corpusmesh_ingest.names import parse_name
from corpusmesh_ingest.own_settings import own_config_of
from corpusmesh_ingest.sealing import MAX_PASSWORD_CHARACTERS
from corpusmesh_runtime.context import require_call

_MAX_CONTENT_BYTES = 3 * 1024 * 1024
_MAX_ARTEFACT_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PreviewTools:
    """What cuts documents to look at.

    Attributes:
        parser: A parser pool of its own, so that looking waits for no run and holds none up.
        counter: Gives the embedder's tokenizer; called once, in a thread.
        limits: What a document may cost; `max_bytes` is the largest original that is read for a preview.
        max_waiting: Previews at once, the waiting ones included.
        max_seconds: Longest time of one.
    """

    parser: DocumentParser
    counter: Callable[[], TextTokenizer]
    limits: ParseLimits
    max_waiting: int
    max_seconds: float


class Previewer:
    """Makes previews."""

    def __init__(
        self,
        tools: PreviewTools,
        *,
        knowledge_bases: KnowledgeBaseStore,
        versions: VersionReader,
        objects: ObjectStore,
        embedder: Embedder,
    ) -> None:
        """Create the previewer.

        Args:
            tools: What cuts.
            knowledge_bases: Configuration and rights.
            versions: Versions that the caller may read.
            objects: Originals and what was parsed of them.
            embedder: Says how much it reads of one text.
        """
        self._tools = tools
        self._knowledge_bases = knowledge_bases
        self._versions = versions
        self._objects = objects
        self._embedder = embedder
        self._counter: TextTokenizer | None = None
        self._open = 0
        self._turn = asyncio.Lock()

    async def preview(self, request: pb.PreviewChunksRequest) -> pb.PreviewChunksResponse:
        """Cut a document and show the first chunks.

        Args:
            request: What to cut and how.

        Returns:
            The chunks and their number.

        Raises:
            OverloadedError: PREVIEWS_BUSY if too many previews are wanted at once.
        """
        if self._open >= self._tools.max_waiting:
            raise OverloadedError(
                "PREVIEWS_BUSY", "too many previews at once; try again shortly", limit=self._tools.max_waiting
            )
        self._open += 1
        try:
            async with asyncio.timeout(min(require_call().remaining_seconds(), self._tools.max_seconds)):
                await self._turn.acquire()
                # A thread that cuts cannot be stopped: the next one has its turn when it has ended, so that hostile
                # documents do not take every thread of the process.
                work = asyncio.create_task(self._hold(request), name="preview")
                work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                return await asyncio.shield(work)
        except TimeoutError:
            raise OverloadedError(
                "PREVIEW_TOO_SLOW",
                f"the preview took longer than {self._tools.max_seconds:g} seconds; upload the document",
                max_seconds=f"{self._tools.max_seconds:g}",
            ) from None
        finally:
            self._open -= 1

    async def _hold(self, request: pb.PreviewChunksRequest) -> pb.PreviewChunksResponse:
        try:
            return await self._preview(request)
        finally:
            self._turn.release()

    async def _preview(self, request: pb.PreviewChunksRequest) -> pb.PreviewChunksResponse:
        name = parse_name("knowledge base", request.parent, field="parent")
        size = page_size_of(request.page_size)
        if len(request.password) > MAX_PASSWORD_CHARACTERS:
            raise InvalidArgumentError(
                "PASSWORD_TOO_LONG", f"a password takes at most {MAX_PASSWORD_CHARACTERS} characters", field="password"
            )
        identity = require_call().identity
        knowledge_base = await self._knowledge_bases.get(identity, name.knowledge_base_id, Access.WRITE)
        own = await own_config_of(
            request, self._knowledge_bases, identity, embedder_max_tokens=self._embedder.max_input_tokens
        )
        if request.WhichOneof("source") == "version":
            version_name = parse_name("version", request.version, field="version")
            if version_name.knowledge_base_id != name.knowledge_base_id:
                raise InvalidArgumentError(
                    "VERSION_OF_ANOTHER_KNOWLEDGE_BASE", "version must be one of the parent's", field="version"
                )
            version = await self._versions.readable(version_name)
            config = {**effective_config(knowledge_base.config, version.config), **own}
            document = await self._of_version(version, config, request.password)
            display_name = version.display_name
        else:
            config = {**knowledge_base.config, **own}
            display_name = display_name_of(request.content.display_name, field="content.display_name")
            if not 0 < len(request.content.data) <= _MAX_CONTENT_BYTES:
                raise InvalidArgumentError(
                    "PREVIEW_CONTENT_INVALID",
                    f"give a version, or a file of 1 to {_MAX_CONTENT_BYTES} bytes",
                    field="content.data",
                )
            document = await self._parse(request.content.data, display_name, config, request.password)
        return await self._cut(document, config, display_name, size)

    async def _of_version(self, version: VersionRow, config: Config, password: str) -> ParsedDocument:
        section = ParseSection.of(config)
        if key := version.artefacts.get(PARSED, ""):
            try:
                artefact = await self._objects.get(
                    key, max_byte_count=_MAX_ARTEFACT_BYTES, timeout_seconds=self._tools.max_seconds
                )
                readings = await asyncio.to_thread(unpack_readings, artefact)
                reading = readings.get(int(version.ordinal))
                if reading is not None and reading.fingerprint == section.fingerprint():
                    return reading.document
            except NotFoundError:
                pass
        if version.size_bytes > self._tools.limits.max_bytes:
            raise InvalidArgumentError(
                "PREVIEW_TOO_LARGE",
                f"a preview that reads the original anew takes at most {self._tools.limits.max_bytes} bytes",
                field="version",
                limit_bytes=self._tools.limits.max_bytes,
            )
        content = await self._objects.get(
            original_key(version.tenant_id, version.original_sha256),
            max_byte_count=self._tools.limits.max_bytes,
            sha256=version.original_sha256,
            timeout_seconds=self._tools.max_seconds,
        )
        return await self._parse(content, version.display_name, config, password)

    async def _parse(self, content: bytes, display_name: str, config: Config, password: str) -> ParsedDocument:
        seconds = max(1, int(self._tools.max_seconds))
        own = self._tools.limits
        limits = replace(own, cpu_seconds=min(own.cpu_seconds, seconds), wall_seconds=min(own.wall_seconds, seconds))
        options = ParseSection.of(config).options(limits, password=password or None)
        return await self._tools.parser.parse(
            content, display_name=display_name, options=options, deadline_seconds=self._tools.max_seconds
        )

    async def _cut(
        self, document: ParsedDocument, config: Config, display_name: str, size: int
    ) -> pb.PreviewChunksResponse:
        if self._counter is None:
            self._counter = await asyncio.to_thread(self._tools.counter)
        template, settings = chunk_settings(config, embedder_max_tokens=self._embedder.max_input_tokens)
        result = await asyncio.to_thread(
            chunk_with_warnings, document, self._counter, template=template, settings=settings
        )
        searched = [chunk for chunk in result.chunks if chunk.role is ChunkRole.TEXT]
        shown = within_page(chunk_to_wire(chunk, None, display_name=display_name) for chunk in result.chunks[:size])
        return pb.PreviewChunksResponse(
            chunks=shown,
            total_size=len(searched),
            token_count=sum(chunk.token_count for chunk in searched),
            media_type=document.media_type,
            page_count=document.page_count,
            warnings=[*document.warnings, *result.warnings],
        )
