"""The graph of a knowledge base: built, brought up to date, hidden, cancelled, removed, on a whole mesh."""

from collections.abc import AsyncIterator

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_core.records import RecordKind
from tests.support.graph_library import LIVES, build_graph, graph_base, graph_records
from tests.support.mesh import MeshHarness, ingest_texts
from tests.support.mesh_probes import count_objects, until
from tests.support.stub_chat import Never, StubChat

HURRIED = {
    # Every document a task of its own.
    "CORPUSMESH_GRAPH__SLICE_SECONDS": "0.001",
    "CORPUSMESH_GRAPH__BATCH_DOCUMENTS": "1",
    "CORPUSMESH_GRAPH__UPDATE_QUIET_SECONDS": "1",
    "CORPUSMESH_GRAPH__UPDATE_POLL_SECONDS": "0.3",
    "CORPUSMESH_GRAPH__WORKER__POLL_SECONDS": "0.5",
}


@pytest.fixture(scope="module")
async def hurried(distributed_mesh: MeshHarness) -> AsyncIterator[StubChat]:
    """A graph process in a hurry, whose language model never answers."""
    with StubChat([Never()]) as stub:
        chat = {"CORPUSMESH_CHAT__URL": stub.base_url, "CORPUSMESH_CHAT__MODEL": "stub"}
        await distributed_mesh.restart("graph", HURRIED | chat)
        yield stub
    await distributed_mesh.restart("graph")


async def test_graph_follows_documents_and_nothing_of_a_deleted_one_stays(mesh: MeshHarness, hurried: StubChat) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await graph_base(client)
        await ingest_texts(client, base, LIVES)
        await build_graph(client, base)
        first = await graph_records(mesh, tenant.tenant_id, client, base)
        euler = [record for record in first.values() if record.title == "Leonhard Euler"]
        assert {record.kind for record in euler} == {RecordKind.ENTITY}
        assert len(euler) == 3, "one record for each document that names him"
        assert all(record.links and record.document_id for record in euler)
        assert len({record.publisher for record in first.values() if record.document_id}) == len(LIVES)

        # Another version of one document: its subgraph is another, all others stay as they are.
        changed = LIVES["lambert.md"].replace("Mulhouse", "Geneva")
        await ingest_texts(client, base, {"lambert.md": changed})
        await build_graph(client, base)
        second = await graph_records(mesh, tenant.tenant_id, client, base)
        new = [record for key, record in second.items() if key not in first and record.document_id]
        assert {record.display_name for record in new} == {"lambert.md"}
        assert any(record.title == "Geneva" for record in new)
        graph = await client.graphs.get(f"{base}/graph")
        assert graph.bill.document_count == 1
        assert graph.bill.reused_document_count == len(LIVES) - 1

        # It does not follow by itself, but lets go of what is deleted.
        documents = {item.display_name: item.name async for item in client.documents.list(base)}
        await client.runs.wait(await client.documents.delete(documents["daniel.md"]))

        async def is_erased() -> bool:
            return (await client.graphs.verify_erasure(f"{base}/graph", documents["daniel.md"])).erased

        await until(is_erased, "segments are rewritten without the document", 60)
        left = await graph_records(mesh, tenant.tenant_id, client, base)
        assert not any(record.title == "Hydrodynamica" or "Hydrodynamica" in record.text for record in left.values())
        await client.knowledge_bases.delete(base)

        async def nothing_is_left() -> bool:
            objects = await count_objects(mesh, f"{tenant.tenant_id}/artefacts/")
            return not objects and not await mesh.count_records(tenant.tenant_id)

        await until(nothing_is_left, "records and segments go with their knowledge base", 60)


async def test_restricted_document_hides_what_it_alone_says(mesh: MeshHarness, hurried: StubChat) -> None:
    tenant = await mesh.tenant()
    guest_key = await mesh.member(tenant, "guest", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as client, mesh.client(guest_key) as guest:
        base = await graph_base(client)
        await ingest_texts(client, base, LIVES)
        documents = {item.display_name: item.name async for item in client.documents.list(base)}
        access = document_pb.DocumentAccess(allowed_users=["users/nobody"])
        document = document_pb.Document(name=documents["daniel.md"], access=access)
        await client.documents.update(document, paths=("access",))
        await build_graph(client, base)
        every = {item.title async for item in client.graphs.entities(f"{base}/graph")}
        seen = {item.title async for item in guest.graphs.entities(f"{base}/graph")}
        assert "Hydrodynamica" in every
        assert "Leonhard Euler" in seen, "others speak of him too"
        assert "Hydrodynamica" not in seen


async def test_cancelled_build_leaves_the_graph_as_it_was(mesh: MeshHarness, hurried: StubChat) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await graph_base(client, methods=["light"])
        await ingest_texts(client, base, LIVES)
        started = await client.graphs.build(f"{base}/graph")

        async def is_asked() -> bool:
            return bool(hurried.requests)

        await until(is_asked, "the language model is asked")
        await client.graphs.cancel(f"{base}/graph")
        run = await client.runs.wait(started.run)
        assert run.state == run_pb.Run.STATE_CANCELLED

        async def is_swept() -> bool:
            return not await graph_records(mesh, tenant.tenant_id, client, base)

        await until(is_swept, "nothing is left of the build", 30)
        await client.graphs.delete(f"{base}/graph")
