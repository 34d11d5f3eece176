"""Stage chunk: parsed documents to chunks, by the knowledge base's template and the embedder's tokenizer."""

import asyncio
from collections.abc import Mapping

from corpusmesh_core.chunking import DEFAULT_TEMPLATE, chunk_document
from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.orchestration.values import PartFailure
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_ingest.artefacts import pack_chunks, stage_artefact_key, unpack_documents
from corpusmesh_ingest.stages.artefact_access import read_artefacts
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext


class ChunkStage:
    """Cuts the documents of a batch."""

    def __init__(
        self,
        documents: DocumentStore,
        knowledge_bases: KnowledgeBaseStore,
        objects: ObjectStore,
        counter: TextTokenizer,
        *,
        embedder_max_tokens: int,
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            knowledge_bases: Reads the template and its settings.
            objects: Artefacts.
            counter: The embedder's tokenizer.
            embedder_max_tokens: Tokens that the embedder reads of a chunk's text, room for a title taken off.
        """
        self._documents = documents
        self._knowledge_bases = knowledge_bases
        self._objects = objects
        self._counter = counter
        self._embedder_max_tokens = embedder_max_tokens

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Cut a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key and the counts of every document; a document without text fails.
        """
        claim = context.claim
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        knowledge_base = await self._knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        documents = await read_artefacts(
            self._objects, versions, "parsed", unpack_documents, timeout_seconds=context.remaining_seconds()
        )
        # Threads: the tokenizer lets other threads run while it counts, and it is most of the work.
        chunks = await asyncio.to_thread(self._cut, documents, knowledge_base.config)
        failures = tuple(
            PartFailure(ordinal, "DOCUMENT_EMPTY", "the document has no text; upload one that has")
            for ordinal, items in chunks.items()
            if not items
        )
        full = {ordinal: items for ordinal, items in chunks.items() if items}
        if not full:
            return StageOutcome(failures=failures)
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        await self._objects.put(
            key, await asyncio.to_thread(pack_chunks, full), timeout_seconds=context.remaining_seconds()
        )
        context.reach("after_artefact")
        patches = tuple(
            VersionPatch(
                ordinal=ordinal,
                chunk_count=len(items),
                record_count=len(items),
                token_count=sum(chunk.token_count for chunk in items),
                artefacts={"chunks": key},
            )
            for ordinal, items in full.items()
        )
        return StageOutcome(failures=failures, patches=patches)

    def _cut(self, documents: Mapping[int, ParsedDocument], config: Mapping[str, object]) -> dict[int, list[Chunk]]:
        chunking = config.get("chunking")
        chunking = chunking if isinstance(chunking, dict) else {}
        settings = {**chunking.get("settings", {}), "embedder_max_tokens": self._embedder_max_tokens}
        template = str(chunking.get("template", DEFAULT_TEMPLATE))
        return {
            ordinal: chunk_document(document, self._counter, template=template, settings=settings)
            for ordinal, document in documents.items()
        }
