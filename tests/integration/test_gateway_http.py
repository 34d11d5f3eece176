"""HTTP/JSON over real connections."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from corpusmesh_core.errors import FailedPreconditionError
from corpusmesh_core.tenancy import Role, Scope
from corpusmesh_gateway import Gateway, GatewaySettings
from corpusmesh_gateway.config import HttpSettings, LimitSettings
from tests.support.gateway_mesh import SERVER, GatewayMesh, gateway_mesh


@pytest.fixture
async def mesh() -> AsyncIterator[GatewayMesh]:
    async with gateway_mesh() as running:
        yield running


@pytest.fixture
async def http(mesh: GatewayMesh) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(mesh) as client:
        yield client


def client_of(mesh: GatewayMesh, role: Role = Role.EDITOR, scope: Scope = Scope.WRITE) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {mesh.key(role, scope)}"}
    return httpx.AsyncClient(base_url=mesh.http_address, headers=headers, timeout=20)


def reason_of(response: httpx.Response) -> str:
    details = response.json()["details"]
    return str(next(item["reason"] for item in details if item["@type"].endswith("ErrorInfo")))


async def test_resource_is_read_as_json_with_64_bit_numbers_as_strings(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/knowledgeBases/a")
    assert response.status_code == 200
    content = response.json()
    assert content["displayName"] == "知识库"
    assert content["documentCount"] == str(2**53 + 1)
    assert content["description"] == ""
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in response.headers
    assert "server" not in response.headers


async def test_request_id_and_deadline_reach_the_service(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    headers = {"X-Request-Id": "request-123", "X-Timeout-Seconds": "33"}
    response = await http.get("/v1/knowledgeBases/a", headers=headers)
    _, call = mesh.seen.calls[-1]
    assert response.headers["x-request-id"] == call.request_id == "request-123"
    assert 20 < call.remaining_seconds() < 34  # gRPC rounds it up on the wire


async def test_query_parameters_become_fields(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/knowledgeBases/a/documents?pageSize=7&page_token=x%2Fy")
    assert response.status_code == 200
    request = mesh.seen.requests[-1]
    assert (request.parent, request.page_size, request.page_token) == ("knowledgeBases/a", 7, "x/y")


async def test_body_and_path_become_one_request(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    content = {
        "document": {"name": "knowledgeBases/other/documents/other", "title": "新", "metadata": {"k": "v"}},
        "updateMask": "title,metadata",
    }
    response = await http.patch("/v1/knowledgeBases/a/documents/d", json=content)
    assert response.status_code == 200
    request = mesh.seen.requests[-1]
    # The path wins over the body, so that what was authorised is what is done.
    assert request.document.name == "knowledgeBases/a/documents/d"
    assert list(request.update_mask.paths) == ["title", "metadata"]
    assert response.json()["metadata"] == {"k": "v"}


async def test_verb_is_not_taken_for_a_resource(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    assert (await http.post("/v1/knowledgeBases/a/runs/r:cancel", json={})).status_code == 200
    assert mesh.seen.calls[-1][0].endswith("/CancelRun")
    assert (await http.post("/v1/knowledgeBases/a/runs/r:unknown", json={})).status_code == 404


@pytest.mark.parametrize(
    ("verb", "path", "method", "name"),
    [
        ("GET", "knowledgeBases/a/trees/dataset", "GetTree", ""),
        ("GET", "knowledgeBases/a/documents/d/tree", "GetTree", ""),
        ("GET", "knowledgeBases/a/trees/dataset/nodes", "ListTreeNodes", "knowledgeBases/a/trees/dataset"),
        ("GET", "knowledgeBases/a/documents/d/tree/nodes", "ListTreeNodes", "knowledgeBases/a/documents/d/tree"),
        ("GET", "knowledgeBases/a/trees/dataset/nodes/7-tree_node-0f", "GetTreeNode", ""),
        ("GET", "knowledgeBases/a/documents/d/tree/nodes/7-tree_node-0f", "GetTreeNode", ""),
        ("DELETE", "knowledgeBases/a/trees/dataset", "DeleteTree", ""),
        ("POST", "knowledgeBases/a/trees/dataset:cancel", "CancelTreeBuild", "knowledgeBases/a/trees/dataset"),
        ("POST", "knowledgeBases/a/trees:plan", "PlanTree", "knowledgeBases/a"),
        ("POST", "knowledgeBases/a/trees:build", "BuildTree", "knowledgeBases/a"),
    ],
)
async def test_trees_have_the_paths_of_the_contract(
    mesh: GatewayMesh, http: httpx.AsyncClient, verb: str, path: str, method: str, name: str
) -> None:
    body = {"json": {}} if verb == "POST" else {}
    assert (await http.request(verb, f"/v1/{path}", **body)).status_code == 200
    assert mesh.seen.calls[-1][0] == f"/corpusmesh.raptor.v1.TreeService/{method}"
    request = mesh.seen.requests[-1]
    assert (request.parent if hasattr(request, "parent") else request.name) == (name or path)


GRAPH = "knowledgeBases/a/graph"
ANY_KEY = "0" * 16


@pytest.mark.parametrize(
    ("verb", "path", "method"),
    [
        ("GET", GRAPH, "GetGraph"),
        ("POST", f"{GRAPH}:plan", "PlanGraph"),
        ("POST", f"{GRAPH}:build", "BuildGraph"),
        ("POST", f"{GRAPH}:cancel", "CancelGraphBuild"),
        ("DELETE", GRAPH, "DeleteGraph"),
        ("GET", f"{GRAPH}/entities", "ListEntities"),
        ("GET", f"{GRAPH}/entities/{ANY_KEY}:neighbourhood", "GetNeighbourhood"),
        ("GET", f"{GRAPH}/relations", "ListRelations"),
        ("GET", f"{GRAPH}/relations/{ANY_KEY}-{ANY_KEY}", "GetRelation"),
        ("GET", f"{GRAPH}/communities", "ListCommunities"),
        ("GET", f"{GRAPH}/communities/{ANY_KEY}", "GetCommunity"),
        ("GET", f"{GRAPH}/resolvedPairs", "ListResolvedPairs"),
        ("POST", f"{GRAPH}/corrections", "CreateCorrection"),
        ("GET", f"{GRAPH}/corrections", "ListCorrections"),
        ("DELETE", f"{GRAPH}/corrections/c1", "DeleteCorrection"),
        ("PUT", "knowledgeBases/a/documents/d/triples", "PutTriples"),
        ("GET", "knowledgeBases/a/documents/d/triples", "GetTriples"),
        ("DELETE", "knowledgeBases/a/documents/d/triples", "DeleteTriples"),
        ("GET", f"{GRAPH}:verifyErasure", "VerifyErasure"),
    ],
)
async def test_graphs_have_the_paths_of_the_contract(
    mesh: GatewayMesh, http: httpx.AsyncClient, verb: str, path: str, method: str
) -> None:
    body = {"json": {}} if verb in ("POST", "PUT") else {}
    assert (await http.request(verb, f"/v1/{path}", **body)).status_code == 200
    assert mesh.seen.calls[-1][0].rpartition("/")[2] == method
    request = mesh.seen.requests[-1]
    named = request.parent if hasattr(request, "parent") else request.name
    assert path in (named, f"{named}:{path.rpartition(':')[2]}", f"{named}/{path.rpartition('/')[2]}")


async def test_a_graph_is_exported_as_a_stream_of_parts(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    response = await http.get(f"/v1/{GRAPH}:export", params={"withoutDescriptions": "true"})
    assert response.status_code == 200
    assert "Anna Berg" in response.text
    assert mesh.seen.requests[-1].without_descriptions


async def test_viewers_read_graphs_and_do_not_change_them(mesh: GatewayMesh) -> None:
    async with client_of(mesh, Role.VIEWER, Scope.READ) as viewer:
        for path in (GRAPH, f"{GRAPH}/entities", f"{GRAPH}/resolvedPairs", "knowledgeBases/a/documents/d/triples"):
            assert (await viewer.get(f"/v1/{path}")).status_code == 200
        for path in (f"{GRAPH}:build", f"{GRAPH}:plan", f"{GRAPH}/corrections"):
            assert (await viewer.post(f"/v1/{path}", json={})).status_code == 403
        assert (await viewer.put("/v1/knowledgeBases/a/documents/d/triples", json={})).status_code == 403
        for path in (f"{GRAPH}/corrections", f"{GRAPH}:verifyErasure"):
            assert (await viewer.get(f"/v1/{path}")).status_code == 403


async def test_viewers_read_trees_and_do_not_build_them(mesh: GatewayMesh) -> None:
    async with client_of(mesh, Role.VIEWER, Scope.READ) as viewer:
        assert (await viewer.get("/v1/knowledgeBases/a/trees/dataset")).status_code == 200
        for verb in ("plan", "build"):
            assert (await viewer.post(f"/v1/knowledgeBases/a/trees:{verb}", json={})).status_code == 403
        assert (await viewer.delete("/v1/knowledgeBases/a/trees/dataset")).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/v1/knowledgeBases/a%2Fdocuments%2Fb",
        "/v1/knowledgeBases/%00",
        "/v1/knowledgeBases/a/",
        "/v1/knowledgeBases",
        "/v2/knowledgeBases/a",
        "/v1/../v1/knowledgeBases/a%2f",
        "/v1/vectors",
    ],
)
async def test_path_that_is_no_resource_reaches_no_service(
    mesh: GatewayMesh, http: httpx.AsyncClient, path: str
) -> None:
    response = await http.delete(path)
    assert response.status_code in (404, 405)
    assert response.json()["code"] == 5
    assert not mesh.seen.calls


async def test_other_http_method_is_told_which_are_taken(http: httpx.AsyncClient) -> None:
    response = await http.put("/v1/knowledgeBases/a")
    assert response.status_code == 405
    assert response.headers["allow"] == "DELETE, GET, PATCH"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "JSON_INVALID"),
        (b"[]", "JSON_INVALID"),
        (b'{"nope":1}', "JSON_INVALID"),
        (b'{"query":"a","query":"b"}', "JSON_INVALID"),
        (b'{"pageSize":"x"}', "JSON_INVALID"),
        (b'{"plan":{"vectorWeight":NaN}}', "JSON_INVALID"),
        (b'{"pageSize":99999999999}', "JSON_INVALID"),
        (b"[" * 100_000, "JSON_INVALID"),
        (b'{"plan":' * 5000, "JSON_INVALID"),
        (b'{"query":"\xff"}', "JSON_INVALID"),
        (b'{"pageSize":' + b"9" * 10_000 + b"}", "JSON_INVALID"),
    ],
)
async def test_body_that_does_not_fit_is_refused_with_a_reason(
    mesh: GatewayMesh, http: httpx.AsyncClient, body: bytes, reason: str
) -> None:
    response = await http.post("/v1/chunks:search", content=body)
    assert (response.status_code, reason_of(response)) == (400, reason)
    assert not mesh.seen.calls


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("GET", "/v1/knowledgeBases?nope=1", "FIELD_UNKNOWN"),
        ("GET", "/v1/knowledgeBases?pageSize=1&pageSize=2", "FIELD_TWICE"),
        ("GET", "/v1/knowledgeBases?pageSize=x", "JSON_INVALID"),
        ("GET", "/v1/knowledgeBases?pageSize.x=1", "FIELD_UNKNOWN"),
        ("POST", "/v1/chunks:search?query=a", "QUERY_UNEXPECTED"),
    ],
)
async def test_query_that_does_not_fit_is_refused_with_a_reason(
    http: httpx.AsyncClient, method: str, path: str, reason: str
) -> None:
    response = await http.request(method, path)
    assert (response.status_code, reason_of(response)) == (400, reason)


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("missing", 404, "KNOWLEDGE_BASE_NOT_FOUND"),
        ("busy", 429, "QUEUE_FULL"),
        ("away", 503, "INDEX_UNAVAILABLE"),
        ("fault", 500, "INTERNAL"),
    ],
)
async def test_errors_keep_their_details_and_get_the_fitting_code(
    http: httpx.AsyncClient, name: str, code: int, reason: str
) -> None:
    response = await http.get(f"/v1/knowledgeBases/{name}")
    assert (response.status_code, reason_of(response)) == (code, reason)
    assert response.headers.get("retry-after") == {"busy": "7", "away": "1"}.get(name)
    assert "secret" not in response.text


async def test_call_without_or_with_a_wrong_key_is_401(mesh: GatewayMesh) -> None:
    async with httpx.AsyncClient(base_url=mesh.http_address) as client:
        for headers in ({}, {"Authorization": f"Bearer cm_{'a' * 16}_{'A' * 43}"}, {"Authorization": "Basic YTpi"}):
            response = await client.get("/v1/caller", headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")


async def test_role_and_scope_bind_http_as_they_bind_grpc(mesh: GatewayMesh) -> None:
    async with client_of(mesh, Role.VIEWER, Scope.PLATFORM) as viewer:
        response = await viewer.delete("/v1/knowledgeBases/a")
        assert (response.status_code, reason_of(response)) == (403, "ROLE_TOO_LOW")
    async with client_of(mesh, Role.OWNER, Scope.READ) as reader:
        response = await reader.delete("/v1/knowledgeBases/a")
        assert (response.status_code, reason_of(response)) == (403, "SCOPE_TOO_LOW")
    assert not mesh.seen.calls


async def test_stream_is_json_lines_by_default_and_events_where_asked_for(http: httpx.AsyncClient) -> None:
    lines = await http.get("/v1/knowledgeBases/a/runs/r:watch")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["sequence"] for line in lines.text.splitlines()] == ["1", "2", "3"]
    events = await http.post("/v1/questions:answer", json={"question": "一"}, headers={"Accept": "text/event-stream"})
    assert events.headers["content-type"].startswith("text/event-stream")
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in events.text.strip().split("\n\n")]
    assert [(block["id"], block["event"]) for block in blocks] == [("1", "textDelta"), ("2", "summary")]
    assert json.loads(blocks[0]["data"])["textDelta"] == "about 一\n\nsecond line"
    assert json.loads(blocks[1]["data"])["summary"]["text"] == "done"
    researched = await http.post(
        "/v1/questions:research", json={"question": "why?"}, headers={"Accept": "text/event-stream"}
    )
    assert [line for line in researched.text.splitlines() if line.startswith("event")] == [
        "event: progress",
        "event: summary",
    ]
    told = (await http.get("/v1/knowledgeBases/a/trees/dataset:watch")).text.splitlines()
    assert [json.loads(line)["tree"]["state"] for line in told] == ["STATE_BUILDING", "STATE_READY"]
    watched = await http.get("/v1/knowledgeBases/a/runs/r:watch", headers={"Accept": "text/event-stream"})
    assert [line for line in watched.text.splitlines() if not line.startswith("data")] == [
        "id: 1",
        "",
        "id: 2",
        "",
        "id: 3",
        "",
    ]


async def test_stream_that_fails_midway_ends_with_the_error(http: httpx.AsyncClient) -> None:
    lines = (await http.get("/v1/knowledgeBases/a/runs/breaking:watch")).text.splitlines()
    assert json.loads(lines[3])["error"]["code"] == 14
    events = await http.get("/v1/knowledgeBases/a/runs/breaking:watch", headers={"Accept": "text/event-stream"})
    assert "event: error\ndata: {" in events.text


async def test_idle_event_stream_gets_heartbeats_and_ends_in_the_service_when_the_reader_leaves() -> None:
    settings = GatewaySettings(server=SERVER, http=HttpSettings(stream_heartbeat_seconds=0.05))
    async with gateway_mesh(settings) as mesh, client_of(mesh) as http, asyncio.timeout(20):
        path = "/v1/knowledgeBases/a/runs/endless:watch"
        async with http.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
            beats = 0
            async for line in response.aiter_lines():
                beats += line.startswith(":")
                if beats == 3:
                    break
        await mesh.seen.cancelled.wait()


async def test_caller_that_leaves_ends_its_unary_call_in_the_service(mesh: GatewayMesh) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.gateway.http_port)
    head = f"GET /v1/knowledgeBases/slow HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {mesh.key()}\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(20):
        await mesh.seen.begun.wait()
        writer.close()
        await mesh.seen.cancelled.wait()
    assert await reader.read() == b""


async def test_original_is_an_attachment_whatever_its_type_and_name(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/knowledgeBases/a/documents/d/versions/1:original")
    assert response.content == b"<script>alert(1)"
    assert response.headers["content-disposition"] == (
        "attachment; filename=\"..___ _x_.html\"; filename*=UTF-8''..%2F%E6%8A%A5%E5%91%8A%20%22x%22.html"
    )
    assert response.headers["content-type"] == "text/html"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in response.headers["content-security-policy"]


async def test_form_with_many_files_becomes_one_upload(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    big = bytes(range(256)) * 8192
    response = await http.post(
        "/v1/knowledgeBases/a/documents:upload",
        files=[
            ("requestId", (None, "r1")),
            ("hold_publish", (None, "true")),
            ("title", (None, "标题")),
            ("metadata", (None, '{"year":"2026"}')),
            ("file", ("报告.pdf", big)),
            ("file", ("../../etc/passwd", b"second")),
            ("file", ("empty.txt", b"")),
        ],
    )
    assert response.status_code == 200, response.text
    assert response.json()["run"] == "knowledgeBases/a/runs/1"
    settings, documents = mesh.seen.uploads[0]
    assert (settings.parent, settings.request_id, settings.hold_publish) == ("knowledgeBases/a", "r1", True)
    (first, size, digest), (second, *_), (third, empty_size, _) = documents
    assert (first.display_name, first.title, dict(first.metadata)) == ("报告.pdf", "标题", {"year": "2026"})
    assert (size, digest) == (len(big), hashlib.sha256(big).hexdigest())
    # Its fields are those of the first file alone; its name is data and arrives as it was.
    assert (second.display_name, second.title) == ("../../etc/passwd", "")
    assert (third.display_name, empty_size) == ("empty.txt", 0)


async def test_raw_body_becomes_one_document(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield bytes(100_000)

    response = await http.post(
        "/v1/knowledgeBases/a/documents:upload",
        params={"displayName": "a.bin", "interactive": "true", "sha256": "ab"},
        content=pieces(),
    )
    assert response.status_code == 200, response.text
    settings, [(header, size, _)] = mesh.seen.uploads[0]
    assert (settings.interactive, header.display_name, header.sha256, size) == (True, "a.bin", "ab", 3_000_000)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([("title", (None, "x"))], "FILE_MISSING"),
        ([("nope", (None, "x")), ("file", ("a", b"x"))], "FIELD_UNKNOWN"),
        ([("file", ("a", b"x")), ("title", (None, "x"))], "FIELD_AFTER_FILE"),
        ([("file", ("a", b"x")), ("requestId", (None, "x"))], "FIELD_AFTER_FILE"),
        ([("interactive", (None, "maybe")), ("file", ("a", b"x"))], "VALUE_INVALID"),
        ([("title", (None, "x" * 70_000)), ("file", ("a", b"x"))], "FIELD_TOO_LARGE"),
        ([("metadata", (None, "[")), ("file", ("a", b"x"))], "JSON_INVALID"),
        ([("parent", (None, "knowledgeBases/b")), ("file", ("a", b"x"))], "FIELD_UNKNOWN"),
    ],
)
async def test_form_that_does_not_fit_is_refused(
    mesh: GatewayMesh, http: httpx.AsyncClient, parts: Any, reason: str
) -> None:
    response = await http.post("/v1/knowledgeBases/a/documents:upload", files=parts)
    assert (response.status_code, reason_of(response)) == (400, reason)
    assert not mesh.seen.uploads


async def test_broken_form_and_missing_name_are_refused(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    path = "/v1/knowledgeBases/a/documents:upload"
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=x"):
        response = await http.post(path, content=b"--y\r\nhello", headers={"Content-Type": content_type})
        assert (response.status_code, reason_of(response)) == (400, "FORM_INVALID")
    cut = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'
    response = await http.post(path, content=cut, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert (response.status_code, reason_of(response)) == (400, "FORM_INVALID")
    response = await http.post(path, content=b"x")
    assert (response.status_code, reason_of(response)) == (400, "DISPLAY_NAME_MISSING")
    assert not mesh.seen.uploads


async def test_upload_beyond_the_limit_is_413_announced_or_not() -> None:
    settings = GatewaySettings(server=SERVER, limits=LimitSettings(max_upload_stream_bytes=1024 * 1024))
    async with gateway_mesh(settings) as mesh, client_of(mesh) as http:
        path = "/v1/knowledgeBases/a/documents:upload?displayName=a"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {http.headers['authorization']}\r\n"
            "Content-Length: 99999999\r\n\r\n"
        )
        assert (await raw_answer(mesh, head.encode())).startswith(b"HTTP/1.1 413")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield bytes(64 * 1024)
                await asyncio.sleep(0)

        response = await http.post(path, content=pieces())
        assert (response.status_code, reason_of(response)) == (413, "BODY_TOO_LARGE")
        assert not mesh.seen.uploads
        assert "retry-after" not in response.headers


async def test_upload_refused_by_the_service_is_its_error(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/knowledgeBases/refused/documents:upload", files={"file": ("a", bytes(3_000_000))})
    assert response.status_code == 404


async def test_json_body_beyond_the_limit_is_413(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    body = b'{"query":"' + b"a" * (1024 * 1024) + b'"}'
    response = await http.post("/v1/chunks:search", content=body)
    assert (response.status_code, reason_of(response)) == (413, "BODY_TOO_LARGE")


async def raw_answer(mesh: GatewayMesh, head: bytes) -> bytes:
    """Send bytes, keep the connection open, and read what comes until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.gateway.http_port)
    writer.write(head)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


async def test_slow_headers_and_slow_bodies_are_ended() -> None:
    settings = GatewaySettings(
        server=SERVER, http=HttpSettings(header_timeout_seconds=0.3, body_timeout_seconds=0.3, keep_alive_seconds=1)
    )
    async with gateway_mesh(settings) as mesh:
        credential = f"Host: a\r\nAuthorization: Bearer {mesh.key()}\r\n"
        assert await raw_answer(mesh, b"") == b""
        assert await raw_answer(mesh, b"GET /v1/caller HTTP/1.1\r\nHost") == b""
        for path in ("/v1/chunks:search", "/v1/knowledgeBases/a/documents:upload?displayName=a"):
            head = f"POST {path} HTTP/1.1\r\n{credential}Connection: close\r\nContent-Length: 100\r\n\r\nx"
            answer = await raw_answer(mesh, head.encode())
            assert answer.startswith(b"HTTP/1.1 504")
            assert b"BODY_TOO_SLOW" in answer
        # A request after another on one connection is bound as the first one is.
        first = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /livez HTTP/1.1\r\nHo"
        assert (await raw_answer(mesh, first.encode())).startswith(b"HTTP/1.1 200")


async def test_headers_beyond_the_limit_are_refused(mesh: GatewayMesh) -> None:
    answer = await raw_answer(mesh, b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Big: " + b"a" * 100_000)
    assert not answer.startswith(b"HTTP/1.1 200")


async def test_probes_say_nothing_but_yes_or_no(mesh: GatewayMesh) -> None:
    async with httpx.AsyncClient(base_url=mesh.http_address) as client:
        assert (await client.get("/livez")).text == "ok\n"
        assert (await client.get("/readyz")).text == "ok\n"
        mesh.members.away = True
        await asyncio.sleep(1.1)
        response = await client.get("/readyz")
        assert (response.status_code, response.text) == (503, "not ready\n")
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/metrics")).status_code == 404


async def test_description_is_valid_openapi_and_names_every_member_method(mesh: GatewayMesh) -> None:
    async with httpx.AsyncClient(base_url=mesh.http_address) as client:
        spec = (await client.get("/openapi.json")).json()
    assert spec["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(spec).iter_errors()) == []
    operations = {operation["operationId"]: operation for item in spec["paths"].values() for operation in item.values()}
    from tests.integration.test_gateway_access import MEMBER_METHODS

    # A method with a second path is a second operation.
    assert sum(map(len, spec["paths"].values())) == len(operations)
    named = {identifier.removesuffix("_2") for identifier in operations}
    assert named == {"_".join(name.rsplit(".", 1)[1].split("/")) for name in MEMBER_METHODS}
    assert operations["TreeService_GetTree_2"]["tags"] == ["TreeService"]
    assert all(operation["summary"] for operation in operations.values())
    document = spec["components"]["schemas"]["corpusmesh.ingest.v1.Document"]
    assert document["properties"]["displayName"]["description"] == "File name."
    assert document["properties"]["latestVersion"]["readOnly"]
    path = spec["paths"]["/v1/knowledgeBases/{knowledgeBase}/documents/{document}/versions/{version}:original"]
    assert [parameter["name"] for parameter in path["get"]["parameters"]] == ["knowledgeBase", "document", "version"]


async def test_docs_page_needs_nothing_from_outside_and_runs_no_script(mesh: GatewayMesh) -> None:
    async with httpx.AsyncClient(base_url=mesh.http_address) as client:
        response = await client.get("/docs")
    assert response.status_code == 200
    assert "http://" not in response.text
    assert "https://" not in response.text
    assert "<script" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.text.count("<details") == response.text.count("curl -sS -X") >= 30


async def test_docs_can_be_switched_off() -> None:
    settings = GatewaySettings(server=SERVER, http=HttpSettings(docs_enabled=False))
    async with gateway_mesh(settings) as mesh, httpx.AsyncClient(base_url=mesh.http_address) as client:
        assert (await client.get("/docs")).status_code == 404
        assert (await client.get("/openapi.json")).status_code == 404


async def test_gateway_whose_http_port_is_taken_does_not_start_and_leaves_no_port_open(mesh: GatewayMesh) -> None:
    settings = GatewaySettings(server=SERVER, http=HttpSettings(listen_port=mesh.gateway.http_port))
    second = Gateway(
        settings, stores=mesh.stores, signer=mesh.signer, addresses=mesh.addresses, random_bytes=secrets.token_bytes
    )
    with pytest.raises(FailedPreconditionError) as caught:
        await second.start()
    assert caught.value.reason == "PORT_UNAVAILABLE"
    assert not await second.check_ready()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncio.open_connection("127.0.0.1", second.grpc_port)


async def test_large_bodies_and_answers_pass_whole(mesh: GatewayMesh, http: httpx.AsyncClient) -> None:
    names = [f"knowledgeBases/{place}" for place in range(20_000)]
    response = await http.post("/v1/chunks:search", json={"knowledgeBases": names, "query": "x"})
    assert response.status_code == 200
    assert list(mesh.seen.requests[-1].knowledge_bases) == names
    title = "标题" * 50_000
    response = await http.patch("/v1/knowledgeBases/a/documents/d", json={"document": {"title": title}})
    assert response.json()["title"] == title
