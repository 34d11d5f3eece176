"""Trees while workers die, people cancel, and the language model fails in every way (invariants 1 to 4 and 9)."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.raptor.v1 import tree_service_pb2 as tree_pb
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.trees.values import CHILDREN, FALLBACK, MADE_BY
from tests.e2e.test_file_trees import check_tree
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts
from tests.support.mesh_probes import count_objects, until
from tests.support.stub_chat import Refuse, Say
from tests.support.tree_adversity import (
    IMPATIENT,
    QUESTION,
    build_over_deaths,
    content,
    dies,
    file_base,
    found_nodes,
    is_more,
    talks_to,
    watched,
)
from tests.support.tree_library import (
    SUBJECTS,
    Nodes,
    build,
    handbook,
    nodes_in_index,
    records_of,
    shown_nodes,
    tree_base,
)
from tests.support.tree_stub import FLOOD_CHARACTERS, TreeStub

soak = pytest.mark.skipif(
    not os.environ.get("CORPUSMESH_CRASH_ALL"),
    reason="takes minutes: make soak runs it; units cover deaths and budgets in every run",
)


@pytest.fixture(scope="module", autouse=True)
async def own_again(distributed_mesh: MeshHarness) -> AsyncIterator[None]:
    """Give the mesh its own process back when all is over; each test begins with one that it starts."""
    yield
    await distributed_mesh.restart("raptor")


@soak
async def test_a_tree_of_all_documents_survives_a_death_at_every_point(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    # Every four nodes a task of their own.
    hurried = {**IMPATIENT, "CORPUSMESH_RAPTOR__SLICE_SECONDS": "0.001"}
    async with mesh.client(tenant.owner_key) as client:
        base = await tree_base(client)
        await ingest_texts(client, base, {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]})
        artefacts = await count_objects(mesh, f"{tenant.tenant_id}/artefacts/")
        points = ("build_tree:after_index", "build_tree:after_artefact", "sweep_tree:after_index")
        async with watched(client, base) as watch:
            await build_over_deaths(mesh, client, base, points, hurried)
            after = await found_nodes(client, base)
        shown = await shown_nodes(mesh, tenant.tenant_id, client, base)
        await check_whole(mesh, tenant, client, base, shown)
        assert watch.found <= {frozenset(), after}, "a search never saw a half"
        counts = tuple(len(shown.layer(number)) for number in range(1, shown.height + 1))
        assert watch.counts <= {(), counts}, "nor did whoever looked at the tree"

        async def is_swept() -> bool:
            return (await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id.keys() == shown.by_id.keys()

        await until(is_swept, "nothing of an attempt that died is left", 30)

        run = await client.trees.delete(f"{base}/trees/dataset")
        assert not await found_nodes(client, base), "withdrawn at once"
        await asyncio.wait_for(client.runs.wait(run), 90)
        assert not (await nodes_in_index(mesh, tenant.tenant_id, client, base)).by_id
        assert await count_objects(mesh, f"{tenant.tenant_id}/artefacts/") == artefacts

        # Over the same chunks: the vectors of others with the same texts may differ, see ADR-0012.
        await build(client, base)
        assert content((await shown_nodes(mesh, tenant.tenant_id, client, base)).by_id) == content(shown.by_id)


async def check_whole(mesh: MeshHarness, tenant: TestTenant, client: CorpusMeshClient, base: str, tree: Nodes) -> None:
    """Every chunk is beneath the one root, once; and so is every node."""
    space = (await client.knowledge_bases.get(base)).space
    chunks = await records_of(mesh, tenant.tenant_id, base, space, RecordKind.CHUNK)
    beneath = {chunk.record_id for chunk in chunks}
    for number in range(1, tree.height + 1):
        layer = tree.layer(number)
        children = [child for node in layer.values() for child in node.attributes[CHILDREN].split()]
        assert sorted(children) == sorted(beneath), number
        beneath = set(layer)
    [top] = tree.layer(tree.height).values()
    assert set(top.links) == {chunk.record_id for chunk in chunks}
    assert set(top.sources) == {chunk.publisher for chunk in chunks}


async def test_a_tree_of_a_document_survives_deaths_and_pays_once(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    with TreeStub([Say("")]) as stub:
        async with mesh.client(tenant.owner_key) as client:
            base = await file_base(client)
            mesh_environment = {**IMPATIENT, **talks_to(stub)}
            await mesh.restart("raptor", {**mesh_environment, "CORPUSMESH_FAILPOINT": "tree:after_artefact"})
            upload = await client.upload(base, [UploadItem("canteen.md", handbook("canteen").encode())])
            await dies(mesh)
            asked = len(stub.requests)
            assert asked
            mesh.spawn("raptor", {**mesh_environment, "CORPUSMESH_FAILPOINT": "tree:after_commit"})
            await dies(mesh)
            mesh.spawn("raptor", mesh_environment)
            await mesh.ready("raptor")
            run = await asyncio.wait_for(client.runs.wait(upload.run), 90)
            assert (run.succeeded_count, run.failed_count) == (1, 0)
            assert len(stub.requests) == asked, "what was answered before a death is not asked for again"
            await check_trees(mesh, tenant, client, base, model_written={"canteen"})
            records = await mesh.count_records(tenant.tenant_id)
            assert await count_objects(mesh, f"{tenant.tenant_id}/artefacts/") == 4, "parsed, chunks, vectors, tree"

            # A run that is cancelled in the middle of a tree leaves nothing of it.
            stub.moods = {"parking": "never"}
            asked = len(stub.requests)
            upload = await client.upload(base, [UploadItem("parking.md", handbook("parking").encode())])
            await until(is_more(stub, asked), "the model was asked")
            await client.runs.cancel(upload.run)
            assert (await client.runs.wait(upload.run)).state == run_pb.Run.STATE_CANCELLED
            hits = (await client.search([base], QUESTION)).hits
            assert len({hit.document for hit in hits}) == 1

            async def is_clean() -> bool:
                return await mesh.count_records(tenant.tenant_id) == records

            await until(is_clean, "nothing of the version is left in the index")


async def trees_of(
    mesh: MeshHarness, tenant: TestTenant, client: CorpusMeshClient, base: str
) -> dict[str, list[Record]]:
    """Read the nodes of every document, by its name without ending; each tree is whole."""
    space = (await client.knowledge_bases.get(base)).space
    records = [
        record
        for kind in (RecordKind.CHUNK, RecordKind.TREE_NODE)
        for record in await records_of(mesh, tenant.tenant_id, base, space, kind)
    ]
    trees: dict[str, list[Record]] = {}
    async for document in client.documents.list(base):
        assert document.published_version, document.display_name
        own = [record for record in records if record.document_id == document.name.rpartition("/")[2]]
        newest = max(record.publisher for record in own)
        check_tree(own, newest)
        nodes = [record for record in own if record.kind is RecordKind.TREE_NODE and record.publisher == newest]
        assert all(node.attributes[MADE_BY] for node in nodes)
        trees[document.display_name.removesuffix(".md")] = nodes
    return trees


async def check_trees(
    mesh: MeshHarness, tenant: TestTenant, client: CorpusMeshClient, base: str, *, model_written: set[str]
) -> None:
    trees = await trees_of(mesh, tenant, client, base)
    for name, nodes in trees.items():
        methods = {node.attributes[MADE_BY].partition(" ")[0] for node in nodes}
        assert (methods == {"llm"}) is (name in model_written), (name, methods)


MOODS: Mapping[str, Any] = {
    # What the model does where a word stands in the prompt; what its nodes say; calls that a document may cost.
    "leave": ("well", {""}),
    "travel": ("never", {"unreachable", "errors_spent"}),
    "payroll": (Refuse(500), {"unreachable", "errors_spent"}),
    "laptops": (Say("}{ ;; [[["), {"unusable", "errors_spent"}),
    "printers": (Say(""), {"unusable", "errors_spent"}),
    "visitors": (Say("I'm sorry, but I can't help with that request."), {"unusable", "errors_spent"}),
    "parking": (
        Say("本章介绍公司各委员会的职责、期限和费用，以及向办公室提出异议的方式。"),
        {"unusable", "errors_spent"},
    ),
    "training": ("numbers", {"unfaithful"}),
    "archive": ("names", {"unfaithful"}),
    "security": ("flood", {""}),
    "cleaning": ("third", {"", "unreachable", "errors_spent"}),
}
MAX_ERRORS = 3
CALLS_AT_ONCE = 4
HTTP_TRIES = 3


async def test_whatever_the_language_model_does_every_document_gets_its_whole_tree(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    moods = {word: mood for word, (mood, _) in MOODS.items()}
    with TreeStub([Say("")], moods=moods) as stub:
        environment = {
            **IMPATIENT,
            **talks_to(stub),
            "CORPUSMESH_RAPTOR__MODEL_CALLS_IN_FLIGHT": str(CALLS_AT_ONCE),
            # A model that is bad at one document is asked about the next one all the same.
            "CORPUSMESH_RAPTOR__MODEL_REST_SECONDS": "0",
        }
        async with mesh.client(tenant.owner_key) as client:
            await mesh.restart("raptor", environment)
            base = await file_base(client, max_errors=MAX_ERRORS)
            await ingest_texts(client, base, {f"{word}.md": handbook(word, chapters=CHAPTERS) for word in MOODS})
            trees = await trees_of(mesh, tenant, client, base)
            assert trees.keys() == MOODS.keys()
            for word, nodes in trees.items():
                _, reasons = MOODS[word]
                said = {node.attributes.get(FALLBACK, "") for node in nodes}
                assert said <= reasons, (word, said)
                for node in nodes:
                    assert len(node.text) < FLOOD_CHARACTERS / 50
                    assert (node.attributes[MADE_BY].partition(" ")[0] == "llm") is (FALLBACK not in node.attributes)
                # The connection tries a call again before it fails; some are under way when it is too much.
                bound = len(nodes) if reasons <= {"", "unfaithful"} else MAX_ERRORS + CALLS_AT_ONCE
                bound += sum(FALLBACK not in node.attributes for node in nodes)
                assert 0 < stub.calls[word] <= HTTP_TRIES * bound, (word, stub.calls)
            assert {node.attributes.get(FALLBACK, "") for node in trees["leave"]} == {""}
            assert not any(
                "98765" in node.text or "Quillfeather" in node.text for tree in trees.values() for node in tree
            )

            # The model is well again: what it has written is kept, and what it could not be heard for is asked again.
            stub.moods = {}
            before = len(stub.requests)
            runs, _ = await client.documents.reprocess_all(base)
            for run in runs:
                ended = await client.runs.wait(run)
                assert ended.state == run_pb.Run.STATE_SUCCEEDED
            prompts = [request.prompt for request in stub.requests[before:]]
            again = Counter(next((word for word in MOODS if word in prompt), "") for prompt in prompts)
            assert again["leave"] == again["security"] == 0, again
            trees = await trees_of(mesh, tenant, client, base)
            for word in ("travel", "payroll", "cleaning"):
                assert {node.attributes.get(FALLBACK, "") for node in trees[word]} == {""}, word
                assert again[word] <= len(trees[word]), (word, again)
            assert min(again["travel"], again["payroll"]) > 0


CHAPTERS = (
    "purpose", "duties", "deadlines", "costs", "exceptions", "contacts", "history", "tools", "forms", "rooms", "audits",
    "questions", "holidays", "keys",
)  # fmt: skip


@soak
async def test_budgets_of_calls_tokens_and_the_day_are_never_passed(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    with TreeStub([Say("")], moods={"": "slowly"}) as stub:
        async with mesh.client(tenant.owner_key) as client:
            patient = {**IMPATIENT, **talks_to(stub), "CORPUSMESH_RAPTOR__MODEL_CALL_TIMEOUT_SECONDS": "60"}
            await mesh.restart("raptor", patient)
            texts = {f"{subject}.md": handbook(subject) for subject in SUBJECTS[:9]}
            for word, bounds in (("panel", {"max_model_calls": 5}), ("council", {"max_model_tokens": 6_000})):
                base = await tree_base(client, summaries="llm", **bounds)
                # Texts of its own: what a model has said of the same ones is not asked for again.
                await ingest_texts(
                    client, base, {name: text.replace("committee", word) for name, text in texts.items()}
                )
                calls, tokens = len(stub.requests), stub.token_count
                await build(client, base)
                calls, tokens = len(stub.requests) - calls, stub.token_count - tokens
                assert 0 < calls <= bounds.get("max_model_calls", calls)
                assert 0 < tokens <= bounds.get("max_model_tokens", tokens)
                nodes = (await shown_nodes(mesh, tenant.tenant_id, client, base)).by_id.values()
                written = [node for node in nodes if node.attributes[MADE_BY].startswith("llm")]
                reasons = Counter(node.attributes.get(FALLBACK, "") for node in nodes)
                assert reasons.keys() == {"", "budget_spent"}, reasons
                assert len(written) == reasons[""] == calls, reasons
                bill = (await client.trees.get(f"{base}/trees/dataset")).bill
                assert (bill.model_call_count, bill.model_node_count) == (calls, calls)
                assert bill.input_token_count + bill.output_token_count == tokens
                assert bill.stepped_down_reason == "TREE_BUDGET_SPENT"

            # The day of a tenant: two builds at the same time, and documents beside them.
            other = await mesh.tenant()
            day = 12_000
            await mesh.restart("raptor", {**patient, "CORPUSMESH_RAPTOR__MAX_TENANT_TOKENS_PER_DAY": str(day)})
            tokens = stub.token_count
            async with mesh.client(other.owner_key) as second:
                bases = [await tree_base(second, summaries="llm") for _ in range(2)]
                bases.append(await file_base(second))
                for place, base in enumerate(bases):
                    own = {f"{name}": text.replace("committee", f"board{place}") for name, text in texts.items()}
                    if place < 2:
                        await ingest_texts(second, base, own)
                    else:
                        uploading = asyncio.create_task(ingest_texts(second, base, own))
                await asyncio.gather(*(build(second, base) for base in bases[:2]), uploading)
                assert 0 < stub.token_count - tokens <= day
                for base in bases[:2]:
                    tree = await second.trees.get(f"{base}/trees/dataset")
                    assert tree.state == tree_pb.Tree.STATE_READY
                    assert tree.bill.stepped_down_reason == "TENANT_BUDGET_SPENT"
                plan = await second.trees.plan(bases[0])
                assert 0 <= plan.tenant_tokens_left <= day
