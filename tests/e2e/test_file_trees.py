"""Trees of single documents through the whole mesh: published, found, kept and purged with their versions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from corpusmesh.ingest.v1 import chunk_service_pb2 as chunk_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.trees.values import CHILDREN, FALLBACK, LEAF_COUNT, MADE_BY, TREE_OF
from tests.e2e.test_enrichment import make, records_of
from tests.integration.test_shared_documents import ROOT
from tests.support.mesh import MeshHarness
from tests.support.mesh_probes import count_objects, metric
from tests.support.stub_chat import Refuse, Say, StubChat

PAPER = ROOT / "tracemonkey.pdf"
SCOPE_FILE: dict[str, Any] = {"tree": {"scope": "file"}}
SMALL_CHUNKS: dict[str, Any] = {"chunking": {"settings": {"max_tokens": 60, "heading_break_tokens": 8}}}
TWELVE_TOWNS = "".join(
    f"# Town {name}\n\n" + f"The town of {name} lies by a river, and its people keep {thing}. " * 12 + "\n\n"
    for name, thing in (
        ("Aachen", "horses"),
        ("Basel", "bees"),
        ("Calais", "boats"),
        ("Delft", "kilns"),
        ("Essen", "forges"),
        ("Fulda", "books"),
        ("Genoa", "ships"),
        ("Halle", "salt"),
        ("Imola", "vines"),
        ("Jena", "lenses"),
        ("Kiel", "nets"),
        ("Liege", "glass"),
    )
)
"""More chunks than a layer of one node has."""


async def ingested(client: CorpusMeshClient, base: str, items: Sequence[UploadItem]) -> run_pb.Run:
    run = await client.runs.wait((await client.upload(base, items)).run)
    assert run.state == run_pb.Run.STATE_SUCCEEDED, run
    assert not run.failed_count, run
    return run


async def switch(client: CorpusMeshClient, base: str, settings: Mapping[str, Any]) -> None:
    wanted = settings_from_plain(settings)
    wanted.name = base
    await client.knowledge_bases.update(wanted)


def nodes(records: Sequence[Record]) -> list[Record]:
    return sorted((record for record in records if record.kind is RecordKind.TREE_NODE), key=lambda one: one.position)


async def made_anew(mesh: MeshHarness) -> tuple[float, float]:
    """Chunks that were embedded, and nodes that were summarized, by this mesh so far."""
    return (
        await metric(mesh, "worker", "corpusmesh_ingest_embedded_texts_total", {"origin": "model"}),
        await metric(mesh, "raptor", "corpusmesh_raptor_tree_nodes_total", {"origin": "sentences"}),
    )


def check_tree(records: Sequence[Record], ordinal: int) -> None:
    """One root above every chunk of the version, layer by layer, with vectors of the knowledge base's space."""
    own = [record for record in records if record.publisher == ordinal]
    by_id = {record.record_id: record for record in own}
    chunks = {record.record_id for record in own if record.kind is RecordKind.CHUNK}
    found = nodes(own)
    counts = Counter(record.layer for record in found)
    assert counts[max(counts)] == 1
    assert all(counts[layer] < counts[layer - 1] for layer in range(2, max(counts) + 1))
    assert set(found[-1].links) == chunks
    assert found[-1].attributes[LEAF_COUNT] == str(len(chunks))
    for record in found:
        assert record.attributes[TREE_OF] == "file"
        assert record.text
        children = [by_id[child] for child in record.attributes[CHILDREN].split()]
        assert {child.layer for child in children} == {record.layer - 1}
    assert sorted(child for record in found if record.layer == 1 for child in record.attributes[CHILDREN].split()) == (
        sorted(chunks)
    )


@pytest.mark.skipif(not PAPER.exists(), reason=f"the shared documents are not at {ROOT}")
async def test_a_tree_is_published_found_kept_and_purged_with_its_document(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await make(client, "papers", SCOPE_FILE)
        space = (await client.knowledge_bases.get(base)).space
        run = await ingested(client, base, [UploadItem.of_file(PAPER)])
        assert [stage.stage for stage in run.stages] == [
            *("parse", "chunk", "enrich", "embed", "tree", "index", "publish")
        ]
        [document] = [item async for item in client.documents.list(base)]
        records = await records_of(mesh, tenant.tenant_id, base, space)
        first = nodes(records)
        check_tree(records, first[0].publisher)
        assert document.latest_version.chunk_count == len(records) - len(first), "a node is no chunk"

        plan = retrieval_pb.RetrievalPlan(kinds=["tree_node"])
        hits = (await client.search([base], "type specialization of hot traces", plan=plan, page_size=5)).hits
        assert hits
        assert {hit.kind for hit in hits} == {"tree_node"}

        # The same settings again: another version, the same nodes; nothing is embedded, and no summary is made.
        before = await made_anew(mesh)
        again = await client.documents.reprocess(document.name)
        await client.runs.wait(again.run)
        records = await records_of(mesh, tenant.tenant_id, base, space)
        second = [node for node in nodes(records) if node.publisher != first[0].publisher]
        check_tree(records, second[0].publisher)
        assert [(node.record_id.rpartition("-")[2], node.text) for node in second] == [
            (node.record_id.rpartition("-")[2], node.text) for node in first
        ]
        assert await made_anew(mesh) == before

        # Trees are of no use any more: a version without one takes the place of the one with it.
        await switch(client, base, {"tree": {}})
        runs, count = await client.documents.reprocess_all(base)
        assert count == 1
        run = await client.runs.wait(runs[0])
        assert [stage.stage for stage in run.stages] == ["parse", "chunk", "enrich", "embed", "index", "publish"]
        assert not (await client.search([base], "type specialization", plan=plan, page_size=5)).hits

        purge = await client.documents.delete(document.name)
        await client.runs.wait(purge)
        left = await client.documents.verify_purge(document.name)
        assert left.purged, left
        assert await mesh.count_records(tenant.tenant_id) == 0
        assert await count_objects(mesh, f"{tenant.tenant_id}/") == 0


async def test_an_edited_chunk_costs_one_call_a_layer_and_a_model_that_fails_no_document(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    saying = Say("The town lies by a river, and its people keep what they live by.")
    with StubChat([saying]) as stub:
        await mesh.restart("raptor", {"CORPUSMESH_CHAT__URL": stub.base_url, "CORPUSMESH_CHAT__MODEL": "stub"})
        try:
            async with mesh.client(tenant.owner_key) as client:
                settings = {**SMALL_CHUNKS, "tree": {"scope": "file", "summaries": "llm", "max_errors": 2}}
                base = await make(client, "towns", settings)
                space = (await client.knowledge_bases.get(base)).space
                upload = await client.upload(base, [UploadItem("towns.md", TWELVE_TOWNS.encode())])
                await client.runs.wait(upload.run)
                version = upload.documents[0].version
                before = nodes(await records_of(mesh, tenant.tenant_id, base, space))
                assert {node.attributes[MADE_BY] for node in before} == {"llm stub/tree_summary_v1"}
                assert len(stub.requests) == len(before)

                chunks = [chunk async for chunk in client.chunks.list(version)]
                edited = chunks[len(chunks) // 2]
                text = "Nobody knows any more what this town was known for, for its archive burnt down one summer."
                made = await client.chunks.update(chunk_pb.Chunk(name=edited.name, text=text))
                await client.runs.wait(made.run)
                records = await records_of(mesh, tenant.tenant_id, base, space)
                after = [node for node in nodes(records) if node.publisher != before[0].publisher]
                check_tree(records, after[0].publisher)
                known = {node.record_id.rpartition("-")[2] for node in before}
                changed = [node for node in after if node.record_id.rpartition("-")[2] not in known]
                # The model has read some of what is summarized anew before, word for word: its answer was kept.
                assert 0 < len(stub.requests) - len(before) <= len(changed) <= max(node.layer for node in after)
                [place] = {node.publisher for node in after}
                [chunk] = [record for record in records if record.text == text]
                assert chunk.publisher == place
                assert all(chunk.record_id in node.links for node in changed)

                stub.behaviours = [Refuse(503)]
                run = await ingested(
                    client, base, [UploadItem("again.md", TWELVE_TOWNS.replace("town", "city").encode())]
                )
                assert run.succeeded_count == 1
                records = await records_of(mesh, tenant.tenant_id, base, space)
                sentences = [node for node in nodes(records) if node.display_name == "again.md"]
                check_tree(records, sentences[0].publisher)
                assert {node.attributes[MADE_BY] for node in sentences} == {"lite"}
                assert {node.attributes[FALLBACK] for node in sentences} <= {"unreachable", "errors_spent"}
        finally:
            await mesh.restart("raptor")
