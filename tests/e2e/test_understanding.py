"""What a question is turned into before it is searched, on a whole mesh without a language model."""

from collections.abc import Sequence

import httpx
import pytest

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.errors import ConflictError, InvalidArgumentError, PermissionDeniedError
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts, knowledge_base
from tests.support.mesh_probes import until

TERM = "氪金"
TOGETHER = "游戏公司在公告中说明，未成年人氪金的上限为每月四百元。"
APART = (
    "氪是一种稀有气体，金是一种贵金属，二者的用途完全不同。",
    "实验室记录了氪的沸点，随后称量了金的质量。",
    "金的价格上涨，而氪气灯的产量下降。",
    "氪与氙常用于照明，金常用于首饰。",
    "他们先测量氪，再测量金。",
)
TOPICS = {
    "cooking": "Risotto is stirred slowly while the warm broth is added ladle by ladle.",
    "astronomy": "A pulsar is a rotating neutron star that emits beams of radiation.",
    "law": "A lease ends when the landlord gives notice in writing three months ahead.",
    "music": "A fugue begins with a subject that every voice repeats in turn.",
    "sailing": "A reef makes the sail smaller when the wind grows strong.",
    "biology": "Mitochondria make most of the energy that a cell needs.",
}
SCHEMA = {
    "metadata_schema": {
        "fields": [
            {"name": "effective", "type": "date"},
            {"name": "kind", "type": "enum", "values": ["Handbook", "Notice"]},
        ]
    },
    "enrichment": {"memory": {"method": "lite"}},
}
POLICY = """# Annual leave

Every employee receives thirty days of annual leave in each calendar year. Annual leave must be requested from the
line manager at least two weeks in advance. Unused annual leave expires on the last day of March of the next year.
"""


def stage(found: retrieval_pb.SearchChunksResponse, name: str) -> retrieval_pb.StageTiming:
    return next(report for report in found.explanation.stages if report.stage == name)


def understanding(*, metadata_filter: bool) -> retrieval_pb.RetrievalPlan:
    return retrieval_pb.RetrievalPlan(understanding=retrieval_pb.UnderstandingPlan(metadata_filter=metadata_filter))


@pytest.fixture(scope="module")
async def tenant(distributed_mesh: MeshHarness) -> TestTenant:
    return await distributed_mesh.tenant()


async def test_a_tenants_own_words_hold_for_documents_that_were_there_before(
    mesh: MeshHarness, tenant: TestTenant
) -> None:
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        laptop = "Notebook computers are handed out by the service desk on the first day."
        texts = {f"{place}.md": text for place, text in enumerate((*APART, TOGETHER, laptop))}
        await ingest_texts(client, base.name, texts)
        lexical = retrieval_pb.RetrievalPlan(mode=retrieval_pb.SEARCH_MODE_LEXICAL)
        assert not (await client.search([base.name], "laptop", plan=lexical)).hits
        before = await client.vocabulary.get()
        made = await client.vocabulary.update(
            terms=[TERM], synonyms=[["laptop", "notebook computer"]], etag=before.etag
        )
        assert list(made.terms) == [TERM]
        assert made.update_user == "users/owner"

        async def is_known() -> bool:
            return bool((await client.search([base.name], "laptop", plan=lexical)).hits)

        await until(is_known, "the new words hold")
        assert "Notebook" in (await client.search([base.name], "laptop", plan=lexical)).hits[0].text
        for query in (TERM, "公告对氪金有什么规定？", "「氪金」"):
            found = await client.search([base.name], query, explain=True)
            assert found.hits[0].text == TOGETHER, query
            assert stage(found, "synonyms").detail == "1 term, 0 synonyms"
        with pytest.raises(ConflictError):
            await client.vocabulary.update(terms=["other"], etag=before.etag)
        with pytest.raises(InvalidArgumentError):
            await client.vocabulary.update(synonyms=[["alone"]])
        cleared = await client.vocabulary.update(terms=[])
        assert not cleared.terms
        assert len(cleared.synonyms) == 1


async def test_a_viewer_reads_the_words_and_another_tenant_has_its_own(mesh: MeshHarness, tenant: TestTenant) -> None:
    viewer = await mesh.member(tenant, "reader", policy_pb2.ROLE_VIEWER)
    async with mesh.client(viewer) as client:
        assert (await client.vocabulary.get()).synonyms
        with pytest.raises(PermissionDeniedError):
            await client.vocabulary.update(terms=["mine"])
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=30) as http:
        read = await http.get("/v1/vocabulary", headers={"Authorization": f"Bearer {viewer}"})
        assert read.json()["synonyms"] == [{"words": ["laptop", "notebook computer"]}]
        body = {"vocabulary": {"terms": ["over HTTP"]}}
        for key, status in ((viewer, 403), (tenant.owner_key, 200)):
            written = await http.patch("/v1/vocabulary", json=body, headers={"Authorization": f"Bearer {key}"})
            assert written.status_code == status, written.text
    other = await mesh.tenant()
    async with mesh.client(other.owner_key) as client:
        assert not (await client.vocabulary.get()).synonyms


@pytest.fixture(scope="module")
async def policies(distributed_mesh: MeshHarness, tenant: TestTenant) -> str:
    """A handbook of 2024 and a notice of 2026 that say different things of one matter."""
    async with distributed_mesh.client(tenant.owner_key) as client:
        wanted = knowledge_base_pb.KnowledgeBase(display_name="policies", permission=knowledge_base_pb.PERMISSION_TEAM)
        wanted.MergeFrom(settings_from_plain(SCHEMA))
        base = await client.knowledge_bases.create(wanted)
        items = [
            UploadItem(name, text.encode(), metadata=metadata)
            for name, text, metadata in (
                ("old.md", POLICY.replace("thirty", "twenty"), {"kind": "Handbook", "effective": "2024-01-15"}),
                ("new.md", POLICY, {"kind": "Notice", "effective": "2026-02-01"}),
            )
        ]
        result = await client.upload(base.name, items)
        run = await client.runs.wait(result.run)
        assert not run.failed_count
    return base.name


async def search(client: CorpusMeshClient, base: str, query: str, plan: retrieval_pb.RetrievalPlan) -> Sequence[str]:
    found = await client.search([base], query, plan=plan)
    return [hit.document.rpartition("/")[2] for hit in found.hits]


async def test_conditions_of_a_question_narrow_the_search_and_are_shown(
    mesh: MeshHarness, tenant: TestTenant, policies: str
) -> None:
    plan = understanding(metadata_filter=True)
    async with mesh.client(tenant.owner_key) as client:
        found = await client.search([policies], "annual leave in policies effective after 2025", plan=plan)
        assert {hit.title or hit.place.display_name for hit in found.hits}
        assert {"thirty" in hit.text for hit in found.hits} == {True}
        [condition] = found.inferred_conditions
        assert (condition.key, list(condition.values)) == ("effective", ["2026-01-01"])
        again = retrieval_pb.RetrievalPlan(metadata_conditions=[condition])
        assert await search(client, policies, "annual leave", again) == await search(
            client, policies, "annual leave in policies effective after 2025", plan
        ), "what is shown can be sent as a condition of the caller"
        found = await client.search([policies], "annual leave in the Handbook documents", plan=plan)
        assert {"twenty" in hit.text for hit in found.hits} == {True}
        assert [condition.key for condition in found.inferred_conditions] == ["kind"]
        nothing = await client.search([policies], "policies effective before 1990", plan=plan, explain=True)
        assert nothing.hits
        assert not nothing.inferred_conditions
        assert stage(nothing, "metadata_filter").state == retrieval_pb.StageTiming.STATE_SKIPPED


async def test_every_stage_reports_itself_without_a_model(mesh: MeshHarness, tenant: TestTenant, policies: str) -> None:
    query = "How much annual leave is there and when does unused leave expire?"
    plan = retrieval_pb.RetrievalPlan(preset=retrieval_pb.PRESET_THOROUGH)
    async with mesh.client(tenant.owner_key) as client:
        found = await client.search([policies], query, plan=plan, explain=True)
    assert found.hits
    origins = {variant.origin for variant in found.explanation.variants}
    assert {"question", "part", "memory"} <= origins
    assert "language model" in stage(found, "hyde").detail
    assert not any(report.by_model for report in found.explanation.stages)


async def test_a_question_without_a_knowledge_base_goes_where_the_answer_is(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        nobody = await client.search([], "what is a pulsar", explain=True)
        assert not nobody.hits
        assert "no knowledge base" in stage(nobody, "route").detail
        bases = {}
        for topic, text in TOPICS.items():
            base = await knowledge_base(client, team=topic != "law")
            await ingest_texts(client, base.name, {f"{topic}.md": text})
            bases[topic] = base.name.rpartition("/")[2]
        found = await client.search([], "what is a pulsar", explain=True)
        assert found.hits[0].text == TOPICS["astronomy"]
        told = stage(found, "route").detail
        assert told.index(bases["astronomy"]) < min(
            [told.find(bases[topic]) for topic in TOPICS if topic != "astronomy" and bases[topic] in told] or [10_000]
        )
        page = await client.search([], "how does a lease end", page_size=1)
        assert page.hits[0].text == TOPICS["law"]
    viewer = await mesh.member(tenant, "reader", policy_pb2.ROLE_VIEWER)
    async with mesh.client(viewer) as client:
        found = await client.search([], "how does a lease end", explain=True)
        assert TOPICS["law"] not in {hit.text for hit in found.hits}
        assert bases["law"] not in stage(found, "route").detail, "a private knowledge base is not even named"
