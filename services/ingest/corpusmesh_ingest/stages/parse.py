"""Stage parse: originals to parsed documents, in the parser pool."""

import asyncio
import tempfile
from pathlib import Path

from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import DocumentError, NotFoundError
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.ports.objects import ObjectStore, original_key
from corpusmesh_core.ports.parsing import DocumentParser, ParseOptions, ParseRequest
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.artefacts import pack_documents, stage_artefact_key
from corpusmesh_runtime.worker import TaskContext

_IN_MEMORY_BYTES = 4 * 1024 * 1024
_READS_IN_FLIGHT = 8


class ParseStage:
    """Parses the originals of a batch; a document that cannot be read costs itself alone."""

    def __init__(
        self, documents: DocumentStore, objects: ObjectStore, parser: DocumentParser, options: ParseOptions
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            objects: Originals and artefacts.
            parser: The parser pool.
            options: Limits of one document.
        """
        self._documents = documents
        self._objects = objects
        self._parser = parser
        self._options = options

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Parse a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key for every document that could be read, and why the others could not.
        """
        claim = context.claim
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        with tempfile.TemporaryDirectory(prefix="corpusmesh-parse-") as folder:
            reads = asyncio.Semaphore(_READS_IN_FLIGHT)
            contents = await asyncio.gather(
                *(self._read(context, version, Path(folder), reads) for version in versions)
            )
            pairs = list(zip(versions, contents, strict=True))
            readable = [(version, content) for version, content in pairs if content is not None]
            requests = [
                ParseRequest(content=content, display_name=version.display_name, options=self._options)
                for version, content in readable
            ]
            results = await self._parser.parse_many(requests, deadline_seconds=context.remaining_seconds())
        failures = [
            PartFailure(version.ordinal, "ORIGINAL_MISSING", "the original is gone; upload the document again")
            for version, content in pairs
            if content is None
        ]
        parsed: dict[int, ParsedDocument] = {}
        for (version, _), result in zip(readable, results, strict=True):
            if isinstance(result, DocumentError):
                failures.append(PartFailure(version.ordinal, result.reason, result.message))
            else:
                parsed[version.ordinal] = result
        if not parsed:
            return StageOutcome(failures=tuple(failures))
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        artefact = await asyncio.to_thread(pack_documents, parsed)
        await self._objects.put(key, artefact, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        patches = tuple(
            _patch(version, parsed[version.ordinal], key) for version, _ in readable if version.ordinal in parsed
        )
        return StageOutcome(failures=tuple(failures), patches=patches)

    async def _read(
        self, context: TaskContext, version: VersionRow, folder: Path, reads: asyncio.Semaphore
    ) -> bytes | Path | None:
        key = original_key(version.tenant_id, version.original_sha256)
        async with reads:
            try:
                if version.size_bytes <= _IN_MEMORY_BYTES:
                    return await self._objects.get(key, timeout_seconds=context.remaining_seconds())
                path = folder / str(version.ordinal)
                with path.open("wb") as target:
                    async for piece in self._objects.open_stream(key, timeout_seconds=context.remaining_seconds()):
                        await asyncio.to_thread(target.write, piece)
            except NotFoundError:
                return None
            return path


def _patch(version: VersionRow, document: ParsedDocument, key: str) -> VersionPatch:
    return VersionPatch(
        ordinal=version.ordinal,
        media_type=document.media_type,
        title=document.title or None,
        page_count=document.page_count,
        artefacts={"parsed": key},
        warnings=document.warnings,
    )
