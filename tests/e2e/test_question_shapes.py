"""Questions in every shape that people and programs give them: a right answer or a clear one, never a fault."""

import asyncio

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_core.errors import InvalidArgumentError
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts, knowledge_base

PRESETS = {"fast": pb.PRESET_FAST, "balanced": pb.PRESET_BALANCED, "thorough": pb.PRESET_THOROUGH}
DOCUMENTS = {
    "leave.md": "# Annual leave\n\nEvery employee has twenty-seven days of annual leave a year.",
    "travel.md": "# Travel\n\nThe company reimburses second-class railway tickets within thirty days.",
    "security.md": "# Passwords\n\nPasswords have at least fourteen characters and never expire.",
    "差旅.md": "# 差旅\n\n公司在三十天内报销二等座火车票。",
    "印章.md": "# 印章\n\n合同章由法务部保管，使用前须登记。",
}
ANSWERABLE = {
    "right words": ("How many days of annual leave does an employee have?", "leave.md"),
    "wrong words": ("How long may staff go on holiday each year?", "leave.md"),
    "wrong language": ("谁保管合同章？", "印章.md"),
    "other language": ("员工每年有多少天年假？", "leave.md"),
    "typos": ("anual leev of an employe, how meny days", "leave.md"),
    "shouted": ("PASSWORDS CHARACTERS?!", "security.md"),
    "long": ("railway tickets " + "company policy and other words " * 1000, "travel.md"),
}
ODD = {
    "one character": "a",
    "one ideograph": "章",
    "only stop words": "what is the of and to",
    "only punctuation": "?!… — ,.;",
    "query syntax": 'title:"x" AND (NOT *:* OR foo~2^9) [1 TO *] {a} \\ / + - && || !',
    "markup": "<script>alert(1)</script> ${jndi:ldap://x} %00 ' OR 1=1 --",
    "emoji": "🦡🚂",
    "controls": "leave\x00\x07\u202edays",
    "many words": "word " * 5000,
    "lone surrogate's neighbour": "leave \ufffd days",
}


@pytest.fixture(scope="module")
async def handbook(distributed_mesh: MeshHarness) -> tuple[TestTenant, str]:
    tenant = await distributed_mesh.tenant()
    async with distributed_mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, DOCUMENTS)
    return tenant, base.name


async def found_by(client: CorpusMeshClient, base: str, question: str, preset: str) -> list[str]:
    response = await client.search([base], question, plan=pb.RetrievalPlan(preset=PRESETS[preset]), page_size=5)
    assert not response.unreachable
    return [hit.place.display_name for hit in response.hits]


@pytest.mark.parametrize("preset", PRESETS)
async def test_question_finds_its_document_however_it_is_put(
    mesh: MeshHarness, handbook: tuple[TestTenant, str], preset: str
) -> None:
    tenant, base = handbook
    async with mesh.client(tenant.owner_key) as client:
        first = {
            shape: (await found_by(client, base, question, preset))[0] for shape, (question, _) in ANSWERABLE.items()
        }
    assert first == {shape: document for shape, (_, document) in ANSWERABLE.items()}


@pytest.mark.parametrize("preset", PRESETS)
async def test_odd_question_gets_hits_or_none_and_an_answer_that_says_so(
    mesh: MeshHarness, handbook: tuple[TestTenant, str], preset: str
) -> None:
    tenant, base = handbook
    plan = pb.RetrievalPlan(preset=PRESETS[preset])
    async with mesh.client(tenant.owner_key) as client:
        for shape, question in ODD.items():
            hits = await found_by(client, base, question, preset)
            assert set(hits) <= set(DOCUMENTS), shape
            pieces = [piece async for piece in client.answer([base], question, plan=plan)]
            assert pieces[-1].summary.text, shape


async def test_blank_and_endless_questions_are_refused_by_name(
    mesh: MeshHarness, handbook: tuple[TestTenant, str]
) -> None:
    tenant, base = handbook
    async with mesh.client(tenant.owner_key) as client:
        for question, reason in ((" \n\t", "QUERY_EMPTY"), ("x" * 40_001, "QUERY_TOO_LONG")):
            with pytest.raises(InvalidArgumentError) as raised:
                await client.search([base], question)
            assert raised.value.reason == reason


async def test_empty_knowledge_base_answers_that_it_has_nothing(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        for preset in PRESETS.values():
            plan = pb.RetrievalPlan(preset=preset)
            assert not (await client.search([base.name], "How many days of leave?", plan=plan)).hits
            pieces = [piece async for piece in client.answer([base.name], "How many days of leave?", plan=plan)]
            assert pieces[-1].summary.abstained
            assert pieces[-1].summary.text


async def test_knowledge_base_that_is_being_published_shows_whole_snapshots_alone(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client, asyncio.timeout(120):
        base = await knowledge_base(client)
        publishing = asyncio.create_task(
            ingest_texts(client, base.name, {f"{n}.md": f"Notice {n} about heron gates." for n in range(40)})
        )
        counts: set[int] = set()
        while not publishing.done():
            response = await client.search([base.name], "heron gates", page_size=100)
            counts.add(response.total_size)
        await publishing
        response = await client.search([base.name], "heron gates", page_size=100)
        assert response.total_size == 40
        published = {snapshot.version_count async for snapshot in client.knowledge_bases.list_snapshots(base.name)}
        assert counts <= {0, *published}
