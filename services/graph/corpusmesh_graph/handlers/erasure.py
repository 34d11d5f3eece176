"""The proof that nothing of a document is left in a graph."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.ports.metadata import PurgeStore
from corpusmesh_core.records import Ordinal, RecordKind
from corpusmesh_core.tenancy import document_not_found
from corpusmesh_graph.scenes import SceneReader, seconds_left
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.context import require_call

_SEGMENT = "segment."
_KINDS = (RecordKind.ENTITY, RecordKind.RELATION, RecordKind.COMMUNITY_REPORT, RecordKind.DESCRIPTION)


class ErasureVerifier:
    """Counts what is left of documents, past every filter: for those from whom nothing is hidden."""

    def __init__(self, stores: GraphStores, purges: PurgeStore, scenes: SceneReader) -> None:
        """Create it.

        Args:
            stores: All that a graph is kept in.
            purges: Tells what versions a document has had.
            scenes: What callers see.
        """
        self._stores = stores
        self._purges = purges
        self._scenes = scenes

    async def verify(self, knowledge_base_id: str, document_id: str) -> pb.VerifyErasureResponse:
        """Count what is left of a document.

        Args:
            knowledge_base_id: Knowledge base.
            document_id: Document, deleted or not.

        Returns:
            The counts.

        Raises:
            NotFoundError: DOCUMENT_NOT_FOUND for a caller from whom something is hidden, unless they may see the
                document: they could tell hidden documents from unknown ones.
        """
        identity = require_call().identity
        scene = await self._scenes.look(knowledge_base_id)
        if not scene.view.may_write:
            raise document_not_found(document_id)
        if not scene.view.shows_figures:
            await self._stores.documents.get(identity, knowledge_base_id, document_id)
        ordinals = await self._purges.ordinals_of(identity.tenant_id, knowledge_base_id, document_id)
        if not ordinals:
            return pb.VerifyErasureResponse(erased=True)
        records = await self._count(ordinals, tuple(kind.value for kind in _KINDS))
        everything = await self._count(ordinals, None)
        subgraphs = await self._count_subgraphs(knowledge_base_id, ordinals)
        triples = await self._stores.triples.triples_of(identity.tenant_id, knowledge_base_id, [document_id])
        counts = (records, subgraphs, sum(map(len, triples.values())), everything - records)
        return pb.VerifyErasureResponse(
            record_count=counts[0],
            subgraph_count=counts[1],
            triple_count=counts[2],
            other_record_count=counts[3],
            erased=not any(counts),
        )

    async def _count(self, ordinals: Sequence[int], kinds: tuple[str, ...] | None) -> int:
        return await self._stores.index.count(
            require_call().identity.tenant_id,
            None,
            RecordSelection(made_of=[Ordinal(one) for one in ordinals], kinds=kinds),
            timeout_seconds=seconds_left(),
        )

    async def _count_subgraphs(self, knowledge_base_id: str, ordinals: Sequence[int]) -> int:
        artefacts = await self._stores.builds.artefacts(require_call().identity.tenant_id, knowledge_base_id)
        wanted = np.array(ordinals, np.uint32)
        count = 0
        for name, key in sorted(artefacts.items()):
            if not name.startswith(_SEGMENT):
                continue
            try:
                content = await self._stores.objects.get(key, timeout_seconds=seconds_left())
            except NotFoundError:
                # A newer build has taken its place since.
                continue
            count += await asyncio.to_thread(_count_documents, content, wanted)
        return count


def _count_documents(content: bytes, versions: NDArray[np.uint32]) -> int:
    return int(np.isin(Segment.open(content).document_version, versions).sum())
