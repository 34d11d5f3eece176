"""OpenAI's own client against the gateway: same key, same limits, same handler as every other door."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.tenancy import Role, Scope
from corpusmesh_gateway import GatewaySettings
from corpusmesh_gateway.config import HttpSettings, LimitSettings
from tests.support.gateway_mesh import SERVER, GatewayMesh, gateway_mesh

QUESTION: list[Any] = [{"role": "user", "content": "cited"}]


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[GatewayMesh]:
    async with gateway_mesh(GatewaySettings(server=SERVER, http=HttpSettings(stream_heartbeat_seconds=0.05))) as made:
        yield made


@pytest.fixture
def mesh(running: GatewayMesh) -> GatewayMesh:
    for seen in (running.seen.calls, running.seen.requests):
        seen.clear()
    running.seen.begun, running.seen.cancelled = asyncio.Event(), asyncio.Event()
    return running


@asynccontextmanager
async def client_of(mesh: GatewayMesh, key: str = "", **key_options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    key = key or mesh.key(Role.VIEWER, Scope.READ, **key_options)
    async with openai.AsyncOpenAI(base_url=f"{mesh.http_address}/v1", api_key=key, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
async def client(mesh: GatewayMesh) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(mesh) as made:
        yield made


async def test_completion_is_the_answer_with_what_it_cites(mesh: GatewayMesh, client: openai.AsyncOpenAI) -> None:
    made = await client.chat.completions.create(model="a", messages=QUESTION)
    (choice,) = made.choices
    assert choice.message.content == "The sky is blue [ID:7]. END of it"
    assert (choice.finish_reason, choice.message.role, made.object) == ("stop", "assistant", "chat.completion")
    body = made.model_dump()
    (citation,) = body["citations"]
    assert citation["marker"] == "[ID:7]"
    assert citation["url"] == "/v1/knowledgeBases/a/documents/d/versions/2:original#page=3"
    assert (citation["document"], citation["title"], citation["page"]) == ("knowledgeBases/a/documents/d", "Optics", 3)
    assert choice.message.annotations is not None
    place = choice.message.annotations[0].url_citation
    assert choice.message.content[place.start_index : place.end_index] == "[ID:7]"
    assert (place.title, place.url) == ("Optics", citation["url"])
    assert body["corpusmesh"]["method"] == "model"
    assert body["corpusmesh"]["notes"] == ["a note"]
    assert made.usage is not None
    # The question has 2 tokens, its evidence 9; the answer 9 by estimate.
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (11, 9, 20)
    assert mesh.seen.calls[-1][0] == "/corpusmesh.retrieve.v1.AnswerService/AnswerQuestion"
    assert list(mesh.seen.requests[-1].knowledge_bases) == ["knowledgeBases/a"]


async def test_stream_brings_the_same_piece_by_piece(client: openai.AsyncOpenAI) -> None:
    texts, last, usage = [], None, None
    stream = await client.chat.completions.create(
        model="knowledgeBases/a", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        if chunk.usage is not None:
            usage = chunk.usage
            assert not chunk.choices
            continue
        texts.append(chunk.choices[0].delta.content or "")
        if chunk.choices[0].finish_reason:
            last = chunk
    assert texts == ["", "The sky ", "is blue [ID:7]. END of it", ""]
    assert last is not None
    assert last.model_dump()["citations"][0]["page"] == 3
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].delta.model_dump()["annotations"][0]["url_citation"]["start_index"] == 16
    assert usage is not None
    assert usage.total_tokens == 20


async def test_messages_become_history_and_question(mesh: GatewayMesh, client: openai.AsyncOpenAI) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Never cite anything. Answer as a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "what is"}, {"type": "text", "text": "a sail?"}]},
        {"role": "assistant", "content": "A sheet of cloth [ID:3]."},
        {"role": "user", "content": "cited"},
    ]
    made = await client.chat.completions.create(model="corpusmesh", messages=messages, temperature=0.7)
    request = mesh.seen.requests[-1]
    assert not request.knowledge_bases
    assert request.question == "cited"
    speakers = retrieval_pb.Turn
    assert [(turn.speaker, turn.text) for turn in request.history] == [
        (speakers.SPEAKER_USER, "what is\na sail?"),
        (speakers.SPEAKER_ASSISTANT, "A sheet of cloth."),
    ]
    assert b"pirate" not in request.SerializeToString()
    notes = made.model_dump()["corpusmesh"]["notes"]
    assert any("system messages" in note for note in notes)
    assert "temperature has no effect" in notes


async def test_extension_sets_the_plan_and_continues_a_conversation(
    mesh: GatewayMesh, client: openai.AsyncOpenAI
) -> None:
    more = {
        "corpusmesh": {"plan": {"preset": "PRESET_FAST"}, "conversation": "conversations/c", "modelFree": True},
    }
    before: list[Any] = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    made = await client.chat.completions.create(model="a", messages=[*before, *QUESTION], extra_body=more)
    request = mesh.seen.requests[-1]
    assert (request.plan.preset, request.conversation, request.model_free) == (
        retrieval_pb.PRESET_FAST,
        "conversations/c",
        True,
    )
    assert not request.history
    assert made.model_dump()["corpusmesh"]["conversation"] == "conversations/c"
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(
            model="a", messages=QUESTION, extra_body={"corpusmesh": {"question": "another"}}
        )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        ({"stop": "END"}, "The sky is blue [ID:7]. ", "stop"),
        ({"stop": ["nothing", "sky"]}, "The ", "stop"),
        ({"max_tokens": 4}, "The sky is blue ", "length"),
        ({"max_completion_tokens": 2, "max_tokens": 3}, "The sky ", "length"),
        ({"max_tokens": 100}, "The sky is blue [ID:7]. END of it", "stop"),
    ],
)
async def test_stop_and_max_tokens_end_the_answer(
    client: openai.AsyncOpenAI, options: Any, text: str, reason: str, stream: bool
) -> None:
    if not stream:
        made = await client.chat.completions.create(model="a", messages=QUESTION, **options)
        assert (made.choices[0].message.content, made.choices[0].finish_reason) == (text, reason)
        return
    pieces, ended = [], ""
    async for chunk in await client.chat.completions.create(model="a", messages=QUESTION, stream=True, **options):
        pieces.append(chunk.choices[0].delta.content or "")
        ended = chunk.choices[0].finish_reason or ended
    assert ("".join(pieces), ended) == (text, reason)


@pytest.mark.parametrize(
    ("options", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_parameter"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
            "tools",
            "unsupported_parameter",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"temperature": 9}, "temperature", "parameter_invalid"),
        ({"max_tokens": 0}, "max_tokens", "parameter_invalid"),
        ({"stop": ["a"] * 5}, "stop", "parameter_invalid"),
        ({"extra_body": {"colour": "red"}}, "colour", "unknown_parameter"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "parameter_invalid"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0]", "unsupported_parameter"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a"}}]}]},
            "messages[0].content",
            "unsupported_parameter",
        ),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    mesh: GatewayMesh, client: openai.AsyncOpenAI, options: Any, param: str, code: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(**{"model": "a", "messages": QUESTION, **options})
    assert (refused.value.param, refused.value.code, refused.value.type) == (param, code, "invalid_request_error")
    assert not mesh.seen.calls


async def test_errors_are_those_that_the_client_knows(mesh: GatewayMesh, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="missing", messages=QUESTION)
    with pytest.raises(openai.NotFoundError) as impossible:
        await client.chat.completions.create(model="gpt-4o/../x", messages=QUESTION)
    assert missing.value.code == impossible.value.code == "model_not_found"
    with pytest.raises(openai.RateLimitError) as busy:
        await client.chat.completions.create(model="a", messages=[{"role": "user", "content": "busy"}])
    assert busy.value.response.headers["retry-after"] == "7"
    assert busy.value.response.headers["x-request-id"]
    with pytest.raises(openai.InternalServerError) as away:
        await client.chat.completions.create(model="a", messages=[{"role": "user", "content": "away"}], stream=True)
    assert (away.value.status_code, away.value.code) == (503, "index_unavailable")
    with pytest.raises(openai.APIError, match="the index does not answer"):
        async for _ in await client.chat.completions.create(
            model="a", messages=[{"role": "user", "content": "breaking"}], stream=True
        ):
            pass


async def test_key_and_rate_bind_as_on_every_door(mesh: GatewayMesh) -> None:
    async with client_of(mesh, f"cm_{'a' * 16}_{'A' * 43}") as stranger:
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.chat.completions.create(model="a", messages=QUESTION)
        assert refused.value.code == "invalid_api_key"
        for path in ("corpusmesh", "a"):
            with pytest.raises(openai.AuthenticationError):
                await stranger.models.retrieve(path)
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()
    async with httpx.AsyncClient(base_url=mesh.http_address) as bare:
        response = await bare.post("/v1/chat/completions", json={})
        assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert not mesh.seen.calls
    limits = LimitSettings(requests_per_second=0.001, request_burst=1)
    async with gateway_mesh(GatewaySettings(server=SERVER, limits=limits)) as narrow, client_of(narrow) as client:
        await client.chat.completions.create(model="a", messages=QUESTION)
        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(model="a", messages=QUESTION)
        assert limited.value.code == "rate_limit_exceeded"


async def test_models_are_the_callers_knowledge_bases_and_the_router(mesh: GatewayMesh) -> None:
    for tenant_id in ("acme", "other"):
        async with client_of(mesh, tenant_id=tenant_id, user_id=f"{tenant_id}-viewer") as client:
            listed = [model.id async for model in await client.models.list()]
            assert listed == ["corpusmesh", *(f"knowledgeBases/{tenant_id}-{number}" for number in range(3))]
            await client.chat.completions.create(model="a", messages=QUESTION)
            identity = mesh.seen.calls[-1][1].identity
            assert (identity.tenant_id, identity.user_id) == (tenant_id, f"{tenant_id}-viewer")
            assert (await client.models.retrieve("knowledgeBases/a")).id == "knowledgeBases/a"
            with pytest.raises(openai.NotFoundError):
                await client.models.retrieve("missing")


@pytest.mark.parametrize(
    "body",
    [
        rb'{"model": "a", "messages": [{"role": "user", "content": "half \ud800 of a pair"}]}',
        rb'{"model": "a", "messages": [{"role": "user", "content": "cited"}], "\uDFFF": 1}',
        rb'{"model": "a", "messages": [{"role": "assistant", "content": "\ud800"}, {"role": "user", "content": "q"}]}',
    ],
)
async def test_what_is_no_text_is_refused_and_no_fault(mesh: GatewayMesh, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {mesh.key(Role.VIEWER, Scope.READ)}"}
    async with httpx.AsyncClient(base_url=mesh.http_address, headers=headers) as http:
        refused = await http.post("/v1/chat/completions", content=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "json_invalid")
        turn = rb'{"role": "assistant", "content": "\ud83d\ude00"}'
        whole = rb'{"model": "a", "messages": [' + turn + rb', {"role": "user", "content": "cited"}]}'
        assert (await http.post("/v1/chat/completions", content=whole)).status_code == 200


async def test_caller_that_leaves_a_stream_or_a_completion_ends_its_answer_in_the_service(mesh: GatewayMesh) -> None:
    key = mesh.key(Role.VIEWER, Scope.READ)
    endless = {"model": "a", "messages": [{"role": "user", "content": "endless"}]}
    async with asyncio.timeout(20):
        async with httpx.AsyncClient(base_url=mesh.http_address, headers={"Authorization": f"Bearer {key}"}) as http:
            body = {**endless, "stream": True}
            async with http.stream("POST", "/v1/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith(":"):
                        break
            await mesh.seen.cancelled.wait()
        mesh.seen.begun, mesh.seen.cancelled = asyncio.Event(), asyncio.Event()
        content = json.dumps(endless).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", mesh.gateway.http_port)
        writer.write(head.encode() + content)
        await mesh.seen.begun.wait()
        writer.close()
        await mesh.seen.cancelled.wait()
