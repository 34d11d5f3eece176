"""The proof that nothing of a document is left in a graph."""

import asyncio
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh_core.errors import InternalError, NotFoundError
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.graphs.subgraphs import unpack_extracted
from corpusmesh_core.ports.builds import BuildRow
from corpusmesh_core.ports.index import RecordSelection
from corpusmesh_core.ports.metadata import PurgeStore
from corpusmesh_core.records import Ordinal, RecordKind
from corpusmesh_core.tenancy import document_not_found
from corpusmesh_graph.scenes import SceneReader, seconds_left
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.build_keys import build_prefix, found_prefix, may_be_of
from corpusmesh_runtime.context import require_call

_SEGMENT = "segment."
_SEGMENTS = ("segment-", "part-")
"""Names of segments: among the artefacts of a graph, and in the object store."""
_MAX_OBJECT_BYTES = 1 << 31
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
        subgraphs = await self._count_subgraphs(scene.view.row, knowledge_base_id, ordinals)
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

    async def _count_subgraphs(self, row: BuildRow | None, knowledge_base_id: str, ordinals: Sequence[int]) -> int:
        artefacts = await self._stores.builds.artefacts(require_call().identity.tenant_id, knowledge_base_id)
        segments = {key for name, key in artefacts.items() if name.startswith(_SEGMENT)}
        written = await self._written(row)
        # Segments of builds before, until they are swept, and of those under way.
        segments.update(key for key in written if key.rpartition("/")[2].startswith(_SEGMENTS))
        prefix = found_prefix(row.tenant_id, row.build_id) if row is not None else ""
        found = may_be_of((key for key in written if prefix and key.startswith(prefix)), BitMap(ordinals))
        count = 0
        for key in (*sorted(segments), *found):
            counted = _count_documents if key in segments else _count_found
            try:
                content = await self._stores.objects.get(
                    key, max_byte_count=_MAX_OBJECT_BYTES, timeout_seconds=seconds_left()
                )
            except NotFoundError:
                # A newer build has taken its place since, or a sweep has removed it.
                continue
            count += await asyncio.to_thread(counted, content, ordinals)
        return count

    async def _written(self, row: BuildRow | None) -> list[str]:
        """List what builds have written and nobody has swept."""
        if row is None:
            return []
        found = self._stores.objects.list_prefix(build_prefix(row), timeout_seconds=seconds_left())
        return [info.key async for info in found]


def _count_documents(content: bytes, versions: Sequence[int]) -> int:
    return int(np.isin(Segment.open(content).document_version, np.array(versions, np.uint32)).sum())


def _count_found(content: bytes, versions: Sequence[int]) -> int:
    try:
        return len(unpack_extracted(content).keys() & set(versions))
    except InternalError:
        # Of another release, which nobody reads: whether it holds any cannot be told.
        return 1
