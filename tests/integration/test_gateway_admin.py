"""Tenants, users and keys through the gateway, over the real stores and over those in memory."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from corpusmesh.gateway.v1 import admin_service_pb2 as pb
from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_adapters.postgres import PostgresAuditLog
from corpusmesh_gateway import GatewayStores, bootstrap_first_admin
from tests.support.gateway_mesh import GatewayMesh, bearer, gateway_mesh, stores_of
from tests.support.memory_members import Members
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata

VIEWER, EDITOR, ADMIN, OWNER = (
    policy_pb2.ROLE_VIEWER,
    policy_pb2.ROLE_EDITOR,
    policy_pb2.ROLE_ADMIN,
    policy_pb2.ROLE_OWNER,
)


@dataclass
class Admin:
    """A mesh with its first admin, and the rows that its changes left."""

    mesh: GatewayMesh
    stub: Any
    root: str
    metadata: Metadata | None

    async def call(self, method: str, request: Any, key: str = "") -> Any:
        return await getattr(self.stub, method)(request, metadata=bearer(key or self.root), timeout=20)

    async def reason(self, method: str, request: Any, key: str = "") -> str:
        """Call, and give the reason of the refusal; "" where it is done."""
        try:
            await self.call(method, request, key)
        except grpc.aio.AioRpcError as error:
            for name, value in error.trailing_metadata() or ():
                if name == "grpc-status-details-bin":
                    for detail in Status.FromString(value).details:
                        info = error_details_pb2.ErrorInfo()
                        if detail.Unpack(info):
                            return info.reason
            return error.code().name
        return ""

    async def user(self, user_id: str, role: Any, *, scope: Any = policy_pb2.SCOPE_ADMIN, key: str = "") -> str:
        """Make a user with a key; give the key."""
        await self.call("CreateUser", pb.CreateUserRequest(user_id=user_id, user=pb.User(role=role)), key)
        return await self.key(user_id, scope, key)

    async def key(self, user_id: str, scope: Any = policy_pb2.SCOPE_ADMIN, key: str = "") -> str:
        request = pb.CreateApiKeyRequest(parent=f"users/{user_id}", scope=scope)
        return str((await self.call("CreateApiKey", request, key)).secret)

    async def rows(self) -> list[tuple[str, str, str]]:
        """Actor, action and outcome of every audit row, in order."""
        if self.metadata is None:
            return [(row[0].split("/")[1], row[1], row[3]) for row in self.mesh.members.rows]
        async with self.metadata.database.system() as connection:
            rows = await connection.fetch("SELECT actor, action, outcome FROM corpusmesh.audit_log ORDER BY audit_id")
        return [tuple(row) for row in rows]


def key_name(secret: str, user_id: str) -> str:
    return f"users/{user_id}/apiKeys/{secret.split('_')[1]}"


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.servers)])
def server_dsn(request: pytest.FixtureRequest) -> str | None:
    """Where Postgres is; None to keep members in memory. Not a coroutine: it may start the session's servers."""
    if request.param == "memory":
        return None
    return POSTGRES_DSN or request.getfixturevalue("stack_endpoints").postgres_dsn


@pytest.fixture
async def metadata(server_dsn: str | None) -> AsyncIterator[Metadata | None]:
    if server_dsn is None:
        yield None
        return
    async with fresh_metadata(server_dsn) as made:
        yield made


@pytest.fixture
async def admin(metadata: Metadata | None) -> AsyncIterator[Admin]:
    def stores(members: Members) -> GatewayStores:
        if metadata is None:
            return stores_of(members)
        return GatewayStores(metadata.tenants, metadata.keys, PostgresAuditLog(metadata.database))

    async with gateway_mesh(stores=stores) as mesh, mesh.channel() as channel:
        root = await bootstrap_first_admin(mesh.gateway._stores, secrets.token_bytes)
        assert root is not None
        yield Admin(mesh, AdminServiceStub(channel), root, metadata)


async def test_first_admin_is_known_by_the_key_of_the_bootstrap(admin: Admin) -> None:
    me = await admin.call("GetCaller", pb.GetCallerRequest())
    assert (me.tenant, me.user, me.role, me.scope) == (
        "tenants/default",
        "users/admin",
        OWNER,
        policy_pb2.SCOPE_PLATFORM,
    )
    assert await bootstrap_first_admin(admin.mesh.gateway._stores, secrets.token_bytes) is None


async def test_new_tenant_has_an_owner_whose_key_sees_only_that_tenant(admin: Admin) -> None:
    made = await admin.call("CreateTenant", pb.CreateTenantRequest(tenant_id="acme", display_name="Acme 公司"))
    assert (made.tenant.name, made.tenant.display_name, made.owner.name) == ("tenants/acme", "Acme 公司", "users/owner")
    users = await admin.call("ListUsers", pb.ListUsersRequest(), made.secret)
    assert [user.name for user in users.users] == ["users/owner"]
    # The scope of its key ends at its own tenant.
    assert await admin.reason("ListTenants", pb.ListTenantsRequest(), made.secret) == "SCOPE_TOO_LOW"
    assert await admin.reason("CreateTenant", pb.CreateTenantRequest(tenant_id="other"), made.secret) == "SCOPE_TOO_LOW"
    assert await admin.reason("CreateTenant", pb.CreateTenantRequest(tenant_id="acme")) == "TENANT_EXISTS"
    tenants = await admin.call("ListTenants", pb.ListTenantsRequest())
    assert [tenant.name for tenant in tenants.tenants] == ["tenants/acme", "tenants/default"]


async def test_tenant_whose_creation_broke_off_before_its_key_is_finished_by_the_same_call(admin: Admin) -> None:
    await admin.mesh.gateway._stores.tenants.create_tenant("acme", "Acme", "owner")
    made = await admin.call("CreateTenant", pb.CreateTenantRequest(tenant_id="acme"))
    assert (await admin.call("GetCaller", pb.GetCallerRequest(), made.secret)).tenant == "tenants/acme"


async def test_user_and_key_of_another_tenant_are_not_found(admin: Admin) -> None:
    victim = await admin.user("victim", VIEWER)
    stranger = (await admin.call("CreateTenant", pb.CreateTenantRequest(tenant_id="acme"))).secret
    unknown = await admin.reason("ListApiKeys", pb.ListApiKeysRequest(parent="users/nobody"), stranger)
    update = pb.UpdateUserRequest(user=pb.User(name="users/victim", role=VIEWER, disabled=True))
    for method, request in (
        ("ListApiKeys", pb.ListApiKeysRequest(parent="users/victim")),
        ("UpdateUser", update),
        ("CreateApiKey", pb.CreateApiKeyRequest(parent="users/victim", scope=policy_pb2.SCOPE_READ)),
        ("RevokeApiKey", pb.RevokeApiKeyRequest(name=key_name(victim, "victim"))),
    ):
        assert await admin.reason(method, request, stranger) == unknown == "USER_NOT_FOUND"
    # By the same user id in the stranger's own tenant, the key is still not reached.
    await admin.user("victim", VIEWER, key=stranger)
    revoke = pb.RevokeApiKeyRequest(name=key_name(victim, "victim"))
    assert await admin.reason("RevokeApiKey", revoke, stranger) == "API_KEY_NOT_FOUND"
    assert await admin.reason("GetCaller", pb.GetCallerRequest(), victim) == ""


async def test_admin_makes_neither_admins_nor_owners_and_reaches_none_of_them(admin: Admin) -> None:
    key = await admin.user("ada", ADMIN)
    await admin.user("bea", ADMIN)
    await admin.user("editor", EDITOR, scope=policy_pb2.SCOPE_WRITE)
    for role in (ADMIN, OWNER):
        create = pb.CreateUserRequest(user_id="new", user=pb.User(role=role))
        assert await admin.reason("CreateUser", create, key) == "ROLE_ABOVE_CALLER"
        for user_id in ("editor", "ada"):
            promote = pb.UpdateUserRequest(user=pb.User(name=f"users/{user_id}", role=role))
            expected = "" if (user_id, role) == ("ada", ADMIN) else "ROLE_ABOVE_CALLER"
            assert await admin.reason("UpdateUser", promote, key) == expected
    for user_id, role in (("admin", OWNER), ("bea", ADMIN)):
        disable = pb.UpdateUserRequest(user=pb.User(name=f"users/{user_id}", role=role, disabled=True))
        assert await admin.reason("UpdateUser", disable, key) == "MEMBER_ABOVE_CALLER"
        take_over = pb.CreateApiKeyRequest(parent=f"users/{user_id}", scope=policy_pb2.SCOPE_ADMIN)
        assert await admin.reason("CreateApiKey", take_over, key) == "MEMBER_ABOVE_CALLER"
    revoke = pb.RevokeApiKeyRequest(name=key_name(admin.root, "admin"))
    assert await admin.reason("RevokeApiKey", revoke, key) == "MEMBER_ABOVE_CALLER"
    demote = pb.UpdateUserRequest(user=pb.User(name="users/editor", role=VIEWER))
    assert await admin.reason("UpdateUser", demote, key) == ""


async def test_key_never_has_more_scope_than_the_one_that_made_it(admin: Admin) -> None:
    narrow = await admin.user("ada", ADMIN, scope=policy_pb2.SCOPE_ADMIN)
    request = pb.CreateApiKeyRequest(parent="users/ada", scope=policy_pb2.SCOPE_PLATFORM)
    assert await admin.reason("CreateApiKey", request, narrow) == "SCOPE_ABOVE_CALLER"


async def test_last_owner_is_neither_demoted_nor_disabled_nor_left_without_a_key(admin: Admin) -> None:
    for user in (pb.User(name="users/admin", role=VIEWER), pb.User(name="users/admin", role=OWNER, disabled=True)):
        assert await admin.reason("UpdateUser", pb.UpdateUserRequest(user=user)) == "LAST_OWNER"
    revoke = pb.RevokeApiKeyRequest(name=key_name(admin.root, "admin"))
    assert await admin.reason("RevokeApiKey", revoke) == "LAST_OWNER_KEY"
    # A key that cannot administer, or ends before long, does not count; another owner's does.
    await admin.key("admin", policy_pb2.SCOPE_WRITE)
    assert await admin.reason("RevokeApiKey", revoke) == "LAST_OWNER_KEY"
    second = await admin.user("second", OWNER)
    assert await admin.reason("RevokeApiKey", revoke) == ""
    assert await admin.reason("GetCaller", pb.GetCallerRequest()) == "API_KEY_INVALID"
    demote = pb.UpdateUserRequest(user=pb.User(name="users/admin", role=VIEWER))
    assert await admin.reason("UpdateUser", demote, second) == ""


async def test_secret_is_shown_once_and_stored_as_a_hash(admin: Admin) -> None:
    secret = await admin.user("ada", ADMIN)
    listed = await admin.call("ListApiKeys", pb.ListApiKeysRequest(parent="users/ada"))
    assert [key.name for key in listed.api_keys] == [key_name(secret, "ada")]
    assert secret.split("_", 2)[2] not in str(listed)
    assert len(secret.split("_", 2)[2]) == 43
    if admin.metadata is not None:
        async with admin.metadata.database.system() as connection:
            for table in ("api_keys", "audit_log"):
                text = await connection.fetchval(f"SELECT string_agg(t::text, ' ') FROM corpusmesh.{table} t")
                assert secret.split("_", 2)[2] not in text


async def test_expired_key_and_disabled_user_are_refused(admin: Admin) -> None:
    request = pb.CreateApiKeyRequest(parent="users/admin", scope=policy_pb2.SCOPE_READ)
    request.expire_time.FromDatetime(datetime.now(UTC) - timedelta(seconds=1))
    assert await admin.reason("CreateApiKey", request) == "EXPIRE_TIME_INVALID"
    request.expire_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=0.3))
    secret = (await admin.call("CreateApiKey", request)).secret
    while not await admin.reason("GetCaller", pb.GetCallerRequest(), secret):
        pass
    assert await admin.reason("GetCaller", pb.GetCallerRequest(), secret) == "API_KEY_INVALID"
    key = await admin.user("ada", EDITOR)
    disable = pb.UpdateUserRequest(user=pb.User(name="users/ada", role=EDITOR, disabled=True))
    assert (await admin.call("UpdateUser", disable)).disabled
    assert await admin.reason("GetCaller", pb.GetCallerRequest(), key) == "API_KEY_INVALID"


async def test_changed_role_and_groups_hold_from_the_next_call_on(admin: Admin) -> None:
    key = await admin.user("ada", VIEWER)
    change = pb.UpdateUserRequest(user=pb.User(name="users/ada", role=EDITOR, groups=["b", "a", "b"]))
    await admin.call("UpdateUser", change)
    me = await admin.call("GetCaller", pb.GetCallerRequest(), key)
    assert (me.role, list(me.groups)) == (EDITOR, ["a", "b"])


async def test_lists_walk_all_pages_and_a_token_of_another_list_is_refused(admin: Admin) -> None:
    for place in range(5):
        await admin.user(f"user-{place}", VIEWER)
        await admin.key("admin")
    for method, request, field, count in (
        ("ListUsers", pb.ListUsersRequest(page_size=2), "users", 6),
        ("ListApiKeys", pb.ListApiKeysRequest(parent="users/admin", page_size=2), "api_keys", 6),
        ("ListTenants", pb.ListTenantsRequest(page_size=2), "tenants", 1),
    ):
        names: list[str] = []
        while True:
            page = await admin.call(method, request)
            names += [item.name for item in getattr(page, field)]
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        assert len(names) == len(set(names)) == count
    token = (await admin.call("ListUsers", pb.ListUsersRequest(page_size=1))).next_page_token
    request = pb.ListApiKeysRequest(parent="users/admin", page_token=token)
    assert await admin.reason("ListApiKeys", request) == "PAGE_TOKEN_INVALID"


async def test_request_that_cannot_be_done_says_why(admin: Admin) -> None:
    for method, request, reason in (
        ("CreateTenant", pb.CreateTenantRequest(tenant_id="A b"), "IDENTIFIER_INVALID"),
        ("CreateTenant", pb.CreateTenantRequest(tenant_id="a", owner_id="'--"), "IDENTIFIER_INVALID"),
        ("CreateUser", pb.CreateUserRequest(user_id="a/b", user=pb.User(role=VIEWER)), "IDENTIFIER_INVALID"),
        ("CreateUser", pb.CreateUserRequest(user_id="a"), "ROLE_INVALID"),
        ("CreateUser", pb.CreateUserRequest(user_id="a", user=pb.User(role=99)), "ROLE_INVALID"),
        ("CreateUser", pb.CreateUserRequest(user_id="admin", user=pb.User(role=VIEWER)), "USER_EXISTS"),
        ("UpdateUser", pb.UpdateUserRequest(user=pb.User(name="admin", role=VIEWER)), "RESOURCE_NAME_INVALID"),
        ("UpdateUser", pb.UpdateUserRequest(user=pb.User(name="users/nobody", role=VIEWER)), "USER_NOT_FOUND"),
        ("CreateApiKey", pb.CreateApiKeyRequest(parent="users/admin"), "SCOPE_INVALID"),
        ("CreateApiKey", pb.CreateApiKeyRequest(parent="users/nobody", scope=1), "USER_NOT_FOUND"),
        ("RevokeApiKey", pb.RevokeApiKeyRequest(name="users/admin"), "RESOURCE_NAME_INVALID"),
        ("ListUsers", pb.ListUsersRequest(page_size=-1), "PAGE_SIZE_INVALID"),
    ):
        assert await admin.reason(method, request) == reason, request


async def test_every_change_leaves_an_audit_row_and_a_failed_one_a_second(admin: Admin) -> None:
    before = len(await admin.rows())
    secret = await admin.user("ada", VIEWER)
    await admin.call("UpdateUser", pb.UpdateUserRequest(user=pb.User(name="users/ada", role=EDITOR)))
    await admin.call("RevokeApiKey", pb.RevokeApiKeyRequest(name=key_name(secret, "ada")))
    await admin.call("CreateTenant", pb.CreateTenantRequest(tenant_id="acme"))
    await admin.reason("CreateUser", pb.CreateUserRequest(user_id="ada", user=pb.User(role=VIEWER)))
    assert (await admin.rows())[before:] == [
        ("admin", "user.create", "allowed"),
        ("admin", "key.create", "allowed"),
        ("admin", "user.update", "allowed"),
        ("admin", "key.revoke", "allowed"),
        ("admin", "tenant.create", "allowed"),
        ("admin", "user.create", "allowed"),
        ("admin", "user.create", "failed"),
    ]
