"""The runtime's server, guard and channel over real connections."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client import REGISTRY

from corpusmesh.gateway.v1 import admin_service_pb2 as admin_pb
from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as kb_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceStub
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import KnowledgeBaseServiceStub
from corpusmesh.ingest.v1.run_service_pb2_grpc import RunServiceStub
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.retrieve.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from corpusmesh_core import errors
from corpusmesh_core.errors import CorpusMeshError, FailedPreconditionError, NotFoundError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_runtime.authenticators import SignedIdentityAuthenticator
from corpusmesh_runtime.channel import open_channel
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.identity import IDENTITY_METADATA_KEY, IdentitySigner, service_identity
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import MethodRule, rules_of
from corpusmesh_runtime.server import MeshServer
from corpusmesh_runtime.status import HIDDEN_MESSAGE, code_of

NAMES = (
    "corpusmesh.ingest.v1.KnowledgeBaseService",
    "corpusmesh.ingest.v1.DocumentService",
    "corpusmesh.ingest.v1.RunService",
    "corpusmesh.retrieve.v1.RetrievalService",
    "corpusmesh.gateway.v1.AdminService",
)
GET = "/corpusmesh.ingest.v1.KnowledgeBaseService/GetKnowledgeBase"
EDITOR = Identity("acme", "editor", Role.EDITOR, Scope.WRITE)
OWNER = Identity("acme", "owner", Role.OWNER, Scope.PLATFORM)


class Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Handlers that a test gives, by the name of the method."""

    def __init__(self, **bodies: Any) -> None:
        self._handlers: dict[str, Any] = {}
        for name in NAMES:
            for method in descriptor_pool.Default().FindServiceByName(name).methods:
                body = bodies.get(method.name)
                if body is None:
                    continue
                streams = (method.client_streaming, method.server_streaming)
                make = {
                    (False, False): grpc.unary_unary_rpc_method_handler,
                    (False, True): grpc.unary_stream_rpc_method_handler,
                    (True, False): grpc.stream_unary_rpc_method_handler,
                }[streams]
                self._handlers[f"/{name}/{method.name}"] = make(
                    body,
                    request_deserializer=method.input_type._concrete_class.FromString,
                    response_serializer=method.output_type._concrete_class.SerializeToString,
                )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


class Guard:
    """Lets the knowledge bases of a list through, and notes what it was asked."""

    def __init__(self, allowed: Sequence[str] = ("a",)) -> None:
        self.allowed = allowed
        self.asked: list[tuple[str, tuple[str, ...], bool]] = []

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], *, for_write: bool) -> None:
        self.asked.append((identity.user_id, tuple(knowledge_base_ids), for_write))
        if not set(knowledge_base_ids) <= set(self.allowed):
            raise NotFoundError("KNOWLEDGE_BASE_NOT_FOUND", "no")


class Observer:
    """Notes refused calls; `broken` makes it fail."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.heard: list[tuple[str, str]] = []

    async def denied(self, identity: Identity | None, method: str, reason: str) -> None:
        if self.broken:
            raise RuntimeError("secret inner text")
        self.heard.append((identity.user_id if identity else "", reason))


SIGNER = IdentitySigner([secrets.token_hex(32)])


@asynccontextmanager
async def serving(
    settings: ServerSettings | None = None,
    *,
    guard: Guard | None = None,
    observer: Observer | None = None,
    rules: dict[str, MethodRule] | None = None,
    **bodies: Any,
) -> AsyncIterator[MeshServer]:
    settings = settings or ServerSettings(drain_grace_seconds=0.2)
    interceptor = GuardInterceptor(
        rules if rules is not None else rules_of(NAMES), SignedIdentityAuthenticator(SIGNER), guard, settings, observer
    )
    server = MeshServer(
        settings,
        service_names=NAMES,
        interceptors=[interceptor],
        register=lambda made: made.add_generic_rpc_handlers((Handlers(**bodies),)),
    )
    await server.start()
    await server.set_serving(serving=True)
    try:
        yield server
    finally:
        await server.stop()


def channel_to(server: MeshServer, identity: Identity = EDITOR) -> grpc.aio.Channel:
    return open_channel(
        f"127.0.0.1:{server.port}", rules=rules_of(NAMES).values(), signer=SIGNER, identity=lambda: identity
    )


def bare_channel_to(server: MeshServer) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=[("grpc.use_local_subchannel_pool", 1)])


def status_of(error: grpc.aio.AioRpcError) -> Status:
    values = [value for name, value in error.trailing_metadata() or () if name == "grpc-status-details-bin"]
    return Status.FromString(values[0]) if values else Status()


def unpack(status: Status, kind: Any) -> Any:
    for detail in status.details:
        message = kind()
        if detail.Unpack(message):
            return message
    return None


def call_count(method: str, code: str) -> float:
    labels = {"method": method, "code": code}
    return REGISTRY.get_sample_value("corpusmesh_rpc_duration_seconds_count", labels) or 0.0


KB_A = kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/a")


async def empty_knowledge_base(request: Any, context: Any) -> Any:
    return kb_pb.KnowledgeBase(name=request.name)


ERROR_CLASSES = sorted(
    {
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, CorpusMeshError) and cls is not CorpusMeshError
    },
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", ERROR_CLASSES, ids=lambda cls: cls.__name__)
async def test_every_error_class_reaches_the_caller_with_code_reason_metadata_field_and_delay(
    cls: type[CorpusMeshError],
) -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise cls("SOME_REASON", "what to do", field="query.text", limit=7)

    before = call_count(GET, code_of(cls("R", "m")).name)
    async with serving(GetKnowledgeBase=fail) as server, channel_to(server) as channel:
        stub = KnowledgeBaseServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetKnowledgeBase(KB_A, metadata=(("corpusmesh-request-id", "request-1"),))
    status = status_of(caught.value)
    info = unpack(status, error_details_pb2.ErrorInfo)
    code = code_of(cls("R", "m"))
    assert caught.value.code() is code
    assert status.code == code.value[0]
    assert unpack(status, error_details_pb2.RequestInfo).request_id == "request-1"
    assert call_count(GET, code.name) > before
    if code is grpc.StatusCode.INTERNAL:
        assert (info.reason, status.message, dict(info.metadata)) == ("INTERNAL", HIDDEN_MESSAGE, {})
        return
    assert (info.reason, info.domain, dict(info.metadata)) == ("SOME_REASON", "corpusmesh", {"limit": "7"})
    assert caught.value.details() == "what to do"
    assert unpack(status, error_details_pb2.BadRequest).field_violations[0].field == "query.text"
    delay = unpack(status, error_details_pb2.RetryInfo)
    expected = cls.default_retry_delay_seconds
    assert (delay is None) == (expected is None)
    if expected is not None:
        assert delay.retry_delay.ToMilliseconds() == expected * 1000


async def test_foreign_exception_is_internal_and_its_text_stays_here() -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise ZeroDivisionError("secret inner text")

    async with serving(GetKnowledgeBase=fail) as server, channel_to(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value)


async def test_stream_that_fails_after_messages_keeps_them_and_its_details() -> None:
    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        yield run_pb.WatchRunResponse(sequence=1)
        raise NotFoundError("RUN_NOT_FOUND", "gone")

    async with serving(WatchRun=watch) as server, channel_to(server) as channel:
        call = RunServiceStub(channel).WatchRun(run_pb.WatchRunRequest(name="knowledgeBases/a/runs/r"))
        assert (await call.read()).sequence == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert unpack(status_of(caught.value), error_details_pb2.ErrorInfo).reason == "RUN_NOT_FOUND"


async def test_call_without_identity_or_with_a_forged_one_is_refused() -> None:
    stranger = IdentitySigner([secrets.token_hex(32)])
    async with serving(GetKnowledgeBase=empty_knowledge_base) as server, bare_channel_to(server) as channel:
        stub = KnowledgeBaseServiceStub(channel)
        for metadata in ((), ((IDENTITY_METADATA_KEY, stranger.sign(EDITOR)),), ((IDENTITY_METADATA_KEY, "x.y.z"),)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetKnowledgeBase(KB_A, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_method_that_no_rule_names_is_refused_though_it_has_a_handler() -> None:
    rules = rules_of(NAMES)
    del rules[GET]
    async with (
        serving(rules=rules, GetKnowledgeBase=empty_knowledge_base) as server,
        channel_to(server, OWNER) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_service_identity_opens_no_method_for_members() -> None:
    async with (
        serving(GetKnowledgeBase=empty_knowledge_base) as server,
        channel_to(server, service_identity("embed", tenant_id="acme")) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("policy", ["none", "no audience", "no role", "no scope"])
def test_method_without_a_complete_policy_refuses_to_start(policy: str) -> None:
    from corpusmesh.type.v1 import policy_pb2

    word = policy.title().replace(" ", "")
    package = f"corpusmesh.test.policy.{word.lower()}"
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto",
        package=package,
        syntax="proto3",
        dependency=["corpusmesh/type/v1/policy.proto"],
    )
    file.message_type.add(name="Nothing")
    method = file.service.add(name="OpenService").method.add(
        name="Call", input_type=f".{package}.Nothing", output_type=f".{package}.Nothing"
    )
    if policy != "none":
        given = method.options.Extensions[policy_pb2.policy]
        given.audience = policy_pb2.AUDIENCE_UNSPECIFIED if policy == "no audience" else policy_pb2.AUDIENCE_MEMBER
        given.minimum_role = policy_pb2.ROLE_UNSPECIFIED if policy == "no role" else policy_pb2.ROLE_VIEWER
        given.scope = policy_pb2.SCOPE_UNSPECIFIED if policy == "no scope" else policy_pb2.SCOPE_READ
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    with pytest.raises(FailedPreconditionError) as caught:
        rules_of([f"{package}.OpenService"])
    assert caught.value.reason == "METHOD_WITHOUT_POLICY"


async def test_guard_is_asked_for_every_named_knowledge_base_before_the_handler_runs() -> None:
    reached = []

    async def search(request: Any, context: Any) -> Any:
        reached.append(request)
        return retrieval_pb.SearchChunksResponse()

    guard = Guard(allowed=("a", "b"))
    async with serving(guard=guard, SearchChunks=search) as server, channel_to(server) as channel:
        stub = RetrievalServiceStub(channel)
        names = ["knowledgeBases/a", "knowledgeBases/b", "knowledgeBases/a"]
        await stub.SearchChunks(retrieval_pb.SearchChunksRequest(knowledge_bases=names))
        assert guard.asked == [("editor", ("a", "b"), False)]
        with pytest.raises(grpc.aio.AioRpcError) as hidden:
            await stub.SearchChunks(retrieval_pb.SearchChunksRequest(knowledge_bases=[*names, "knowledgeBases/c"]))
        # None is named: the handler takes those that the caller may read.
        await stub.SearchChunks(retrieval_pb.SearchChunksRequest(query="x"))
    assert hidden.value.code() is grpc.StatusCode.NOT_FOUND
    assert guard.asked[-1] == ("editor", (), False)
    assert [len(request.knowledge_bases) for request in reached] == [3, 0]


async def test_guard_reads_the_first_message_of_an_upload_and_the_handler_still_gets_it() -> None:
    async def upload(requests: Any, context: Any) -> Any:
        parents = [message.settings.parent async for message in requests]
        return document_pb.UploadDocumentsResponse(run=f"{parents[0]} of {len(parents)}")

    def messages(knowledge_base: str) -> list[document_pb.UploadDocumentsRequest]:
        first = document_pb.UploadSettings(parent=f"knowledgeBases/{knowledge_base}")
        return [
            document_pb.UploadDocumentsRequest(settings=first),
            document_pb.UploadDocumentsRequest(data=b"x"),
        ]

    guard = Guard()
    async with serving(guard=guard, UploadDocuments=upload) as server, channel_to(server) as channel:
        stub = DocumentServiceStub(channel)
        response = await stub.UploadDocuments(iter(messages("a")))
        assert response.run == "knowledgeBases/a of 2"
        assert guard.asked == [("editor", ("a",), True)]
        # The first message alone: a refusal that comes while the second is written is no INTERNAL of the server's.
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.UploadDocuments(iter(messages("b")[:1]))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_refused_calls_are_heard_of_and_a_broken_observer_changes_no_answer() -> None:
    observer = Observer()
    viewer = Identity("acme", "viewer", Role.VIEWER, Scope.WRITE)
    delete = kb_pb.DeleteKnowledgeBaseRequest(name="knowledgeBases/a")

    async def done(request: Any, context: Any) -> Any:
        return kb_pb.DeleteKnowledgeBaseResponse()

    async with serving(observer=observer, DeleteKnowledgeBase=done) as server, channel_to(server, viewer) as channel:
        for broken in (False, True):
            observer.broken = broken
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await KnowledgeBaseServiceStub(channel).DeleteKnowledgeBase(delete)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "secret" not in str(caught.value)
    assert observer.heard == [("viewer", "ROLE_TOO_LOW")]


async def test_deadline_of_the_caller_binds_the_handler() -> None:
    cancelled = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    settings = ServerSettings(default_deadline_seconds=0.2, drain_grace_seconds=0)
    async with serving(settings, GetKnowledgeBase=hang) as server, channel_to(server) as channel, asyncio.timeout(20):
        stub = KnowledgeBaseServiceStub(channel)
        # Without a deadline of the caller, the server's own ends the call and says so with details.
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetKnowledgeBase(KB_A)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert unpack(status_of(caught.value), error_details_pb2.ErrorInfo).reason == "DEADLINE_EXCEEDED"
        assert cancelled.is_set()


async def test_rest_of_the_deadline_and_request_id_are_passed_on_to_the_next_service() -> None:
    seen = []

    async def inner(request: Any, context: Any) -> Any:
        seen.append(require_call())
        return kb_pb.KnowledgeBase()

    async with serving(GetKnowledgeBase=inner) as behind, channel_to(behind) as onward:

        async def outer(request: Any, context: Any) -> Any:
            return await KnowledgeBaseServiceStub(onward).GetKnowledgeBase(request)

        async with serving(GetKnowledgeBase=outer) as front, channel_to(front) as channel:
            metadata = (("corpusmesh-request-id", "request-77"),)
            await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A, timeout=42, metadata=metadata)
    assert seen[0].request_id == "request-77"
    assert 20 < seen[0].remaining_seconds() < 43  # gRPC rounds it up on the wire


@pytest.mark.parametrize("idempotent", [True, False])
async def test_only_idempotent_methods_are_sent_again(idempotent: bool) -> None:
    attempts = []

    async def flaky(request: Any, context: Any) -> Any:
        attempts.append(request)
        if len(attempts) < 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return kb_pb.KnowledgeBase() if idempotent else admin_pb.CreateApiKeyResponse()

    async with (
        serving(GetKnowledgeBase=flaky, CreateApiKey=flaky) as server,
        channel_to(server, OWNER) as channel,
    ):
        if idempotent:
            await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A)
            assert len(attempts) == 3
        else:
            with pytest.raises(grpc.aio.AioRpcError):
                await AdminServiceStub(channel).CreateApiKey(admin_pb.CreateApiKeyRequest(parent="users/a"))
            assert len(attempts) == 1


async def test_one_call_more_than_the_bound_is_refused_at_once() -> None:
    release = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        await release.wait()
        return kb_pb.KnowledgeBase()

    settings = ServerSettings(max_concurrent_rpcs=2, drain_grace_seconds=1)
    async with serving(settings, GetKnowledgeBase=hang) as server, bare_channel_to(server) as channel:
        stub = KnowledgeBaseServiceStub(channel)
        metadata = ((IDENTITY_METADATA_KEY, SIGNER.sign(EDITOR)),)
        running = [asyncio.ensure_future(_outcome(stub.GetKnowledgeBase(KB_A, metadata=metadata))) for _ in range(3)]
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert [task.result() for task in done] == [grpc.StatusCode.RESOURCE_EXHAUSTED]
        release.set()
        assert sorted(str(code) for code in await asyncio.gather(*running)).count("StatusCode.OK") == 2


async def _outcome(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_stopping_server_lets_running_calls_end_and_takes_no_new_ones() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, context: Any) -> Any:
        begun.set()
        await release.wait()
        return kb_pb.KnowledgeBase(name="done")

    settings = ServerSettings(drain_grace_seconds=20)
    async with serving(settings, GetKnowledgeBase=slow) as server, channel_to(server) as channel, asyncio.timeout(20):
        running = asyncio.ensure_future(_response(KnowledgeBaseServiceStub(channel).GetKnowledgeBase(KB_A)))
        await begun.wait()
        stopping = asyncio.create_task(server.stop())
        async with bare_channel_to(server) as late:
            metadata = ((IDENTITY_METADATA_KEY, SIGNER.sign(EDITOR)),)
            stub = KnowledgeBaseServiceStub(late)
            await asyncio.sleep(0.2)
            code = await _outcome(stub.GetKnowledgeBase(KB_A, metadata=metadata, timeout=5))
            assert code is grpc.StatusCode.UNAVAILABLE
        assert not running.done()
        release.set()
        assert (await running).name == "done"
        await stopping


async def _response(call: Any) -> Any:
    return await call


async def test_stream_outlives_the_age_of_its_connection() -> None:
    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        for sequence in range(8):
            yield run_pb.WatchRunResponse(sequence=sequence)
            await asyncio.sleep(0.5)

    settings = ServerSettings(max_connection_age_seconds=1, drain_grace_seconds=0)
    async with serving(settings, WatchRun=watch) as server, channel_to(server) as channel:
        call = RunServiceStub(channel).WatchRun(run_pb.WatchRunRequest(name="knowledgeBases/a/runs/r"))
        assert [message.sequence async for message in call] == list(range(8))


async def test_health_follows_the_server_and_needs_no_identity() -> None:
    async with serving() as server, bare_channel_to(server) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", NAMES[0]):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await server.set_serving(serving=False)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=NAMES[0]))
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="nobody"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_names_the_services_and_can_be_switched_off() -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async with serving() as server, bare_channel_to(server) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        answers = [answer async for answer in stub.ServerReflectionInfo(iter([request]))]
        assert set(NAMES) <= {service.name for service in answers[0].list_services_response.service}
    settings = ServerSettings(reflection_enabled=False, drain_grace_seconds=0)
    async with serving(settings) as server, bare_channel_to(server) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([request]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_port_that_is_taken_is_a_typed_error() -> None:
    async with serving() as server:
        settings = ServerSettings(listen_port=server.port)
        second = MeshServer(settings, service_names=[], interceptors=[], register=lambda _: None)
        with pytest.raises(FailedPreconditionError) as caught:
            await second.start()
        assert caught.value.reason == "PORT_UNAVAILABLE"
        await second.stop()


async def test_message_beyond_the_servers_limit_is_refused() -> None:
    settings = ServerSettings(max_receive_message_bytes=64 * 1024, drain_grace_seconds=0)
    async with serving(settings, GetKnowledgeBase=empty_knowledge_base) as server, channel_to(server) as channel:
        request = kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/" + "a" * 70_000)
        code = await _outcome(KnowledgeBaseServiceStub(channel).GetKnowledgeBase(request))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
