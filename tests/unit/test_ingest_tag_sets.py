"""Tags come from what the owner of a knowledge base may read as any member may."""

from collections.abc import Sequence
from typing import Any, cast

from pyroaring import BitMap

from corpusmesh_core.enrichment import TagExample
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import (
    Access,
    Identity,
    Permission,
    Role,
    VisibilityInputs,
    knowledge_base_not_found,
    may_access,
)
from corpusmesh_core.visibility import VisibilityFilter
from corpusmesh_ingest.stages.tag_sets import TagSetReader
from tests.support.ingest_stages import MemoryMetadata

OWNERS = {"own": "owner", "private": "somebody", "shared": "somebody", "empty": "owner"}
PERMISSIONS = {"shared": Permission.TEAM}


class Index:
    """Three knowledge bases with one example each, published as ordinals 1, 2, 3; 3 is hidden from the owner."""

    def __init__(self) -> None:
        self.readers: list[Identity] = []
        self.scanned: list[tuple[str, VisibilityFilter]] = []

    async def visibility_inputs(self, identity: Identity, knowledge_base_id: str) -> VisibilityInputs:
        self.readers.append(identity)
        owner, permission = OWNERS.get(knowledge_base_id, ""), PERMISSIONS.get(knowledge_base_id, Permission.PRIVATE)
        if not owner or not may_access(identity, owner, permission, Access.READ):
            raise knowledge_base_not_found(knowledge_base_id)
        published = BitMap() if knowledge_base_id == "empty" else BitMap([1, 3])
        return VisibilityInputs(
            knowledge_base_id=knowledge_base_id,
            owner_user_id=owner,
            permission=permission,
            config={},
            space_id="space",
            policy_epoch=0,
            snapshot_id=1,
            published=published.serialize(),
            hidden=(3,),
            matching=None,
            next_ordinal=4,
        )

    async def scan(
        self, tenant_id: str, space_id: str, visibility: VisibilityFilter, **options: Any
    ) -> Sequence[Record]:
        [name] = options["knowledge_base_ids"]
        self.scanned.append((name, visibility))
        return [
            Record("1-tag_example-0", RecordKind.TAG_EXAMPLE, name, Ordinal(1), (Ordinal(1),), name, tags={"tag": 1.0}),
            Record("1-tag_example-1", RecordKind.TAG_EXAMPLE, name, Ordinal(1), (Ordinal(1),), "without tags"),
        ]


async def read(index: Index, *names: str) -> tuple[TagExample, ...]:
    metadata = MemoryMetadata()
    knowledge_base = await metadata.get(cast(Any, None), "kb")
    return await TagSetReader(cast(Any, index), cast(Any, index)).examples(knowledge_base, names, timeout_seconds=9)


async def test_what_the_owner_may_not_read_gives_no_example() -> None:
    index = Index()
    found = await read(index, "own", "private", "shared", "gone", "empty")
    assert found == (TagExample("own", {"tag": 1.0}), TagExample("shared", {"tag": 1.0}))
    assert {(reader.user_id, reader.role, reader.groups) for reader in index.readers} == {("owner", Role.VIEWER, ())}


async def test_only_examples_of_visible_versions_are_asked_for() -> None:
    index = Index()
    await read(index, "own")
    [(_, visibility)] = index.scanned
    assert visibility.kinds == (RecordKind.TAG_EXAMPLE,)
    [clause] = visibility.clauses
    assert clause.source_in is not None
    assert set(clause.source_in) == {1}
