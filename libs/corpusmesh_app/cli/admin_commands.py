"""`corpusmesh admin …`: tenants, users and API keys."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.secrets import check_secret_file, print_secret
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from corpusmesh.gateway.v1.admin_service_pb2 import ApiKey, User
    from corpusmesh.type.v1 import policy_pb2

_DURATION = re.compile(r"([0-9]{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_USER_COLUMNS = ("ID", "NAME", "ROLE", "GROUPS", "")


class RoleName(StrEnum):
    """Roles as they are typed."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"
    OWNER = "owner"


class ScopeName(StrEnum):
    """Scopes as they are typed."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    PLATFORM = "platform"


SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", help="Write the secret to this new file (mode 0600), do not show it.")
]
UserArgument = Annotated[str, typer.Argument(help="User: identifier or users/ID.")]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    admin = typer.Typer(help="Tenants, users and API keys.", no_args_is_help=True)
    app.add_typer(admin, name="admin")
    for name, text, commands in (
        ("tenants", "Tenants.", (("create", create_tenant), ("list", list_tenants))),
        ("users", "Users of your tenant.", (("create", create_user), ("list", list_users), ("update", update_user))),
        ("keys", "API keys.", (("create", create_key), ("list", list_keys), ("revoke", revoke_key))),
    ):
        group = typer.Typer(help=text, no_args_is_help=True)
        admin.add_typer(group, name=name)
        for verb, body in commands:
            command(group, verb)(body)


async def create_tenant(
    session: Session,
    tenant: Annotated[str, typer.Argument(help="Identifier, 1 to 63 of a-z, 0-9 and -.")],
    display_name: Annotated[str, typer.Option("--name", help="Name shown to people.")] = "",
    owner: Annotated[str, typer.Option(help="Identifier of its first owner.")] = "owner",
    secret_file: SecretFile = None,
) -> None:
    """Create a tenant with its first owner, whose key is shown this once."""
    from corpusmesh_app.cli.member_shapes import tenant_shape, user_shape

    check_secret_file(secret_file)
    async with session.client() as client:
        made = await client.admin.create_tenant(tenant, display_name=display_name, owner_id=owner)
    shape = {"tenant": tenant_shape(made.tenant), "owner": user_shape(made.owner)}
    print_secret(session.output, shape, made.secret, secret_file, f"Created {made.tenant.name} with {made.owner.name}.")


async def list_tenants(session: Session) -> None:
    """List the tenants."""
    from corpusmesh_app.cli.member_shapes import tenant_shape

    async with session.client() as client:
        tenants = [tenant_shape(tenant) async for tenant in client.admin.list_tenants()]
    rows = [(shape["id"], shape["display_name"], shape["create_time"]) for shape in tenants]
    session.output.result(
        {"tenants": tenants}, session.output.table(("ID", "NAME", "CREATED"), rows, empty="No tenant.")
    )


async def create_user(
    session: Session,
    user: Annotated[str, typer.Argument(help="Identifier, 1 to 63 of a-z, 0-9 and -.")],
    role: Annotated[RoleName, typer.Option(help="Role in the tenant.")] = RoleName.VIEWER,
    display_name: Annotated[str, typer.Option("--name", help="Name shown to people.")] = "",
    groups: Annotated[list[str] | None, typer.Option("--group", help="Group; may be given several times.")] = None,
) -> None:
    """Create a user in your tenant; `admin keys create` then makes its key."""
    async with session.client() as client:
        made = await client.admin.create_user(user, role=_role(role), display_name=display_name, groups=groups or ())
    _print_users(session, {"user": _user(made)}, [made])


async def list_users(session: Session) -> None:
    """List the users of your tenant."""
    async with session.client() as client:
        users = [user async for user in client.admin.list_users()]
    _print_users(session, {"users": [_user(user) for user in users]}, users)


async def update_user(
    session: Session,
    user: UserArgument,
    role: Annotated[RoleName | None, typer.Option(help="New role.")] = None,
    display_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", help="New groups, instead of the present.")] = None,
    no_groups: Annotated[bool, typer.Option("--no-groups", help="Take all groups away.")] = False,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Refuse all keys, or not.")] = None,
) -> None:
    """Change a user's role, groups, name or state; what is not given stays."""
    async with session.client() as client:
        found = await client.admin.find_user(user)
        if role is not None:
            found.role = _role(role)
        if display_name is not None:
            found.display_name = display_name
        if groups or no_groups:
            found.groups[:] = groups or ()
        if disabled is not None:
            found.disabled = disabled
        changed = await client.admin.update_user(found)
    _print_users(session, {"user": _user(changed)}, [changed])


async def create_key(
    session: Session,
    user: UserArgument,
    scope: Annotated[ScopeName, typer.Option(help="What the key may be used for.")] = ScopeName.READ,
    expires_in: Annotated[str, typer.Option(help="How long it is accepted: 30m, 12h, 90d, 4w; empty for ever.")] = "",
    secret_file: SecretFile = None,
) -> None:
    """Create an API key for a user; its secret is shown this once."""
    from corpusmesh.type.v1 import policy_pb2
    from corpusmesh_app.cli.member_shapes import api_key_shape

    check_secret_file(secret_file)
    async with session.client() as client:
        made = await client.admin.create_api_key(
            user,
            scope=policy_pb2.Scope.Value(f"SCOPE_{scope.value.upper()}"),
            expire_time=_expiry(expires_in),
        )
    shape = {"api_key": api_key_shape(made.api_key)}
    print_secret(session.output, shape, made.secret, secret_file, f"Created {made.api_key.name}.")


async def list_keys(session: Session, user: UserArgument) -> None:
    """List the API keys of a user, without secrets."""
    from corpusmesh_app.cli.member_shapes import api_key_shape

    async with session.client() as client:
        keys = [key async for key in client.admin.list_api_keys(user)]
    session.output.result({"api_keys": [api_key_shape(key) for key in keys]}, _key_table(session, keys))


async def revoke_key(
    session: Session,
    key: Annotated[str, typer.Argument(help="Key: users/ID/apiKeys/ID.")],
) -> None:
    """Revoke an API key; it is refused from the next request on."""
    from corpusmesh_app.cli.member_shapes import api_key_shape

    async with session.client() as client:
        revoked = await client.admin.revoke_api_key(key)
    session.output.result({"api_key": api_key_shape(revoked)}, _key_table(session, [revoked]))


def _role(role: RoleName) -> "policy_pb2.Role.ValueType":
    from corpusmesh.type.v1 import policy_pb2

    return policy_pb2.Role.Value(f"ROLE_{role.value.upper()}")


def _user(user: "User") -> dict[str, object]:
    from corpusmesh_app.cli.member_shapes import user_shape

    return user_shape(user)


def _print_users(session: Session, shape: dict[str, object], users: "list[User]") -> None:
    from corpusmesh_app.cli.member_shapes import role_name

    rows = [
        (
            user.name.rsplit("/", 1)[-1],
            user.display_name,
            role_name(user.role),
            ", ".join(user.groups),
            "disabled" if user.disabled else "",
        )
        for user in users
    ]
    session.output.result(shape, session.output.table(_USER_COLUMNS, rows, empty="No user."))


def _key_table(session: Session, keys: "list[ApiKey]") -> Callable[..., None]:
    from corpusmesh_app.cli.member_shapes import scope_name
    from corpusmesh_app.cli.shapes import time_of

    rows = [
        (
            key.name,
            scope_name(key.scope),
            time_of(key, "create_time") or "",
            time_of(key, "expire_time") or "never",
            time_of(key, "revoke_time") or "",
        )
        for key in keys
    ]
    return session.output.table(("KEY", "SCOPE", "CREATED", "EXPIRES", "REVOKED"), rows, empty="No key.")


def _expiry(text: str) -> datetime | None:
    if not text:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise InvalidArgumentError("DURATION_INVALID", f"{text!r} is no duration; write 30m, 12h, 90d or 4w")
    return datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
