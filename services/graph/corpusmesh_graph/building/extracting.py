"""Finds the subgraphs of documents, and keeps them before anything is made of them: nothing is found twice."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.errors import InternalError
from corpusmesh_core.graphs.extraction import extract_entities, from_triples, merge_subgraphs
from corpusmesh_core.graphs.settings import GraphMethod
from corpusmesh_core.graphs.subgraphs import ExtractedDocument, pack_extracted, unpack_extracted
from corpusmesh_core.graphs.values import Subgraph, Triple
from corpusmesh_graph.building.before import GraphBefore
from corpusmesh_graph.building.drafts import GONE
from corpusmesh_graph.building.reading import GraphDocument, read_documents
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.models import GraphSession
from corpusmesh_runtime.build_keys import found_key

_READ_AHEAD: Final = 2
_DEADLINE_MARGIN_SECONDS: Final = 120.0
"""What is left of a task for writing when its language model has had all the rest."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in a document.

    Attributes:
        document: The document.
        subgraph: What was found.
        is_reused: Whether the graph before, or an attempt before, had it.
    """

    document: GraphDocument
    subgraph: Subgraph
    is_reused: bool = False


class Extractor:
    """Finds subgraphs, of several documents at once where a language model is asked."""

    def __init__(self, scope: BuildScope, session: GraphSession, before: GraphBefore) -> None:
        """Create it.

        Args:
            scope: The build's task.
            session: What the language model may be asked.
            before: The graph before.
        """
        self._scope = scope
        self._session = session
        self._before = before
        self._asks = bool(scope.graph.model_methods)

    async def run(self) -> AsyncGenerator[list[Found], None]:
        """Find the subgraphs of what waits, until all is done or the time of a slice is over.

        Yields:
            What was found, in the order in which it is there; the caller marks it as done.
        """
        width = 2 * self._scope.settings.model_calls_in_flight if self._asks else _READ_AHEAD
        units = self._units()
        pending: set[asyncio.Task[list[Found]]] = set()
        is_fed = False
        try:
            while True:
                while not is_fed and len(pending) < width:
                    unit = await anext(units, None)
                    if unit is None:
                        is_fed = True
                    else:
                        pending.add(asyncio.create_task(self._found(unit)))
                if not pending:
                    return
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            await units.aclose()

    async def _units(self) -> AsyncGenerator[list[GraphDocument], None]:
        """Read groups; each of its documents is by itself where a language model is asked, so that none waits."""
        is_first = True
        for places in list(self._scope.draft.wanted.groups(self._scope.settings.batch_documents)):
            if self._scope.is_over and not is_first:
                return
            is_first = False
            documents = await read_documents(self._scope, places.tolist())
            here = {document.place for document in documents}
            for place in places.tolist():
                if place not in here:
                    self._scope.draft.wanted.record_counts[place] = GONE
            if not self._asks:
                yield documents
                continue
            for place, document in enumerate(documents):
                if place and self._scope.is_over:
                    return
                yield [document]

    async def _found(self, documents: Sequence[GraphDocument]) -> list[Found]:
        found: dict[int, Found] = {}
        for document in documents:
            subgraph = await self._before.taken_over(document)
            if subgraph is not None:
                found[document.place] = Found(document, subgraph, is_reused=True)
        rest = [document for document in documents if document.place not in found]
        key = self._key(rest) if rest else ""
        kept = await self._kept(key) if rest else {}
        for document in rest:
            item = kept.get(int(document.row.ordinal))
            if item is not None and item.texts == document.texts and item.fingerprint == self._fingerprint(document):
                found[document.place] = Found(document, item.subgraph, is_reused=True)
        rest = [document for document in rest if document.place not in found]
        if rest:
            subgraphs = await self._extract(rest)
            for document, subgraph in zip(rest, subgraphs, strict=True):
                found[document.place] = Found(document, subgraph)
            new = {
                int(item.document.row.ordinal): ExtractedDocument(
                    self._fingerprint(item.document), item.document.texts, item.subgraph
                )
                for item in found.values()
                if item.document in rest or int(item.document.row.ordinal) in kept
            }
            await self._scope.put(key, await asyncio.to_thread(pack_extracted, new))
        return [found[document.place] for document in documents]

    async def _extract(self, documents: Sequence[GraphDocument]) -> list[Subgraph]:
        triples = await self._triples(documents)
        return [await self._extract_one(document, triples.get(document.row.document_id, ())) for document in documents]

    async def _extract_one(self, document: GraphDocument, triples: Sequence[Triple]) -> Subgraph:
        settings = self._scope.graph
        parts: list[Subgraph] = []
        unread = document.chunks if GraphMethod.NER in settings.methods else ()
        if self._asks:
            remaining = self._scope.context.remaining_seconds()
            told = await self._session.extract(
                document.chunks,
                [int(document.row.ordinal)],
                timeout_seconds=max(1.0, remaining - min(remaining / 2, _DEADLINE_MARGIN_SECONDS)),
            )
            parts.append(told.subgraph)
            if not unread:
                missing = frozenset(told.missing)
                unread = tuple(chunk for chunk in document.chunks if chunk.position in missing)
        if unread:
            parts.append(await asyncio.to_thread(extract_entities, unread, settings))
        if triples:
            parts.append(await asyncio.to_thread(from_triples, triples, document.chunks))
        return parts[0] if len(parts) == 1 else await asyncio.to_thread(merge_subgraphs, parts)

    async def _triples(self, documents: Sequence[GraphDocument]) -> Mapping[str, tuple[Triple, ...]]:
        wanted = {document.row.document_id for document in documents} & self._scope.draft.triples.keys()
        if GraphMethod.TRIPLES not in self._scope.graph.methods or not wanted:
            return {}
        claim = self._scope.context.claim
        return await self._scope.stores.triples.triples_of(claim.tenant_id, claim.knowledge_base_id, wanted)

    async def _kept(self, key: str) -> Mapping[int, ExtractedDocument]:
        content = await self._scope.find(key)
        if content is None:
            return {}
        try:
            return await asyncio.to_thread(unpack_extracted, content)
        except InternalError:
            # Of another release: found again.
            return {}

    def _fingerprint(self, document: GraphDocument) -> bytes:
        return bytes(self._scope.draft.wanted.fingerprints[document.place])

    def _key(self, documents: Sequence[GraphDocument]) -> str:
        versions = sorted(int(document.row.ordinal) for document in documents)
        digest = hashlib.blake2b(digest_size=8)
        for document in sorted(documents, key=lambda item: item.place):
            digest.update(int(document.row.ordinal).to_bytes(4, "big") + self._fingerprint(document))
        return found_key(self._scope.row, versions[0], versions[-1], digest.hexdigest())
