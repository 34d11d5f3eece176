"""The JSON shapes of tenants, users and keys, documented in `docs/guide/cli.md` and stable like those of `shapes`."""

from corpusmesh.gateway.v1 import admin_service_pb2 as admin_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_app.cli.shapes import Shape, time_of
from corpusmesh_client.names import identifier_of


def role_name(role: policy_pb2.Role.ValueType) -> str:
    """Give the name of a role.

    Args:
        role: The role.

    Returns:
        Such as "viewer".
    """
    return policy_pb2.Role.Name(role).removeprefix("ROLE_").lower()


def scope_name(scope: policy_pb2.Scope.ValueType) -> str:
    """Give the name of a scope.

    Args:
        scope: The scope.

    Returns:
        Such as "read".
    """
    return policy_pb2.Scope.Name(scope).removeprefix("SCOPE_").lower()


def tenant_shape(tenant: admin_pb.Tenant) -> Shape:
    """Describe a tenant.

    Args:
        tenant: The tenant.

    Returns:
        Its shape.
    """
    return {
        "name": tenant.name,
        "id": identifier_of(tenant.name),
        "display_name": tenant.display_name,
        "create_time": time_of(tenant, "create_time"),
    }


def user_shape(user: admin_pb.User) -> Shape:
    """Describe a user.

    Args:
        user: The user.

    Returns:
        Its shape.
    """
    return {
        "name": user.name,
        "id": identifier_of(user.name),
        "display_name": user.display_name,
        "role": role_name(user.role),
        "groups": list(user.groups),
        "disabled": user.disabled,
        "create_time": time_of(user, "create_time"),
    }


def api_key_shape(key: admin_pb.ApiKey) -> Shape:
    """Describe an API key without its secret.

    Args:
        key: The key.

    Returns:
        Its shape.
    """
    return {
        "name": key.name,
        "id": identifier_of(key.name),
        "scope": scope_name(key.scope),
        "create_time": time_of(key, "create_time"),
        "expire_time": time_of(key, "expire_time"),
        "revoke_time": time_of(key, "revoke_time"),
    }


def caller_shape(caller: admin_pb.GetCallerResponse) -> Shape:
    """Describe who the caller is.

    Args:
        caller: The caller.

    Returns:
        Its shape.
    """
    return {
        "tenant": caller.tenant,
        "user": caller.user,
        "role": role_name(caller.role),
        "scope": scope_name(caller.scope),
        "groups": list(caller.groups),
    }
