"""The tree of a knowledge base: built, brought up to date, hidden, cancelled, removed, on a whole mesh."""

from collections.abc import AsyncIterator

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient
from corpusmesh_core.records import RecordKind
from corpusmesh_core.trees.values import CHILDREN, FALLBACK, MADE_BY
from tests.support.mesh import MeshHarness, ingest_texts
from tests.support.mesh_probes import count_objects, until
from tests.support.stub_chat import Never, Refuse, Say, StubChat
from tests.support.tree_library import (
    SUBJECTS,
    build,
    handbook,
    nodes_in_index,
    records_of,
    shown_nodes,
    tree_base,
    visible_ids,
)


async def test_tree_is_built_whole_and_reaches_every_chunk_once(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]})
        await build(client, base)
        tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
        space = (await client.knowledge_bases.get(base)).space
        chunks = await records_of(mesh, tenant.tenant_id, base, space, RecordKind.CHUNK)
        assert len(chunks) > 40
        beneath = {chunk.record_id for chunk in chunks}
        for number in range(1, tree.height + 1):
            layer = tree.layer(number)
            children = [child for node in layer.values() for child in node.attributes[CHILDREN].split()]
            assert sorted(children) == sorted(beneath), number
            assert len(layer) < len(beneath), number
            beneath = set(layer)
        [top] = tree.layer(tree.height).values()
        assert set(top.links) == {chunk.record_id for chunk in chunks}
        assert set(top.sources) == {chunk.publisher for chunk in chunks}


async def test_changes_rewrite_the_branches_that_they_touch_and_no_other(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:12]})
        await build(client, base)
        before = await shown_nodes(mesh, tenant.tenant_id, client, base)

        # Nothing has changed: not one node is another.
        await build(client, base)
        assert (await shown_nodes(mesh, tenant.tenant_id, client, base)).by_id.keys() == before.by_id.keys()

        await ingest_texts(client, base, {"recruiting.md": handbook("recruiting")})
        await build(client, base)
        added = await shown_nodes(mesh, tenant.tenant_id, client, base)
        documents = {item.display_name: item async for item in client.documents.list(base)}
        for number in range(1, before.height + 1):
            assert len(before.layer(number).keys() - added.by_id.keys()) <= 2, number
        assert {node.publisher for node in before.by_id.values()} & {node.publisher for node in added.by_id.values()}
        [top] = added.layer(added.height).values()
        assert len(top.sources) == 13

        # A new version: what stands on other documents stays, what says the same is taken over.
        text = handbook("travel", changed=["costs"])
        await ingest_texts(client, base, {"travel.md": text})
        await build(client, base)
        changed = await shown_nodes(mesh, tenant.tenant_id, client, base)
        [top] = changed.layer(changed.height).values()
        [old_top] = added.layer(added.height).values()
        [old_version] = set(old_top.sources) - set(top.sources)
        for key, node in added.by_id.items():
            assert (key in changed.by_id) is (old_version not in node.sources) or key in changed.by_id
        assert all(old_version not in node.sources for node in changed.by_id.values())
        tree = await client.trees.get(f"{base}/trees/dataset")
        assert tree.bill.reused_node_count > tree.bill.extractive_node_count
        assert 0 < tree.staleness < 0.3

        # Removed: hidden at once, and then built again without it.
        await client.runs.wait(await client.documents.delete(documents["travel.md"].name))
        hidden = await shown_nodes(mesh, tenant.tenant_id, client, base)
        [new_version] = set(top.sources) - set(old_top.sources)
        assert hidden.by_id.keys() == {key for key, node in changed.by_id.items() if new_version not in node.sources}
        await build(client, base)
        removed = await shown_nodes(mesh, tenant.tenant_id, client, base)
        assert hidden.by_id.keys() <= removed.by_id.keys()
        [top] = removed.layer(removed.height).values()
        assert len(top.sources) == 12
        assert not any("travel" in node.text for node in removed.by_id.values())

        # A build of the whole gives a tree again, and takes over what says the same.
        await build(client, base, full=True)
        tree = await client.trees.get(f"{base}/trees/dataset")
        assert tree.staleness == 0.0
        assert tree.bill.reused_node_count


async def test_restricted_document_hides_what_was_made_of_it_and_nothing_else(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    guest_key = await mesh.member(tenant, "guest", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as client, mesh.client(guest_key) as guest:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]})
        documents = {item.display_name: item async for item in client.documents.list(base)}
        access = document_pb.DocumentAccess(allowed_users=["users/nobody"])
        document = document_pb.Document(name=documents["payroll.md"].name, access=access)
        await client.documents.update(document, paths=("access",))
        await build(client, base)
        every = await shown_nodes(mesh, tenant.tenant_id, client, base)
        secret = {node.publisher for node in every.by_id.values() if "payroll" in node.text}
        assert secret
        seen = await visible_ids(guest, base)
        assert seen, "smaller summaries are seen"
        assert seen < every.by_id.keys()
        hidden = {source for key, node in every.by_id.items() if key not in seen for source in node.sources}
        shown = {source for key in seen for source in every.by_id[key].sources}
        assert len(hidden - shown) == 1, "all that is hidden stands on the one document"
        assert not any("payroll" in every.by_id[key].text for key in seen)


SUMMARY = "The office answers in writing."


@pytest.fixture(scope="module")
async def chat(distributed_mesh: MeshHarness) -> AsyncIterator[StubChat]:
    """A raptor process in a hurry, with a language model that can be told to fail."""
    with StubChat([Say(SUMMARY)]) as stub:
        await distributed_mesh.restart("raptor", hurried(stub))
        yield stub
    await distributed_mesh.restart("raptor")


def hurried(stub: StubChat) -> dict[str, str]:
    return {
        "CORPUSMESH_CHAT__URL": stub.base_url,
        "CORPUSMESH_CHAT__MODEL": "stub",
        "CORPUSMESH_RAPTOR__SLICE_NODES": "8",
        # Every eight nodes a task of their own.
        "CORPUSMESH_RAPTOR__SLICE_SECONDS": "0.001",
        "CORPUSMESH_RAPTOR__UPDATE_QUIET_SECONDS": "1.5",
        "CORPUSMESH_RAPTOR__UPDATE_POLL_SECONDS": "0.3",
    }


async def only_shown_is_left(mesh: MeshHarness, tenant_id: str, client: CorpusMeshClient, base: str) -> None:
    """Wait until the index holds no node but those that are shown."""

    async def is_swept() -> bool:
        shown = await visible_ids(client, base)
        return (await nodes_in_index(mesh, tenant_id, client, base)).by_id.keys() == shown

    await until(is_swept, "what no snapshot shows is swept", 30)


async def test_cancelled_build_leaves_the_tree_as_it_was_and_nothing_behind(mesh: MeshHarness, chat: StubChat) -> None:
    tenant = await mesh.tenant()
    chat.behaviours = [Say(SUMMARY)]
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client, summaries="llm")
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]})
        await build(client, base)
        before = await shown_nodes(mesh, tenant.tenant_id, client, base)
        assert any(node.attributes[MADE_BY].startswith("llm") for node in before.by_id.values())

        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[9:]})
        # Some nodes are written, then it hangs.
        chat.behaviours = [*[Say(SUMMARY)] * (len(chat.requests) + 9), Never()]
        started = await client.trees.build(base)

        async def has_written() -> bool:
            return len((await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id) > len(before.by_id)

        await until(has_written, "nodes are written beside those that are shown")
        assert (await visible_ids(client, base)) == before.by_id.keys()
        await client.trees.cancel(f"{base}/trees/dataset")
        run = await client.runs.wait(started.run)
        assert run.state == run_pb.Run.STATE_CANCELLED
        assert (await visible_ids(client, base)) == before.by_id.keys()
        await only_shown_is_left(mesh, tenant.tenant_id, client, base)

        # The next build is none the worse for it; a model that fails costs its summaries, not the build.
        chat.behaviours = [Refuse(500)]
        await build(client, base)
        tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
        [top] = tree.layer(tree.height).values()
        assert len(top.sources) == len(SUBJECTS)
        assert any(node.attributes.get(FALLBACK) for node in tree.by_id.values())


async def test_document_that_is_deleted_while_a_tree_is_built_is_in_no_node_of_it(
    mesh: MeshHarness, chat: StubChat
) -> None:
    tenant = await mesh.tenant()
    chat.behaviours = [Say(SUMMARY, pause_seconds=0.15)]
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client, summaries="llm")
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS})
        documents = {item.display_name: item async for item in client.documents.list(base)}
        started = await client.trees.build(base)

        async def has_written() -> bool:
            return bool((await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id)

        await until(has_written, "the first nodes are written")
        doomed = documents["payroll.md"].name
        await client.runs.wait(await client.documents.delete(doomed))
        run = await client.runs.wait(started.run)
        assert run.state == run_pb.Run.STATE_SUCCEEDED
        assert (await client.documents.verify_purge(doomed)).purged
        tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
        assert len({source for node in tree.by_id.values() for source in node.sources}) == len(SUBJECTS) - 1
        chat.behaviours = [Say(SUMMARY)]
        await build(client, base)
        tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
        [top] = tree.layer(tree.height).values()
        assert len(top.sources) == len(SUBJECTS) - 1
        await only_shown_is_left(mesh, tenant.tenant_id, client, base)


async def test_tree_follows_what_is_published_by_itself_and_goes_with_its_scope(
    mesh: MeshHarness, chat: StubChat
) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client, auto_update=True)
        for subject in SUBJECTS[:6]:
            await ingest_texts(client, base, {f"{subject}.md": handbook(subject)})

        async def covers_all() -> bool:
            tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
            return any(len(node.sources) == 6 for node in tree.by_id.values())

        await until(covers_all, "the tree follows", 60)
        runs = [run async for run in client.runs.list(base) if run.kind == run_pb.Run.KIND_TREE]
        assert len(runs) == 1, "six uploads in a row cost one build"

        await client.knowledge_bases.update(
            knowledge_base_pb.KnowledgeBase(
                name=base, tree_settings=knowledge_base_pb.TreeSettings(scope=knowledge_base_pb.TreeSettings.SCOPE_OFF)
            )
        )

        async def is_gone() -> bool:
            return not (await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id

        await until(is_gone, "the tree is removed", 60)


async def test_deleted_tree_is_hidden_at_once_and_comes_back_by_no_rollback(mesh: MeshHarness, chat: StubChat) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:4]})
        await build(client, base)
        assert await visible_ids(client, base)
        [with_tree] = [item async for item in client.knowledge_bases.list_snapshots(base) if item.current]
        assert with_tree.version_count == 4, "nodes are no documents"
        await client.trees.delete(f"{base}/trees/dataset")
        found = await client.search([base], "who decides the costs of travel", page_size=20)
        assert {hit.kind for hit in found.hits} <= {"chunk"}
        await client.knowledge_bases.rollback(base, with_tree.name)
        found = await client.search([base], "who decides the costs of travel", page_size=20)
        assert {hit.kind for hit in found.hits} == {"chunk"}

        async def is_gone() -> bool:
            return not (await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id

        await until(is_gone, "the tree is removed", 60)
        await build(client, base)
        assert await visible_ids(client, base), "the next tree begins from nothing"
        await client.knowledge_bases.delete(base)

        async def nothing_is_left() -> bool:
            left = await count_objects(mesh, f"{tenant.tenant_id}/artefacts/")
            return not left and not await mesh.count_records(tenant.tenant_id)

        await until(nothing_is_left, "nodes and shapes of trees go with their knowledge base", 60)
