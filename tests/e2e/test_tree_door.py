"""How people reach trees on a whole mesh: what is told to whom, and that hidden and unknown answer alike."""

import pytest

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.raptor.v1 import tree_service_pb2 as pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_client.trees import dataset_tree_name, document_tree_name
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, NotFoundError
from tests.support.mesh import MeshHarness, ingest_texts
from tests.support.tree_library import SUBJECTS, build, handbook, tree_base


async def test_trees_are_planned_described_and_read_as_far_as_the_caller_may_see(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    ed_key = await mesh.member(tenant, "ed", policy_pb2.ROLE_EDITOR)
    async with mesh.client(tenant.owner_key) as owner, mesh.client(ed_key) as editor:
        base = await tree_base(owner)
        name = dataset_tree_name(base)
        await ingest_texts(owner, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]})
        documents = {item.display_name: item.name async for item in owner.documents.list(base)}
        secret = document_pb.Document(
            name=documents["payroll.md"], access=document_pb.DocumentAccess(allowed_users=["users/nobody"])
        )
        await owner.documents.update(secret, paths=("access",))
        assert (await owner.trees.get(name)).state == pb.Tree.STATE_EMPTY

        # The plan of a lite build tells its nodes exactly.
        plan = (await owner.trees.plan(base)).plan
        await build(owner, base)
        tree = await owner.trees.get(name)
        assert (tree.state, tree.method) == (pb.Tree.STATE_READY, "watershed")
        assert list(tree.bill.layer_node_counts) == list(plan.layer_node_counts) == list(tree.layer_node_counts)
        assert tree.plan.extractive_node_count == tree.bill.extractive_node_count
        assert tree.bill.leaf_count > 40
        assert not tree.outdated
        nodes = [node async for node in owner.trees.nodes(name, page_size=7)]
        assert [node.layer for node in nodes] == sorted((node.layer for node in nodes), reverse=True)
        assert len(nodes) == sum(tree.layer_node_counts)

        # A node leads to its children and to chunks with their places.
        top = await owner.trees.node(nodes[0].name)
        assert [child.name for child in top.children] == list(top.node.children)
        assert top.node.leaf_count == len(top.leaves) == tree.bill.leaf_count
        assert all(leaf.place.version.startswith(f"{leaf.document}/versions/") for leaf in top.leaves)
        assert {leaf.document for leaf in top.leaves} == set(documents.values())

        # An editor who may not see one document sees fewer nodes, and no figure that counts it.
        smaller = await editor.trees.get(name)
        seen = {node.name async for node in editor.trees.nodes(name)}
        assert len(seen) == sum(smaller.layer_node_counts) < len(nodes)
        assert smaller.state == pb.Tree.STATE_READY
        assert not smaller.run
        assert not {"bill", "plan", "publish_time"} & {field.name for field, _ in smaller.ListFields()}
        assert (await editor.trees.plan(base)).plan.leaf_count < tree.bill.leaf_count
        for one in sorted(seen)[:3]:
            assert documents["payroll.md"] not in {leaf.document for leaf in (await editor.trees.node(one)).leaves}

        # Hidden and unknown answer alike.
        hidden = next(node.name for node in nodes if node.name not in seen)
        unknown = hidden[:-4] + ("0000" if not hidden.endswith("0000") else "1111")
        failures = [await failure_of(editor.trees.node(one)) for one in (hidden, unknown)]
        assert failures[0] == failures[1] == ("TREE_NODE_NOT_FOUND", failures[0][1])
        of_hidden = await failure_of(editor.trees.get(document_tree_name(documents["payroll.md"])))
        assert of_hidden[0] == "DOCUMENT_NOT_FOUND"

        # What is watched without a build under way is told once.
        assert [one.state async for one in owner.trees.watch(name)] == [pb.Tree.STATE_READY]


async def test_trees_of_documents_are_made_on_demand_and_read_by_their_document(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as owner:
        plain = {"chunking": {"settings": {"max_tokens": 60, "heading_break_tokens": 8}}}
        wanted = settings_from_plain(plain)
        wanted.display_name = "guides"
        base = (await owner.knowledge_bases.create(wanted)).name
        texts = {f"{subject}.md": handbook(subject) + handbook(SUBJECTS[-1]) for subject in SUBJECTS[:2]}
        await ingest_texts(owner, base, texts)
        with pytest.raises(FailedPreconditionError) as caught:
            await owner.trees.build(base)
        assert caught.value.reason == "TREE_SCOPE_OFF"

        switched = settings_from_plain({**plain, "tree": {"scope": "file"}})
        await owner.knowledge_bases.update(
            knowledge_base_pb.KnowledgeBase(name=base, tree_settings=switched.tree_settings)
        )
        plan = await owner.trees.plan(base)
        assert plan.document_count == 2
        started = await owner.trees.build(base)
        assert started.document_count == 2
        run = await owner.runs.wait(started.run)
        assert not run.failed_count, run
        assert (await owner.trees.build(base)).run == "", "every document has its tree"

        leaf_count = 0
        async for document in owner.documents.list(base):
            tree = await owner.trees.get(document_tree_name(document.name))
            assert (tree.state, tree.bill.leaf_count > 8, tree.outdated) == (pb.Tree.STATE_READY, True, False)
            leaf_count += tree.bill.leaf_count
            nodes = [node async for node in owner.trees.nodes(tree.name)]
            assert len(nodes) == sum(tree.layer_node_counts)
            top = await owner.trees.node(nodes[0].name)
            assert {leaf.document for leaf in top.leaves} == {document.name}
            assert len(top.children) == tree.layer_node_counts[-2]
        assert leaf_count == plan.plan.leaf_count


async def failure_of(call: object) -> tuple[str, str]:
    """Give reason and text of a call's failure, without what names the call."""
    with pytest.raises(NotFoundError) as caught:
        await call  # type: ignore[misc]
    error: CorpusMeshError = caught.value
    return error.reason, error.message
