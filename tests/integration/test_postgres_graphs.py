"""Builds of graphs beside those of trees: each its own, and what makes a graph due."""

from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
from pyroaring import BitMap

from corpusmesh_adapters.postgres import PostgresBuildStore, PostgresGraphInputStore, WorkLimits
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.graphs.corrections import DeleteEntity
from corpusmesh_core.graphs.values import Triple
from corpusmesh_core.orchestration.values import RunKind, Stage, Verdict
from corpusmesh_core.ports.builds import DATASET_GRAPH, DATASET_TREE, BuildOrder
from corpusmesh_core.ports.metadata import KnowledgeBaseChange
from corpusmesh_core.ports.work import BuildChange, Claim, StageOutcome
from corpusmesh_core.tenancy import Identity
from corpusmesh_core.tenancy.publishing import dump_bitmap, load_bitmap
from corpusmesh_core.tenancy.visibility import build_bitmap
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, upload

pytestmark = pytest.mark.servers

if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN

else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


BOTH = {"graph": {"methods": ["ner"]}, "tree": {"scope": "dataset"}}
"""A knowledge base that has a graph and a tree, which follow by themselves."""
QUIET = {"graph": {"methods": ["ner"], "auto_update": False}}


@pytest.fixture(scope="module")
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as opened:
        yield opened


@pytest.fixture
def graphs(metadata: Metadata) -> PostgresBuildStore:
    return PostgresBuildStore(metadata.database, WorkLimits(), DATASET_GRAPH)


@pytest.fixture
def trees(metadata: Metadata) -> PostgresBuildStore:
    return PostgresBuildStore(metadata.database, WorkLimits(), DATASET_TREE)


async def owner_of(metadata: Metadata, config: Mapping[str, object]) -> Identity:
    """The owner of a knowledge base `kb` that shows two documents."""
    identity = await metadata.tenant()
    await metadata.knowledge_base(identity)
    await metadata.knowledge_bases.update(identity, "kb", KnowledgeBaseChange(config=config))
    await metadata.ingest(identity, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(identity.tenant_id)
    return identity


def change(build_id: str, nodes: Sequence[int], sources: Sequence[int]) -> StageOutcome:
    return StageOutcome(
        build=BuildChange(
            build_id, dump_bitmap(BitMap(nodes)), dump_bitmap(BitMap(sources)), 1, artefacts={"segment.0": "key"}
        )
    )


async def claims(metadata: Metadata, owner: Identity) -> dict[Stage, Claim]:
    return {message.stage: await metadata.claim(message) for message in await metadata.due_messages(owner.tenant_id)}


async def publish(metadata: Metadata, builds: PostgresBuildStore, owner: Identity, claim: Claim) -> list[int]:
    """Publish two parts under a claim, and end the sweep behind it."""
    first = await builds.reserve(claim, "1", 2)
    versions = (await builds.published(owner.tenant_id, "kb")).versions
    outcome = change((await builds.of_claim(claim)).build_id, [first, first + 1], versions)
    assert (await metadata.queue.complete(claim, outcome)).verdict is Verdict.COMMITTED
    for sweeping in (await claims(metadata, owner)).values():
        await metadata.queue.complete(sweeping, StageOutcome())
    return [first, first + 1]


async def is_due(builds: PostgresBuildStore, owner: Identity) -> bool:
    before = await builds.get(owner, "kb")
    await builds.start_due(1000, quiet_seconds=0.0)
    after = await builds.get(owner, "kb")
    return (before.run_id if before else "") != (after.run_id if after else "")


async def test_graph_and_tree_of_a_knowledge_base_know_nothing_of_each_other(
    metadata: Metadata, graphs: PostgresBuildStore, trees: PostgresBuildStore
) -> None:
    owner = await owner_of(metadata, BOTH)
    with pytest.raises(NotFoundError) as refused:
        await graphs.cancel(owner, "kb")
    assert refused.value.reason == "GRAPH_NOT_FOUND"
    await graphs.start_build(owner, "kb", BuildOrder())
    await trees.start_build(owner, "kb", BuildOrder())
    found = await claims(metadata, owner)
    assert found.keys() == {Stage.BUILD_GRAPH, Stage.BUILD_TREE}
    parts = await publish(metadata, graphs, owner, found[Stage.BUILD_GRAPH])
    nodes = await publish(metadata, trees, owner, found[Stage.BUILD_TREE])
    versions = set((await graphs.published(owner.tenant_id, "kb")).versions)
    assert versions.isdisjoint([*parts, *nodes])
    inputs = await metadata.snapshots.visibility_inputs(owner, "kb")
    assert set(build_bitmap(inputs, DATASET_GRAPH)) == set(parts)
    assert set(build_bitmap(inputs, DATASET_TREE)) == set(nodes)
    assert set(load_bitmap(inputs.published)) == {*versions, *parts, *nodes}
    assert await graphs.artefacts(owner.tenant_id, "kb") == {"segment.0": "key"}
    assert not await is_due(graphs, owner), "parts of a tree are no documents"

    await graphs.delete(owner, "kb", request_id="")
    kinds = {record.run.kind for record in await metadata.runs.list(owner, "kb", "", 20)}
    assert {RunKind.GRAPH, RunKind.GRAPH_REMOVAL, RunKind.TREE} <= kinds
    assert await graphs.artefacts(owner.tenant_id, "kb") == {}
    assert (await claims(metadata, owner)).keys() == {Stage.SWEEP_GRAPH}
    row = await trees.get(owner, "kb")
    assert row is not None
    assert set(load_bitmap(row.published)) == set(nodes)


async def test_graph_that_does_not_follow_is_due_where_a_document_was_deleted_or_something_was_given(
    metadata: Metadata, graphs: PostgresBuildStore
) -> None:
    owner = await owner_of(metadata, QUIET)
    inputs = PostgresGraphInputStore(metadata.database)
    assert not await is_due(graphs, owner)
    await graphs.start_build(owner, "kb", BuildOrder())
    await publish(metadata, graphs, owner, (await claims(metadata, owner))[Stage.BUILD_GRAPH])
    await metadata.ingest(owner, "kb", [upload("c.txt")])
    await metadata.work_off(owner.tenant_id, until=Stage.BUILD_GRAPH)
    assert not await is_due(graphs, owner), "a new document can wait"

    correction = await inputs.add_correction(owner, "kb", DeleteEntity((7,)))
    assert await is_due(graphs, owner)
    await publish(metadata, graphs, owner, (await claims(metadata, owner))[Stage.BUILD_GRAPH])
    assert not await is_due(graphs, owner)
    await inputs.delete_correction(owner, "kb", correction.correction_id)
    assert await is_due(graphs, owner), "so is one that was taken back"
    await publish(metadata, graphs, owner, (await claims(metadata, owner))[Stage.BUILD_GRAPH])

    documents = await metadata.documents.list(owner, "kb", "", 10)
    await inputs.put_triples(owner, "kb", documents[0].document_id, [Triple("A", "knows", "B")])
    assert await is_due(graphs, owner)
    await publish(metadata, graphs, owner, (await claims(metadata, owner))[Stage.BUILD_GRAPH])
    await metadata.documents.delete(owner, "kb", [documents[0].document_id], "", {})
    assert await is_due(graphs, owner)
    assert not await inputs.triples_of(owner.tenant_id, "kb", [documents[0].document_id])
