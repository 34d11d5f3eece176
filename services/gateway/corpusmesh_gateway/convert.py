"""Between the contract's messages and the values of the core."""

import base64
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from corpusmesh.gateway.v1 import admin_service_pb2 as pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.members import ApiKey, Tenant, User

_IDENTIFIER = re.compile(r"[a-z0-9-]{1,63}")
_DEFAULT_PAGE_SIZE = 50
_MAX_PAGE_SIZE = 500
_MAX_DISPLAY_NAME_CHARACTERS = 200
_MAX_GROUP_COUNT = 100
_MAX_GROUP_CHARACTERS = 100


def caller_message(identity: Identity) -> pb.GetCallerResponse:
    """Render a caller.

    Args:
        identity: The caller.

    Returns:
        The message.
    """
    return pb.GetCallerResponse(
        tenant=f"tenants/{identity.tenant_id}",
        user=f"users/{identity.user_id}",
        role=policy_pb2.Role.ValueType(identity.role),
        scope=policy_pb2.Scope.ValueType(identity.scope),
        groups=identity.groups,
    )


def tenant_message(tenant: Tenant) -> pb.Tenant:
    """Render a tenant.

    Args:
        tenant: The tenant.

    Returns:
        The message.
    """
    return pb.Tenant(
        name=f"tenants/{tenant.tenant_id}",
        display_name=tenant.display_name,
        create_time=_timestamp(tenant.create_time),
    )


def user_message(user: User) -> pb.User:
    """Render a user.

    Args:
        user: The user.

    Returns:
        The message.
    """
    return pb.User(
        name=f"users/{user.user_id}",
        display_name=user.display_name,
        role=policy_pb2.Role.ValueType(user.role),
        groups=user.groups,
        disabled=user.disabled,
        create_time=_timestamp(user.create_time),
    )


def key_message(key: ApiKey) -> pb.ApiKey:
    """Render a key without its secret.

    Args:
        key: The key.

    Returns:
        The message.
    """
    return pb.ApiKey(
        name=f"users/{key.user_id}/apiKeys/{key.key_id}",
        scope=policy_pb2.Scope.ValueType(key.scope),
        create_time=_timestamp(key.create_time),
        expire_time=_timestamp(key.expire_time),
        revoke_time=_timestamp(key.revoke_time),
    )


def read_identifier(value: str, *, field: str) -> str:
    """Check an identifier that a caller gives to a new thing.

    Args:
        value: The identifier.
        field: Its field.

    Returns:
        The identifier.

    Raises:
        InvalidArgumentError: If it has another shape.
    """
    if not _IDENTIFIER.fullmatch(value):
        raise InvalidArgumentError(
            "IDENTIFIER_INVALID", f"{field} takes 1 to 63 of the characters a to z, 0 to 9 and -", field=field
        )
    return value


def read_user_id(name: str, *, field: str) -> str:
    """Take the identifier out of `users/{user}`.

    Args:
        name: The name.
        field: Its field.

    Returns:
        The identifier.

    Raises:
        InvalidArgumentError: If the name has another shape.
    """
    identifier = name.removeprefix("users/")
    if identifier == name or not _IDENTIFIER.fullmatch(identifier):
        raise InvalidArgumentError("RESOURCE_NAME_INVALID", f"{field} must be a name like users/<id>", field=field)
    return identifier


def read_key_name(name: str) -> tuple[str, str]:
    """Take the identifiers out of `users/{user}/apiKeys/{key}`.

    Args:
        name: The name.

    Returns:
        User and key.

    Raises:
        InvalidArgumentError: If the name has another shape.
        NotFoundError: If the key's identifier cannot be that of any key.
    """
    user_name, separator, key_id = name.partition("/apiKeys/")
    if not separator:
        raise InvalidArgumentError("RESOURCE_NAME_INVALID", "name must be like users/<id>/apiKeys/<id>", field="name")
    if not _IDENTIFIER.fullmatch(key_id):
        raise NotFoundError("API_KEY_NOT_FOUND", "this user has no such API key")
    return read_user_id(user_name, field="name"), key_id


def read_role(value: int, *, field: str) -> Role:
    """Read a role that must be set.

    Args:
        value: As in the contract.
        field: Its field.

    Returns:
        The role.

    Raises:
        InvalidArgumentError: If it is unset or unknown.
    """
    try:
        return Role(value)
    except ValueError:
        names = ", ".join(f"ROLE_{role.name}" for role in Role)
        raise InvalidArgumentError("ROLE_INVALID", f"set {field} to one of {names}", field=field) from None


def read_scope(value: int, *, field: str) -> Scope:
    """Read a scope that must be set.

    Args:
        value: As in the contract.
        field: Its field.

    Returns:
        The scope.

    Raises:
        InvalidArgumentError: If it is unset or unknown.
    """
    try:
        return Scope(value)
    except ValueError:
        names = ", ".join(f"SCOPE_{scope.name}" for scope in Scope)
        raise InvalidArgumentError("SCOPE_INVALID", f"set {field} to one of {names}", field=field) from None


def read_display_name(value: str, *, field: str) -> str:
    """Check a name for people.

    Args:
        value: The name.
        field: Its field.

    Returns:
        The name.

    Raises:
        InvalidArgumentError: If it is too long or holds control characters.
    """
    if len(value) > _MAX_DISPLAY_NAME_CHARACTERS or not value.isprintable():
        raise InvalidArgumentError(
            "DISPLAY_NAME_INVALID",
            f"{field} takes at most {_MAX_DISPLAY_NAME_CHARACTERS} printable characters",
            field=field,
        )
    return value


def read_groups(groups: Sequence[str], *, field: str) -> tuple[str, ...]:
    """Check and sort groups.

    Args:
        groups: Their names.
        field: Their field.

    Returns:
        The groups, sorted, each once.

    Raises:
        InvalidArgumentError: If they are too many, or a name is empty, too long or not printable.
    """
    if len(groups) > _MAX_GROUP_COUNT or not all(
        0 < len(group) <= _MAX_GROUP_CHARACTERS and group.isprintable() for group in groups
    ):
        raise InvalidArgumentError(
            "GROUPS_INVALID",
            f"{field} takes at most {_MAX_GROUP_COUNT} names of 1 to {_MAX_GROUP_CHARACTERS} characters",
            field=field,
        )
    return tuple(sorted(set(groups)))


def read_expire_time(message: Timestamp, *, now: datetime) -> datetime:
    """Read when a key ends.

    Args:
        message: The time.
        now: The time now, UTC.

    Returns:
        The time, UTC.

    Raises:
        InvalidArgumentError: If it is not in the future, or no time at all.
    """
    try:
        expire_time = message.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        expire_time = now
    if expire_time <= now:
        raise InvalidArgumentError("EXPIRE_TIME_INVALID", "expire_time must be in the future", field="expire_time")
    return expire_time


def read_page_size(page_size: int) -> int:
    """Read how many entries a page shall hold.

    Args:
        page_size: As in the request; 0 for the default.

    Returns:
        1 to 500.

    Raises:
        InvalidArgumentError: If it is negative.
    """
    if page_size < 0:
        raise InvalidArgumentError("PAGE_SIZE_INVALID", "page_size must not be negative", field="page_size")
    return min(page_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)


def make_page_token(*query: str, after_key: str) -> str:
    """Make an opaque token that only the same query takes.

    Args:
        query: What the pages are of.
        after_key: Last key of this page.

    Returns:
        The token.
    """
    return base64.urlsafe_b64encode(json.dumps([*query, after_key]).encode()).decode().rstrip("=")


def read_page_token(token: str, *query: str) -> str:
    """Read a token.

    Args:
        token: What `make_page_token` made; "" for the first page.
        query: What the pages are of.

    Returns:
        Last key of the page before; "" for the first page.

    Raises:
        InvalidArgumentError: If it is of another query, or none at all.
    """
    if not token:
        return ""
    try:
        parts = json.loads(base64.urlsafe_b64decode(token.encode() + b"=="))
        *token_query, after_key = parts
        if tuple(token_query) == query and isinstance(after_key, str):
            return after_key
    except (ValueError, TypeError):
        pass
    raise InvalidArgumentError(
        "PAGE_TOKEN_INVALID", "page_token is not of this query; begin again without one", field="page_token"
    )


def _timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message
