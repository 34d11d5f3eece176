"""Tenants, members, keys, knowledge bases and what they own: the values behind every permission."""

from corpusmesh_core.tenancy.identity import CallerKind, Identity, Role, Scope

__all__ = ["CallerKind", "Identity", "Role", "Scope"]
