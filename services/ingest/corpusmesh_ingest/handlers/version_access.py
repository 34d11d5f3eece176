"""Who may read what a version holds: original, pictures, chunks, all by one rule."""

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.metadata import DocumentStore, KnowledgeBaseStore
from corpusmesh_core.tenancy import Access, VersionRow, VersionState
from corpusmesh_ingest.names import ResourceName
from corpusmesh_runtime.context import require_call


class VersionReader:
    """Finds versions that the caller may read."""

    def __init__(self, documents: DocumentStore, knowledge_bases: KnowledgeBaseStore) -> None:
        """Create the reader.

        Args:
            documents: Versions, of documents that the caller may see.
            knowledge_bases: Who may write.
        """
        self._documents = documents
        self._knowledge_bases = knowledge_bases

    async def readable(self, name: ResourceName) -> VersionRow:
        """Give a version; before a snapshot has shown it, and after it was taken back, to those who may write.

        Args:
            name: Its name.

        Returns:
            The version.

        Raises:
            NotFoundError: VERSION_NOT_FOUND if it is unknown, gone or forbidden, alike.
        """
        identity = require_call().identity
        rows = await self._documents.list_versions(
            identity, name.knowledge_base_id, name.identifier, name.version + 1, 1
        )
        if not rows or rows[0].version != name.version or rows[0].state is VersionState.PURGED:
            raise version_not_found()
        version = rows[0]
        if version.publish_time is None or version.state is VersionState.CANCELLED:
            try:
                await self._knowledge_bases.check(identity, [name.knowledge_base_id], Access.WRITE)
            except NotFoundError as error:
                raise version_not_found() from error
        return version


def version_not_found() -> NotFoundError:
    """Make the one error for versions that are unknown, gone or forbidden."""
    return NotFoundError("VERSION_NOT_FOUND", "there is no such version, or you may not see it")
