"""Stage index: chunks and vectors to records, written beside what is published."""

from corpusmesh_core.artefacts import PICTURES, TREE, VECTORS, unpack_trees, unpack_vectors
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.records import Record
from corpusmesh_ingest.page_vectors import list_page_images
from corpusmesh_ingest.records import VersionPieces, version_records
from corpusmesh_runtime.artefact_access import read_artefacts, read_pieces
from corpusmesh_runtime.identity import service_identity
from corpusmesh_runtime.worker import TaskContext


class IndexStage:
    """Writes the records of a batch; ids are deterministic, so writing twice is writing once."""

    def __init__(
        self,
        documents: DocumentStore,
        knowledge_bases: KnowledgeBaseStore,
        objects: ObjectStore,
        index: RecordIndex,
    ) -> None:
        """Create the stage.

        Args:
            documents: Reads versions.
            knowledge_bases: Reads the embedding space.
            objects: Artefacts.
            index: The record index.
        """
        self._documents = documents
        self._knowledge_bases = knowledge_bases
        self._objects = objects
        self._index = index

    async def __call__(self, context: TaskContext) -> StageOutcome:
        """Write a batch.

        Args:
            context: The claim and its time.

        Returns:
            How many records each version has, where that was not known: every record is in the index.
        """
        claim = context.claim
        versions = await self._documents.versions_by_ordinal(claim.tenant_id, claim.parts)
        knowledge_base = await self._knowledge_bases.get(
            service_identity("ingest", tenant_id=claim.tenant_id), claim.knowledge_base_id
        )
        pieces = await read_pieces(self._objects, versions, timeout_seconds=context.remaining_seconds())
        vectors = await read_artefacts(
            self._objects, versions, VECTORS, unpack_vectors, timeout_seconds=context.remaining_seconds()
        )
        with_tree = [version for version in versions if TREE in version.artefacts]
        trees = await read_artefacts(
            self._objects, with_tree, TREE, unpack_trees, timeout_seconds=context.remaining_seconds()
        )
        records: list[Record] = []
        patches: list[VersionPatch] = []
        for version in versions:
            pages = await list_page_images(
                self._objects, version.artefacts.get(PICTURES, ""), timeout_seconds=context.remaining_seconds()
            )
            made = VersionPieces(version, *pieces[version.ordinal], pages, trees.get(version.ordinal))
            records.extend(version_records(made, vectors[version.ordinal].vectors))
            if made.record_count != version.record_count:
                patches.append(VersionPatch(ordinal=version.ordinal, record_count=made.record_count))
        await self._index.write(
            claim.tenant_id,
            knowledge_base.space_id,
            records,
            epoch=claim.epoch,
            timeout_seconds=context.remaining_seconds(),
        )
        context.reach("after_index")
        return StageOutcome(patches=tuple(patches))
