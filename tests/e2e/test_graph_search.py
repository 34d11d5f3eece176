"""Graphs in searches of a whole mesh: every mode of one request, with its path, its table and where citations open."""

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from tests.support.graph_library import LIVES, build_graph, graph_base
from tests.support.mesh import MeshHarness, ingest_texts

_QUESTION = "Which city did the pupil of Johann Bernoulli, Leonhard Euler, move to?"
_TABLE_MODES = (
    pb.GraphPlan.MODE_LOCAL,
    pb.GraphPlan.MODE_GLOBAL,
    pb.GraphPlan.MODE_HYBRID,
    pb.GraphPlan.MODE_MIX,
    pb.GraphPlan.MODE_KNOWLEDGE,
)


async def test_every_mode_searches_the_graph_that_documents_made(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base, plain = await graph_base(client), await graph_base(client, methods=[])
        await ingest_texts(client, base, LIVES)
        await ingest_texts(client, plain, {"moves.md": "Pupils move from one city to another."})
        await build_graph(client, base)
        for mode in (*_TABLE_MODES, pb.GraphPlan.MODE_ADJACENCY):
            plan = pb.RetrievalPlan(graph=pb.GraphPlan(mode=mode))
            found = await client.search([base, plain], _QUESTION, plan=plan, explain=True)
            stages = {stage.stage: stage for stage in found.explanation.stages}
            assert stages["graph"].state == pb.StageTiming.STATE_RAN, stages["graph"].detail
            labels = [step.label for step in found.explanation.graph_path if step.kind in ("entity", "relation")]
            assert any("Euler" in label for label in labels)
            assert any("without a graph" in note for note in found.explanation.notes)
            assert found.explanation.effective_plan.graph.mode == mode
            passages = [hit for hit in found.hits if hit.kind == "chunk"]
            assert passages
            assert not found.unreachable
            if mode in _TABLE_MODES:
                table = found.hits[0]
                assert (table.kind, table.document) == ("graph_table", "")
                assert "Leonhard Euler" in table.text
                assert {leaf.place.display_name for leaf in table.leaves} & set(LIVES)
                assert all(leaf.document.startswith(f"{base}/documents/") for leaf in table.leaves)
        without = pb.RetrievalPlan(graph=pb.GraphPlan(mode=pb.GraphPlan.MODE_KNOWLEDGE))
        alone = await client.search([plain], _QUESTION, plan=without, explain=True)
        assert any("no graph" in note for note in alone.explanation.notes)
        assert [hit.kind for hit in alone.hits] == ["chunk"]
