"""The example of Euler's teacher's son: facts lead to the passage that answers (the seed on adjacency matrices)."""

import importlib.util
from pathlib import Path
from types import ModuleType

from corpusmesh.retrieve.v1.retrieval_service_pb2 import GraphPlan
from corpusmesh_client.graphs import graph_name
from tests.support.mesh import MeshHarness

EXAMPLE = Path(__file__).parents[2] / "examples" / "graph.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("graph_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_facts_lead_over_two_relations_to_the_passage_that_answers(mesh: MeshHarness) -> None:
    module = example()
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await module.make_graph(client)
        hits = await module.search(client, base, GraphPlan.MODE_ADJACENCY)
        places = [leaf.place.display_name for hit in hits for leaf in hit.leaves]
        assert "daniel.md" in [hit.place.display_name for hit in hits] + places
        plain = await module.search(client, base, GraphPlan.MODE_OFF)
        assert "daniel.md" not in [hit.place.display_name for hit in plain], "likeness alone does not lead there"
        lines = await module.draw(client, base, "Leonhard Euler")
        assert lines[0] == "Leonhard Euler"
        assert any("was the teacher of Johann Bernoulli" in line for line in lines)
        assert any("was the father of → Daniel Bernoulli" in line for line in lines)
        # What was said of a document goes with it, and nothing else does.
        documents = {one.display_name: one.name async for one in client.documents.list(base)}
        found = await client.graphs.entity(graph_name(base), "Johann Bernoulli")
        assert set(found.documents) == {documents["jakob.md"], documents["johann.md"]}
        assert (await client.graphs.verify_erasure(graph_name(base), documents["daniel.md"])).triple_count == 2
