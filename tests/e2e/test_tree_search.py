"""Searches and answers over trees of summaries, through the whole mesh and its doors."""

import httpx
import openai

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.trees.values import CHILDREN
from tests.e2e.test_conversations import mcp_client, messages_of
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base
from tests.support.tree_library import SUBJECTS, build, handbook, nodes_in_index, shown_nodes, tree_base

_QUESTION = "Who decides the costs of travel and of payroll, and within how many days may one disagree?"
_MODES = {
    "off": pb.TreePlan.MODE_OFF,
    "collapsed": pb.TreePlan.MODE_COLLAPSED,
    "traversal": pb.TreePlan.MODE_TRAVERSAL,
    "hierarchical": pb.TreePlan.MODE_HIERARCHICAL,
}
_PRESETS = (pb.PRESET_FAST, pb.PRESET_BALANCED, pb.PRESET_THOROUGH)


def plan_of(mode: str, preset: "pb.Preset.ValueType" = pb.PRESET_FAST) -> pb.RetrievalPlan:
    return pb.RetrievalPlan(preset=preset, tree=pb.TreePlan(mode=_MODES[mode]))


def stage_names(response: pb.SearchChunksResponse) -> set[str]:
    return {stage.stage for stage in response.explanation.stages}


async def chunk_text(client: CorpusMeshClient, leaf: pb.HitLeaf) -> str:
    """Open the place of a leaf, as a reader of a citation would."""
    position = leaf.record_id.rpartition("-")[2]
    chunks = [chunk async for chunk in client.chunks.list(leaf.place.version)]
    return next(chunk.text for chunk in chunks if chunk.position == int(position))


async def test_each_mode_leads_to_chunks_and_tells_its_path(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client, scope="file")
        bare = (await knowledge_base(client)).name
        texts = {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:6]}
        await ingest_texts(client, base, texts)
        await ingest_texts(client, bare, texts)
        tree = await nodes_in_index(mesh, tenant.tenant_id, client, base)
        for mode in _MODES:
            found = await client.search([bare], _QUESTION, plan=plan_of(mode), explain=True)
            assert "tree" not in stage_names(found), "nothing is paid without a tree"
            assert not found.explanation.tree_path

        off = await client.search([base], _QUESTION, plan=plan_of("off"), explain=True)
        assert "tree" not in stage_names(off)
        assert {hit.kind for hit in off.hits} == {"chunk"}
        for preset in _PRESETS:
            found = await client.search([base], _QUESTION, plan=plan_of("collapsed", preset), explain=True)
            assert "tree" in stage_names(found)
            assert found.hits
            steps = found.explanation.tree_path
            assert {step.record_id for step in steps} <= tree.by_id.keys()
            assert {step.outcome for step in steps} <= {"kept", "covered"}
        assert any(set(hit.via_record_ids) & tree.by_id.keys() for hit in found.hits), "summaries lead to chunks"

        found = await client.search([base], _QUESTION, plan=plan_of("hierarchical"), explain=True, page_size=15)
        followed = [step for step in found.explanation.tree_path if step.outcome == "followed"]
        assert len(followed) == 3
        led_to = {name for step in followed for name in step.led_to}
        assert led_to <= {hit.record_id for hit in found.hits}
        assert found.hits[0].record_id in led_to

        found = await client.search([base], _QUESTION, plan=plan_of("traversal"), explain=True, page_size=50)
        followed = [step for step in found.explanation.tree_path if step.outcome == "followed"]
        layers = [step.layer for step in followed]
        assert layers == sorted(layers, reverse=True)
        last = {leaf for step in followed if step.layer == 1 for leaf in tree.by_id[step.record_id].links}
        assert last <= {hit.record_id for hit in found.hits}
        assert found.hits[0].record_id in last
        for step in followed:
            assert set(step.led_to) <= set(tree.by_id[step.record_id].attributes[CHILDREN].split())


async def test_summaries_are_hits_with_leaves_that_can_be_opened(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:6]})
        await build(client, base)
        tree = await shown_nodes(mesh, tenant.tenant_id, client, base)
        wanted = pb.RetrievalPlan(preset=pb.PRESET_THOROUGH, kinds=["tree_node"])
        first = await client.search([base], _QUESTION, plan=wanted, page_size=3, explain=True)
        second = await client.search([base], _QUESTION, plan=wanted, page_size=3, page_token=first.next_page_token)
        assert first.explanation.visible_version_count == 6, "nodes are no versions"
        hits = [*first.hits, *second.hits]
        assert len({hit.record_id for hit in hits}) == 6
        for hit in hits:
            record = tree.by_id[hit.record_id]
            assert (hit.kind, hit.layer, hit.document) == ("tree_node", record.layer, "")
            assert {leaf.record_id for leaf in hit.leaves} <= set(record.links)
            assert len(hit.leaves) == min(50, len(record.links))
            assert hit.title
            assert hit.leaves[0].place.display_name.endswith(".md")
            assert await chunk_text(client, hit.leaves[0])


async def test_who_sees_less_is_led_by_less(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    guest_key = await mesh.member(tenant, "guest", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as owner, mesh.client(guest_key) as guest:
        base = await tree_base(owner)
        await ingest_texts(owner, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:8]})
        await build(owner, base)
        documents = {item.display_name: item async for item in owner.documents.list(base)}
        access = document_pb.DocumentAccess(allowed_users=["users/nobody"])
        document = document_pb.Document(name=documents["payroll.md"].name, access=access)
        await owner.documents.update(document, paths=("access",))
        tree = await shown_nodes(mesh, tenant.tenant_id, owner, base)
        [payroll] = {
            int(name.partition("-")[0])
            for node in tree.by_id.values()
            for name in node.links
            if len(node.sources) == 1 and "payroll" in node.text
        }
        hidden = {key for key, node in tree.by_id.items() if payroll in node.sources}
        assert hidden
        for mode in ("collapsed", "traversal", "hierarchical"):
            everything = await owner.search([base], _QUESTION, plan=plan_of(mode), explain=True, page_size=100)
            assert hidden & {step.record_id for step in everything.explanation.tree_path}
            shown = await guest.search([base], _QUESTION, plan=plan_of(mode), explain=True, page_size=100)
            assert shown.hits
            assert shown.explanation.tree_path, "smaller summaries lead the guest"
            told = str(shown)
            assert not any(name in told for name in hidden)
            assert f'"{payroll}-' not in told
            assert "payroll" not in "".join(hit.text for hit in shown.hits)
        plan = pb.RetrievalPlan(kinds=["tree_node"])
        seen = await guest.search([base], _QUESTION, plan=plan, page_size=200)
        assert {hit.record_id for hit in seen.hits} <= tree.by_id.keys() - hidden


async def test_an_answer_from_summaries_cites_places_in_originals_at_every_door(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:6]})
        await build(client, base)
        # Summaries alone are evidence here, so that every citation is one of a summary.
        settings = settings_from_plain({"retrieval": {"kinds": ["tree_node"]}})
        settings.name = base
        await client.knowledge_bases.update(settings)
        conversation = (await client.conversations.create(knowledge_bases=[base])).name
        question = "Who decides the costs of travel for the whole company?"
        summary = answer_pb.AnswerSummary()
        async for piece in client.answer([], question, conversation=conversation, model_free=True):
            if piece.HasField("summary"):
                summary = piece.summary
        assert summary.citations, summary
        for citation in summary.citations:
            assert citation.hit.kind == "tree_node"
            assert citation.places[0].record_id == citation.hit.leaves[0].record_id
            texts = [await chunk_text(client, place) for place in citation.places]
            for item in summary.statements:
                if citation.marker in item.markers:
                    assert any(item.statement in text for text in texts), "the very chunk that holds the sentence"

        async with openai.AsyncOpenAI(base_url=f"{mesh.http_url}/v1", api_key=tenant.owner_key) as chat:
            answer = await chat.chat.completions.create(model=base, messages=[{"role": "user", "content": question}])
        cited = answer.model_dump()["citations"][0]
        assert cited["url"] == cited["places"][0]["url"]
        async with httpx.AsyncClient(base_url=mesh.http_url) as http:
            opened = await http.get(cited["url"], headers={"Authorization": f"Bearer {tenant.owner_key}"})
        assert opened.text.startswith("# Handbook of")
        async with mcp_client(mesh, tenant.owner_key) as tools:
            result = await tools.call_tool("ask", {"question": question, "knowledge_bases": [base]})
            uri = result.structured_content["citations"][0]["uri"]
            passage = (await tools.read_resource(uri)).contents[0].text
        assert any(item.statement in passage for item in summary.statements)

        [_, kept] = await messages_of(client, conversation)
        assert kept.citations[0].places[0].place.version == summary.citations[0].places[0].place.version
        # Any one of the documents beneath: the summary is made of all of them.
        leaf = kept.citations[0].hit.leaves[-1]
        only_others = document_pb.DocumentAccess(allowed_users=["users/somebody-else"])
        await client.documents.update(document_pb.Document(name=leaf.document, access=only_others), paths=["access"])
        reader = await mesh.member(tenant, "reader", policy_pb2.ROLE_VIEWER)
        async with mesh.client(reader) as other:
            asked = (await other.conversations.create(knowledge_bases=[base])).name
            text = ""
            async for piece in other.answer([], question, conversation=asked, model_free=True):
                text = piece.summary.text or text
            assert leaf.record_id not in str(await messages_of(other, asked))
        await client.runs.wait(await client.documents.delete(leaf.document))
        [_, after] = await messages_of(client, conversation)
        assert (after.text, after.erased) == ("", True)
        assert not after.citations
