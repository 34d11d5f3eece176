"""Who calls: the values that every permission check reads."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Role(IntEnum):
    """Role of a member in a tenant; each includes the ones before it (numbers as in `corpusmesh.type.v1.Role`)."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3
    OWNER = 4


class Scope(IntEnum):
    """What an API key may be used for; each includes the ones before it (numbers as in `corpusmesh.type.v1.Scope`)."""

    READ = 1
    WRITE = 2
    ADMIN = 3
    PLATFORM = 4


class CallerKind(StrEnum):
    """What kind of caller an identity names."""

    MEMBER = "member"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller.

    Attributes:
        tenant_id: The tenant it acts in; "" for a service that acts for none.
        user_id: The member, or the service's name.
        role: Its role in the tenant.
        scope: What its key may be used for.
        groups: Its groups, for documents' access lists.
        kind: Member or service.
        key_id: The API key it came with; "" for a service.
    """

    tenant_id: str
    user_id: str
    role: Role
    scope: Scope
    groups: tuple[str, ...] = ()
    kind: CallerKind = CallerKind.MEMBER
    key_id: str = ""
