"""Stage chunk: parsed documents to chunks, by the template that holds for each, with people's edits in them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.artefacts import CHUNKS, PARSED, pack_chunks, stage_artefact_key, unpack_documents
from corpusmesh_core.chunking import find_template
from corpusmesh_core.chunking.edits import ChunkEdit, apply_edits, is_disabled
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.documents import Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.edits import ChunkEditStore
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_ingest.configuration import Config, chunk_settings, effective_config
from corpusmesh_ingest.edits import edit_of_row
from corpusmesh_runtime.artefact_access import read_artefacts
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


@dataclass(frozen=True, slots=True)
class _Cut:
    """What became of one document."""

    chunks: tuple[Chunk, ...]
    warnings: tuple[str, ...]
    placed: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()


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
        edits: dict[int, Sequence[ChunkEdit]] = {version.ordinal: await self._edits_of(version) for version in versions}
        # Threads: the tokenizer lets other threads run while it counts, and it is most of the work.
        cuts = await asyncio.to_thread(
            lambda: {
                version.ordinal: self._cut(
                    documents[version.ordinal],
                    effective_config(knowledge_base.config, version.config),
                    edits[version.ordinal],
                )
                for version in versions
            }
        )
        failures = tuple(_failure(ordinal, cut) for ordinal, cut in cuts.items() if not cut.chunks)
        full: dict[int, _Cut] = {ordinal: cut for ordinal, cut in cuts.items() if cut.chunks}
        if not full:
            return StageOutcome(failures=failures)
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        artefact = await asyncio.to_thread(pack_chunks, {ordinal: cut.chunks for ordinal, cut in full.items()})
        await self._stores.objects.put(key, artefact, timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        for ordinal, cut in full.items():
            if edits[ordinal]:
                await self._stores.edits.note_placement(claim.tenant_id, ordinal, cut.placed, cut.unplaced)
        patches = tuple(_patch(version, full[version.ordinal], key) for version in versions if version.ordinal in full)
        return StageOutcome(failures=failures, patches=patches)

    async def _edits_of(self, version: VersionRow) -> Sequence[ChunkEdit]:
        if version.version == 1:
            # An edit is made of a version that somebody saw: a document's first has none, and most are first ones.
            return ()
        rows = await self._stores.edits.edits_of(
            version.tenant_id, version.knowledge_base_id, version.document_id, ordinal=version.ordinal
        )
        return [edit_of_row(row) for row in rows]

    def _cut(self, document: ParsedDocument, config: Config, edits: Sequence[ChunkEdit]) -> _Cut:
        name, values = chunk_settings(config, embedder_max_tokens=self._stores.embedder_max_tokens)
        template = find_template(name)
        settings: BudgetSettings = template.settings(values)
        result = template.chunk(document, self._stores.counter, settings)
        if not edits:
            return _Cut(result.chunks, result.warnings)
        budget = min(settings.max_tokens, settings.embedder_max_tokens - settings.context_tokens)
        edited = apply_edits(result.chunks, edits, self._stores.counter, budget)
        warnings = result.warnings
        if edited.unplaced:
            warnings = (
                *warnings,
                f"{len(edited.unplaced)} edits of chunks found no place in this version; list the document's edits.",
            )
        return _Cut(edited.chunks, warnings, edited.placed, edited.unplaced)


def _failure(ordinal: int, cut: _Cut) -> PartFailure:
    if cut.placed:
        return PartFailure(
            ordinal, "CHUNKS_ALL_DELETED", "edits deleted every chunk; withdraw one of them, or delete the document"
        )
    return PartFailure(ordinal, "DOCUMENT_EMPTY", "the document has no text; upload one that has")


def _patch(version: VersionRow, cut: _Cut, key: str) -> VersionPatch:
    indexed = [chunk for chunk in cut.chunks if not is_disabled(chunk)]
    searched = [chunk for chunk in indexed if chunk.role is ChunkRole.TEXT]
    return VersionPatch(
        ordinal=version.ordinal,
        chunk_count=len(searched),
        record_count=len(indexed),
        token_count=sum(chunk.token_count for chunk in searched),
        artefacts={CHUNKS: key},
        warnings=tuple(dict.fromkeys((*version.warnings, *cut.warnings))) if cut.warnings else None,
    )
