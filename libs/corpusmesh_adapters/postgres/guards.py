"""Rights, checked in the transaction that uses them."""

from corpusmesh_adapters.postgres.database import Connection
from corpusmesh_adapters.postgres.rows import to_knowledge_base
from corpusmesh_core.tenancy.access import Access, document_not_found, require_access, sees_every_document
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import KnowledgeBase

VISIBLE_DOCUMENT = """
    d.state = 'active' AND ({all} OR (
        (NOT d.acl_restricted OR EXISTS (
            SELECT FROM corpusmesh.document_acl a
            WHERE a.tenant_id = d.tenant_id AND a.knowledge_base_id = d.knowledge_base_id
              AND a.document_id = d.document_id AND a.effect = 'allow'
              AND ((a.principal_kind = 'user' AND a.principal_id = {user})
                OR (a.principal_kind = 'group' AND a.principal_id = ANY ({groups})))))
        AND NOT EXISTS (
            SELECT FROM corpusmesh.document_acl a
            WHERE a.tenant_id = d.tenant_id AND a.knowledge_base_id = d.knowledge_base_id
              AND a.document_id = d.document_id AND a.effect = 'deny'
              AND ((a.principal_kind = 'user' AND a.principal_id = {user})
                OR (a.principal_kind = 'group' AND a.principal_id = ANY ({groups}))))))
"""
"""Condition on a row `d` of documents; the three places are parameters of the statement."""


def visible_document(first_parameter: int) -> str:
    """Give the condition with its parameters numbered from `first_parameter` (see `visibility_arguments`)."""
    return VISIBLE_DOCUMENT.format(
        all=f"${first_parameter}::bool", user=f"${first_parameter + 1}::text", groups=f"${first_parameter + 2}::text[]"
    )


def visibility_arguments(identity: Identity, owner_user_id: str) -> tuple[bool, str, list[str]]:
    """Give the arguments of `visible_document`."""
    return sees_every_document(identity, owner_user_id), identity.user_id, list(identity.groups)


async def require_knowledge_base(
    connection: Connection, identity: Identity, knowledge_base_id: str, access: Access, *, lock: str = ""
) -> KnowledgeBase:
    """Read a knowledge base that the caller has the access to.

    Args:
        connection: Transaction of the caller's tenant.
        identity: Caller.
        knowledge_base_id: Its id.
        access: What is wanted.
        lock: "" or a locking clause.

    Returns:
        The knowledge base.
    """
    row = await connection.fetchrow(
        f"SELECT * FROM corpusmesh.knowledge_bases WHERE tenant_id = $1 AND knowledge_base_id = $2 {lock}",  # noqa: S608
        identity.tenant_id,
        knowledge_base_id,
    )
    found = to_knowledge_base(row) if row is not None else None
    return require_access(identity, found, knowledge_base_id, access)


async def require_document(
    connection: Connection, identity: Identity, knowledge_base: KnowledgeBase, document_id: str
) -> None:
    """Check that the caller may see a living document.

    Raises:
        NotFoundError: If it is unknown or forbidden.
    """
    found = await connection.fetchval(
        "SELECT true FROM corpusmesh.documents d"  # noqa: S608 - a constant with numbered parameters
        f" WHERE d.tenant_id = $1 AND d.knowledge_base_id = $2 AND d.document_id = $3 AND {visible_document(4)}",
        identity.tenant_id,
        knowledge_base.knowledge_base_id,
        document_id,
        *visibility_arguments(identity, knowledge_base.owner_user_id),
    )
    if not found:
        raise document_not_found(document_id)
