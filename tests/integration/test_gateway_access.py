"""Who gets through the door: a walk over every method of every descriptor, over a real connection."""

import importlib
import pkgutil
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

import corpusmesh
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_core.tenancy import Role, Scope
from corpusmesh_gateway import GatewaySettings
from corpusmesh_gateway.config import AuthenticationSettings
from corpusmesh_runtime.policy import rules_of
from tests.support.gateway_mesh import SERVER, GatewayMesh, bearer, gateway_mesh


def every_service() -> list[str]:
    names = []
    for module in pkgutil.walk_packages(corpusmesh.__path__, "corpusmesh."):
        if module.name.endswith("_pb2"):
            names += [
                service.full_name
                for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values()
            ]
    return sorted(names)


METHODS: dict[str, MethodDescriptor] = {
    f"/{name}/{method.name}": method
    for name in every_service()
    for method in descriptor_pool.Default().FindServiceByName(name).methods
}
RULES = rules_of(every_service())
MEMBER_METHODS = sorted(name for name, rule in RULES.items() if not rule.for_services)
SERVICE_METHODS = sorted(name for name, rule in RULES.items() if rule.for_services)


@pytest.fixture(scope="module")
async def mesh() -> AsyncIterator[GatewayMesh]:
    async with gateway_mesh() as running:
        yield running


@pytest.fixture(scope="module")
async def channel(mesh: GatewayMesh) -> AsyncIterator[grpc.aio.Channel]:
    async with mesh.channel() as opened:
        yield opened


async def call(channel: grpc.aio.Channel, full_method: str, key: str = "", metadata: Any = ()) -> grpc.StatusCode:
    """Call any method with an empty request and give the code."""
    try:
        await call_raw(channel, full_method, key, metadata)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def call_raw(channel: grpc.aio.Channel, full_method: str, key: str = "", metadata: Any = ()) -> None:
    method = METHODS[full_method]
    options = {"metadata": (*(bearer(key) if key else ()), *metadata), "timeout": 10}
    if method.client_streaming:
        running: Any = channel.stream_unary(full_method, None, None)(iter([b""]), **options)
        await running
    elif method.server_streaming:
        async for _ in channel.unary_stream(full_method, None, None)(b"", **options):
            pass
    else:
        await channel.unary_unary(full_method, None, None)(b"", **options)


def reason_of(error: grpc.aio.AioRpcError) -> str:
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason
    return ""


def test_every_method_of_the_contract_has_a_policy() -> None:
    assert set(RULES) == set(METHODS)
    assert len(MEMBER_METHODS) >= 30
    assert SERVICE_METHODS


@pytest.mark.parametrize("full_method", MEMBER_METHODS)
async def test_member_method_without_credentials_is_unauthenticated(
    channel: grpc.aio.Channel, full_method: str
) -> None:
    assert await call(channel, full_method) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("full_method", MEMBER_METHODS)
async def test_viewer_with_widest_scope_reaches_only_what_viewers_may(
    mesh: GatewayMesh, channel: grpc.aio.Channel, full_method: str
) -> None:
    code = await call(channel, full_method, mesh.key(Role.VIEWER, Scope.PLATFORM))
    denied = RULES[full_method].minimum_role > Role.VIEWER
    assert (code is grpc.StatusCode.PERMISSION_DENIED) == denied


@pytest.mark.parametrize("full_method", MEMBER_METHODS)
async def test_owner_with_read_key_changes_nothing(
    mesh: GatewayMesh, channel: grpc.aio.Channel, full_method: str
) -> None:
    code = await call(channel, full_method, mesh.key(Role.OWNER, Scope.READ))
    denied = RULES[full_method].scope > Scope.READ
    assert (code is grpc.StatusCode.PERMISSION_DENIED) == denied
    # What a caller has asked itself is its own: a key that may ask may also forget.
    is_own = "ConversationService" in full_method or full_method.endswith("LedgerService/DeleteRetrieval")
    if RULES[full_method].mutating and not is_own:
        assert denied


@pytest.mark.parametrize("full_method", SERVICE_METHODS)
async def test_method_for_services_is_answered_as_if_it_did_not_exist(
    mesh: GatewayMesh, channel: grpc.aio.Channel, full_method: str
) -> None:
    key = mesh.key(Role.OWNER, Scope.PLATFORM)
    assert await call(channel, full_method, key) is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await channel.unary_unary("/corpusmesh.ingest.v1.DocumentService/Nope", None, None)(b"", metadata=bearer(key))
    assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_forged_internal_identity_of_a_caller_is_not_looked_at(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    from corpusmesh_runtime.identity import service_identity

    token = mesh.signer.sign(service_identity("ingest", tenant_id="acme"))
    method = "/corpusmesh.ingest.v1.KnowledgeBaseService/ListKnowledgeBases"
    assert await call(channel, method, metadata=(("corpusmesh-identity", token),)) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer cm_",
        "Bearer cm_aaaaaaaaaaaaaaaa_short",
        "Basic YTpi",
        f"Bearer cm_{'a' * 16}_{'A' * 43}",
        f"Bearer cm_{'a' * 16}_{'A' * 5000}",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
    ],
)
async def test_credential_that_is_no_known_key_is_refused(channel: grpc.aio.Channel, authorization: str) -> None:
    method = "/corpusmesh.gateway.v1.AdminService/GetCaller"
    code = await call(channel, method, metadata=(("authorization", authorization),))
    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_wrong_secret_of_a_known_key_reads_like_an_unknown_key(
    mesh: GatewayMesh, channel: grpc.aio.Channel
) -> None:
    key = mesh.key()
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    texts = []
    for credential in (wrong, f"cm_{'b' * 16}_{'A' * 43}"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call_raw(channel, "/corpusmesh.gateway.v1.AdminService/GetCaller", credential)
        texts.append((caught.value.code(), caught.value.details(), reason_of(caught.value)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("cache_seconds", [0.0, 5.0])
async def test_revoked_key_is_refused_from_the_next_call_on(cache_seconds: float) -> None:
    settings = GatewaySettings(server=SERVER, authentication=AuthenticationSettings(key_cache_seconds=cache_seconds))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        from corpusmesh.gateway.v1 import admin_service_pb2 as pb
        from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceStub

        owner, victim = mesh.key(Role.OWNER, Scope.ADMIN), mesh.key(Role.EDITOR)
        method = "/corpusmesh.ingest.v1.KnowledgeBaseService/ListKnowledgeBases"
        assert await call(channel, method, victim) is grpc.StatusCode.OK
        assert await call(channel, method, victim) is grpc.StatusCode.OK
        assert mesh.members.look_ups == (1 if cache_seconds else 2)
        name = f"users/editor/apiKeys/{victim.split('_')[1]}"
        await AdminServiceStub(channel).RevokeApiKey(pb.RevokeApiKeyRequest(name=name), metadata=bearer(owner))
        assert await call(channel, method, victim) is grpc.StatusCode.UNAUTHENTICATED


async def test_disabled_user_is_refused_from_the_next_call_on_though_the_key_is_cached() -> None:
    settings = GatewaySettings(server=SERVER, authentication=AuthenticationSettings(key_cache_seconds=5))
    async with gateway_mesh(settings) as mesh, mesh.channel() as channel:
        from corpusmesh.gateway.v1 import admin_service_pb2 as pb
        from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceStub

        owner, victim = mesh.key(Role.OWNER, Scope.ADMIN), mesh.key(Role.EDITOR)
        method = "/corpusmesh.ingest.v1.KnowledgeBaseService/ListKnowledgeBases"
        assert await call(channel, method, victim) is grpc.StatusCode.OK
        user = pb.User(name="users/editor", role=policy_pb2.ROLE_EDITOR, disabled=True)
        await AdminServiceStub(channel).UpdateUser(pb.UpdateUserRequest(user=user), metadata=bearer(owner))
        assert await call(channel, method, victim) is grpc.StatusCode.UNAUTHENTICATED


async def test_key_store_that_is_away_makes_calls_unavailable_and_never_lets_them_through() -> None:
    async with gateway_mesh() as mesh, mesh.channel() as channel:
        key = mesh.key()
        mesh.members.away = True
        method = "/corpusmesh.ingest.v1.KnowledgeBaseService/ListKnowledgeBases"
        assert await call(channel, method, key) is grpc.StatusCode.UNAVAILABLE
        assert not mesh.seen.calls
        assert not await mesh.gateway.check_ready()


async def test_refused_call_of_a_known_caller_leaves_an_audit_row_with_method_and_reason() -> None:
    async with gateway_mesh() as mesh, mesh.channel() as channel:
        method = "/corpusmesh.gateway.v1.AdminService/CreateUser"
        assert await call(channel, method, mesh.key(Role.VIEWER)) is grpc.StatusCode.PERMISSION_DENIED
        assert mesh.members.rows == [("acme/viewer", "call", method, "denied", {"reason": "ROLE_TOO_LOW"})]


async def test_many_refused_calls_leave_a_bounded_number_of_audit_rows() -> None:
    async with gateway_mesh() as mesh, mesh.channel() as channel:
        key = mesh.key(Role.VIEWER)
        for _ in range(100):
            await call(channel, "/corpusmesh.gateway.v1.AdminService/CreateUser", key)
        assert 60 <= len(mesh.members.rows) < 90
