"""Nobody sees anything of what is not theirs, through any method or route (invariant 3; FR-A15, FR-A16)."""

import re
from collections.abc import AsyncIterator
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
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import evaluation_service_pb2 as evaluation_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_core.errors import FailedPreconditionError, NotFoundError, PermissionDeniedError
from corpusmesh_gateway.module import UPSTREAM_SERVICES
from tests.support.mesh import MeshHarness, ingest_texts, knowledge_base

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
    "goldenSets": "secret-set",
    "evaluations": "some-evaluation",
    "trees": "dataset",
    "nodes": "1-tree_node-00",
    "entities": "0123456789abcdef",
    "relations": "0123456789abcdef-fedcba9876543210",
    "communities": "0123456789abcdef",
    "corrections": "some-correction",
}
QUESTION = "When is the merger planned?"


def methods_for(audience: "policy_pb2.Audience.ValueType") -> list[MethodDescriptor]:
    """Every method behind the gateway that is for members, or for services."""
    pool = descriptor_pool.Default()
    methods = [m for names in UPSTREAM_SERVICES.values() for n in names for m in pool.FindServiceByName(n).methods]
    return [m for m in methods if m.GetOptions().Extensions[policy_pb2.policy].audience == audience]


def guarded_methods() -> list[MethodDescriptor]:
    """Every method for members whose policy names a knowledge base."""
    methods = methods_for(policy_pb2.AUDIENCE_MEMBER)
    return [m for m in methods if m.GetOptions().Extensions[policy_pb2.policy].knowledge_base_field]


def resource_name(method: MethodDescriptor, knowledge_base_id: str) -> str:
    """A name of the shape that the method's route asks for."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    path = rule.get or rule.post or rule.put or rule.patch or rule.delete
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
            verb = next(name for name in ("get", "post", "put", "patch", "delete") if getattr(rule, name))
            path = re.sub(r"\{[^}]*\}", resource_name(method, hidden.knowledge_base_id), getattr(rule, verb))
            has_path = "{" in getattr(rule, verb)
            base = f"knowledgeBases/{hidden.knowledge_base_id}"
            arguments: dict[str, Any] = {}
            if method.name == "UploadDocuments":
                arguments["files"] = {"file": ("a.txt", b"x")}
            elif not has_path:
                field = "question" if "question" in method.input_type.fields_by_name else "query"
                arguments["json"] = {"knowledgeBases": [base], field: "merger"}
            elif verb in ("post", "put", "patch"):
                arguments["json"] = {}
            headers = {"authorization": f"Bearer {hidden.editor_key}"}
            response = await http.request(verb.upper(), path, headers=headers, **arguments)
            assert response.status_code == 404, (method.name, response.status_code, response.text)
            assert "Quillfeather" not in response.text


@pytest.mark.parametrize("method", methods_for(policy_pb2.AUDIENCE_SERVICE), ids=lambda m: m.name)
async def test_what_is_for_services_alone_is_not_at_the_door(
    mesh: MeshHarness, hidden: "Hidden", method: MethodDescriptor
) -> None:
    assert not method.GetOptions().Extensions[annotations_pb2.http].ByteSize()
    request = message_factory.GetMessageClass(method.input_type)()
    if method.GetOptions().Extensions[policy_pb2.policy].knowledge_base_field:
        request = request_for(method, hidden.knowledge_base_id)
    async with grpc.aio.insecure_channel(mesh.grpc_address) as channel:
        for key in (hidden.owner_key, hidden.stranger_key):
            code, body = await call(channel, method, request, key)
            assert code in ("UNIMPLEMENTED", "PERMISSION_DENIED")
            assert "Quillfeather" not in body


async def test_what_a_user_keeps_is_nobody_elses(mesh: MeshHarness) -> None:
    tenant, other = await mesh.tenant(), await mesh.tenant()
    ada_key = await mesh.member(tenant, "ada", policy_pb2.ROLE_EDITOR)
    bob_key = await mesh.member(tenant, "bob", policy_pb2.ROLE_VIEWER)
    async with mesh.client(ada_key) as ada:
        base = await knowledge_base(ada)
        await ada.knowledge_bases.update(
            knowledge_base_pb.KnowledgeBase(
                name=base.name, ledger_settings=knowledge_base_pb.LedgerSettings(enabled=True, retention_days=1)
            ),
            paths=("ledger_settings",),
        )
        await ingest_texts(ada, base.name, {"plan.md": SECRET})
        conversation = (await ada.conversations.create(knowledge_bases=[base.name])).name
        answer = [piece async for piece in ada.answer([], QUESTION, conversation=conversation, model_free=True)][-1]
        retrieval = answer.summary.retrieval
        assert "Quillfeather" in answer.summary.text
        await ada.vocabulary.update(synonyms=[["merger", "quillfeather deal"]])

        for key, is_colleague in ((bob_key, True), (tenant.owner_key, True), (other.owner_key, False)):
            async with mesh.client(key) as else_:
                assert [entry async for entry in else_.conversations.list()] == []
                assert [entry async for entry in else_.ledger.list()] == []
                assert ("quillfeather" in str(await else_.vocabulary.get())) is is_colleague

                async def refusals(conversation: str, retrieval: str, client: CorpusMeshClient) -> list[str]:
                    said: list[str] = []
                    for attempt in (
                        client.conversations.get(conversation),
                        _all(client.conversations.messages(conversation)),
                        _all(client.answer([], "And where?", conversation=conversation, model_free=True)),
                        client.conversations.delete(conversation),
                        client.ledger.get(retrieval),
                        client.ledger.replay(retrieval),
                    ):
                        with pytest.raises(NotFoundError) as refused:
                            await attempt
                        said.append(f"{refused.value.reason} {refused.value.message}")
                    return said

                refused = await refusals(conversation, retrieval, else_)
                assert refused == await refusals("conversations/none", "retrievals/none", else_)
                assert "merger" not in str(refused)
                await else_.ledger.delete(retrieval)
        async with mesh.client(bob_key) as bob:
            with pytest.raises(PermissionDeniedError):
                await bob.vocabulary.update(terms=["mine"])
        assert len([message async for message in ada.conversations.messages(conversation)]) == 2
        assert (await ada.ledger.get(retrieval)).hits, "nothing was changed by those who tried"


async def test_an_access_list_binds_every_way_to_ask(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    ada_key = await mesh.member(tenant, "ada", policy_pb2.ROLE_EDITOR)
    bob_key = await mesh.member(tenant, "bob", policy_pb2.ROLE_EDITOR)
    correcting = retrieval_pb.RetrievalPlan(
        preset=retrieval_pb.PRESET_THOROUGH,
        correction=retrieval_pb.CorrectionPlan(check_sufficiency=True, correct=True),
    )
    async with mesh.client(ada_key) as ada, mesh.client(bob_key) as bob:
        base = await knowledge_base(ada)
        await ada.knowledge_bases.update(
            knowledge_base_pb.KnowledgeBase(
                name=base.name, ledger_settings=knowledge_base_pb.LedgerSettings(enabled=True, retention_days=1)
            ),
            paths=("ledger_settings",),
        )
        await ingest_texts(ada, base.name, {"plan.md": SECRET, "menu.md": "Soup is served on Mondays in the canteen."})
        names = {entry.display_name: entry.name async for entry in ada.documents.list(base.name)}
        document = names["plan.md"]
        gold = [evaluation_pb.Gold(document=document, quote="merger with Quillfeather")]
        golden = await ada.evaluation.create(base.name, [evaluation_pb.GoldenQuestion(question=QUESTION, gold=gold)])
        conversation = (await bob.conversations.create(knowledge_bases=[base.name])).name
        async for _ in bob.answer([], QUESTION, conversation=conversation, model_free=True):
            pass
        retrieval = (await bob.search([base.name], QUESTION)).retrieval

        async def asked() -> dict[str, object]:
            """All that bob is given; no question holds the secret word, but a misspelling of it."""
            headers = {"authorization": f"Bearer {bob_key}", "accept": "application/json, text/event-stream"}
            chat = {"model": base.name, "messages": [{"role": "user", "content": QUESTION}]}
            tool = {"name": "search", "arguments": {"query": QUESTION, "knowledge_bases": [base.name]}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
            async with httpx.AsyncClient(base_url=mesh.http_url, headers=headers, timeout=60) as http:
                doors = {
                    "openai": (await http.post("/v1/chat/completions", json=chat)).text,
                    "mcp": (await http.post("/mcp", json=message)).text,
                }
            return {
                "search": await bob.search([base.name], QUESTION, plan=correcting, explain=True),
                "routed": await bob.search([], QUESTION, explain=True),
                "as of": await bob.search(
                    [base.name], QUESTION, as_of_snapshots=[(await bob.ledger.get(retrieval)).snapshots[0]]
                ),
                "research": await _all(bob.research.research([base.name], QUESTION, model_free=True)),
                "conversation": await _all(bob.conversations.messages(conversation)),
                "goes on": await _all(bob.answer([base.name], "When is it planned?", model_free=True)),
                "ledger": document in str(await bob.ledger.get(retrieval)) and "Quillfeather",
                "golden": await _all(bob.evaluation.questions(golden.name)),
                **doors,
            }

        shown = {name for name, given in (await asked()).items() if "quillfeather" in str(given).lower()}
        assert shown == {
            "search",
            "routed",
            "as of",
            "research",
            "conversation",
            "goes on",
            "ledger",
            "golden",
            "openai",
            "mcp",
        }
        only_ada = document_pb.DocumentAccess(allowed_users=["users/ada"])
        await ada.documents.update(document_pb.Document(name=document, access=only_ada), paths=("access",))
        shown = {name for name, given in (await asked()).items() if "quillfeather" in str(given).lower()}
        assert shown == set()
        # The index knows the word, and its nearest neighbours are looked up: none of them is told.
        misspelt = await bob.search([base.name], "the Quilfeather deal", plan=correcting, explain=True)
        assert "quilfeather" in str(misspelt).lower()
        assert "quillfeath" not in str(misspelt).lower()
        with pytest.raises(FailedPreconditionError):
            await bob.evaluation.evaluate(golden.name)


async def _all(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]


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
            found = await reader.search([base.name], QUESTION, page_size=10, explain=True)
            answer = [piece async for piece in reader.answer([base.name], QUESTION)]
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
        # A read is sent again until the service answers that another file's tests may have started anew just now.
        await client.search([base.name], "merger")
        gold = [evaluation_pb.Gold(document=f"{base.name}/documents/secret-md-1", quote="merger with Quillfeather")]
        question = evaluation_pb.GoldenQuestion(question="Quillfeather?", gold=gold)
        await client.evaluation.create(base.name, [question], golden_set_id=KINDS["goldenSets"])
    return Hidden(base.name.removeprefix("knowledgeBases/"), owner, editor, other.owner_key)
