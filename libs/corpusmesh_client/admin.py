"""Tenants, users and API keys."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from corpusmesh.gateway.v1 import admin_service_pb2 as pb
from corpusmesh.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller
from corpusmesh_client.names import resource_name
from corpusmesh_core.errors import NotFoundError

USERS = "users"


class AdminCalls:
    """Calls on tenants, users and keys."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = AdminServiceStub(caller.channel)

    async def get_caller(self) -> pb.GetCallerResponse:
        """Ask the mesh who the caller is.

        Returns:
            Tenant, user, role, scope and groups.
        """
        return await self._caller.unary(
            self._stub.GetCaller, pb.GetCallerRequest(), timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def create_tenant(
        self, tenant_id: str, *, display_name: str = "", owner_id: str = ""
    ) -> pb.CreateTenantResponse:
        """Create a tenant with its first owner and that owner's key.

        Args:
            tenant_id: Its identifier, `[a-z0-9-]{1,63}`.
            display_name: Name shown to people.
            owner_id: Identifier of its first owner; "" for "owner".

        Returns:
            Tenant, owner and the key's secret, shown this once.
        """
        request = pb.CreateTenantRequest(tenant_id=tenant_id, display_name=display_name, owner_id=owner_id)
        return await self._caller.unary(
            self._stub.CreateTenant,
            request,
            timeout_seconds=self._caller.deadlines.write_seconds,
            idempotent=False,
        )

    def list_tenants(self, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.Tenant]:
        """List the tenants, over all pages.

        Args:
            page_size: Entries read at once.

        Returns:
            The tenants, by name.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListTenants,
                pb.ListTenantsRequest(page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.tenants,
        )

    async def create_user(
        self,
        user_id: str,
        *,
        role: policy_pb2.Role.ValueType,
        display_name: str = "",
        groups: Sequence[str] = (),
    ) -> pb.User:
        """Create a user in the caller's tenant.

        Args:
            user_id: Its identifier, `[a-z0-9-]{1,63}`.
            role: Role in the tenant.
            display_name: Name shown to people.
            groups: Groups, for documents' access lists.

        Returns:
            The user.
        """
        user = pb.User(display_name=display_name, role=role, groups=groups)
        return await self._caller.unary(
            self._stub.CreateUser,
            pb.CreateUserRequest(user=user, user_id=user_id),
            timeout_seconds=self._caller.deadlines.write_seconds,
            idempotent=False,
        )

    def list_users(self, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.User]:
        """List the users of the caller's tenant, over all pages.

        Args:
            page_size: Entries read at once.

        Returns:
            The users, by name.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListUsers,
                pb.ListUsersRequest(page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.users,
        )

    async def find_user(self, name_or_id: str) -> pb.User:
        """Find a user of the caller's tenant.

        Args:
            name_or_id: `users/{user}` or the identifier.

        Returns:
            The user.

        Raises:
            NotFoundError: If there is none.
        """
        name = resource_name(USERS, name_or_id)
        async for user in self.list_users():
            if user.name == name:
                return user
        raise NotFoundError("USER_NOT_FOUND", f"there is no user {name_or_id!r} in this tenant", user=name_or_id)

    async def update_user(self, user: pb.User) -> pb.User:
        """Change a user; every field of the message replaces the present one.

        Args:
            user: Its name and the new role, groups, name and state.

        Returns:
            The user as it is now.
        """
        return await self._caller.unary(
            self._stub.UpdateUser,
            pb.UpdateUserRequest(user=user),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )

    async def create_api_key(
        self, user: str, *, scope: policy_pb2.Scope.ValueType, expire_time: datetime | None = None
    ) -> pb.CreateApiKeyResponse:
        """Create an API key for a user.

        Args:
            user: `users/{user}` or the identifier.
            scope: What the key may be used for.
            expire_time: When it ends to be accepted, with a time zone; None for never.

        Returns:
            The key and its secret, shown this once.
        """
        request = pb.CreateApiKeyRequest(parent=resource_name(USERS, user), scope=scope)
        if expire_time is not None:
            stamp = Timestamp()
            stamp.FromDatetime(expire_time)
            request.expire_time.CopyFrom(stamp)
        return await self._caller.unary(
            self._stub.CreateApiKey,
            request,
            timeout_seconds=self._caller.deadlines.write_seconds,
            idempotent=False,
        )

    def list_api_keys(self, user: str, *, page_size: int = MAX_PAGE_SIZE) -> AsyncIterator[pb.ApiKey]:
        """List the API keys of a user without secrets, newest first, over all pages.

        Args:
            user: `users/{user}` or the identifier.
            page_size: Entries read at once.

        Returns:
            The keys.
        """
        parent = resource_name(USERS, user)
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListApiKeys,
                pb.ListApiKeysRequest(parent=parent, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.api_keys,
        )

    async def revoke_api_key(self, name: str) -> pb.ApiKey:
        """Revoke an API key; it is refused from the next request on.

        Args:
            name: `users/*/apiKeys/*`.

        Returns:
            The key.
        """
        response = await self._caller.unary(
            self._stub.RevokeApiKey,
            pb.RevokeApiKeyRequest(name=name),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )
        return response.api_key
