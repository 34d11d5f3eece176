"""From the access lists of a source to those of the mesh: what is not mapped is denied."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy.values import AclEntry

EVERYONE = "everyone"
_MAX_LINES = 1000
_MAX_PRINCIPAL_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class SourceGrant:
    """One line of an item's access list, in the source's own words.

    Attributes:
        principal: Such as `user:ada`, `group:staff` or `everyone`.
        is_denial: Whether it takes the right away.
    """

    principal: str
    is_denial: bool = False


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may read the documents of a source.

    Attributes:
        follows_source: Whether the source's own access lists bind.
        principals: Principal of the source to `users/<id>`, `groups/<name>` or `everyone`.
        allowed_users: Ids of users, where the source's lists do not bind.
        allowed_groups: Groups, likewise; nobody named is everybody who reads the knowledge base.
    """

    follows_source: bool = False
    principals: Mapping[str, str] = field(default_factory=dict)
    allowed_users: tuple[str, ...] = ()
    allowed_groups: tuple[str, ...] = ()


def check_rule(rule: AccessRule) -> None:
    """Check a rule.

    Args:
        rule: The rule.

    Raises:
        InvalidArgumentError: SOURCE_ACCESS_INVALID if it is too long or maps to something else than a user, a group or
            everyone.
    """
    if max(len(rule.principals), len(rule.allowed_users) + len(rule.allowed_groups)) > _MAX_LINES:
        raise _invalid(f"at most {_MAX_LINES} lines are taken; use groups")
    for principal, target in rule.principals.items():
        if not 0 < len(principal) <= _MAX_PRINCIPAL_CHARACTERS or _target(target) is None:
            raise _invalid("a principal maps to users/<id>, groups/<name> or everyone")
    if any(not name or len(name) > _MAX_PRINCIPAL_CHARACTERS for name in (*rule.allowed_users, *rule.allowed_groups)):
        raise _invalid("a user or group has a name of 1 to 256 characters")


def map_access(
    rule: AccessRule, grants: Sequence[SourceGrant] | None, owner_user_id: str
) -> tuple[AclEntry, ...] | None:
    """Make the access list of a document.

    Args:
        rule: The source's rule.
        grants: The item's own list; None where the source has none.
        owner_user_id: The source's owner.

    Returns:
        Entries, sorted; None where the list is left to people. Where the source's lists bind: a grant to an unknown
        principal grants nothing; a denial of an unknown principal, an absent list, and a list that maps to nobody leave
        the document to the owner alone.
    """
    if not rule.follows_source:
        if not rule.allowed_users and not rule.allowed_groups:
            return None
        users = {AclEntry("user", user, "allow") for user in rule.allowed_users}
        return _sorted(users | {AclEntry("group", group, "allow") for group in rule.allowed_groups})
    owner_alone = (AclEntry("user", owner_user_id, "allow"),)
    allowed: set[AclEntry] = set()
    denied: set[AclEntry] = set()
    is_open = False
    for grant in grants or ():
        target = _target(rule.principals.get(grant.principal, ""))
        if target is None:
            if grant.is_denial:
                return owner_alone
            continue
        kind, name = target
        if kind == EVERYONE:
            if grant.is_denial:
                return owner_alone
            is_open = True
        else:
            (denied if grant.is_denial else allowed).add(AclEntry(kind, name, "deny" if grant.is_denial else "allow"))
    if is_open:
        # Without a line that allows, a list restricts nobody but those it denies.
        return _sorted(denied)
    return _sorted(allowed | denied) if allowed else owner_alone


def access_digest(entries: Sequence[AclEntry] | None) -> str:
    """Digest an access list, so that a change is seen without keeping the list.

    Args:
        entries: What `map_access` made.

    Returns:
        "" for None, else 16 hexadecimal digits.
    """
    if entries is None:
        return ""
    lines = sorted((entry.principal_kind, entry.principal_id, entry.effect) for entry in entries)
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


def _target(text: str) -> tuple[str, str] | None:
    if text == EVERYONE:
        return EVERYONE, ""
    kind, _, name = text.partition("/")
    if not name or len(name) > _MAX_PRINCIPAL_CHARACTERS or kind not in ("users", "groups"):
        return None
    return kind.removesuffix("s"), name


def _sorted(entries: set[AclEntry]) -> tuple[AclEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: (entry.principal_kind, entry.principal_id, entry.effect)))


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("SOURCE_ACCESS_INVALID", message, field="source.access")
