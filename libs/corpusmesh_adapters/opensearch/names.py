"""Names of indices and aliases.

A space is read and written through the alias `cm-<tenant>_<space>`, behind which stands an index that also carries the
generation of the mapping; the alias `cm-<tenant>` covers all spaces of a tenant. The underscore cannot occur in a
tenant or a space, so no two pairs share a name.
"""

import re

from corpusmesh_core.errors import InvalidArgumentError

SCHEMA_GENERATION = 1
"""Raised when a mapping changes in a way that needs a new index."""

_ID = re.compile(r"[a-z0-9-]{1,63}")


def space_alias(tenant_id: str, space_id: str) -> str:
    """Name a space for reading and writing.

    Args:
        tenant_id: The tenant.
        space_id: The space.

    Returns:
        The alias.
    """
    return f"{tenant_alias(tenant_id)}_{_checked('space_id', space_id)}"


def space_index(tenant_id: str, space_id: str) -> str:
    """Name the index behind a space.

    Args:
        tenant_id: The tenant.
        space_id: The space.

    Returns:
        The index of the current mapping.
    """
    return f"{space_alias(tenant_id, space_id)}.{SCHEMA_GENERATION}"


def tenant_alias(tenant_id: str) -> str:
    """Name all spaces of a tenant.

    Args:
        tenant_id: The tenant.

    Returns:
        The alias.
    """
    return f"cm-{_checked('tenant_id', tenant_id)}"


def _checked(field: str, value: str) -> str:
    # These names go into request paths: nothing but the pattern may pass.
    if not _ID.fullmatch(value):
        raise InvalidArgumentError("ID_INVALID", f"{field} must match [a-z0-9-]{{1,63}}", field=field)
    return value
