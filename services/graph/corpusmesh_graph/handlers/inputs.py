"""The gRPC face of what people give for graphs: corrections, triples, and the proof of erasure."""

from typing import Any, Final

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh.graph.v1.graph_input_service_pb2_grpc import GraphInputServiceServicer
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs import corrections as core
from corpusmesh_core.ports.metadata import PurgeStore
from corpusmesh_core.tenancy import document_not_found
from corpusmesh_graph.corrections import correction_from_wire, correction_to_wire, keys_of, sees_all_of
from corpusmesh_graph.handlers.building import GraphBuilder
from corpusmesh_graph.handlers.erasure import ErasureVerifier
from corpusmesh_graph.handlers.triples import checked_triples, require_triples, triples_to_wire
from corpusmesh_graph.names import correction_of, document_of, graph_of, triples_of
from corpusmesh_graph.scenes import GraphScene, SceneReader
from corpusmesh_graph.stores import GraphStores
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.idempotency import once
from corpusmesh_runtime.page_tokens import checked_page_size, make_page_token, read_page_number, within_page

_MAX_PAGE_SIZE: Final = 500


class GraphInputHandlers(GraphInputServiceServicer):
    """Takes corrections and triples, and begins the builds that make them hold."""

    def __init__(self, stores: GraphStores, purges: PurgeStore, scenes: SceneReader, builder: GraphBuilder) -> None:
        """Create the handlers.

        Args:
            stores: Where inputs are kept.
            purges: Tells what versions a document has had.
            scenes: What callers see.
            builder: Begins builds.
        """
        self._stores = stores
        self._scenes = scenes
        self._builder = builder
        self._erasure = ErasureVerifier(stores, purges, scenes)

    async def CreateCorrection(self, request: pb.CreateCorrectionRequest, context: Any) -> pb.CreateCorrectionResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.parent, field="parent")

        async def act() -> pb.CreateCorrectionResponse:
            await self._builder.writable(knowledge_base_id)
            scene = await self._scenes.look(knowledge_base_id)
            correction = correction_from_wire(scene, request.correction)
            await self._require_documents(scene, correction)
            row = await self._stores.corrections.add_correction(require_call().identity, knowledge_base_id, correction)
            await self._audit("graph.correct", f"{request.parent}/corrections/{row.correction_id}")
            run = await self._builder.begin(knowledge_base_id, request_id=request.request_id)
            return pb.CreateCorrectionResponse(correction=correction_to_wire(row, knowledge_base_id), run=run)

        return await once(
            self._stores.idempotency, "CreateCorrection", request.request_id, request, pb.CreateCorrectionResponse, act
        )

    async def ListCorrections(self, request: pb.ListCorrectionsRequest, context: Any) -> pb.ListCorrectionsResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.parent, field="parent")
        size = checked_page_size(request.page_size, max_page_size=_MAX_PAGE_SIZE)
        listing = f"{request.parent}/corrections"
        after = read_page_number(listing, request.page_token)
        rows = await self._stores.corrections.list_corrections(
            require_call().identity, knowledge_base_id, after_sequence=after, limit=size + 1
        )
        scene = await self._scenes.look(knowledge_base_id)
        shown = [row for row in rows[:size] if self._shows(scene, row.user_id, row.correction)]
        page = within_page(correction_to_wire(row, knowledge_base_id) for row in shown)
        # What did not fit into the page begins the next one.
        is_cut = len(page) < len(shown)
        last = shown[len(page) - 1] if is_cut else rows[size - 1] if len(rows) > size else None
        return pb.ListCorrectionsResponse(
            corrections=page, next_page_token=make_page_token(listing, str(last.sequence)) if last else ""
        )

    async def DeleteCorrection(self, request: pb.DeleteCorrectionRequest, context: Any) -> pb.DeleteCorrectionResponse:
        """See the contract."""
        named = correction_of(request.name)

        async def act() -> pb.DeleteCorrectionResponse:
            identity = require_call().identity
            row = await self._stores.corrections.get_correction(identity, named.knowledge_base_id, named.key)
            scene = await self._scenes.look(named.knowledge_base_id)
            if not self._shows(scene, row.user_id, row.correction):
                raise NotFoundError("GRAPH_CORRECTION_NOT_FOUND", "there is no such correction, or you may not see it")
            await self._stores.corrections.delete_correction(identity, named.knowledge_base_id, named.key)
            await self._audit("graph.uncorrect", request.name)
            run = await self._builder.begin(named.knowledge_base_id, request_id=request.request_id)
            return pb.DeleteCorrectionResponse(run=run)

        return await once(
            self._stores.idempotency, "DeleteCorrection", request.request_id, request, pb.DeleteCorrectionResponse, act
        )

    async def PutTriples(self, request: pb.PutTriplesRequest, context: Any) -> pb.PutTriplesResponse:
        """See the contract."""
        named = triples_of(request.name)
        triples = checked_triples(request.triples)

        async def act() -> pb.PutTriplesResponse:
            require_triples(await self._builder.writable(named.knowledge_base_id))
            await self._stores.triples.put_triples(require_call().identity, named.knowledge_base_id, named.key, triples)
            await self._audit("graph.put_triples", request.name)
            run = await self._builder.begin(named.knowledge_base_id, request_id=request.request_id)
            return pb.PutTriplesResponse(triple_count=len(triples), run=run)

        return await once(
            self._stores.idempotency, "PutTriples", request.request_id, request, pb.PutTriplesResponse, act
        )

    async def GetTriples(self, request: pb.GetTriplesRequest, context: Any) -> pb.Triples:
        """See the contract."""
        named = triples_of(request.name)
        row = await self._stores.triples.get_triples(require_call().identity, named.knowledge_base_id, named.key)
        return triples_to_wire(request.name, row)

    async def DeleteTriples(self, request: pb.DeleteTriplesRequest, context: Any) -> pb.DeleteTriplesResponse:
        """See the contract."""
        named = triples_of(request.name)

        async def act() -> pb.DeleteTriplesResponse:
            identity = require_call().identity
            run = ""
            if await self._stores.triples.delete_triples(identity, named.knowledge_base_id, named.key):
                await self._audit("graph.delete_triples", request.name)
                run = await self._builder.begin(named.knowledge_base_id, request_id=request.request_id)
            return pb.DeleteTriplesResponse(run=run)

        return await once(
            self._stores.idempotency, "DeleteTriples", request.request_id, request, pb.DeleteTriplesResponse, act
        )

    async def VerifyErasure(self, request: pb.VerifyErasureRequest, context: Any) -> pb.VerifyErasureResponse:
        """See the contract."""
        knowledge_base_id = graph_of(request.name)
        document_id = document_of(request.document, knowledge_base_id, field="document")
        return await self._erasure.verify(knowledge_base_id, document_id)

    async def _require_documents(self, scene: GraphScene, correction: core.Correction) -> None:
        """Check that the documents of a split speak of the entity, as far as the caller may see."""
        if not isinstance(correction, core.SplitEntity):
            return
        place = int(scene.graph.find([correction.keys[0]])[0])
        rows = await self._stores.documents.versions_by_ordinal(
            require_call().identity.tenant_id, scene.graph.versions_of(place)
        )
        missing = set(correction.document_ids) - {row.document_id for row in rows}
        if missing:
            raise document_not_found(min(missing))

    def _shows(self, scene: GraphScene, user_id: str, correction: core.Correction) -> bool:
        """Tell whether a correction is shown: it may name what stands in hidden documents alone."""
        if scene.view.shows_figures or user_id == require_call().identity.user_id:
            return True
        return sees_all_of(scene, keys_of(correction))

    async def _audit(self, action: str, resource: str) -> None:
        call = require_call()
        await self._stores.audit.append(call.identity, action, resource, "ok", call.request_id, {})
