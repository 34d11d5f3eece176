"""Values found in a document are its metadata while the version that they were found in is shown."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.orchestration.values import Stage
from corpusmesh_core.ports.work import StageOutcome, VersionPatch
from corpusmesh_core.tenancy import FilterCondition, FilterOperator, Identity, MetadataFilter, document_id_for_name
from corpusmesh_core.tenancy.values import MetadataValue, Upload
from corpusmesh_core.tenancy.visibility import visible_bitmap
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, upload

pytestmark = pytest.mark.servers

DAY = datetime(2026, 3, 1, tzinfo=UTC)
DOCUMENT = document_id_for_name("a.txt")


if POSTGRES_DSN:

    @pytest.fixture(scope="module")
    def server_dsn() -> str:
        return POSTGRES_DSN
else:

    @pytest.fixture(scope="module")
    def server_dsn(stack_endpoints: StackEndpoints) -> str:
        return stack_endpoints.postgres_dsn


@pytest.fixture(scope="module")
async def metadata(server_dsn: str) -> AsyncIterator[Metadata]:
    async with fresh_metadata(server_dsn) as made:
        yield made


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    identity = await metadata.tenant()
    await metadata.knowledge_base(identity)
    return identity


async def ingest(metadata: Metadata, owner: Identity, item: Upload, found: dict[str, MetadataValue]) -> int:
    """Take a version up to its publication; tell its ordinal."""
    result = await metadata.ingest(owner, "kb", [item])
    ordinal = result.versions[0].ordinal
    [message] = await metadata.work_off(owner.tenant_id, until=Stage.ENRICH)
    claim = await metadata.claim(message)
    await metadata.queue.complete(
        claim, StageOutcome(patches=(VersionPatch(ordinal, extracted_metadata=found),) if found else ())
    )
    return ordinal


async def values(metadata: Metadata, owner: Identity) -> dict[str, MetadataValue]:
    return dict((await metadata.documents.get(owner, "kb", DOCUMENT)).metadata)


async def matching(metadata: Metadata, owner: Identity, condition: FilterCondition) -> set[int]:
    inputs = await metadata.snapshots.visibility_inputs(
        owner, "kb", metadata_filter=MetadataFilter(conditions=(condition,))
    )
    return set(visible_bitmap(inputs))


async def test_found_values_are_set_when_their_version_is_shown_and_not_before(
    metadata: Metadata, owner: Identity
) -> None:
    ordinal = await ingest(metadata, owner, upload("a.txt"), {"kind": "law", "pages": 7.0, "effective": DAY})
    assert await values(metadata, owner) == {}
    await metadata.work_off(owner.tenant_id)
    assert (await values(metadata, owner))["kind"] == "law"
    for condition in (
        FilterCondition("kind", texts=("law",)),
        FilterCondition("pages", FilterOperator.GREATER, numbers=(6.5,)),
        FilterCondition("effective", FilterOperator.LESS, moments=(datetime(2026, 3, 2, tzinfo=UTC),)),
    ):
        assert await matching(metadata, owner, condition) == {ordinal}, condition


async def test_what_people_give_wins_over_what_is_found(metadata: Metadata, owner: Identity) -> None:
    item = upload("a.txt")
    given = Upload(
        item.document_id, item.display_name, item.original_sha256, item.size_bytes, metadata={"kind": "notice"}
    )
    await ingest(metadata, owner, given, {"kind": "law", "author": "B"})
    await metadata.work_off(owner.tenant_id)
    assert await values(metadata, owner) == {"kind": "notice", "author": "B"}
    await metadata.documents.update(owner, "kb", DOCUMENT, metadata={"author": "C", "kind": "notice"})
    await ingest(metadata, owner, upload("a.txt", "two"), {"kind": "law", "author": "D"})
    await metadata.work_off(owner.tenant_id)
    assert await values(metadata, owner) == {"kind": "notice", "author": "C"}


async def test_found_values_go_with_their_version_and_come_back_with_it(metadata: Metadata, owner: Identity) -> None:
    await ingest(metadata, owner, upload("a.txt"), {"kind": "law", "author": "B"})
    await metadata.work_off(owner.tenant_id)
    await metadata.documents.update(owner, "kb", DOCUMENT, metadata={"shelf": "3"})
    assert await values(metadata, owner) == {"kind": "law", "author": "B", "shelf": "3"}
    await ingest(metadata, owner, upload("a.txt", "two"), {"author": "C"})
    await metadata.work_off(owner.tenant_id)
    assert await values(metadata, owner) == {"author": "C", "shelf": "3"}
    await metadata.snapshots.publish_version(owner, "kb", DOCUMENT, 1)
    assert await values(metadata, owner) == {"kind": "law", "author": "B", "shelf": "3"}
    await ingest(metadata, owner, upload("a.txt", "three"), {})
    await metadata.work_off(owner.tenant_id)
    assert await values(metadata, owner) == {"shelf": "3"}


async def test_a_value_that_is_sent_back_as_it_was_read_is_still_a_found_one(
    metadata: Metadata, owner: Identity
) -> None:
    await ingest(metadata, owner, upload("a.txt"), {"author": "B"})
    await metadata.work_off(owner.tenant_id)
    await metadata.documents.update(owner, "kb", DOCUMENT, metadata=await values(metadata, owner))
    await ingest(metadata, owner, upload("a.txt", "two"), {"author": "C"})
    await metadata.work_off(owner.tenant_id)
    assert await values(metadata, owner) == {"author": "C"}
