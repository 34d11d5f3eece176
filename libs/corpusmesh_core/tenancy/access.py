"""Who may do what with a knowledge base, decided in one place."""

from enum import StrEnum

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.tenancy.identity import Identity, Role
from corpusmesh_core.tenancy.values import KnowledgeBase, LifeState, Permission


class Access(StrEnum):
    """What a caller wants to do with a knowledge base."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"


def may_access(identity: Identity, owner_user_id: str, permission: Permission, access: Access) -> bool:
    """Decide one access of a caller to a knowledge base of the caller's own tenant.

    A tenant's owner may do everything. A private knowledge base is there for its owner alone, also before admins. A
    team one is read by every member, written by editors, managed by its owner and admins.

    Args:
        identity: Caller.
        owner_user_id: Owner of the knowledge base.
        permission: Its permission.
        access: What is wanted.

    Returns:
        True if it is allowed.
    """
    if identity.role is Role.OWNER:
        return True
    is_its_owner = identity.user_id == owner_user_id
    if not is_its_owner and permission is not Permission.TEAM:
        return False
    match access:
        case Access.READ:
            return True
        case Access.WRITE:
            return identity.role >= Role.EDITOR
        case Access.MANAGE:
            return identity.role >= Role.ADMIN or (is_its_owner and identity.role >= Role.EDITOR)


def sees_every_document(identity: Identity, owner_user_id: str) -> bool:
    """Tell whether document access lists do not bind the caller.

    Args:
        identity: Caller who may read the knowledge base.
        owner_user_id: Owner of the knowledge base.

    Returns:
        True for the knowledge base's owner and the tenant's owner and admins.
    """
    return identity.user_id == owner_user_id or identity.role >= Role.ADMIN


def require_access(
    identity: Identity, knowledge_base: KnowledgeBase | None, name: str, access: Access
) -> KnowledgeBase:
    """Return the knowledge base if the caller may have it.

    Args:
        identity: Caller.
        knowledge_base: What the store found in the caller's tenant, None where nothing.
        name: Id that the caller asked for.
        access: What is wanted.

    Returns:
        The knowledge base.

    Raises:
        NotFoundError: If it is unknown, deleted or forbidden, with the same text for all three.
    """
    if (
        knowledge_base is None
        or knowledge_base.tenant_id != identity.tenant_id
        or knowledge_base.state is not LifeState.ACTIVE
        or not may_access(identity, knowledge_base.owner_user_id, knowledge_base.permission, access)
    ):
        raise knowledge_base_not_found(name)
    return knowledge_base


def knowledge_base_not_found(knowledge_base_id: str) -> NotFoundError:
    """Make the one error for unknown and forbidden knowledge bases.

    Args:
        knowledge_base_id: Id that the caller asked for.

    Returns:
        The error.
    """
    return NotFoundError(
        "KNOWLEDGE_BASE_NOT_FOUND",
        f"knowledge base {knowledge_base_id!r} does not exist or you may not use it; list the ones you may use",
        knowledge_base=knowledge_base_id,
    )


def document_not_found(document_id: str) -> NotFoundError:
    """Make the one error for unknown and forbidden documents.

    Args:
        document_id: Id that the caller asked for.

    Returns:
        The error.
    """
    return NotFoundError(
        "DOCUMENT_NOT_FOUND",
        f"document {document_id!r} does not exist or you may not use it; list the ones you may use",
        document=document_id,
    )


def run_not_found(run_id: str) -> NotFoundError:
    """Make the one error for unknown and forbidden runs.

    Args:
        run_id: Id that the caller asked for.

    Returns:
        The error.
    """
    return NotFoundError(
        "RUN_NOT_FOUND", f"run {run_id!r} does not exist or you may not see it; list the ones you may see", run=run_id
    )
