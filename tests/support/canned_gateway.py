# ruff: noqa: N802 (the contract names its methods)
"""A real gRPC server on loopback, with the contract's generated classes and a memory for its state.

It is no gateway: it keeps what it is told, so that the client and the command line are tested over the wire.
"""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from corpusmesh.gateway.v1 import admin_service_pb2 as admin_pb
from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as kb_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import (
    DocumentServiceServicer,
    add_DocumentServiceServicer_to_server,
)
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import (
    KnowledgeBaseServiceServicer,
    add_KnowledgeBaseServiceServicer_to_server,
)
from corpusmesh.ingest.v1.run_service_pb2_grpc import RunServiceServicer, add_RunServiceServicer_to_server
from corpusmesh.raptor.v1.tree_service_pb2_grpc import add_TreeServiceServicer_to_server
from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import research_service_pb2 as research_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.answer_service_pb2_grpc import AnswerServiceServicer, add_AnswerServiceServicer_to_server
from corpusmesh.retrieve.v1.conversation_service_pb2_grpc import add_ConversationServiceServicer_to_server
from corpusmesh.retrieve.v1.research_service_pb2_grpc import (
    ResearchServiceServicer,
    add_ResearchServiceServicer_to_server,
)
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import (
    RetrievalServiceServicer,
    add_RetrievalServiceServicer_to_server,
)
from corpusmesh.type.v1 import place_pb2, policy_pb2
from corpusmesh_core.errors import (
    CorpusMeshError,
    DocumentError,
    NotFoundError,
    OverloadedError,
    UnauthenticatedError,
    UnavailableError,
)
from corpusmesh_runtime.status import code_of, to_status
from tests.support.canned_conversations import CannedConversations
from tests.support.canned_graph_service import serve_graphs
from tests.support.canned_graphs import GraphMesh, harbour
from tests.support.canned_tree_service import CannedTreeService

KEY = "cm_test"
_PAGE = 2  # small, so that lists have several pages


@dataclass
class Mesh:
    """State, and what the server is told to do wrong."""

    knowledge_bases: dict[str, kb_pb.KnowledgeBase] = field(default_factory=dict)
    documents: dict[str, document_pb.Document] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    runs: dict[str, run_pb.Run] = field(default_factory=dict)
    users: dict[str, admin_pb.User] = field(default_factory=dict)
    request_ids: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    upload_streams: list[int] = field(default_factory=list)
    failures: dict[str, list[CorpusMeshError]] = field(default_factory=dict)
    watch_cuts: int = 0
    max_piece_bytes: int = 0
    purged: bool = True
    conversations: Any = None
    trees_of_files: bool = False
    graphs: GraphMesh = field(default_factory=harbour)

    def enter(self, context: Any, method: str) -> None:
        self.calls.append(method)
        metadata = dict(context.invocation_metadata())
        if metadata.get("authorization") != f"Bearer {KEY}":
            raise UnauthenticatedError("KEY_INVALID", "the API key is not valid")
        if self.failures.get(method):
            raise self.failures[method].pop(0)


async def abort(context: Any, error: CorpusMeshError) -> None:
    status = to_status(error, request_id="request-1")
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(code_of(error), status.message)


def guarded(method: str, stream: bool = False) -> Any:
    """Check the key and turn typed errors into statuses."""

    def wrap(body: Any) -> Any:
        async def unary(self: Any, request: Any, context: Any) -> Any:
            try:
                self.mesh.enter(context, method)
                return await body(self, request, context)
            except CorpusMeshError as error:
                await abort(context, error)

        async def streaming(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                self.mesh.enter(context, method)
                async for item in body(self, request, context):
                    yield item
            except CorpusMeshError as error:
                await abort(context, error)

        return streaming if stream else unary

    return wrap


def page_of(items: list[Any], token: str) -> tuple[list[Any], str]:
    start = int(token or 0)
    rest = len(items) > start + _PAGE
    return items[start : start + _PAGE], str(start + _PAGE) if rest else ""


class Base:
    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh


class KnowledgeBases(Base, KnowledgeBaseServiceServicer):
    @guarded("GetKnowledgeBase")
    async def GetKnowledgeBase(self, request: Any, context: Any) -> Any:
        if request.name not in self.mesh.knowledge_bases:
            raise NotFoundError("KNOWLEDGE_BASE_NOT_FOUND", f"there is no {request.name}", name=request.name)
        return self.mesh.knowledge_bases[request.name]

    @guarded("ListKnowledgeBases")
    async def ListKnowledgeBases(self, request: Any, context: Any) -> Any:
        page, token = page_of(list(self.mesh.knowledge_bases.values()), request.page_token)
        return kb_pb.ListKnowledgeBasesResponse(knowledge_bases=page, next_page_token=token)

    @guarded("CreateKnowledgeBase")
    async def CreateKnowledgeBase(self, request: Any, context: Any) -> Any:
        self.mesh.request_ids.append(request.request_id)
        identifier = request.knowledge_base_id or request.knowledge_base.display_name.lower().replace(" ", "-")
        made = kb_pb.KnowledgeBase()
        made.CopyFrom(request.knowledge_base)
        made.name, made.owner = f"knowledgeBases/{identifier}", "users/admin"
        self.mesh.knowledge_bases[made.name] = made
        return made

    @guarded("UpdateKnowledgeBase")
    async def UpdateKnowledgeBase(self, request: Any, context: Any) -> Any:
        found = self.mesh.knowledge_bases[request.knowledge_base.name]
        for path in request.update_mask.paths:
            found.ClearField(path)
            found.MergeFrom(kb_pb.KnowledgeBase(**{path: getattr(request.knowledge_base, path)}))
        return found

    @guarded("DeleteKnowledgeBase")
    async def DeleteKnowledgeBase(self, request: Any, context: Any) -> Any:
        del self.mesh.knowledge_bases[request.name]
        return kb_pb.DeleteKnowledgeBaseResponse(run=f"{request.name}/runs/purge")

    @guarded("ListSnapshots")
    async def ListSnapshots(self, request: Any, context: Any) -> Any:
        snapshots = [kb_pb.Snapshot(name=f"{request.parent}/snapshots/{n}", current=n == 3) for n in (3, 2, 1)]
        page, token = page_of(snapshots, request.page_token)
        return kb_pb.ListSnapshotsResponse(snapshots=page, next_page_token=token)

    @guarded("RollbackKnowledgeBase")
    async def RollbackKnowledgeBase(self, request: Any, context: Any) -> Any:
        made = kb_pb.Snapshot(name=f"{request.name}/snapshots/4", reason=request.snapshot, current=True)
        return kb_pb.RollbackKnowledgeBaseResponse(snapshot=made)


class Documents(Base, DocumentServiceServicer):
    @guarded("UploadDocuments")
    async def UploadDocuments(self, requests: Any, context: Any) -> Any:
        parent, run, headers, bodies = "", "", [], []
        async for request in requests:
            kind = request.WhichOneof("piece")
            if kind == "settings":
                parent = request.settings.parent
                self.mesh.request_ids.append(request.settings.request_id)
            elif kind == "header":
                headers.append(request.header)
                bodies.append(bytearray())
            else:
                self.mesh.max_piece_bytes = max(self.mesh.max_piece_bytes, len(request.data))
                bodies[-1] += request.data
        self.mesh.upload_streams.append(len(headers))
        run = f"{parent}/runs/run-{len(self.mesh.runs) + 1}"
        response = document_pb.UploadDocumentsResponse(run=run)
        state = run_pb.Run(name=run, kind=run_pb.Run.KIND_INGEST, state=run_pb.Run.STATE_PENDING)
        for header, body in zip(headers, bodies, strict=True):
            response.documents.append(self._take(parent, header, bytes(body), state))
        state.document_count = len(headers)
        self.mesh.runs[run] = state
        return response

    def _take(self, parent: str, header: Any, body: bytes, run: run_pb.Run) -> document_pb.UploadedDocument:
        entry = document_pb.UploadedDocument(display_name=header.display_name)
        if hashlib.sha256(body).hexdigest() != header.sha256:
            entry.error.CopyFrom(to_status(DocumentError("DOCUMENT_CORRUPT", "the digest does not fit")))
            return entry
        if not body:
            entry.error.CopyFrom(to_status(DocumentError("DOCUMENT_EMPTY", "the document is empty")))
            return entry
        identifier = "d" + hashlib.sha256(header.display_name.encode()).hexdigest()[:16]
        name = f"{parent}/documents/{header.document_id or identifier}"
        entry.version = f"{name}/versions/1"
        entry.unchanged = self.mesh.contents.get(name) == body
        self.mesh.contents[name] = body
        version = document_pb.Version(
            name=entry.version,
            state=document_pb.Version.STATE_READY,
            published=True,
            sha256=header.sha256,
            size_bytes=len(body),
            media_type="text/plain",
        )
        self.mesh.documents[name] = document_pb.Document(
            name=name,
            display_name=header.display_name,
            title=header.title,
            source_uri=header.source_uri,
            published_version=entry.version,
            latest_version=version,
        )
        if b"poison" in body:
            error = to_status(DocumentError("DOCUMENT_CORRUPT", "the document cannot be read"))
            run.failed_parts.append(
                run_pb.FailedPart(version=entry.version, display_name=header.display_name, stage="parse", error=error)
            )
        return entry

    @guarded("GetDocument")
    async def GetDocument(self, request: Any, context: Any) -> Any:
        if request.name not in self.mesh.documents:
            raise NotFoundError("DOCUMENT_NOT_FOUND", f"there is no {request.name}")
        return self.mesh.documents[request.name]

    @guarded("ListDocuments")
    async def ListDocuments(self, request: Any, context: Any) -> Any:
        found = [entry for name, entry in self.mesh.documents.items() if name.startswith(request.parent + "/")]
        page, token = page_of(found, request.page_token)
        return document_pb.ListDocumentsResponse(documents=page, next_page_token=token, total_size=len(found))

    @guarded("UpdateDocument")
    async def UpdateDocument(self, request: Any, context: Any) -> Any:
        found = self.mesh.documents[request.document.name]
        if "access" in request.update_mask.paths:
            found.access.CopyFrom(request.document.access)
        return found

    @guarded("DeleteDocument")
    async def DeleteDocument(self, request: Any, context: Any) -> Any:
        del self.mesh.documents[request.name]
        parent = "/".join(request.name.split("/")[:2])
        return document_pb.DeleteDocumentResponse(run=f"{parent}/runs/purge")

    @guarded("ListVersions")
    async def ListVersions(self, request: Any, context: Any) -> Any:
        states = {3: document_pb.Version.STATE_FAILED}
        versions = [
            document_pb.Version(
                name=f"{request.parent}/versions/{n}",
                state=states.get(n, document_pb.Version.STATE_READY),
                published=n == 2,
            )
            for n in (3, 2, 1)
        ]
        page, token = page_of(versions, request.page_token)
        return document_pb.ListVersionsResponse(versions=page, next_page_token=token)

    @guarded("PublishVersion")
    async def PublishVersion(self, request: Any, context: Any) -> Any:
        return document_pb.PublishVersionResponse(snapshot="knowledgeBases/x/snapshots/9")

    @guarded("ReadOriginal", stream=True)
    async def ReadOriginal(self, request: Any, context: Any) -> AsyncIterator[Any]:
        name = request.name.split("/versions/")[0]
        body = self.mesh.contents[name]
        display_name = self.mesh.documents[name].display_name
        half = len(body) // 2
        yield document_pb.ReadOriginalResponse(
            data=body[:half], media_type="text/plain", display_name=display_name, size_bytes=len(body)
        )
        yield document_pb.ReadOriginalResponse(data=body[half:])

    @guarded("VerifyPurge")
    async def VerifyPurge(self, request: Any, context: Any) -> Any:
        return document_pb.VerifyPurgeResponse(purged=self.mesh.purged, record_count=0 if self.mesh.purged else 3)


class Runs(Base, RunServiceServicer):
    @guarded("GetRun")
    async def GetRun(self, request: Any, context: Any) -> Any:
        if request.name not in self.mesh.runs:
            raise NotFoundError("RUN_NOT_FOUND", f"there is no {request.name}")
        return self.mesh.runs[request.name]

    @guarded("ListRuns")
    async def ListRuns(self, request: Any, context: Any) -> Any:
        page, token = page_of(list(self.mesh.runs.values()), request.page_token)
        return run_pb.ListRunsResponse(runs=page, next_page_token=token)

    @guarded("WatchRun", stream=True)
    async def WatchRun(self, request: Any, context: Any) -> AsyncIterator[Any]:
        run = self.mesh.runs[request.name]
        yield run_pb.WatchRunResponse(run=run, sequence=1)
        if self.mesh.watch_cuts:
            self.mesh.watch_cuts -= 1
            raise UnavailableError("DRAINING", "the service ends")
        run.state = run_pb.Run.STATE_RUNNING
        run.stages.append(run_pb.StageProgress(stage="parse", done_count=1))
        yield run_pb.WatchRunResponse(run=run, sequence=2)
        run.failed_count = len(run.failed_parts)
        run.succeeded_count = run.document_count - run.failed_count
        run.state = run_pb.Run.STATE_SUCCEEDED if run.succeeded_count else run_pb.Run.STATE_FAILED
        yield run_pb.WatchRunResponse(run=run, sequence=3)

    @guarded("CancelRun")
    async def CancelRun(self, request: Any, context: Any) -> Any:
        self.mesh.runs[request.name].state = run_pb.Run.STATE_CANCELLED
        return run_pb.CancelRunResponse(run=self.mesh.runs[request.name])

    @guarded("RetryRun")
    async def RetryRun(self, request: Any, context: Any) -> Any:
        return run_pb.RetryRunResponse(run=self.mesh.runs[request.name], retried_count=2)


class Retrieval(Base, RetrievalServiceServicer):
    """Finds the documents whose text holds a word of the query; lexical mode finds nothing for `vectoronly`."""

    @guarded("SearchChunks")
    async def SearchChunks(self, request: Any, context: Any) -> Any:
        words = set(request.query.lower().split())
        parents = tuple(f"{name}/" for name in request.knowledge_bases)
        found = [
            (name, body.decode())
            for name, body in self.mesh.contents.items()
            if name.startswith(parents) and words & set(body.decode().lower().split())
        ]
        if "vectoronly" in words and request.plan.mode == retrieval_pb.SEARCH_MODE_LEXICAL:
            found = []
        start = int(request.page_token or 0)
        size = request.page_size or 10
        response = retrieval_pb.SearchChunksResponse(
            hits=[hit_of(self.mesh, name, text) for name, text in found[start : start + size]],
            next_page_token=str(start + size) if len(found) > start + size else "",
            total_size=len(found),
            snapshots=[f"{request.knowledge_bases[0]}/snapshots/1"],
        )
        if request.explain:
            response.explanation.query_terms.extend(sorted(words))
            response.explanation.stages.add(stage="recall", duration_milliseconds=1.5)
        return response


def hit_of(mesh: Mesh, name: str, text: str) -> retrieval_pb.SearchHit:
    place = place_pb2.Place(
        version=f"{name}/versions/1",
        display_name=mesh.documents[name].display_name,
        page=3,
        boxes=[place_pb2.Box(page=3, left=1, top=2, right=3, bottom=4)],
        heading_path=["Part", "Chapter"],
    )
    scores = retrieval_pb.Scores(similarity=0.9, term_similarity=0.8, vector_similarity=0.7, lexical_rank=1)
    return retrieval_pb.SearchHit(
        record_id=f"record-{name[-4:]}", kind="chunk", document=name, place=place, text=text, scores=scores
    )


class Answers(Base, AnswerServiceServicer):
    @guarded("AnswerQuestion", stream=True)
    async def AnswerQuestion(self, request: Any, context: Any) -> AsyncIterator[Any]:
        name, body = next(iter(self.mesh.contents.items()))
        citation = answer_pb.Citation(marker=7, hit=hit_of(self.mesh, name, body.decode()))
        yield answer_pb.AnswerQuestionResponse(evidence=answer_pb.EvidenceList(evidence=[citation]))
        yield answer_pb.AnswerQuestionResponse(text_delta="The answer ")
        if request.question == "break off":
            raise UnavailableError("DRAINING", "the service ends")
        yield answer_pb.AnswerQuestionResponse(text_delta="is 42 [ID:7].")
        if request.conversation:
            self.mesh.request_ids.append(request.request_id)
            self.mesh.conversations.add(request.conversation, request.question, "The answer is 42 [ID:7].")
        yield answer_pb.AnswerQuestionResponse(
            summary=answer_pb.AnswerSummary(
                text="The answer is 42 [ID:7].",
                citations=[citation],
                method=answer_pb.AnswerSummary.METHOD_EXTRACTIVE,
            )
        )


class Researches(Base, ResearchServiceServicer):
    @guarded("Research", stream=True)
    async def Research(self, request: Any, context: Any) -> AsyncIterator[Any]:
        state = research_pb.ResearchProgress
        asked = state(node="1", question=request.question, state=state.STATE_SEARCHING)
        yield research_pb.ResearchResponse(progress=asked)
        asked = state(node="1", question=request.question, state=state.STATE_STOPPED, missing=["the year"])
        yield research_pb.ResearchResponse(progress=asked)
        yield research_pb.ResearchResponse(text_delta="The answer is 42.")
        if request.question == "break off":
            return
        yield research_pb.ResearchResponse(
            summary=research_pb.ResearchSummary(
                answer=answer_pb.AnswerSummary(text="The answer is 42."),
                questions=[asked],
                open_questions=[f"within {request.budget.max_seconds} seconds, web {request.plan.correction.web}"],
                cost=research_pb.ResearchCost(search_count=1),
                partial=True,
                partial_reason="seconds",
            )
        )


class Admin(Base, AdminServiceServicer):
    @guarded("GetCaller")
    async def GetCaller(self, request: Any, context: Any) -> Any:
        return admin_pb.GetCallerResponse(
            tenant="tenants/acme", user="users/admin", role=policy_pb2.ROLE_OWNER, scope=policy_pb2.SCOPE_PLATFORM
        )

    @guarded("CreateTenant")
    async def CreateTenant(self, request: Any, context: Any) -> Any:
        return admin_pb.CreateTenantResponse(
            tenant=admin_pb.Tenant(name=f"tenants/{request.tenant_id}"),
            owner=admin_pb.User(name=f"users/{request.owner_id}", role=policy_pb2.ROLE_OWNER),
            secret="cm_secret",
        )

    @guarded("ListTenants")
    async def ListTenants(self, request: Any, context: Any) -> Any:
        return admin_pb.ListTenantsResponse(tenants=[admin_pb.Tenant(name="tenants/acme")])

    @guarded("CreateUser")
    async def CreateUser(self, request: Any, context: Any) -> Any:
        made = admin_pb.User()
        made.CopyFrom(request.user)
        made.name = f"users/{request.user_id}"
        self.mesh.users[made.name] = made
        return made

    @guarded("ListUsers")
    async def ListUsers(self, request: Any, context: Any) -> Any:
        page, token = page_of(list(self.mesh.users.values()), request.page_token)
        return admin_pb.ListUsersResponse(users=page, next_page_token=token)

    @guarded("UpdateUser")
    async def UpdateUser(self, request: Any, context: Any) -> Any:
        self.mesh.users[request.user.name] = request.user
        return request.user

    @guarded("CreateApiKey")
    async def CreateApiKey(self, request: Any, context: Any) -> Any:
        key = admin_pb.ApiKey(name=f"{request.parent}/apiKeys/k1", scope=request.scope)
        if request.HasField("expire_time"):
            key.expire_time.CopyFrom(request.expire_time)
        return admin_pb.CreateApiKeyResponse(api_key=key, secret="cm_secret")

    @guarded("ListApiKeys")
    async def ListApiKeys(self, request: Any, context: Any) -> Any:
        return admin_pb.ListApiKeysResponse(api_keys=[admin_pb.ApiKey(name=f"{request.parent}/apiKeys/k1")])

    @guarded("RevokeApiKey")
    async def RevokeApiKey(self, request: Any, context: Any) -> Any:
        return admin_pb.RevokeApiKeyResponse(api_key=admin_pb.ApiKey(name=request.name))


@dataclass
class CannedGateway:
    """A running server."""

    address: str
    mesh: Mesh

    def overload_once(self, method: str) -> None:
        self.mesh.failures[method] = [OverloadedError("QUEUE_FULL", "the queue is full", retry_delay_seconds=0.01)]


@contextmanager
def run_gateway() -> Iterator[CannedGateway]:
    """Run the server on a loop of its own, so that synchronous tests can call it."""
    mesh, started, address = Mesh(), threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        add_KnowledgeBaseServiceServicer_to_server(KnowledgeBases(mesh), server)
        add_DocumentServiceServicer_to_server(Documents(mesh), server)
        add_RunServiceServicer_to_server(Runs(mesh), server)
        add_RetrievalServiceServicer_to_server(Retrieval(mesh), server)
        add_AnswerServiceServicer_to_server(Answers(mesh), server)
        mesh.conversations = CannedConversations(mesh, abort)
        add_ConversationServiceServicer_to_server(mesh.conversations, server)
        add_ResearchServiceServicer_to_server(Researches(mesh), server)
        add_TreeServiceServicer_to_server(CannedTreeService(mesh, abort), server)
        serve_graphs(server, mesh.graphs, mesh.enter, abort)
        add_AdminServiceServicer_to_server(Admin(mesh), server)
        address.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        started.set()
        await stop.wait()
        await server.stop(0.2)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield CannedGateway(address[0], mesh)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()
