"""The proxy over real connections: bytes, errors, deadlines, cancellation and flow control pass both ways."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, wrappers_pb2
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as kb_pb
from corpusmesh.ingest.v1 import run_service_pb2 as run_pb
from corpusmesh.ingest.v1.document_service_pb2_grpc import DocumentServiceStub
from corpusmesh.ingest.v1.knowledge_base_service_pb2_grpc import KnowledgeBaseServiceStub
from corpusmesh.ingest.v1.run_service_pb2_grpc import RunServiceStub
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_gateway import UPSTREAM_SERVICES, Gateway, GatewaySettings
from corpusmesh_gateway.config import LimitSettings
from corpusmesh_gateway.limits import LimitInterceptor
from corpusmesh_gateway.proxy import MemberProxy, StreamBounds, Upstream
from corpusmesh_runtime.authenticators import SignedIdentityAuthenticator
from corpusmesh_runtime.channel import open_bare_channel
from corpusmesh_runtime.config import ServerSettings
from corpusmesh_runtime.identity import IdentitySigner
from corpusmesh_runtime.interceptor import GuardInterceptor
from corpusmesh_runtime.policy import rules_of
from corpusmesh_runtime.server import MeshServer
from corpusmesh_runtime.writing import write_message
from tests.support.gateway_mesh import SERVER, GatewayMesh, Seen, bearer, canned_service, gateway_mesh


@pytest.fixture
async def mesh() -> AsyncIterator[GatewayMesh]:
    async with gateway_mesh() as running:
        yield running


@pytest.fixture
async def channel(mesh: GatewayMesh) -> AsyncIterator[grpc.aio.Channel]:
    async with mesh.channel() as opened:
        yield opened


def details_of(error: grpc.aio.AioRpcError) -> Status:
    values = [value for name, value in error.trailing_metadata() or () if name == "grpc-status-details-bin"]
    return Status.FromString(values[0]) if values else Status()


def unpack(status: Status, kind: Any) -> Any:
    for detail in status.details:
        message = kind()
        if detail.Unpack(message):
            return message
    return None


async def get(channel: grpc.aio.Channel, key: str, name: str, **options: Any) -> kb_pb.KnowledgeBase:
    request = kb_pb.GetKnowledgeBaseRequest(name=f"knowledgeBases/{name}")
    response: kb_pb.KnowledgeBase = await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(
        request, metadata=bearer(key), **options
    )
    return response


def upload(parent: str, pieces: int, piece_bytes: int) -> list[document_pb.UploadDocumentsRequest]:
    return [
        document_pb.UploadDocumentsRequest(settings=document_pb.UploadSettings(parent=f"knowledgeBases/{parent}")),
        document_pb.UploadDocumentsRequest(header=document_pb.DocumentHeader(display_name="a.bin")),
        *(document_pb.UploadDocumentsRequest(data=bytes(piece_bytes)) for _ in range(pieces)),
    ]


async def test_service_sees_who_calls_and_the_request_id_but_no_other_metadata_of_the_caller(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    key = mesh.key(Role.EDITOR, Scope.WRITE)
    stub = KnowledgeBaseServiceStub(channel)
    metadata = (*bearer(key), ("corpusmesh-request-id", "request-123"), ("x-own", "value"))
    await stub.GetKnowledgeBase(kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/a"), metadata=metadata)
    _, call = mesh.seen.calls[-1]
    assert call.identity == Identity(
        "acme", "editor", Role.EDITOR, Scope.WRITE, groups=("staff",), key_id=key.split("_")[1]
    )
    assert call.request_id == "request-123"
    assert not {"authorization", "x-own"} & set(mesh.seen.metadata[-1])


async def test_response_and_trailing_metadata_come_back_unchanged(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    request = kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/a")
    call = KnowledgeBaseServiceStub(channel).GetKnowledgeBase(request, metadata=bearer(mesh.key()))
    response = await call
    assert (response.display_name, response.document_count) == ("知识库", 2**53 + 1)
    assert dict(await call.trailing_metadata())["x-served-by"] == "canned"


async def test_error_of_a_service_comes_back_with_its_details(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(channel, mesh.key(), "busy")
    status = details_of(caught.value)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert unpack(status, error_details_pb2.ErrorInfo).reason == "QUEUE_FULL"
    assert unpack(status, error_details_pb2.RetryInfo).retry_delay.seconds == 7


async def test_fault_of_a_service_shows_nothing_of_its_text(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(channel, mesh.key(), "fault")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value)
    assert unpack(details_of(caught.value), error_details_pb2.RequestInfo).request_id


async def test_service_that_is_gone_is_unavailable_with_a_delay_and_without_its_address(mesh: GatewayMesh) -> None:
    await mesh.services["ingest"].stop()
    async with mesh.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(channel, mesh.key(), "a", timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert unpack(details_of(caught.value), error_details_pb2.RetryInfo) is not None
    assert mesh.addresses["ingest"].rpartition(":")[2] not in str(caught.value)


async def test_service_with_other_identity_keys_is_a_fault_of_the_mesh_not_of_the_callers_key(
    mesh: GatewayMesh,
) -> None:
    stranger = IdentitySigner([secrets.token_hex(32)])
    async with canned_service(UPSTREAM_SERVICES["ingest"], Seen(), stranger) as elsewhere:
        gateway = Gateway(
            GatewaySettings(server=SERVER),
            stores=mesh.stores,
            signer=mesh.signer,
            addresses={**mesh.addresses, "ingest": f"127.0.0.1:{elsewhere.port}"},
            random_bytes=secrets.token_bytes,
        )
        await gateway.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.grpc_port}") as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await get(channel, mesh.key(), "a")
        finally:
            await gateway.stop()
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "identity" not in (caught.value.details() or "")


async def test_deadline_of_the_caller_reaches_the_service(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    await get(channel, mesh.key(), "a", timeout=33)
    assert 20 < mesh.seen.calls[-1][1].remaining_seconds() < 34  # gRPC rounds it up on the wire


async def test_call_past_its_deadline_ends_in_the_service_too(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(channel, mesh.key(), "slow", timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(10):
        await mesh.seen.cancelled.wait()


async def test_cancelled_unary_call_is_cancelled_in_the_service(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    stub = KnowledgeBaseServiceStub(channel)
    call = stub.GetKnowledgeBase(kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/slow"), metadata=bearer(mesh.key()))
    waiting = asyncio.ensure_future(_settled(call))
    async with asyncio.timeout(10):
        await mesh.seen.begun.wait()
        call.cancel()
        await mesh.seen.cancelled.wait()
    await waiting


async def _settled(call: Any) -> None:
    try:
        await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError):
        return


async def test_cancelled_server_stream_is_cancelled_in_the_service_and_frees_its_slot() -> None:
    settings = GatewaySettings(server=SERVER, limits=LimitSettings(max_streams_per_key=1))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        key = mesh.key()
        stub = RunServiceStub(channel)
        request = run_pb.WatchRunRequest(name="knowledgeBases/a/runs/endless")
        call = stub.WatchRun(request, metadata=bearer(key))
        assert (await call.read()).sequence == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.WatchRun(request, metadata=bearer(key)).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unpack(details_of(caught.value), error_details_pb2.ErrorInfo).reason == "TOO_MANY_STREAMS"
        assert unpack(details_of(caught.value), error_details_pb2.RetryInfo) is not None
        other_key = mesh.key(Role.VIEWER)
        assert (await stub.WatchRun(request, metadata=bearer(other_key)).read()).sequence == 1
        call.cancel()
        async with asyncio.timeout(10):
            await mesh.seen.cancelled.wait()
            finite = run_pb.WatchRunRequest(name="knowledgeBases/a/runs/finite")
            # The slot is freed by another task.
            while await _code_of_stream(stub.WatchRun(finite, metadata=bearer(key))) is not grpc.StatusCode.OK:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def _code_of_stream(call: Any) -> grpc.StatusCode:
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_server_stream_that_fails_midway_gives_its_messages_then_its_error(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    call = RunServiceStub(channel).WatchRun(
        run_pb.WatchRunRequest(name="knowledgeBases/a/runs/breaking"), metadata=bearer(mesh.key())
    )
    sequences = [(await call.read()).sequence for _ in range(3)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert sequences == [1, 2, 3]
    assert unpack(details_of(caught.value), error_details_pb2.ErrorInfo).reason == "INDEX_UNAVAILABLE"


async def test_upload_arrives_whole(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    messages = upload("a", pieces=40, piece_bytes=256 * 1024)
    response = await DocumentServiceStub(channel).UploadDocuments(iter(messages), metadata=bearer(mesh.key()))
    assert response.run == "knowledgeBases/a/runs/1"
    assert mesh.seen.uploads[0][1][0][1] == 40 * 256 * 1024


async def test_upload_beyond_the_limit_is_refused_and_cancelled_in_the_service() -> None:
    settings = GatewaySettings(server=SERVER, limits=LimitSettings(max_upload_stream_bytes=1024 * 1024))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        path = "/corpusmesh.ingest.v1.DocumentService/UploadDocuments"
        call: Any = channel.stream_unary(path, None, None)(metadata=bearer(mesh.key()), timeout=20)
        for message in upload("a", pieces=50, piece_bytes=256 * 1024):
            # An iterator of grpc.aio makes INTERNAL of a refusal that comes while it writes: see `writing.py`.
            if not await write_message(call, message.SerializeToString()):
                break
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        status = details_of(caught.value)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unpack(status, error_details_pb2.ErrorInfo).reason == "UPLOAD_TOO_LARGE"
        # Sending the same again cannot help, so that no client may be told to.
        assert unpack(status, error_details_pb2.RetryInfo) is None
        assert not mesh.seen.uploads
        assert mesh.seen.taken_bytes <= 1024 * 1024


async def test_upload_that_the_service_refuses_early_ends_with_its_error_while_the_caller_still_sends(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    path = "/corpusmesh.ingest.v1.DocumentService/UploadDocuments"
    codes = []
    for pause_seconds in (0, 0.001, 0.01) * 5:
        call: Any = channel.stream_unary(path, None, None)(metadata=bearer(mesh.key()), timeout=20)
        await write_message(call, upload("refused", 0, 0)[0].SerializeToString())
        more = document_pb.UploadDocumentsRequest(data=bytes(1024)).SerializeToString()
        while await write_message(call, more):  # noqa: ASYNC110 - the pace is what varies
            await asyncio.sleep(pause_seconds)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        codes.append(unpack(details_of(caught.value), error_details_pb2.ErrorInfo).reason)
    assert set(codes) == {"KNOWLEDGE_BASE_NOT_FOUND"}


async def test_service_that_does_not_read_makes_the_caller_wait_instead_of_filling_the_gateway(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    call = DocumentServiceStub(channel).UploadDocuments(metadata=bearer(mesh.key()))
    for message in upload("stuck", 0, 0):
        await call.write(message)
    assert await bytes_until_it_waits(call) < 200 * 1024 * 1024
    call.cancel()
    async with asyncio.timeout(10):
        await mesh.seen.cancelled.wait()


async def bytes_until_it_waits(call: Any) -> int:
    sent_bytes = 0
    while sent_bytes < 200 * 1024 * 1024:
        try:
            async with asyncio.timeout(1):
                await call.write(document_pb.UploadDocumentsRequest(data=bytes(1024 * 1024)))
        except TimeoutError:
            break
        sent_bytes += 1024 * 1024
    return sent_bytes


async def test_silent_upload_is_ended() -> None:
    settings = GatewaySettings(server=SERVER, limits=LimitSettings(stream_idle_timeout_seconds=0.3))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        call = DocumentServiceStub(channel).UploadDocuments(metadata=bearer(mesh.key()))
        await call.write(upload("a", 0, 0)[0])
        async with asyncio.timeout(20):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
        assert unpack(details_of(caught.value), error_details_pb2.ErrorInfo).reason == "STREAM_IDLE"


async def test_message_beyond_the_limit_is_refused(mesh: GatewayMesh, channel: grpc.aio.Channel) -> None:
    request = kb_pb.GetKnowledgeBaseRequest(name="knowledgeBases/" + "a" * (5 * 1024 * 1024))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await KnowledgeBaseServiceStub(channel).GetKnowledgeBase(request, metadata=bearer(mesh.key()))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not mesh.seen.calls


async def test_calls_beyond_the_rate_are_refused_with_a_delay_and_other_keys_go_on() -> None:
    settings = GatewaySettings(server=SERVER, limits=LimitSettings(requests_per_second=0.001, request_burst=3))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        key = mesh.key()
        for _ in range(3):
            await get(channel, key, "a")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(channel, key, "a")
        status = details_of(caught.value)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unpack(status, error_details_pb2.RetryInfo).retry_delay.seconds > 100
        await get(channel, mesh.key(Role.VIEWER), "a")


ECHO = "corpusmesh.test.proxy.v1.EchoService"


def echo_service() -> None:
    """Put a service with all four kinds of calls into the pool; the contract has only three."""
    file = descriptor_pb2.FileDescriptorProto(
        name="corpusmesh/test/proxy/v1/echo.proto",
        package="corpusmesh.test.proxy.v1",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto", "corpusmesh/type/v1/policy.proto"],
    )
    service = file.service.add(name="EchoService")
    for name, client, server in (
        ("Unary", False, False),
        ("Down", False, True),
        ("Up", True, False),
        ("Both", True, True),
        ("Inner", False, False),
    ):
        method = service.method.add(
            name=name,
            input_type=".google.protobuf.BytesValue",
            output_type=".google.protobuf.BytesValue",
            client_streaming=client,
            server_streaming=server,
        )
        policy = method.options.Extensions[policy_pb2.policy]
        policy.audience = policy_pb2.AUDIENCE_SERVICE if name == "Inner" else policy_pb2.AUDIENCE_MEMBER
        if name != "Inner":
            policy.minimum_role, policy.scope = policy_pb2.ROLE_VIEWER, policy_pb2.SCOPE_READ
    assert wrappers_pb2.DESCRIPTOR
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


class Always:
    """Authenticates everybody."""

    async def authenticate(self, metadata: Any) -> Identity:
        return Identity("acme", "anybody", Role.VIEWER, Scope.READ, key_id="k")


async def test_both_sides_stream_at_the_same_time_through_the_proxy() -> None:
    echo_service()
    rules = rules_of([ECHO])
    signer = IdentitySigner([secrets.token_hex(32)])

    async def both(requests: Any, context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata((("x-first", "here"),))
        async for request in requests:
            yield b"echo " + request

    handlers = {f"/{ECHO}/Both": grpc.stream_stream_rpc_method_handler(both)}

    class Backend(grpc.GenericRpcHandler):  # type: ignore[type-arg]
        def service(self, handler_call_details: Any) -> Any:
            return handlers.get(handler_call_details.method)

    inner = GuardInterceptor(rules, SignedIdentityAuthenticator(signer), None, SERVER)
    backend = MeshServer(
        SERVER,
        service_names=[ECHO],
        interceptors=[inner],
        register=lambda server: server.add_generic_rpc_handlers((Backend(),)),
    )
    await backend.start()
    upstream_channel = open_bare_channel(f"127.0.0.1:{backend.port}", rules=rules.values())
    proxy = MemberProxy([Upstream("echo", upstream_channel, [ECHO])], rules, signer, StreamBounds(1024, 30))
    assert proxy.full_methods == {f"/{ECHO}/{name}" for name in ("Unary", "Down", "Up", "Both")}
    front = MeshServer(
        ServerSettings(drain_grace_seconds=0),
        service_names=[ECHO],
        interceptors=[GuardInterceptor(rules, Always(), None, SERVER), LimitInterceptor([])],
        register=lambda server: server.add_generic_rpc_handlers((proxy,)),
    )
    await front.start()
    try:
        async with asyncio.timeout(20), grpc.aio.insecure_channel(f"127.0.0.1:{front.port}") as channel:
            call = channel.stream_stream(f"/{ECHO}/Both", None, None)()
            assert dict(await call.initial_metadata())["x-first"] == "here"
            for text in (b"one", b"two"):
                await call.write(text)
                # The answer comes before the next question is asked: neither side is collected first.
                assert await call.read() == b"echo " + text
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            too_much = channel.stream_stream(f"/{ECHO}/Both", None, None)(iter([bytes(1000)] * 5))
            assert await _code_of_stream(too_much) is grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        await front.stop()
        await upstream_channel.close()
        await backend.stop()
