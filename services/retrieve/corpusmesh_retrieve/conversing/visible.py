"""Whether a caller may see now what an answer was made from (invariant 3 of the design)."""

from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.conversations import MessageRow
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.tenancy import Identity, permitted_bitmap
from corpusmesh_retrieve.conversing.history import PastMessage


class VisibleSources:
    """What one call may see; each knowledge base is looked up once."""

    def __init__(self, snapshots: SnapshotStore, identity: Identity) -> None:
        """Create it for one call.

        Args:
            snapshots: Knows what is published and permitted.
            identity: Who calls.
        """
        self._snapshots = snapshots
        self._identity = identity
        self._bitmaps: dict[str, BitMap] = {}

    async def may_show(self, message: MessageRow) -> bool:
        """Tell whether a message may be shown.

        Args:
            message: The message.

        Returns:
            True for what users said, and for an answer all of whose sources are published and permitted now.
        """
        if message.is_user:
            return True
        missing = BitMap(message.sources)
        for knowledge_base_id in message.knowledge_base_ids:
            if not missing:
                break
            missing -= await self._permitted(knowledge_base_id)
        return not missing

    async def past_message(self, message: MessageRow) -> PastMessage:
        """Give a message as history.

        Args:
            message: The message.

        Returns:
            It, without text where it must not be shown.
        """
        text = message.text if await self.may_show(message) else ""
        return PastMessage(message.is_user, text, message.sources, message.knowledge_base_ids)

    async def _permitted(self, knowledge_base_id: str) -> BitMap:
        if knowledge_base_id not in self._bitmaps:
            try:
                inputs = await self._snapshots.visibility_inputs(self._identity, knowledge_base_id)
            except NotFoundError:
                self._bitmaps[knowledge_base_id] = BitMap()
            else:
                self._bitmaps[knowledge_base_id] = permitted_bitmap(inputs)
        return self._bitmaps[knowledge_base_id]
