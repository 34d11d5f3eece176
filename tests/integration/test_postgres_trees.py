"""Builds of trees in the store: fenced, reserved before they are written, published whole, swept, removed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from pyroaring import BitMap

from corpusmesh_adapters.postgres import PostgresBuildStore, WorkLimits
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import ConflictError, NotFoundError
from corpusmesh_core.orchestration.values import FailureKind, RunKind, RunState, Stage, TaskFailure, Verdict
from corpusmesh_core.ports.builds import DATASET_TREE, BuildOrder, BuildState
from corpusmesh_core.ports.metadata import KnowledgeBaseChange
from corpusmesh_core.ports.work import BuildChange, Claim, StageOutcome
from corpusmesh_core.tenancy import Identity, Role
from corpusmesh_core.tenancy.publishing import dump_bitmap, load_bitmap
from corpusmesh_core.tenancy.visibility import FilterCondition, FilterOperator, MetadataFilter, visible_bitmap
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, member, upload

pytestmark = pytest.mark.servers

DATASET = {"template": "general", "tree": {"scope": "dataset"}}


@pytest.fixture(scope="module")
async def metadata(request: pytest.FixtureRequest) -> AsyncIterator[Metadata]:
    dsn = POSTGRES_DSN
    if not dsn:
        endpoints: StackEndpoints = request.getfixturevalue("stack_endpoints")
        dsn = endpoints.postgres_dsn
    async with fresh_metadata(dsn) as opened:
        yield opened


@pytest.fixture
def trees(metadata: Metadata) -> PostgresBuildStore:
    return PostgresBuildStore(metadata.database, WorkLimits(), DATASET_TREE)


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    """The owner of a knowledge base `kb` that shows two documents and follows by itself."""
    identity = await metadata.tenant()
    await metadata.knowledge_base(identity)
    await metadata.knowledge_bases.update(identity, "kb", KnowledgeBaseChange(config=DATASET))
    await metadata.ingest(identity, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(identity.tenant_id)
    return identity


async def begin(metadata: Metadata, trees: PostgresBuildStore, owner: Identity) -> Claim:
    """Start a build and claim its first task."""
    await trees.start_build(owner, "kb", BuildOrder())
    [message] = await metadata.due_messages(owner.tenant_id)
    return await metadata.claim(message)


def change(claim: Claim, build_id: str, nodes: Sequence[int], sources: Sequence[int]) -> StageOutcome:
    return StageOutcome(
        build=BuildChange(
            build_id=build_id,
            nodes=dump_bitmap(BitMap(nodes)),
            sources=dump_bitmap(BitMap(sources)),
            snapshot_id=1,
            artefacts={"skeleton": f"key of {claim.run_id}"},
            figures={"method": "watershed"},
        )
    )


async def publish(metadata: Metadata, trees: PostgresBuildStore, owner: Identity, count: int) -> list[int]:
    """Build a tree of some new nodes, and sweep; give the nodes."""
    claim = await begin(metadata, trees, owner)
    build = await trees.of_claim(claim)
    first = await trees.reserve(claim, "1", count)
    nodes = list(range(first, first + count))
    state = await trees.published(owner.tenant_id, "kb")
    answer = await metadata.queue.complete(claim, change(claim, build.build_id, nodes, state.versions))
    assert answer.verdict is Verdict.COMMITTED
    await sweep(metadata, trees, owner)
    return nodes


async def follows(trees: PostgresBuildStore, owner: Identity, quiet_seconds: float = 0.0) -> bool:
    """Tell whether a run was begun that nobody has asked for; knowledge bases of other tests may be due as well."""
    before = await trees.get(owner, "kb")
    await trees.start_due(1000, quiet_seconds=quiet_seconds)
    after = await trees.get(owner, "kb")
    return (before.run_id if before else "") != (after.run_id if after else "")


async def sweep(metadata: Metadata, trees: PostgresBuildStore, owner: Identity) -> list[int]:
    """Do all sweeps as their stage does, both looks; give what the first ones found."""
    found: list[int] = []
    while await open_sweeps(metadata, owner):
        for message in await metadata.due_messages(owner.tenant_id):
            claim = (await metadata.queue.claim(message, "w")).claim
            if claim is None:
                continue
            assert claim.stage is Stage.SWEEP_TREE
            left = list(await trees.left_over(claim))
            if "late" in claim.payload:
                await trees.swept(claim, left)
                await metadata.queue.complete(claim, StageOutcome())
                continue
            found += left
            again = bool(left) or (await trees.of_claim(claim)).state is BuildState.DELETING
            await metadata.queue.complete(claim, StageOutcome(goes_on=again, is_late=again, payload={"late": "1"}))
        await asyncio.sleep(0.05)
    return found


async def open_sweeps(metadata: Metadata, owner: Identity) -> int:
    async with metadata.database.tenant(owner.tenant_id) as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM corpusmesh.tasks WHERE tenant_id = $1 AND stage = 'sweep_tree'"
            " AND state IN ('pending', 'running')",
            owner.tenant_id,
        )
    return count


async def test_build_shows_its_nodes_at_once_and_the_next_one_swaps_those_that_changed(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    versions = set(await metadata.published(owner, "kb"))
    nodes = await publish(metadata, trees, owner, 3)
    assert await metadata.published(owner, "kb") == versions | set(nodes)
    with_tree = (await metadata.snapshots.visibility_inputs(owner, "kb")).snapshot_id
    row = await trees.get(owner, "kb")
    assert row is not None
    assert (row.state, row.is_building, set(load_bitmap(row.sources))) == (BuildState.READY, False, versions)
    assert set(load_bitmap(row.published)) == set(nodes)
    assert (await trees.published(owner.tenant_id, "kb")).versions == tuple(sorted(versions))
    assert not await follows(trees, owner), "it is up to date"

    claim = await begin(metadata, trees, owner)
    first = await trees.reserve(claim, "1", 1)
    kept = [*nodes[:2], first]
    assert await metadata.published(owner, "kb") == versions | set(nodes)
    await metadata.queue.complete(claim, change(claim, row.build_id, kept, sorted(versions)))
    assert await metadata.published(owner, "kb") == versions | set(kept)
    assert not await sweep(metadata, trees, owner), "an earlier snapshot shows the third node"

    # Earlier nodes are seen where they were published, and come back by a rollback.
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=with_tree)
    assert set(visible_bitmap(as_of)) == versions | set(nodes)
    await metadata.snapshots.rollback(owner, "kb", with_tree)
    assert await metadata.published(owner, "kb") == versions | set(nodes)
    # Filters of documents let nodes pass.
    nowhere = MetadataFilter(conditions=(FilterCondition("no such key", FilterOperator.EXISTS),))
    inputs = await metadata.snapshots.visibility_inputs(owner, "kb", metadata_filter=nowhere)
    assert set(visible_bitmap(inputs)) == set(nodes)


async def test_what_is_reserved_is_the_same_however_often_and_known_to_a_sweep(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    before = await metadata.published(owner, "kb")
    claim = await begin(metadata, trees, owner)
    first = await trees.reserve(claim, "1", 4)
    assert await trees.reserve(claim, "1", 4) == first
    assert await trees.reserve(claim, "1", 3) == first, "an attempt that needs fewer"
    more = await trees.reserve(claim, "1", 6)
    assert more >= first + 4
    other = await trees.reserve(claim, "2", 1)
    assert other >= more + 6
    await trees.cancel(owner, "kb")
    with pytest.raises(ConflictError, match="cancelled"):
        await trees.reserve(claim, "3", 1)
    with pytest.raises(ConflictError):
        await trees.tell_progress(claim, {})
    outcome = change(claim, (await trees.of_claim(claim)).build_id, [first], [])
    assert (await metadata.queue.complete(claim, outcome)).verdict is Verdict.CANCELLED
    assert await metadata.published(owner, "kb") == before
    assert await sweep(metadata, trees, owner) == [*range(first, first + 4), *range(more, more + 6), other]
    row = await trees.get(owner, "kb")
    assert row is not None
    assert (row.state, row.is_building) == (BuildState.EMPTY, False)
    assert (await metadata.runs.get(owner, "kb", row.run_id)).run.state is RunState.CANCELLED
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert not await connection.fetchval("SELECT count(*) FROM corpusmesh.build_drafts")


async def test_worker_thought_dead_publishes_nothing(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    before = await metadata.published(owner, "kb")
    claim = await begin(metadata, trees, owner)
    build = await trees.of_claim(claim)
    first = await trees.reserve(claim, "1", 1)
    await asyncio.sleep(metadata.policy.lease_seconds + 0.1)
    await metadata.sweeper.expire_leases(10)
    await asyncio.sleep(metadata.policy.max_backoff_seconds)
    [message] = await metadata.due_messages(owner.tenant_id)
    again = await metadata.claim(message)
    assert await trees.reserve(again, "1", 1) == first
    late = await metadata.queue.complete(claim, change(claim, build.build_id, [first], []))
    assert late.verdict is Verdict.FENCED
    assert await metadata.published(owner, "kb") == before
    with pytest.raises(ConflictError):
        await trees.reserve(claim, "1", 1)
    await metadata.queue.complete(again, change(again, build.build_id, [first], []))
    assert await metadata.published(owner, "kb") == before | {first}


async def test_failed_build_says_why_leaves_what_was_and_is_not_tried_again_by_itself(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    nodes = await publish(metadata, trees, owner, 2)
    shown = await metadata.published(owner, "kb")
    await metadata.ingest(owner, "kb", [upload("c.txt")])
    await metadata.work_off(owner.tenant_id, until=Stage.BUILD_TREE)
    assert await follows(trees, owner)
    assert not await follows(trees, owner), "one at a time"
    [message] = await metadata.due_messages(owner.tenant_id)
    claim = await metadata.claim(message)
    first = await trees.reserve(claim, "1", 1)
    failure = TaskFailure(FailureKind.PERMANENT, "TREE_TOO_LARGE", "it is too large")
    assert (await metadata.queue.fail(claim, failure)).verdict is Verdict.EXHAUSTED
    assert await sweep(metadata, trees, owner) == [first]
    row = await trees.get(owner, "kb")
    assert row is not None
    assert (row.state, row.error_reason, set(load_bitmap(row.published))) == (
        BuildState.READY,
        "TREE_TOO_LARGE",
        set(nodes),
    )
    assert (await metadata.runs.get(owner, "kb", row.run_id)).run.state is RunState.FAILED
    assert shown < await metadata.published(owner, "kb")
    assert not await follows(trees, owner)
    await metadata.ingest(owner, "kb", [upload("d.txt")])
    await metadata.work_off(owner.tenant_id)
    assert not await follows(trees, owner, 3600.0), "it is not quiet yet"
    assert await follows(trees, owner)


async def test_a_knowledge_base_that_is_never_quiet_is_followed_all_the_same(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    await publish(metadata, trees, owner, 2)
    for name in ("d.txt", "e.txt"):
        await metadata.ingest(owner, "kb", [upload(name)])
        await metadata.work_off(owner.tenant_id)
    assert not await follows(trees, owner, 3600.0), "it is not quiet yet"
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute(
            "UPDATE corpusmesh.snapshots SET create_time = now() - interval '21 hours'"
            " WHERE tenant_id = $1 AND knowledge_base_id = 'kb' AND snapshot_id < ("
            "   SELECT current_snapshot_id FROM corpusmesh.knowledge_bases"
            "   WHERE tenant_id = $1 AND knowledge_base_id = 'kb')",
            owner.tenant_id,
        )
    assert await follows(trees, owner, 3600.0)


async def test_trees_that_cannot_be_begun_do_not_hold_up_those_of_others(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    stuck = await metadata.tenant()
    for name in ("first", "second"):
        await metadata.knowledge_base(stuck, name)
        broken = {"template": "general", "tree": {"scope": "dataset", "small_layer_size": 1}}
        await metadata.knowledge_bases.update(stuck, name, KnowledgeBaseChange(config=broken))
        await metadata.ingest(stuck, name, [upload("a.txt")])
    await metadata.work_off(stuck.tenant_id)
    await metadata.ingest(owner, "kb", [upload("c.txt")])
    await metadata.work_off(owner.tenant_id)
    for _ in range(300):
        await trees.start_due(1, quiet_seconds=0.0)
        if await trees.get(owner, "kb") is not None:
            return
    pytest.fail("the trees of another tenant are always looked at first")


async def test_document_that_is_published_while_a_tree_is_built_asks_for_the_next(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    versions = (await trees.published(owner.tenant_id, "kb")).versions
    claim = await begin(metadata, trees, owner)
    first = await trees.reserve(claim, "1", 1)
    await metadata.ingest(owner, "kb", [upload("c.txt")])
    await metadata.work_off(owner.tenant_id)
    build = await trees.of_claim(claim)
    await metadata.queue.complete(claim, change(claim, build.build_id, [first], versions))
    await sweep(metadata, trees, owner)
    assert await follows(trees, owner)


async def test_deleted_tree_is_gone_at_once_from_every_snapshot_and_makes_room(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    versions = await metadata.published(owner, "kb")
    nodes = await publish(metadata, trees, owner, 2)
    with_tree = (await metadata.snapshots.visibility_inputs(owner, "kb")).snapshot_id
    claim = await begin(metadata, trees, owner)
    draft = await trees.reserve(claim, "1", 1)
    row = await trees.delete(owner, "kb", request_id="r1")
    assert row.state is BuildState.DELETING
    assert (await trees.delete(owner, "kb", request_id="r1")).run_id == row.run_id
    assert await metadata.published(owner, "kb") == versions
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=with_tree)
    assert set(visible_bitmap(as_of)) == versions
    await metadata.snapshots.rollback(owner, "kb", with_tree)
    assert await metadata.published(owner, "kb") == versions
    late = await metadata.queue.complete(claim, change(claim, row.build_id, [draft], []))
    assert late.verdict is Verdict.CANCELLED

    # The next tree need not wait until the old one is removed.
    started, is_new = await trees.start_build(owner, "kb", BuildOrder())
    assert is_new
    assert started.build_id != row.build_id
    await trees.cancel(owner, "kb")
    await sweep(metadata, trees, owner)
    async with metadata.database.tenant(owner.tenant_id) as connection:
        left = await connection.fetch("SELECT build_id FROM corpusmesh.builds")
        kept = await connection.fetch("SELECT ordinals FROM corpusmesh.snapshots")
    assert [item["build_id"] for item in left] == [started.build_id]
    for snapshot in kept:
        assert load_bitmap(snapshot["ordinals"]).isdisjoint(BitMap([*nodes, draft]))


async def test_removal_that_was_given_up_is_begun_again(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    nodes = await publish(metadata, trees, owner, 2)
    row = await trees.delete(owner, "kb", request_id="")
    [message] = await metadata.due_messages(owner.tenant_id)
    failure = TaskFailure(FailureKind.PERMANENT, "INDEX_BROKEN", "it is broken")
    assert (await metadata.queue.fail(await metadata.claim(message), failure)).verdict is Verdict.EXHAUSTED
    await metadata.knowledge_bases.update(owner, "kb", KnowledgeBaseChange(config={"template": "general"}))
    assert not await follows(trees, owner), "it may have been given up a moment ago"
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute("UPDATE corpusmesh.builds SET update_time = now() - interval '61 minutes'")
    assert await follows(trees, owner)
    again = await trees.get(owner, "kb")
    assert again is not None
    assert (again.build_id, again.state) == (row.build_id, BuildState.DELETING)
    assert not await follows(trees, owner), "one at a time"
    assert await sweep(metadata, trees, owner) == nodes
    assert await trees.get(owner, "kb") is None


async def test_deleted_knowledge_base_takes_its_tree_along(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    await publish(metadata, trees, owner, 2)
    claim = await begin(metadata, trees, owner)
    build = await trees.of_claim(claim)
    await metadata.knowledge_bases.delete(owner, "kb", "", {})
    outcome = change(claim, build.build_id, [99], [])
    assert (await metadata.queue.complete(claim, outcome)).verdict is Verdict.CANCELLED
    with pytest.raises(NotFoundError):
        await trees.published(owner.tenant_id, "kb")
    messages = [message for message in await metadata.due_messages(owner.tenant_id) if message.stage in _SWEEPS]
    assert len(messages) == 2, "of the build that was cancelled, and of the tree"
    for message in messages:
        sweeping = await metadata.claim(message)
        await trees.swept(sweeping, await trees.left_over(sweeping))
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert not await connection.fetchval("SELECT count(*) FROM corpusmesh.builds")


_SWEEPS = {Stage.SWEEP_TREE}


async def test_only_editors_build_and_see_runs_of_builds(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    for call in (
        trees.start_build(viewer, "kb", BuildOrder()),
        trees.cancel(viewer, "kb"),
        trees.delete(viewer, "kb", request_id=""),
    ):
        with pytest.raises(NotFoundError):
            await call
    with pytest.raises(NotFoundError, match="has no tree"):
        await trees.cancel(owner, "kb")
    order = BuildOrder(request_id="r1", plan={"leaf_count": 3})
    started, _ = await trees.start_build(owner, "kb", order)
    again, is_new = await trees.start_build(owner, "kb", replace(order, full=True))
    assert (again.run_id, is_new) == (started.run_id, False)
    assert started.plan == {"leaf_count": 3}
    kinds = {record.run.kind for record in await metadata.runs.list(owner, "kb", "", 10)}
    assert RunKind.TREE in kinds
    assert {record.run.kind for record in await metadata.runs.list(viewer, "kb", "", 10)} == {RunKind.INGEST}
    with pytest.raises(NotFoundError):
        await metadata.runs.get(viewer, "kb", started.run_id)


async def test_knowledge_base_without_a_wish_for_a_tree_loses_it(
    metadata: Metadata, trees: PostgresBuildStore, owner: Identity
) -> None:
    assert await follows(trees, owner), "the first tree, too, comes by itself"
    await metadata.knowledge_bases.update(owner, "kb", KnowledgeBaseChange(config={"template": "general"}))
    assert await follows(trees, owner, 3600.0)
    row = await trees.get(owner, "kb")
    assert row is not None
    assert row.state is BuildState.DELETING
