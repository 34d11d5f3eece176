"""Stage embed: chunks to vectors, in calls that are full whatever the sizes of the documents."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts import (
    KEY_BYTES,
    PICTURES,
    VECTORS,
    VectorSet,
    pack_vectors,
    stage_artefact_key,
    text_key,
    unpack_vectors,
)
from corpusmesh_core.errors import FailedPreconditionError, UnavailableError
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.embedding import Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.page_embedding import PageEmbedder
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import KnowledgeBase, VersionRow
from corpusmesh_core.trees.settings import TreeScope, TreeSettings
from corpusmesh_ingest.config import IngestSettings
from corpusmesh_ingest.metrics import EMBEDDED_TEXTS_TOTAL
from corpusmesh_ingest.page_vectors import embed_page_images, list_page_images, vectors_key
from corpusmesh_ingest.records import VersionPieces
from corpusmesh_runtime.artefact_access import find_artefacts, read_pieces
from corpusmesh_runtime.earlier_versions import earlier_versions
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext

_REFRESH_SECONDS = 10.0
_WITHOUT_TREE: Final = frozenset({Stage.TREE})


class EmbedStage:
    """Embeds the chunks of a batch through the embed service."""

    def __init__(
        self,
        documents: DocumentStore,
        knowledge_bases: KnowledgeBaseStore,
        objects: ObjectStore,
        embedder: Embedder,
        page_embedder: PageEmbedder,
        settings: IngestSettings,
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            knowledge_bases: Reads the embedding space.
            objects: Artefacts.
            embedder: The embed service.
            page_embedder: The same service's vision model, if it has one.
            settings: Size and number of calls.
        """
        self._documents = documents
        self._knowledge_bases = knowledge_bases
        self._objects = objects
        self._embedder = embedder
        self._page_embedder = page_embedder
        self._settings = settings

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Embed a batch.

        Args:
            context: The claim and its time.

        Returns:
            The artefact's key for every document, and whether trees are made of it next.

        Raises:
            FailedPreconditionError: SPACE_WITHOUT_MODEL if the embed service runs another model than that of the
                knowledge base: vectors of two spaces are never mixed (FR-A11).
            UnavailableError: EMBED_MODEL_CHANGED if its model was changed meanwhile.
        """
        claim = context.claim
        knowledge_base = await self._knowledge_base(context)
        space_id = knowledge_base.space_id
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        pieces = await read_pieces(self._objects, versions, timeout_seconds=context.remaining_seconds())
        texts = {
            version.ordinal: VersionPieces(version, *pieces[version.ordinal]).embedded_texts for version in versions
        }
        keys = {ordinal: [text_key(space_id, text) for text in items] for ordinal, items in texts.items()}
        known = await self._known_vectors(context, versions)
        reused_count = sum(key in known for items in keys.values() for key in items)
        wanted = {
            key: text
            for ordinal, items in texts.items()
            for key, text in zip(keys[ordinal], items, strict=True)
            if key not in known
        }
        matrix = await self._embed(context, list(wanted.values()))
        if self._embedder.space.space_id != space_id:
            raise UnavailableError("EMBED_MODEL_CHANGED", "the embed service was given another model meanwhile")
        EMBEDDED_TEXTS_TOTAL.labels("model").inc(sum(map(len, keys.values())) - reused_count)
        EMBEDDED_TEXTS_TOTAL.labels("earlier_version").inc(reused_count)
        known.update(zip(wanted, matrix, strict=True))
        vectors: dict[int, VectorSet] = {
            ordinal: _vector_set(items, known, matrix.shape[1]) for ordinal, items in keys.items()
        }
        key = stage_artefact_key(claim.tenant_id, claim.run_id, claim.task_id, claim.stage)
        await self._objects.put(key, pack_vectors(vectors), timeout_seconds=context.remaining_seconds())
        context.reach("after_artefact")
        for version in versions:
            await self._embed_pages(context, version)
        return StageOutcome(
            patches=tuple(VersionPatch(ordinal=ordinal, artefacts={VECTORS: key}) for ordinal in vectors),
            skips=frozenset() if TreeSettings.of(knowledge_base.config).scope is TreeScope.FILE else _WITHOUT_TREE,
        )

    async def _embed_pages(self, context: TaskContext, version: VersionRow) -> None:
        """Have the vision model look at a version's page images, where there is one and there are any."""
        prefix = version.artefacts.get(PICTURES, "")
        pages = await list_page_images(self._objects, prefix, timeout_seconds=context.remaining_seconds())
        if not pages.embedded:
            return
        if self._page_embedder.page_space is None:
            # It may have been given one since this process began.
            await self._page_embedder.refresh(deadline_seconds=min(context.remaining_seconds(), _REFRESH_SECONDS))
        space = self._page_embedder.page_space
        if space is None:
            return
        if pages.space_id != space.space_id:
            content = await embed_page_images(
                self._objects, self._page_embedder, pages.embedded, timeout_seconds=context.remaining_seconds()
            )
            await self._objects.put(
                vectors_key(prefix, space.space_id), content, timeout_seconds=context.remaining_seconds()
            )

    async def _knowledge_base(self, context: TaskContext) -> KnowledgeBase:
        """Give the knowledge base, of whose space the embed service must be."""
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
        return knowledge_base

    async def _known_vectors(
        self, context: TaskContext, versions: Sequence[VersionRow]
    ) -> dict[bytes, NDArray[np.float32]]:
        """Give the vectors of the versions that these were made from, or follow, by the key of their text."""
        identity = service_identity("ingest", tenant_id=context.claim.tenant_id)
        earlier = await earlier_versions(self._documents, identity, versions)
        bases = list({row.ordinal: row for row in earlier.values()}.values())
        if not bases:
            return {}
        found = await find_artefacts(
            self._objects, bases, VECTORS, unpack_vectors, timeout_seconds=context.remaining_seconds()
        )
        return {
            key.tobytes(): vector
            for entry in found.values()
            for key, vector in zip(entry.keys, entry.vectors, strict=False)
        }

    async def _embed(self, context: TaskContext, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._embedder.space.dimension), dtype=np.float32)
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


def _vector_set(keys: Sequence[bytes], known: Mapping[bytes, NDArray[np.float32]], dimension: int) -> VectorSet:
    vectors = np.zeros((len(keys), dimension), dtype=np.float32)
    for row, key in enumerate(keys):
        vectors[row] = known[key]
    digests = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
    return VectorSet(vectors, digests)
