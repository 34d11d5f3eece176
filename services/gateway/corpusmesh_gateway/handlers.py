"""Handlers of `AdminService`: tenants, users and keys. The guard has checked role and scope already."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from corpusmesh.gateway.v1 import admin_service_pb2 as pb
from corpusmesh.gateway.v1 import admin_service_pb2_grpc as pb_grpc
from corpusmesh_core.errors import AlreadyExistsError, CorpusMeshError
from corpusmesh_core.ports.metadata import AuditLog, KeyStore, TenantStore
from corpusmesh_core.tenancy import Role, Scope
from corpusmesh_core.tenancy.keys import KEY_ID_BYTE_COUNT, SECRET_BYTE_COUNT, KeyMaterial, make_key
from corpusmesh_core.tenancy.members import Tenant
from corpusmesh_gateway import convert, members
from corpusmesh_gateway.authentication import ApiKeyAuthenticator
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.interceptor import Context

RandomBytes = Callable[[int], bytes]
"""Gives that many bytes of a cryptographic source."""
_SCAN_PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class GatewayStores:
    """What the gateway needs of the metadata store.

    Attributes:
        tenants: Tenants and members.
        keys: API keys.
        audit: The audit log.
    """

    tenants: TenantStore
    keys: KeyStore
    audit: AuditLog


def utc_now() -> datetime:
    """Tell the time.

    Returns:
        Now, UTC.
    """
    return datetime.now(UTC)


def new_key(random_bytes: RandomBytes) -> KeyMaterial:
    """Make a key.

    Args:
        random_bytes: Source of its parts.

    Returns:
        The key.
    """
    return make_key(random_bytes(KEY_ID_BYTE_COUNT), random_bytes(SECRET_BYTE_COUNT))


class AdminHandlers(pb_grpc.AdminServiceServicer):
    """Answers the calls of `AdminService`."""

    def __init__(
        self,
        stores: GatewayStores,
        authenticator: ApiKeyAuthenticator,
        random_bytes: RandomBytes,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Create the handlers.

        Args:
            stores: The metadata store.
            authenticator: Forgets what it cached of a user who is changed.
            random_bytes: Source of keys.
            now: Tells the time, UTC.
        """
        self._stores = stores
        self._authenticator = authenticator
        self._random_bytes = random_bytes
        self._now = now

    async def GetCaller(self, request: pb.GetCallerRequest, context: Context) -> pb.GetCallerResponse:
        """Tell who the caller is."""
        return convert.caller_message(require_call().identity)

    async def CreateTenant(self, request: pb.CreateTenantRequest, context: Context) -> pb.CreateTenantResponse:
        """Create a tenant with its first owner and that owner's key.

        A creation that broke off before the key was there is finished by the same call again.
        """
        tenant_id = convert.read_identifier(request.tenant_id, field="tenant_id")
        owner_id = convert.read_identifier(request.owner_id or "owner", field="owner_id")
        display_name = convert.read_display_name(request.display_name or tenant_id, field="display_name")
        async with self._audited("tenant.create", f"tenants/{tenant_id}", {"owner": owner_id}):
            try:
                tenant, owner = await self._stores.tenants.create_tenant(tenant_id, display_name, owner_id)
            except AlreadyExistsError:
                owner = await self._stores.tenants.get_user(tenant_id, owner_id)
                if await self._stores.keys.list_keys(tenant_id, owner_id, "", 1):
                    raise
                tenant = await self._find_tenant(tenant_id)
            key = new_key(self._random_bytes)
            await self._stores.keys.create_key(tenant_id, owner_id, key, Scope.ADMIN, None)
        return pb.CreateTenantResponse(
            tenant=convert.tenant_message(tenant), owner=convert.user_message(owner), secret=key.text
        )

    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        """List the tenants."""
        page_size = convert.read_page_size(request.page_size)
        after_key = convert.read_page_token(request.page_token, "tenants")
        tenants = await self._stores.tenants.list_tenants(after_key, page_size + 1)
        page = tenants[:page_size]
        more = len(tenants) > page_size
        return pb.ListTenantsResponse(
            tenants=[convert.tenant_message(tenant) for tenant in page],
            next_page_token=convert.make_page_token("tenants", after_key=page[-1].tenant_id) if more else "",
        )

    async def CreateUser(self, request: pb.CreateUserRequest, context: Context) -> pb.User:
        """Create a user in the caller's tenant."""
        caller = require_call().identity
        user_id = convert.read_identifier(request.user_id, field="user_id")
        role = convert.read_role(request.user.role, field="user.role")
        display_name = convert.read_display_name(request.user.display_name, field="user.display_name")
        groups = convert.read_groups(request.user.groups, field="user.groups")
        members.require_may_grant_role(caller, role)
        detail = {"role": role.name.lower(), "groups": ",".join(groups)}
        async with self._audited("user.create", f"users/{user_id}", detail):
            user = await self._stores.tenants.create_user(caller.tenant_id, user_id, display_name, role, groups)
            if request.user.disabled:
                user = await self._stores.tenants.update_user(replace(user, disabled=True))
        return convert.user_message(user)

    async def ListUsers(self, request: pb.ListUsersRequest, context: Context) -> pb.ListUsersResponse:
        """List the users of the caller's tenant."""
        tenant_id = require_call().identity.tenant_id
        page_size = convert.read_page_size(request.page_size)
        after_key = convert.read_page_token(request.page_token, "users", tenant_id)
        users = await self._stores.tenants.list_users(tenant_id, after_key, page_size + 1)
        page = users[:page_size]
        more = len(users) > page_size
        return pb.ListUsersResponse(
            users=[convert.user_message(user) for user in page],
            next_page_token=convert.make_page_token("users", tenant_id, after_key=page[-1].user_id) if more else "",
        )

    async def UpdateUser(self, request: pb.UpdateUserRequest, context: Context) -> pb.User:
        """Set a user's name, role, groups and state."""
        caller = require_call().identity
        user_id = convert.read_user_id(request.user.name, field="user.name")
        role = convert.read_role(request.user.role, field="user.role")
        display_name = convert.read_display_name(request.user.display_name, field="user.display_name")
        groups = convert.read_groups(request.user.groups, field="user.groups")
        held = await self._stores.tenants.get_user(caller.tenant_id, user_id)
        members.require_may_manage(caller, held)
        members.require_may_grant_role(caller, role, held=held.role)
        wanted = replace(held, display_name=display_name, role=role, groups=groups, disabled=request.user.disabled)
        detail = {
            "role": f"{held.role.name.lower()}>{role.name.lower()}",
            "groups": ",".join(groups),
            "disabled": str(wanted.disabled).lower(),
        }
        async with self._audited("user.update", f"users/{user_id}", detail):
            user = await self._stores.tenants.update_user(wanted)
        self._authenticator.forget(tenant_id=caller.tenant_id, user_id=user_id)
        return convert.user_message(user)

    async def CreateApiKey(self, request: pb.CreateApiKeyRequest, context: Context) -> pb.CreateApiKeyResponse:
        """Create an API key; its secret is in this response alone."""
        caller = require_call().identity
        user_id = convert.read_user_id(request.parent, field="parent")
        scope = convert.read_scope(request.scope, field="scope")
        has_end = request.HasField("expire_time")
        expire_time = convert.read_expire_time(request.expire_time, now=self._now()) if has_end else None
        members.require_may_grant_scope(caller, scope)
        members.require_may_manage(caller, await self._stores.tenants.get_user(caller.tenant_id, user_id))
        key = new_key(self._random_bytes)
        resource = f"users/{user_id}/apiKeys/{key.key_id}"
        async with self._audited("key.create", resource, {"scope": scope.name.lower()}):
            made = await self._stores.keys.create_key(caller.tenant_id, user_id, key, scope, expire_time)
        return pb.CreateApiKeyResponse(api_key=convert.key_message(made), secret=key.text)

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        """List the API keys of a user, without secrets."""
        tenant_id = require_call().identity.tenant_id
        user_id = convert.read_user_id(request.parent, field="parent")
        page_size = convert.read_page_size(request.page_size)
        after_key = convert.read_page_token(request.page_token, "keys", tenant_id, user_id)
        await self._stores.tenants.get_user(tenant_id, user_id)
        keys = await self._stores.keys.list_keys(tenant_id, user_id, after_key, page_size + 1)
        page = keys[:page_size]
        more = len(keys) > page_size
        return pb.ListApiKeysResponse(
            api_keys=[convert.key_message(key) for key in page],
            next_page_token=(
                convert.make_page_token("keys", tenant_id, user_id, after_key=page[-1].key_id) if more else ""
            ),
        )

    async def RevokeApiKey(self, request: pb.RevokeApiKeyRequest, context: Context) -> pb.RevokeApiKeyResponse:
        """Revoke an API key; it is refused from the next request on."""
        caller = require_call().identity
        user_id, key_id = convert.read_key_name(request.name)
        user = await self._stores.tenants.get_user(caller.tenant_id, user_id)
        members.require_may_manage(caller, user)
        if user.role is Role.OWNER:
            await members.require_owner_keeps_key(
                self._stores.tenants, self._stores.keys, caller.tenant_id, key_id, now=self._now()
            )
        async with self._audited("key.revoke", request.name, {}):
            key = await self._stores.keys.revoke_key(caller.tenant_id, user_id, key_id)
        self._authenticator.forget(tenant_id=caller.tenant_id, user_id=user_id)
        return pb.RevokeApiKeyResponse(api_key=convert.key_message(key))

    async def _find_tenant(self, tenant_id: str) -> Tenant:
        after_key = ""
        while page := await self._stores.tenants.list_tenants(after_key, _SCAN_PAGE_SIZE):
            for tenant in page:
                if tenant.tenant_id == tenant_id:
                    return tenant
            after_key = page[-1].tenant_id
        raise AlreadyExistsError("TENANT_EXISTS", f"the tenant {tenant_id} exists", tenant=tenant_id)

    @asynccontextmanager
    async def _audited(self, action: str, resource: str, detail: Mapping[str, str]) -> AsyncIterator[None]:
        """Write the audit row before the change, so that no change is without one; a failure gets a second row."""
        call = require_call()
        audit = self._stores.audit
        await audit.append(call.identity, action, resource, "allowed", call.request_id, detail)
        try:
            yield
        except CorpusMeshError as error:
            await audit.append(call.identity, action, resource, "failed", call.request_id, {"reason": error.reason})
            raise
