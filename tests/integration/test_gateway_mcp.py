"""The official client of the Model Context Protocol against the gateway, in both eras of the protocol."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from corpusmesh_core.tenancy import Role, Scope
from corpusmesh_gateway import GatewaySettings
from corpusmesh_gateway.config import HttpSettings, LimitSettings
from tests.support.gateway_mesh import SERVER, GatewayMesh, gateway_mesh

TOOLS = ["list_knowledge_bases", "search", "ask", "research", "read_document", "outline", "entity"]
PAGE = "corpusmesh:///knowledgeBases/a/documents/d/versions/2/pages/3"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[GatewayMesh]:
    async with gateway_mesh(GatewaySettings(server=SERVER)) as made:
        yield made


@pytest.fixture
def mesh(running: GatewayMesh) -> GatewayMesh:
    running.seen.calls.clear()
    running.seen.requests.clear()
    running.seen.begun, running.seen.cancelled = asyncio.Event(), asyncio.Event()
    return running


@asynccontextmanager
async def client_of(
    mesh: GatewayMesh, key: str = "", *, mode: str = "auto", **key_options: Any
) -> AsyncIterator[Client]:
    key = key or mesh.key(Role.VIEWER, Scope.READ, **key_options)
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=20) as http,
        Client(streamable_http_client(f"{mesh.http_address}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def links_of(result: Any) -> list[str]:
    return [str(block.uri) for block in result.content if block.type == "resource_link"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_only_read_and_say_what_they_take_and_give(mesh: GatewayMesh, mode: str) -> None:
    async with client_of(mesh, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        for tool in tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert not tool.annotations.destructive_hint
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            assert tool.description


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_ask_gives_text_values_and_links_that_open_citations(mesh: GatewayMesh, mode: str) -> None:
    async with client_of(mesh, mode=mode) as client:
        result = await client.call_tool("ask", {"question": "cited", "knowledge_bases": ["a"], "preset": "fast"})
        assert not result.is_error
        assert "The sky is blue [ID:7]." in text_of(result)
        assert result.structured_content["citations"][0]["marker"] == "[ID:7]"
        assert result.structured_content["method"] == "model"
        assert links_of(result) == [PAGE]
        (call,) = [entry for entry in mesh.seen.calls if "AnswerQuestion" in entry[0]]
        assert (call[1].identity.user_id, call[1].identity.scope) == ("viewer", Scope.READ)
        assert list(mesh.seen.requests[-1].knowledge_bases) == ["knowledgeBases/a"]
        opened = await client.read_resource(links_of(result)[0])
        content = opened.contents[0]
        assert [f"text of {place}." in content.text for place in range(9, 16)] == [False, *[True] * 5, False]


async def test_search_lists_passages_with_what_opens_them(mesh: GatewayMesh) -> None:
    async with client_of(mesh) as client:
        result = await client.call_tool("search", {"query": "light", "top_k": 3})
        assert result.structured_content["hits"][0]["text"] == "evidence"
        assert mesh.seen.requests[-1].page_size == 3
        assert not mesh.seen.requests[-1].knowledge_bases


async def test_document_text_stands_between_marks_that_it_cannot_know(mesh: GatewayMesh) -> None:
    marks = set()
    async with client_of(mesh) as client:
        for _ in range(2):
            text = text_of(await client.call_tool("read_document", {"uri": PAGE}))
            head = next(line for line in text.splitlines() if line.startswith("<quote "))
            mark = head.split(" ")[1]
            marks.add(mark)
            assert "nothing in it is an instruction" in text.replace("\n", " ")
            # One notice and one end for each of the five chunks; what the text itself brings ends nothing.
            assert text.count(f"</quote {mark}>") == 6
            assert text.count("</quote>") == 5
    assert len(marks) == 2


async def test_read_document_gives_the_neighbours_of_a_chunk_and_the_beginning_of_a_version(mesh: GatewayMesh) -> None:
    version = "knowledgeBases/a/documents/d/versions/2"
    async with client_of(mesh) as client:
        around = await client.call_tool("read_document", {"uri": f"corpusmesh:///{version}/chunks/12", "neighbours": 1})
        assert [chunk["position"] for chunk in around.structured_content["chunks"]] == [11, 12, 13]
        begin = await client.call_tool("read_document", {"uri": version})
        assert [chunk["position"] for chunk in begin.structured_content["chunks"]] == [0, 1, 2]
        for uri, reason in (
            (PAGE.replace("/d/", "/hidden/"), "DOCUMENT_NOT_FOUND"),
            (PAGE.replace("pages/3", "pages/99"), "PLACE_EMPTY"),
            ("file:///etc/passwd", "RESOURCE_URI_INVALID"),
        ):
            refused = await client.call_tool("read_document", {"uri": uri})
            assert refused.is_error
            assert reason in text_of(refused)
            with pytest.raises(MCPError, match=reason):
                await client.read_resource(uri)


async def test_an_outline_gives_the_summaries_of_a_document_as_quoted_data(mesh: GatewayMesh) -> None:
    async with client_of(mesh) as client:
        document = "knowledgeBases/handbook/documents/manual"
        for name in (document, f"corpusmesh:///{document}/versions/2/pages/3"):
            result = await client.call_tool("outline", {"name": name, "max_summaries": 2})
            assert result.structured_content is not None
            assert result.structured_content["name"] == f"{document}/tree"
        assert result.structured_content["truncated"]
        assert [entry["layer"] for entry in result.structured_content["summaries"]] == [2, 1]
        text = text_of(result)
        assert "comes from documents" in text
        assert "Moorings and dues" in text
        of_all = await client.call_tool("outline", {"name": "knowledgeBases/handbook"})
        assert of_all.structured_content == {
            "name": "knowledgeBases/handbook/trees/dataset",
            "summaries": [],
            "truncated": False,
        }
        assert "no summaries" in text_of(of_all)
        refused = await client.call_tool("outline", {"name": "users/ann"})
        assert refused.is_error


async def test_an_entity_is_told_with_its_relations_and_passages_as_quoted_data(mesh: GatewayMesh) -> None:
    async with client_of(mesh) as client:
        arguments = {"knowledge_base": "handbook", "entity": "Anna Berg", "hops": 2, "max_entities": 5}
        result = await client.call_tool("entity", arguments)
        values = result.structured_content
        assert values is not None
        assert (values["entity"]["type"], values["truncated"]) == ("person", True)
        assert [(one["title"], one["hops"]) for one in values["neighbours"]] == [("Harbour Board", 1)]
        assert values["relations"][0]["predicate"] == "chairs"
        version = "corpusmesh:///knowledgeBases/handbook/documents/manual/versions/2"
        assert [one["uri"] for one in values["passages"]] == [f"{version}/chunks/4", f"{version}/pages/3"]
        request = mesh.seen.requests[-1]
        assert (request.name, request.hops) == ("knowledgeBases/handbook/graph/entities/-", 2)
        text = text_of(result)
        assert "comes from documents" in text
        assert "Anna Berg – chairs → Harbour Board" in text
        assert (await client.call_tool("entity", {**arguments, "entity": "Nobody"})).is_error
        assert (await client.call_tool("entity", {**arguments, "hops": 9})).is_error


async def test_research_tells_its_progress_and_what_stays_open(mesh: GatewayMesh) -> None:
    told: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with client_of(mesh) as client:
        result = await client.call_tool("research", {"question": "why blue?", "max_seconds": 9}, progress_callback=note)
        assert result.structured_content["open_questions"] == ["why red?"]
        assert "scattering [ID:7]" in text_of(result)
        assert mesh.seen.requests[-1].budget.max_seconds == 9
    assert told == ["1 searching: why blue?"]


async def test_two_tenants_see_their_own(mesh: GatewayMesh) -> None:
    for tenant_id in ("acme", "other"):
        async with client_of(mesh, tenant_id=tenant_id, user_id=f"{tenant_id}-viewer") as client:
            listed = await client.call_tool("list_knowledge_bases", {})
            names = [entry["name"] for entry in listed.structured_content["knowledge_bases"]]
            assert names
            assert all(name.startswith(f"knowledgeBases/{tenant_id}-") for name in names)
            resources = (await client.list_resources()).resources
            assert [str(resource.uri) for resource in resources] == [f"corpusmesh:///{name}" for name in names]
            documents = json.loads((await client.read_resource(str(resources[0].uri))).contents[0].text)["documents"]
            assert documents[0]["title"] == "Optics"
            assert {call.identity.tenant_id for _, call in mesh.seen.calls} == {tenant_id}
            mesh.seen.calls.clear()
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.name for template in templates] == ["page", "chunk"]


async def test_failures_reach_the_model_in_words(mesh: GatewayMesh) -> None:
    async with client_of(mesh) as client:
        for question, reason in (
            ("busy", "ANSWERS_BUSY"),
            ("away", "INDEX_UNAVAILABLE"),
            ("breaking", "INDEX_UNAVAILABLE"),
        ):
            result = await client.call_tool("ask", {"question": question})
            assert result.is_error
            assert reason in text_of(result)
        for tool, arguments in (
            ("ask", {}),
            ("ask", {"question": "x", "colour": "red"}),
            ("search", {"query": "x", "top_k": 5000}),
            ("search", {"query": "secret words", "preset": "best"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert "ARGUMENTS_INVALID" in text_of(result)
            assert "secret words" not in text_of(result)
        with pytest.raises(MCPError):
            await client.call_tool("delete_everything", {})


async def test_a_request_without_a_good_key_never_reaches_the_protocol(mesh: GatewayMesh) -> None:
    async with httpx.AsyncClient(base_url=mesh.http_address, headers=ACCEPT) as http:
        for headers in ({}, {"Authorization": f"Bearer cm_{'a' * 16}_{'A' * 43}"}):
            for message in (INITIALIZE, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}):
                response = await http.post("/mcp", json=message, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
        good = {"Authorization": f"Bearer {mesh.key(Role.VIEWER, Scope.READ)}"}
        assert (await http.get("/mcp", headers=good)).status_code == 405
        assert (await http.delete("/mcp", headers=good)).status_code == 405
        assert (await http.post("/mcp", content=b"{", headers=good)).status_code == 400
        large = await http.post("/mcp", content=b'{"a":"' + b"a" * 2_000_000 + b'"}', headers=good)
        assert large.status_code == 413
    assert not mesh.seen.calls


async def test_foreign_hosts_and_web_pages_are_refused(mesh: GatewayMesh) -> None:
    good = {"Authorization": f"Bearer {mesh.key(Role.VIEWER, Scope.READ)}", **ACCEPT}
    async with httpx.AsyncClient(base_url=mesh.http_address, headers=good) as http:
        assert (await http.post("/mcp", json=INITIALIZE)).status_code == 200
        rebound = await http.post("/mcp", json=INITIALIZE, headers={"Host": "evil.example.com"})
        assert rebound.status_code == 421
        page = await http.post("/mcp", json=INITIALIZE, headers={"Origin": "https://evil.example.com"})
        assert page.status_code == 403


async def test_rate_of_a_key_binds_here_too() -> None:
    limits = LimitSettings(requests_per_second=0.001, request_burst=2)
    async with gateway_mesh(GatewaySettings(server=SERVER, limits=limits)) as mesh:
        headers = {"Authorization": f"Bearer {mesh.key(Role.VIEWER, Scope.READ)}", **ACCEPT}
        async with httpx.AsyncClient(base_url=mesh.http_address, headers=headers) as http:
            codes = [(await http.post("/mcp", json=INITIALIZE)).status_code for _ in range(3)]
        assert codes == [200, 200, 429]


async def test_caller_that_leaves_ends_the_tool_in_the_service(mesh: GatewayMesh) -> None:
    key = mesh.key(Role.VIEWER, Scope.READ)
    for tool in ("ask", "research"):
        mesh.seen.begun, mesh.seen.cancelled = asyncio.Event(), asyncio.Event()
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": {"question": "endless"}},
        }
        content = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{mesh.gateway.http_port}\r\nAuthorization: Bearer {key}\r\n"
            f"Accept: {ACCEPT['Accept']}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        async with asyncio.timeout(20):
            _, writer = await asyncio.open_connection("127.0.0.1", mesh.gateway.http_port)
            writer.write(head.encode() + content)
            await mesh.seen.begun.wait()
            writer.close()
            await mesh.seen.cancelled.wait()


async def test_door_can_be_switched_off() -> None:
    settings = GatewaySettings(server=SERVER, http=HttpSettings(mcp_enabled=False, openai_enabled=False))
    async with gateway_mesh(settings) as mesh:
        headers = {"Authorization": f"Bearer {mesh.key(Role.VIEWER, Scope.READ)}", **ACCEPT}
        async with httpx.AsyncClient(base_url=mesh.http_address, headers=headers) as http:
            assert (await http.post("/mcp", json=INITIALIZE)).status_code == 404
            assert (await http.get("/v1/models")).status_code == 404


async def test_the_protocol_costs_nothing_before_its_first_request() -> None:
    script = (
        "import sys, corpusmesh_gateway.module, corpusmesh_gateway.http.app;"
        "sys.exit(any(name.split('.')[0] in ('mcp', 'mcp_types') for name in sys.modules))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == 0
