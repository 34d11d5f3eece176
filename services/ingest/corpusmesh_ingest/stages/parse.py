"""Stage parse: originals to parsed documents, in the parser pool."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusmesh_core.artefacts import (
    PARSED,
    PICTURES,
    Reading,
    pack_readings,
    pictures_prefix,
    stage_artefact_key,
    unpack_readings,
)
from corpusmesh_core.errors import DocumentError, FailedPreconditionError, NotFoundError
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore, original_key
from corpusmesh_core.ports.parsing import DocumentParser, ParseLimits, ParseOptions, ParseRequest
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.configuration import ParseSection, effective_config
from corpusmesh_ingest.stages.pictures import PictureWriter, has_pictures
from corpusmesh_runtime.artefact_access import find_artefacts
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext

_IN_MEMORY_BYTES = 4 * 1024 * 1024
_READS_IN_FLIGHT = 8
_PICTURED_AT_ONCE = 4
"""Documents whose pictures are in memory at once: each may bring `ParseLimits.max_picture_bytes`."""

Unseal = Callable[[str, bytes], str]
"""Opens a password that was sealed for a tenant."""


@dataclass(frozen=True, slots=True)
class ParseDependencies:
    """What the stage stands on.

    Attributes:
        documents: Reads versions.
        knowledge_bases: Reads how documents are to be read.
        objects: Originals, artefacts and pictures.
        parser: The parser pool.
        limits: What one document may cost.
        unseal: Opens passwords.
    """

    documents: DocumentStore
    knowledge_bases: KnowledgeBaseStore
    objects: ObjectStore
    parser: DocumentParser
    limits: ParseLimits
    unseal: Unseal


class ParseStage:
    """Parses the originals of a batch; a document that cannot be read costs itself alone."""

    def __init__(self, dependencies: ParseDependencies) -> None:
        """Create the stage.

        Args:
            dependencies: What it stands on.
        """
        self._stores = dependencies

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Parse a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key for every document that could be read, and why the others could not.
        """
        claim = context.claim
        versions = await self._stores.documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        knowledge_base = await self._stores.knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        sections: dict[int, ParseSection] = {
            version.ordinal: ParseSection.of(effective_config(knowledge_base.config, version.config))
            for version in versions
        }
        pictures = PictureWriter(self._stores.objects)
        readings = await self._take_over(context, versions, sections, pictures)
        failures: list[PartFailure] = []
        for group in _groups([version for version in versions if version.ordinal not in readings], sections):
            parsed, failed = await self._parse(context, group, sections)
            failures.extend(failed)
            for version in group:
                if (reading := parsed.pop(version.ordinal, None)) is not None:
                    document = await pictures.store(context, reading.document, _prefix(context, version))
                    readings[version.ordinal] = Reading(document, reading.fingerprint)
        forgotten = tuple(
            VersionPatch(ordinal=version.ordinal, forgets_password=True)
            for version in versions
            if version.sealed_password and version.ordinal not in readings
        )
        if not readings:
            return StageOutcome(failures=tuple(failures), patches=forgotten)
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        artefact = await asyncio.to_thread(pack_readings, readings)
        await self._stores.objects.put(key, artefact, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        patches = tuple(
            _patch(context, version, readings[version.ordinal], key)
            for version in versions
            if version.ordinal in readings
        )
        return StageOutcome(failures=tuple(failures), patches=patches + forgotten)

    async def _take_over(
        self,
        context: TaskContext,
        versions: Sequence[VersionRow],
        sections: Mapping[int, ParseSection],
        pictures: PictureWriter,
    ) -> dict[int, Reading]:
        """Take what was parsed of the same bytes under the same settings, where it is still there."""
        derived = [version for version in versions if version.base_ordinal]
        if not derived:
            return {}
        found = await self._stores.documents.versions_by_ordinal(
            context.claim.tenant_id, sorted({version.base_ordinal for version in derived})
        )
        bases = {int(base.ordinal): base for base in found}
        read = await find_artefacts(
            self._stores.objects, found, PARSED, unpack_readings, timeout_seconds=context.remaining_seconds()
        )
        taken: dict[int, Reading] = {}
        for version in derived:
            base, reading = bases.get(version.base_ordinal), read.get(version.base_ordinal)
            if base is None or reading is None or not _is_same_original(version, base):
                continue
            if reading.fingerprint != sections[version.ordinal].fingerprint():
                continue
            source = base.artefacts.get(PICTURES, "")
            if has_pictures(reading.document) and not (
                source and await pictures.copy(context, reading.document, source, _prefix(context, version))
            ):
                continue
            taken[version.ordinal] = reading
        return taken

    async def _parse(
        self, context: TaskContext, versions: Sequence[VersionRow], sections: Mapping[int, ParseSection]
    ) -> tuple[dict[int, Reading], list[PartFailure]]:
        failures: list[PartFailure] = []
        options: dict[int, ParseOptions] = {}
        for version in versions:
            try:
                password = (
                    self._stores.unseal(version.tenant_id, version.sealed_password) if version.sealed_password else None
                )
            except FailedPreconditionError as error:
                failures.append(PartFailure(version.ordinal, error.reason, error.message))
                continue
            options[version.ordinal] = sections[version.ordinal].options(self._stores.limits, password=password)
        wanted = [version for version in versions if version.ordinal in options]
        with tempfile.TemporaryDirectory(prefix="corpusmesh-parse-") as folder:
            reads = asyncio.Semaphore(_READS_IN_FLIGHT)
            contents = await asyncio.gather(*(self._read(context, version, Path(folder), reads) for version in wanted))
            readable = [
                (version, content) for version, content in zip(wanted, contents, strict=True) if content is not None
            ]
            requests = [
                ParseRequest(content=content, display_name=version.display_name, options=options[version.ordinal])
                for version, content in readable
            ]
            results = (
                await self._stores.parser.parse_many(requests, deadline_seconds=context.remaining_seconds())
                if requests
                else []
            )
        failures.extend(
            PartFailure(version.ordinal, "ORIGINAL_MISSING", "the original is gone; upload the document again")
            for version, content in zip(wanted, contents, strict=True)
            if content is None
        )
        parsed: dict[int, Reading] = {}
        for (version, _), result in zip(readable, results, strict=True):
            if isinstance(result, DocumentError):
                failures.append(PartFailure(version.ordinal, result.reason, result.message))
            else:
                parsed[version.ordinal] = Reading(result, sections[version.ordinal].fingerprint())
        return parsed, failures

    async def _read(
        self, context: TaskContext, version: VersionRow, folder: Path, reads: asyncio.Semaphore
    ) -> bytes | Path | None:
        objects = self._stores.objects
        key = original_key(version.tenant_id, version.original_sha256)
        async with reads:
            try:
                if version.size_bytes <= _IN_MEMORY_BYTES:
                    return await objects.get(key, timeout_seconds=context.remaining_seconds())
                path = folder / str(version.ordinal)
                with path.open("wb") as target:
                    async for piece in objects.open_stream(key, timeout_seconds=context.remaining_seconds()):
                        await asyncio.to_thread(target.write, piece)
            except NotFoundError:
                return None
            return path


def _groups(versions: Sequence[VersionRow], sections: Mapping[int, ParseSection]) -> list[Sequence[VersionRow]]:
    """Part a batch into what is parsed at once; documents with pictures, which may be large, are few at once."""
    light = [version for version in versions if not sections[version.ordinal].makes_pictures]
    heavy = [version for version in versions if sections[version.ordinal].makes_pictures]
    groups: list[Sequence[VersionRow]] = [
        heavy[start : start + _PICTURED_AT_ONCE] for start in range(0, len(heavy), _PICTURED_AT_ONCE)
    ]
    return [light, *groups] if light else groups


def _is_same_original(version: VersionRow, base: VersionRow) -> bool:
    return (version.knowledge_base_id, version.document_id, version.original_sha256) == (
        base.knowledge_base_id,
        base.document_id,
        base.original_sha256,
    )


def _prefix(context: TaskContext, version: VersionRow) -> str:
    claim = context.claim
    return pictures_prefix(claim.tenant_id, claim.run_id, claim.task_id, version.ordinal)


def _patch(context: TaskContext, version: VersionRow, reading: Reading, key: str) -> VersionPatch:
    document = reading.document
    artefacts = {PARSED: key}
    if has_pictures(document):
        artefacts[PICTURES] = _prefix(context, version)
    return VersionPatch(
        ordinal=version.ordinal,
        media_type=document.media_type,
        title=document.title or None,
        page_count=document.page_count,
        artefacts=artefacts,
        warnings=document.warnings,
        forgets_password=bool(version.sealed_password),
    )
