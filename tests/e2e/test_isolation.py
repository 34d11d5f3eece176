"""Nobody sees anything of what is not theirs, through any method or route (invariant 3; FR-A15, FR-A16)."""

import re
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from google.api import annotations_pb2
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import UploadItem
from corpusmesh_core.errors import NotFoundError
from corpusmesh_gateway.module import UPSTREAM_SERVICES
from tests.support.mesh import MeshHarness, knowledge_base

SECRET = "The merger with Quillfeather is planned for the ninth of May."
KINDS = {
    "documents": "secret-md-1",
    "versions": "1",
    "chunks": "0",
    "pictures": "page-1",
    "chunkEdits": "00000001-0000",
    "snapshots": "1",
    "runs": "some-run",
    "sources": "some-source",
}


def guarded_methods() -> list[MethodDescriptor]:
    """Every method whose policy names a knowledge base."""
    pool = descriptor_pool.Default()
    methods = [m for names in UPSTREAM_SERVICES.values() for n in names for m in pool.FindServiceByName(n).methods]
    return [m for m in methods if m.GetOptions().Extensions[policy_pb2.policy].knowledge_base_field]


def resource_name(method: MethodDescriptor, knowledge_base_id: str) -> str:
    """A name of the shape that the method's route asks for."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    path = rule.get or rule.post or rule.patch or rule.delete
    shape = re.search(r"=(knowledgeBases[^}]*)\}", path)
    parts = shape.group(1).split("/") if shape else ["knowledgeBases", "*"]
    filled = [
        knowledge_base_id if i == 1 else KINDS[parts[i - 1]] if part == "*" else part for i, part in enumerate(parts)
    ]
    return "/".join(filled)


def request_for(method: MethodDescriptor, knowledge_base_id: str) -> Message:
    """A request that names the knowledge base in the field of the policy."""
    request = message_factory.GetMessageClass(method.input_type)()
    target: Any = request
    *path, last = method.GetOptions().Extensions[policy_pb2.policy].knowledge_base_field.split(".")
    for field in path:
        target = getattr(target, field)
    name = resource_name(method, knowledge_base_id)
    if isinstance(getattr(target, last), str):
        setattr(target, last, name)
    else:
        getattr(target, last).append(name)
    for field in ("query", "question"):
        if field in request.DESCRIPTOR.fields_by_name:
            setattr(request, field, "merger")
    return request


async def call(channel: grpc.aio.Channel, method: MethodDescriptor, request: Message, key: str) -> tuple[str, str]:
    """Call a method and give its status and text."""
    full_name = f"/{method.containing_service.full_name}/{method.name}"
    metadata = (("authorization", f"Bearer {key}"),)
    kind = (method.client_streaming, method.server_streaming)
    opener = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }[kind]
    rpc = opener(full_name, request_serializer=lambda m: m.SerializeToString(), response_deserializer=lambda b: b)
    try:
        argument: Any = iter([request]) if method.client_streaming else request
        response = rpc(argument, metadata=metadata, timeout=30)
        if method.server_streaming:
            body = b"".join([piece async for piece in response])
        else:
            body = await response
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    return "OK", body.decode("utf-8", "replace")


@pytest.mark.parametrize("method", guarded_methods(), ids=lambda m: m.name)
async def test_fr_a15_a_hidden_knowledge_base_is_like_an_unknown_one(
    mesh: MeshHarness, hidden: "Hidden", method: MethodDescriptor
) -> None:
    async with grpc.aio.insecure_channel(mesh.grpc_address) as channel:
        for key in (hidden.editor_key, hidden.stranger_key):
            answer = await call(channel, method, request_for(method, hidden.knowledge_base_id), key)
            unknown = await call(channel, method, request_for(method, "no-such-base"), key)
            assert answer[0] == "NOT_FOUND"
            assert answer[0] == unknown[0]
            assert answer[1].replace(hidden.knowledge_base_id, "X") == unknown[1].replace("no-such-base", "X")
            assert "Quillfeather" not in answer[1]


async def test_fr_a15_http_routes_hide_it_too(mesh: MeshHarness, hidden: "Hidden") -> None:
    async with httpx.AsyncClient(base_url=mesh.http_url, timeout=30) as http:
        for method in guarded_methods():
            rule = method.GetOptions().Extensions[annotations_pb2.http]
            verb = next(name for name in ("get", "post", "patch", "delete") if getattr(rule, name))
            path = re.sub(r"\{[^}]*\}", resource_name(method, hidden.knowledge_base_id), getattr(rule, verb))
            has_path = "{" in getattr(rule, verb)
            base = f"knowledgeBases/{hidden.knowledge_base_id}"
            arguments: dict[str, Any] = {}
            if method.name == "UploadDocuments":
                arguments["files"] = {"file": ("a.txt", b"x")}
            elif not has_path:
                field = "question" if "question" in method.input_type.fields_by_name else "query"
                arguments["json"] = {"knowledgeBases": [base], field: "merger"}
            elif verb in ("post", "patch"):
                arguments["json"] = {}
            headers = {"authorization": f"Bearer {hidden.editor_key}"}
            response = await http.request(verb.upper(), path, headers=headers, **arguments)
            assert response.status_code == 404, (method.name, response.status_code, response.text)
            assert "Quillfeather" not in response.text


async def test_a_document_of_another_tenant_is_in_no_result_count_or_list(mesh: MeshHarness, hidden: "Hidden") -> None:
    async with mesh.client(hidden.stranger_key) as stranger:
        assert [base async for base in stranger.knowledge_bases.list()] == []
    async with mesh.client(hidden.editor_key) as editor:
        assert hidden.knowledge_base_id not in [base.name async for base in editor.knowledge_bases.list()]
    async with mesh.client(hidden.owner_key) as owner:
        found = await owner.search([f"knowledgeBases/{hidden.knowledge_base_id}"], "merger", page_size=5)
        assert "Quillfeather" in found.hits[0].text, "nothing was changed by those who tried"


async def test_fr_a16_an_access_list_binds_the_next_request(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    ada = await mesh.member(tenant, "ada", policy_pb2.ROLE_EDITOR)
    bob = await mesh.member(tenant, "bob", policy_pb2.ROLE_VIEWER)
    async with mesh.client(ada) as owner, mesh.client(bob) as reader:
        base = await knowledge_base(owner)
        upload = await owner.upload(
            base.name, [UploadItem("plan.md", SECRET.encode()), UploadItem("menu.md", b"Soup is served on Mondays.")]
        )
        await owner.runs.wait(upload.run)
        version = upload.documents[0].version
        document = version.rsplit("/versions/", 1)[0]

        async def sees() -> list[bool]:
            found = await reader.search([base.name], "merger Quillfeather", page_size=10, explain=True)
            answer = [piece async for piece in reader.answer([base.name], "When is the merger planned?")]
            listed = [entry.name async for entry in reader.documents.list(base.name)]
            counted = (await reader.knowledge_bases.get(base.name)).document_count
            opened = b""
            try:
                original = await reader.documents.open_original(version)
                opened = b"".join([piece async for piece in original.pieces])
                await reader.documents.get(document)
            except NotFoundError:
                pass
            return [
                "Quillfeather" in str(found),
                any("Quillfeather" in str(piece) for piece in answer),
                document in listed,
                counted == 2,
                b"Quillfeather" in opened,
            ]

        assert await sees() == [True] * 5
        only_ada = document_pb.DocumentAccess(allowed_users=["users/ada"])
        await owner.documents.update(document_pb.Document(name=document, access=only_ada), paths=("access",))
        assert await sees() == [False] * 5
        await owner.documents.update(
            document_pb.Document(name=document, access=document_pb.DocumentAccess()), paths=("access",)
        )
        assert await sees() == [True] * 5


class Hidden:
    """A private knowledge base, its owner, an editor of the same tenant, and an owner of another one."""

    def __init__(self, knowledge_base_id: str, owner_key: str, editor_key: str, stranger_key: str) -> None:
        self.knowledge_base_id = knowledge_base_id
        self.owner_key = owner_key
        self.editor_key = editor_key
        self.stranger_key = stranger_key


@pytest.fixture(scope="module")
async def hidden(distributed_mesh: MeshHarness) -> Hidden:
    mesh = distributed_mesh
    tenant, other = await mesh.tenant(), await mesh.tenant()
    owner = await mesh.member(tenant, "owen", policy_pb2.ROLE_EDITOR)
    editor = await mesh.member(tenant, "edith", policy_pb2.ROLE_EDITOR)
    async with mesh.client(owner) as client:
        base = await knowledge_base(client, team=False)
        upload = await client.upload(base.name, [UploadItem("secret.md", SECRET.encode(), document_id="secret-md-1")])
        await client.runs.wait(upload.run)
    return Hidden(base.name.removeprefix("knowledgeBases/"), owner, editor, other.owner_key)
