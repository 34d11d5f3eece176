"""Who sees a knowledge base, asked of the metadata store before a handler runs."""

from collections.abc import Sequence

from corpusmesh_core.ports.metadata import KnowledgeBaseStore
from corpusmesh_core.tenancy import Access, Identity


class StoreGuard:
    """`KnowledgeBaseGuard` on the metadata store; nothing is cached, so a change holds from the next request on."""

    def __init__(self, knowledge_bases: KnowledgeBaseStore) -> None:
        """Create the guard.

        Args:
            knowledge_bases: The store, which answers unknown and forbidden alike.
        """
        self._knowledge_bases = knowledge_bases

    async def check(self, identity: Identity, knowledge_base_ids: Sequence[str], *, for_write: bool) -> None:
        """See `KnowledgeBaseGuard.check`."""
        await self._knowledge_bases.check(identity, knowledge_base_ids, Access.WRITE if for_write else Access.READ)
