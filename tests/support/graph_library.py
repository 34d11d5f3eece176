"""Documents for graphs: a few sentences about people and towns each, and what the index holds of a graph."""

import secrets

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.records import Record, RecordKind
from tests.support.mesh import MeshHarness
from tests.support.tree_library import records_of

LIVES = {
    "euler.md": (
        "# Leonhard Euler\n\nLeonhard Euler was born in Basel in 1707. Johann Bernoulli taught him mathematics at the"
        " University of Basel. In 1727 Leonhard Euler moved to Saint Petersburg.\n"
    ),
    "johann.md": (
        "# Johann Bernoulli\n\nJohann Bernoulli was the younger brother of Jakob Bernoulli. He taught at the University"
        " of Groningen, and later at the University of Basel.\n"
    ),
    "daniel.md": (
        "# Daniel Bernoulli\n\nDaniel Bernoulli was the son of Johann Bernoulli. He worked with Leonhard Euler in Saint"
        " Petersburg, and published Hydrodynamica in 1738.\n"
    ),
    "lambert.md": (
        "# Johann Heinrich Lambert\n\nJohann Heinrich Lambert was born in Mulhouse. Leonhard Euler proposed him for the"
        " Berlin Academy.\n"
    ),
}
GRAPH_RECORDS = (RecordKind.ENTITY, RecordKind.RELATION, RecordKind.COMMUNITY_REPORT, RecordKind.DESCRIPTION)


async def graph_base(client: CorpusMeshClient, **graph: object) -> str:
    """Create a knowledge base that has a graph, and give its name."""
    wanted = settings_from_plain({"graph": {"methods": ["ner"], "auto_update": False, **graph}})
    wanted.permission = knowledge_base_pb.PERMISSION_TEAM
    wanted.display_name = f"graphs {secrets.token_hex(4)}"
    return (await client.knowledge_bases.create(wanted)).name


async def build_graph(client: CorpusMeshClient, base: str, *, full: bool = False) -> None:
    """Build a graph, or bring it up to date, and wait for it."""
    started = await client.graphs.build(f"{base}/graph", full=full)
    run = await client.runs.wait(started.run)
    assert not run.HasField("error"), run


async def graph_records(mesh: MeshHarness, tenant_id: str, client: CorpusMeshClient, base: str) -> dict[str, Record]:
    """Read every record of a graph that the index holds, published or not."""
    space = (await client.knowledge_bases.get(base)).space
    found: dict[str, Record] = {}
    for kind in GRAPH_RECORDS:
        found.update((record.record_id, record) for record in await records_of(mesh, tenant_id, base, space, kind))
    return found
