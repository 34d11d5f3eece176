"""Conversations in a whole mesh, through the doors that people and programs use."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import openai
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.retrieve.v1 import conversation_service_pb2 as conversation_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base
from tests.support.stub_chat import Say, StubChat

TEXTS = {
    "harbour.txt": "The harbour of Velm closes at nine in the evening. Its keeper is called Orlinda Fesk.",
    "mill.txt": "The mill of Brant grinds rye alone. It was built in 1714 by Tobias Quell.",
}


async def ask(client: CorpusMeshClient, conversation: str, question: str) -> str:
    text = ""
    async for piece in client.answer([], question, conversation=conversation, model_free=True):
        text = piece.summary.text or text
    return text


async def messages_of(client: CorpusMeshClient, conversation: str) -> list[conversation_pb.Message]:
    return [message async for message in client.conversations.messages(conversation)]


@asynccontextmanager
async def mcp_client(mesh: MeshHarness, key: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
        Client(streamable_http_client(f"{mesh.http_url}/mcp", http_client=http)) as client,
    ):
        yield client


async def test_conversation_is_kept_and_keeps_back_what_may_not_be_seen_any_more(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    viewer_key = await mesh.member(tenant, "reader", policy_pb2.ROLE_VIEWER)
    async with mesh.client(tenant.owner_key) as owner, mesh.client(viewer_key) as reader:
        base = await knowledge_base(owner)
        await ingest_texts(owner, base.name, TEXTS)
        made = await reader.conversations.create(knowledge_bases=[base.name])
        assert "Orlinda Fesk" in await ask(reader, made.name, "Who is the keeper of the harbour of Velm?")
        assert "1714" in await ask(reader, made.name, "When was the mill of Brant built?")
        harbour_question, harbour, mill_question, mill = await messages_of(reader, made.name)
        assert "Orlinda" in harbour.text
        assert not harbour.partial
        assert harbour.citations[0].hit.place.display_name == "harbour.txt"
        assert (await reader.conversations.get(made.name)).title == harbour_question.text
        async with httpx.AsyncClient(
            base_url=mesh.http_url, headers={"Authorization": f"Bearer {viewer_key}"}, timeout=60
        ) as http:
            listed = (await http.get(f"/v1/{made.name}/messages")).json()
            assert [message["text"] for message in listed["messages"]] == [
                harbour_question.text,
                harbour.text,
                mill_question.text,
                mill.text,
            ]
        document = harbour.citations[0].hit.document
        only_others = document_pb.DocumentAccess(allowed_users=["users/somebody-else"])
        await owner.documents.update(document_pb.Document(name=document, access=only_others), paths=["access"])
        assert [message.withheld for message in await messages_of(reader, made.name)] == [False, True, False, False]
        run = await owner.documents.delete(mill.citations[0].hit.document)
        await owner.runs.wait(run)
        after = await messages_of(reader, made.name)
        assert after[3].text == ""
        assert after[3].erased
        await reader.conversations.delete(made.name)
        assert [conversation async for conversation in reader.conversations.list()] == []


async def test_chat_completions_and_tools_see_their_own_tenant_alone(mesh: MeshHarness) -> None:
    one, other = await mesh.tenant(), await mesh.tenant()
    async with mesh.client(one.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, TEXTS)
    question: list[Any] = [{"role": "user", "content": "Who is the keeper of the harbour of Velm?"}]
    async with (
        openai.AsyncOpenAI(base_url=f"{mesh.http_url}/v1", api_key=one.owner_key) as mine,
        openai.AsyncOpenAI(base_url=f"{mesh.http_url}/v1", api_key=other.owner_key) as theirs,
    ):
        answer = await mine.chat.completions.create(model=base.name, messages=question)
        assert "Orlinda Fesk" in (answer.choices[0].message.content or "")
        citation = answer.model_dump()["citations"][0]
        assert citation["file_name"] == "harbour.txt"
        async with httpx.AsyncClient(base_url=mesh.http_url) as http:
            opened = await http.get(citation["url"], headers={"Authorization": f"Bearer {one.owner_key}"})
            assert opened.text == TEXTS["harbour.txt"]
        assert base.name in [model.id async for model in await mine.models.list()]
        with pytest.raises(openai.NotFoundError):
            await theirs.chat.completions.create(model=base.name, messages=question)
        assert [model.id async for model in await theirs.models.list()] == ["corpusmesh"]
    async with mcp_client(mesh, one.owner_key) as mine_tools, mcp_client(mesh, other.owner_key) as their_tools:
        arguments = {"question": question[0]["content"], "knowledge_bases": [base.name]}
        result = await mine_tools.call_tool("ask", arguments)
        assert "Orlinda Fesk" in result.structured_content["text"]
        uri = result.structured_content["citations"][0]["uri"]
        opened_text = (await mine_tools.read_resource(uri)).contents[0].text
        assert "closes at nine" in opened_text
        found = await mine_tools.call_tool("search", {"query": "rye mill", "knowledge_bases": [base.name]})
        assert found.structured_content["hits"][0]["file_name"] == "mill.txt"
        for tool, values in (
            ("ask", arguments),
            ("search", {"query": "harbour", "knowledge_bases": [base.name]}),
            ("read_document", {"uri": uri}),
        ):
            refused = await their_tools.call_tool(tool, values)
            assert refused.is_error
            assert "Orlinda" not in json.dumps([block.model_dump(mode="json") for block in refused.content])
        listed = await their_tools.call_tool("list_knowledge_bases", {})
        assert listed.structured_content["knowledge_bases"] == []


async def test_reader_that_leaves_an_event_stream_ends_the_model_and_finds_what_was_said(mesh: MeshHarness) -> None:
    sentence = "The harbour of Velm closes at nine in the evening. "
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        base = await knowledge_base(client)
        await ingest_texts(client, base.name, TEXTS)
        conversation = await client.conversations.create(knowledge_bases=[base.name])
        with StubChat([Say(sentence * 200, piece_characters=len(sentence), pause_seconds=0.2)]) as stub:
            await mesh.restart("retrieve", {"CORPUSMESH_CHAT__URL": stub.base_url, "CORPUSMESH_CHAT__MODEL": "stub"})
            try:
                await client.search([base.name], "harbour")  # tried again until the gateway has found it
                headers = {"Authorization": f"Bearer {tenant.owner_key}", "Accept": "text/event-stream"}
                question = {
                    "question": "When does the harbour of Velm close?",
                    "conversation": conversation.name,
                    "requestId": "broken-stream",
                    "plan": {"preset": "PRESET_FAST"},
                }
                names: list[str] = []
                async with (
                    httpx.AsyncClient(base_url=mesh.http_url, headers=headers, timeout=60) as http,
                    http.stream("POST", "/v1/questions:answer", json=question) as response,
                ):
                    assert response.status_code == 200, await response.aread()
                    async for line in response.aiter_lines():
                        if line.startswith("event: "):
                            names.append(line.removeprefix("event: "))
                        if names.count("textDelta") == 2:
                            break
                assert "evidence" in names
                assert "summary" not in names
                assert await asyncio.to_thread(stub.left_early.wait, 20), "the model still talks to nobody"
                for _ in range(100):
                    kept = await messages_of(client, conversation.name)
                    if kept[1].text:
                        break
                    await asyncio.sleep(0.1)
                assert (kept[0].text, kept[1].partial) == (question["question"], True)
                assert kept[1].text.startswith("The harbour of Velm closes at nine in the evening")
            finally:
                await mesh.restart("retrieve")
        async for _ in client.answer([], str(question["question"]), conversation=conversation.name, model_free=True):
            pass
        assert [message.partial for message in await messages_of(client, conversation.name)] == [
            False,
            True,
            False,
            False,
        ]
