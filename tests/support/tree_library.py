"""Documents for trees: chapters of some sentences each, deterministic, and what the index holds of a tree."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.visibility import Visibility, build_filter
from tests.support.mesh import MeshHarness

SUBJECTS = (
    "leave", "travel", "payroll", "laptops", "printers", "visitors", "parking", "canteen", "training", "archive",
    "security", "cleaning", "heating", "insurance", "suppliers", "contracts", "meetings", "recruiting",
)  # fmt: skip
CHAPTERS = ("purpose", "duties", "deadlines", "costs", "exceptions", "contacts")


def handbook(subject: str, *, changed: Sequence[str] = (), chapters: Sequence[str] = CHAPTERS) -> str:
    """Write a document of one subject: a chapter becomes a chunk; changed ones read otherwise."""
    parts = [f"# Handbook of {subject}\n"]
    for place, chapter in enumerate(chapters):
        edition = "second" if chapter in changed else "first"
        parts.append(
            f"## The {chapter} of {subject}\n\n"
            f"This chapter tells everybody about the {chapter} of {subject} in the {edition} edition. "
            f"The {chapter} of {subject} are decided by committee {place + 1} for the whole company. "
            f"Whoever disagrees writes to the office of {subject} within {place + 3} working days.\n"
        )
    return "\n".join(parts)


async def tree_base(client: CorpusMeshClient, **tree: object) -> str:
    """Create a knowledge base whose tree is one over all documents, and give its name."""
    wanted = settings_from_plain(
        {
            "chunking": {"settings": {"max_tokens": 80, "heading_break_tokens": 8}},
            "tree": {"scope": "dataset", "auto_update": False, **tree},
        }
    )
    wanted.permission = knowledge_base_pb.PERMISSION_TEAM
    wanted.display_name = f"trees {secrets.token_hex(4)}"
    return (await client.knowledge_bases.create(wanted)).name


async def build(client: CorpusMeshClient, base: str, *, full: bool = False) -> None:
    """Build a tree, or bring it up to date, and wait for it."""
    started = await client.trees.build(base, full=full)
    run = await client.runs.wait(started.run)
    assert not run.HasField("error"), run


@dataclass(frozen=True)
class Nodes:
    """Nodes of a tree by record id."""

    by_id: dict[str, Record]

    def layer(self, number: int) -> dict[str, Record]:
        """Give the nodes of one layer."""
        return {key: node for key, node in self.by_id.items() if node.layer == number}

    @property
    def height(self) -> int:
        """The top layer."""
        return max((node.layer for node in self.by_id.values()), default=0)


async def records_of(mesh: MeshHarness, tenant_id: str, base: str, space: str, kind: RecordKind) -> list[Record]:
    """Read all records of a kind of a knowledge base out of the index itself, hidden ones too."""
    await mesh.count_records(tenant_id)
    async with mesh.index() as index:
        return await index.scan(
            tenant_id,
            space,
            build_filter(Visibility.of("all", range(100_000), 100_000), [kind]),
            knowledge_base_ids=(base.removeprefix("knowledgeBases/"),),
            max_count=100_000,
            timeout_seconds=30,
        )


async def nodes_in_index(mesh: MeshHarness, tenant_id: str, client: CorpusMeshClient, base: str) -> Nodes:
    """Read every node that the index holds, published or not."""
    space = (await client.knowledge_bases.get(base)).space
    found = await records_of(mesh, tenant_id, base, space, RecordKind.TREE_NODE)
    return Nodes({record.record_id: record for record in found})


async def visible_ids(client: CorpusMeshClient, base: str) -> set[str]:
    """Name the nodes that a caller sees."""
    return {node.name.rpartition("/")[2] async for node in client.trees.nodes(f"{base}/trees/dataset")}


async def shown_nodes(mesh: MeshHarness, tenant_id: str, client: CorpusMeshClient, base: str) -> Nodes:
    """Read the nodes that an owner sees."""
    every = await nodes_in_index(mesh, tenant_id, client, base)
    shown = await visible_ids(client, base)
    assert shown <= every.by_id.keys()
    return Nodes({key: node for key, node in every.by_id.items() if key in shown})
