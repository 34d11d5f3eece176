"""Stage enrich: what a knowledge base asks to be made of chunks before they are embedded."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusmesh_core.artefacts import (
    CHUNKS,
    ENRICHED,
    PARSED,
    pack_enriched,
    stage_artefact_key,
    title_of,
    unpack_chunks,
    unpack_documents,
)
from corpusmesh_core.documents import Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.enrichment import Enriched, EnrichmentSettings
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import KnowledgeBase, VersionRow
from corpusmesh_ingest.configuration import effective_config, enrichment_of, metadata_schema_of
from corpusmesh_ingest.enriching import Enricher, EnrichRequest
from corpusmesh_ingest.records import VersionPieces
from corpusmesh_ingest.stages.tag_sets import TagSetReader
from corpusmesh_runtime.artefact_access import read_artefacts
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext

_DOCUMENTS_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class EnrichDependencies:
    """What the stage stands on.

    Attributes:
        documents: Reads versions.
        knowledge_bases: Reads what is asked for.
        objects: Artefacts.
        tag_sets: Reads tagged examples.
        enricher: Makes what is asked for.
    """

    documents: DocumentStore
    knowledge_bases: KnowledgeBaseStore
    objects: ObjectStore
    tag_sets: TagSetReader
    enricher: Enricher


class EnrichStage:
    """Makes keywords, questions, summaries and the like of a batch's chunks."""

    def __init__(self, dependencies: EnrichDependencies) -> None:
        """Create the stage.

        Args:
            dependencies: What it stands on.
        """
        self._stores = dependencies

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Enrich a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key, the counts, and the values found of every document that something was asked for; for
            the others nothing was read and nothing written.
        """
        claim = context.claim
        versions = await self._stores.documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        knowledge_base = await self._stores.knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        wanted: list[tuple[VersionRow, EnrichmentSettings]] = []
        for version in versions:
            settings = enrichment_of(effective_config(knowledge_base.config, version.config))
            if not settings.is_off:
                wanted.append((version, settings))
        if not wanted:
            return StageOutcome()
        enriched = await self._enrich(context, knowledge_base, wanted)
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        artefact = await asyncio.to_thread(
            pack_enriched, {ordinal: (item.chunks, item.derived) for ordinal, item in enriched.items()}
        )
        await self._stores.objects.put(key, artefact, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        return StageOutcome(patches=tuple(_patch(version, enriched[version.ordinal], key) for version, _ in wanted))

    async def _enrich(
        self,
        context: TaskContext,
        knowledge_base: KnowledgeBase,
        wanted: Sequence[tuple[VersionRow, EnrichmentSettings]],
    ) -> dict[int, Enriched]:
        versions = [version for version, _ in wanted]
        objects = self._stores.objects
        documents: Mapping[int, ParsedDocument] = await read_artefacts(
            objects, versions, PARSED, unpack_documents, timeout_seconds=context.remaining_seconds()
        )
        chunks: Mapping[int, list[Chunk]] = await read_artefacts(
            objects, versions, CHUNKS, unpack_chunks, timeout_seconds=context.remaining_seconds()
        )
        gate = asyncio.Semaphore(_DOCUMENTS_IN_FLIGHT)
        sets = {settings.tags.tag_sets for _, settings in wanted}
        examples = {
            names: await self._stores.tag_sets.examples(
                knowledge_base, names, timeout_seconds=context.remaining_seconds()
            )
            for names in sets
        }

        async def enrich(version: VersionRow, settings: EnrichmentSettings) -> Enriched:
            async with gate:
                request = EnrichRequest(
                    tenant_id=version.tenant_id,
                    knowledge_base_id=version.knowledge_base_id,
                    ordinal=version.ordinal,
                    title=title_of(version),
                    document=documents[version.ordinal],
                    chunks=tuple(chunks[version.ordinal]),
                    settings=settings,
                    schema=metadata_schema_of(effective_config(knowledge_base.config, version.config)),
                    tag_examples=examples[settings.tags.tag_sets],
                )
                return await self._stores.enricher.enrich(request, deadline_seconds=context.remaining_seconds())

        async with asyncio.TaskGroup() as group:
            tasks = {version.ordinal: group.create_task(enrich(version, settings)) for version, settings in wanted}
        return {ordinal: task.result() for ordinal, task in tasks.items()}


def _patch(version: VersionRow, enriched: Enriched, key: str) -> VersionPatch:
    pieces = VersionPieces(version, enriched.chunks, enriched.derived)
    searched = [chunk for chunk in pieces.indexed if chunk.role is ChunkRole.TEXT]
    return VersionPatch(
        ordinal=version.ordinal,
        chunk_count=len(searched),
        record_count=pieces.record_count,
        token_count=sum(chunk.token_count for chunk in searched),
        artefacts={ENRICHED: key},
        warnings=tuple(dict.fromkeys((*version.warnings, *enriched.warnings))),
        extracted_metadata=dict(enriched.metadata),
    )
