"""Tagged examples of tag sets, as far as the owner of a knowledge base may read them."""

from collections.abc import Sequence

from pyroaring import FrozenBitMap

from corpusmesh_core.enrichment import TagExample
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.metadata import SnapshotStore
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import Identity, KnowledgeBase, Role, Scope, visible_bitmap
from corpusmesh_core.visibility import Visibility, build_filter

MAX_EXAMPLES = 10_000
"""Most examples of one tag set; further ones are not read."""


class TagSetReader:
    """Reads tag sets from the index."""

    def __init__(self, snapshots: SnapshotStore, index: RecordIndex) -> None:
        """Create the reader.

        Args:
            snapshots: Tells what the owner may see.
            index: The record index.
        """
        self._snapshots = snapshots
        self._index = index

    async def examples(
        self, knowledge_base: KnowledgeBase, tag_sets: Sequence[str], *, timeout_seconds: float
    ) -> tuple[TagExample, ...]:
        """Read the published examples of tag sets.

        What the tags of a knowledge base are made of is what its owner may read as any member may: neither a role nor
        a group opens more, since everybody who may read the knowledge base sees the tags.

        Args:
            knowledge_base: Whose owner reads.
            tag_sets: Ids of knowledge bases; one that is gone or that the owner may not read gives no example.
            timeout_seconds: Bound of each read.

        Returns:
            Examples with their tags.
        """
        reader = Identity(
            tenant_id=knowledge_base.tenant_id,
            user_id=knowledge_base.owner_user_id,
            role=Role.VIEWER,
            scope=Scope.READ,
        )
        examples: list[TagExample] = []
        for name in tag_sets:
            try:
                inputs = await self._snapshots.visibility_inputs(reader, name)
            except NotFoundError:
                continue
            visibility = Visibility(
                f"{name}/{inputs.snapshot_id}", FrozenBitMap(visible_bitmap(inputs)), inputs.next_ordinal
            )
            if visibility.is_empty:
                continue
            records = await self._index.scan(
                knowledge_base.tenant_id,
                inputs.space_id,
                build_filter(visibility, (RecordKind.TAG_EXAMPLE,)),
                knowledge_base_ids=(name,),
                max_count=MAX_EXAMPLES,
                timeout_seconds=timeout_seconds,
            )
            examples.extend(TagExample(record.text, dict(record.tags)) for record in records if record.tags)
        return tuple(examples)
