"""Which versions a batch's versions were made from, or follow: what stages made of them may still hold."""

from collections.abc import Sequence

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.metadata import DocumentStore
from corpusmesh_core.tenancy import Identity, VersionRow


async def earlier_versions(
    documents: DocumentStore, identity: Identity, versions: Sequence[VersionRow]
) -> dict[int, VersionRow]:
    """Find the versions before.

    Args:
        documents: Reads versions.
        identity: The service that asks.
        versions: A batch of versions.

    Returns:
        By ordinal of the version: the one that it was made from, else the one that it follows, since most of a document
        stays as it was when it is uploaded again. A version without either is missing.
    """
    bases = sorted({version.base_ordinal for version in versions if version.base_ordinal})
    rows = await documents.versions_by_ordinal(identity.tenant_id, bases) if bases else ()
    by_ordinal = {int(row.ordinal): row for row in rows}
    found: dict[int, VersionRow] = {}
    for version in versions:
        if version.base_ordinal:
            before = by_ordinal.get(version.base_ordinal)
        else:
            before = await _version_before(documents, identity, version) if version.version > 1 else None
        if before is not None:
            found[int(version.ordinal)] = before
    return found


async def _version_before(documents: DocumentStore, identity: Identity, version: VersionRow) -> VersionRow | None:
    try:
        rows = await documents.list_versions(
            identity, version.knowledge_base_id, version.document_id, version.version, 1
        )
    except NotFoundError:
        # The document was deleted meanwhile: the commit leaves it out.
        return None
    return rows[0] if rows else None
