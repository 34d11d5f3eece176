"""Stage chunk: parsed documents to chunks, by the template that holds for each and the embedder's tokenizer."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.template import ChunkResult
from corpusmesh_core.chunking.templates import chunk_with_warnings
from corpusmesh_core.documents import ChunkRole, ParsedDocument
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.edits import ChunkEditStore
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.artefacts import CHUNKS, PARSED, pack_chunks, stage_artefact_key, unpack_documents
from corpusmesh_ingest.configuration import Config, chunk_settings, effective_config
from corpusmesh_ingest.stages.artefact_access import read_artefacts
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext


@dataclass(frozen=True, slots=True)
class ChunkDependencies:
    """What the stage stands on.

    Attributes:
        documents: Reads versions.
        knowledge_bases: Reads the template and its settings.
        objects: Artefacts.
        edits: What people changed.
        counter: The embedder's tokenizer.
        embedder_max_tokens: Tokens that the embedder reads of one text, everything included.
    """

    documents: DocumentStore
    knowledge_bases: KnowledgeBaseStore
    objects: ObjectStore
    edits: ChunkEditStore
    counter: TextTokenizer
    embedder_max_tokens: int


class ChunkStage:
    """Cuts the documents of a batch."""

    def __init__(self, dependencies: ChunkDependencies) -> None:
        """Create the stage.

        Args:
            dependencies: What it stands on.
        """
        self._stores = dependencies

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Cut a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key and the counts of every document; a document without text fails.
        """
        claim = context.claim
        versions = await self._stores.documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        knowledge_base = await self._stores.knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        documents = await read_artefacts(
            self._stores.objects, versions, PARSED, unpack_documents, timeout_seconds=context.remaining_seconds()
        )
        # Threads: the tokenizer lets other threads run while it counts, and it is most of the work.
        results = await asyncio.to_thread(self._cut, versions, documents, knowledge_base.config)
        failures = tuple(
            PartFailure(ordinal, "DOCUMENT_EMPTY", "the document has no text; upload one that has")
            for ordinal, result in results.items()
            if not result.chunks
        )
        full = {ordinal: result for ordinal, result in results.items() if result.chunks}
        if not full:
            return StageOutcome(failures=failures)
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        artefact = await asyncio.to_thread(pack_chunks, {ordinal: result.chunks for ordinal, result in full.items()})
        await self._stores.objects.put(key, artefact, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        patches = tuple(_patch(version, full[version.ordinal], key) for version in versions if version.ordinal in full)
        return StageOutcome(failures=failures, patches=patches)

    def _cut(
        self, versions: Sequence[VersionRow], documents: Mapping[int, ParsedDocument], config: Config
    ) -> dict[int, ChunkResult]:
        results: dict[int, ChunkResult] = {}
        for version in versions:
            template, settings = chunk_settings(
                effective_config(config, version.config), embedder_max_tokens=self._stores.embedder_max_tokens
            )
            results[version.ordinal] = chunk_with_warnings(
                documents[version.ordinal], self._stores.counter, template=template, settings=settings
            )
        return results


def _patch(version: VersionRow, result: ChunkResult, key: str) -> VersionPatch:
    searched = [chunk for chunk in result.chunks if chunk.role is ChunkRole.TEXT]
    warnings = tuple(dict.fromkeys((*version.warnings, *result.warnings))) if result.warnings else None
    return VersionPatch(
        ordinal=version.ordinal,
        chunk_count=len(searched),
        record_count=len(result.chunks),
        token_count=sum(chunk.token_count for chunk in searched),
        artefacts={CHUNKS: key},
        warnings=warnings,
    )
