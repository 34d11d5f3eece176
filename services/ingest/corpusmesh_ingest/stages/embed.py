"""Stage embed: chunks to vectors, in calls that are full whatever the sizes of the documents."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import FailedPreconditionError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_ingest.artefacts import pack_vectors, stage_artefact_key, unpack_chunks
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.records import embedded_text, title_of
from corpusmesh_ingest.stages.artefact_access import read_artefacts
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext

_REFRESH_SECONDS = 10.0


class EmbedStage:
    """Embeds the chunks of a batch through the embed service."""

    def __init__(
        self,
        documents: DocumentStore,
        knowledge_bases: KnowledgeBaseStore,
        objects: ObjectStore,
        embedder: Embedder,
        settings: IngestSettings,
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            knowledge_bases: Reads the embedding space.
            objects: Artefacts.
            embedder: The embed service.
            settings: Size and number of calls.
        """
        self._documents = documents
        self._knowledge_bases = knowledge_bases
        self._objects = objects
        self._embedder = embedder
        self._settings = settings

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Embed a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key for every document.

        Raises:
            FailedPreconditionError: SPACE_WITHOUT_MODEL if the embed service runs another model than that of the
                knowledge base: vectors of two spaces are never mixed (FR-A11).
            UnavailableError: EMBED_MODEL_CHANGED if its model was changed meanwhile.
        """
        claim = context.claim
        space_id = await self._space_of(context)
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        chunks = await read_artefacts(
            self._objects, versions, "chunks", unpack_chunks, timeout_seconds=context.remaining_seconds()
        )
        texts: list[str] = []
        for version in versions:
            title = title_of(version)
            texts.extend(embedded_text(title, chunk.text)[:MAX_TEXT_BYTES] for chunk in chunks[version.ordinal])
        matrix = await self._embed(context, texts)
        if self._embedder.space.space_id != space_id:
            raise UnavailableError("EMBED_MODEL_CHANGED", "the embed service was given another model meanwhile")
        vectors: dict[int, NDArray[np.float32]] = {}
        start = 0
        for version in versions:
            count = len(chunks[version.ordinal])
            vectors[version.ordinal] = matrix[start : start + count]
            start += count
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        await self._objects.put(key, pack_vectors(vectors), timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        return StageOutcome(
            patches=tuple(VersionPatch(ordinal=ordinal, artefacts={"vectors": key}) for ordinal in vectors)
        )

    async def _space_of(self, context: TaskContext) -> str:
        claim = context.claim
        knowledge_base = await self._knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        if self._embedder.space.space_id != knowledge_base.space_id:
            await self._embedder.refresh(deadline_seconds=min(context.remaining_seconds(), _REFRESH_SECONDS))
        if self._embedder.space.space_id != knowledge_base.space_id:
            raise FailedPreconditionError(
                "SPACE_WITHOUT_MODEL",
                f"the knowledge base holds vectors of {knowledge_base.space_id}, and the embed service now runs the"
                f" model of {self._embedder.space.space_id}; run the old model again and retry, or make a new"
                " knowledge base",
                space=knowledge_base.space_id,
                ready_space=self._embedder.space.space_id,
            )
        return knowledge_base.space_id

    async def _embed(self, context: TaskContext, texts: Sequence[str]) -> NDArray[np.float32]:
        size = self._settings.embed_batch_texts
        gate = asyncio.Semaphore(self._settings.embed_calls_in_flight)

        async def call(start: int) -> NDArray[np.float32]:
            async with gate:
                result = await self._embedder.embed(
                    texts[start : start + size],
                    role=EmbedRole.PASSAGE,
                    lane=EmbedLane.BULK,
                    deadline_seconds=context.remaining_seconds(),
                )
            return result.vectors

        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(call(start)) for start in range(0, len(texts), size)]
        return np.concatenate([task.result() for task in calls])
