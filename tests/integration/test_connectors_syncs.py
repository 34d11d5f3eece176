"""Syncs on a real database: what is taken in, what is deleted, and what a death in the middle leaves."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import (
    AlreadyExistsError,
    ConflictError,
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from corpusmesh_core.orchestration.values import FailureKind, RunState, TaskFailure
from corpusmesh_core.ports.metadata import KnowledgeBaseChange
from corpusmesh_core.ports.sources import ItemUpdate, SourceSpec, SourceState
from corpusmesh_core.sources import ItemChange, ItemState, SourceGrant, WebPlace
from corpusmesh_core.tenancy import Permission, Role
from corpusmesh_ingest.syncing.config import SourceSettings
from corpusmesh_runtime.worker import TaskContext
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, member, upload
from tests.support.syncing import Place, Syncing, counts, follows

pytestmark = pytest.mark.servers
FIVE = {f"{name}.txt": f"text of {name}" for name in "abcde"}

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
async def syncing(metadata: Metadata) -> Syncing:
    owner = await metadata.tenant()
    return Syncing(metadata, owner, await metadata.knowledge_base(owner), Place(dict(FIVE)))


async def test_second_sync_touches_what_has_changed_and_nothing_else(syncing: Syncing) -> None:
    await syncing.add()
    first = await syncing.sync()
    assert first.run.state is RunState.SUCCEEDED
    assert counts(first, "listed", "added", "changed", "unchanged", "removed", "failed") == (5, 5, 0, 0, 0, 0)
    assert await syncing.names() == sorted(FIVE)
    syncing.place.opened.clear()
    syncing.place.texts |= {"a.txt": "another text of a", "f.txt": "text of f"}
    del syncing.place.texts["b.txt"]
    second = await syncing.sync()
    assert counts(second, "listed", "added", "changed", "unchanged", "removed") == (5, 1, 1, 3, 1)
    assert syncing.place.opened == ["a.txt", "f.txt"]
    assert await syncing.names() == ["a.txt", "c.txt", "d.txt", "e.txt", "f.txt"]
    third = await syncing.sync()
    assert counts(third, "listed", "added", "changed", "unchanged", "removed") == (5, 0, 0, 5, 0)
    assert third.result["runs"] == []


async def test_run_of_a_sync_names_the_runs_that_it_caused_and_the_next_listing_begins_at_its_cursor(
    syncing: Syncing,
) -> None:
    await syncing.add()
    record = await syncing.sync()
    [child] = record.result["runs"]
    ingest = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, child)
    assert (ingest.run.kind, ingest.run.part_count, ingest.run.state) == ("ingest", 5, RunState.SUCCEEDED)
    await syncing.sync()
    assert syncing.place.cursors == ["", "c1"]


async def test_shrunken_source_deletes_nothing_until_it_is_allowed(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.place.texts = {"a.txt": "changed", "z.txt": "new"}
    refused = await syncing.sync()
    assert (refused.run.state, refused.run.error_reason) == (RunState.FAILED, "SOURCE_MASS_DELETE")
    assert counts(refused, "added", "changed", "removed") == (1, 1, 0)
    assert await syncing.names() == [*sorted(FIVE), "z.txt"]
    source = await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "docs")
    assert source.error_reason == "SOURCE_MASS_DELETE"
    allowed = await syncing.sync(allow_mass_delete=True)
    assert counts(allowed, "removed") == (4,)
    assert await syncing.names() == ["a.txt", "z.txt"]
    healed = await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "docs")
    assert (healed.error_reason, healed.item_count) == ("", 2)


async def test_listing_that_breaks_off_deletes_nothing_and_keeps_what_it_found(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.place.texts = {"a.txt": "changed", "b.txt": FIVE["b.txt"]}
    syncing.place.breaks_after = 1
    broken = await syncing.sync()
    assert (broken.run.state, broken.run.error_reason) == (RunState.FAILED, "SOURCE_UNREADABLE")
    assert counts(broken, "changed", "removed") == (1, 0)
    assert await syncing.names() == sorted(FIVE)


async def test_incomplete_listing_deletes_nothing(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    del syncing.place.texts["b.txt"]
    syncing.place.is_complete = False
    record = await syncing.sync()
    assert (record.run.state, counts(record, "removed")) == (RunState.SUCCEEDED, (0,))
    assert await syncing.names() == sorted(FIVE)


async def test_unreadable_items_are_told_keep_their_documents_and_heal(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.place.texts |= {"a.txt": "changed", "large.txt": "x" * 2000}
    syncing.place.unreadable = {"a.txt": UnavailableError("PLACE_AWAY", "it is away")}
    syncing.place.unlisted = {"b.txt"}
    record = await syncing.sync()
    assert (record.run.state, counts(record, "failed", "changed", "removed")) == (RunState.SUCCEEDED, (3, 0, 0))
    rows = await syncing.sources.list_items(syncing.owner, syncing.knowledge_base_id, "docs", "", 100)
    failed = {row.key: row.error_reason for row in rows if row.state is ItemState.FAILED}
    assert failed == {"a.txt": "PLACE_AWAY", "b.txt": "PLACE_UNREADABLE", "large.txt": "SOURCE_ITEM_TOO_LARGE"}
    assert await syncing.names() == sorted(FIVE)
    syncing.place.unreadable, syncing.place.unlisted = {}, set()
    del syncing.place.texts["large.txt"]
    healed = await syncing.sync()
    assert counts(healed, "failed", "changed", "unchanged") == (0, 1, 4)
    rows = await syncing.sources.list_items(syncing.owner, syncing.knowledge_base_id, "docs", "", 100)
    assert [(row.key, row.state) for row in rows] == [(key, ItemState.ACTIVE) for key in sorted(FIVE)]


async def test_access_lists_of_the_source_bind_from_the_first_sync_and_change_without_new_content(
    syncing: Syncing,
) -> None:
    editor = member(syncing.owner.tenant_id, "editor", Role.EDITOR, ["staff"])
    viewer = member(syncing.owner.tenant_id, "viewer", Role.VIEWER)
    everyone, staff = (SourceGrant("everyone"),), (SourceGrant("group:s"),)
    syncing.place.grants = {"a.txt": everyone, "b.txt": staff, "c.txt": (SourceGrant("user:unknown"),)}
    await syncing.add(access=follows(everyone="everyone", group_s="groups/staff"))
    await syncing.sync()
    assert await syncing.names() == sorted(FIVE)
    assert await syncing.names(editor) == ["a.txt", "b.txt"]
    assert await syncing.names(viewer) == ["a.txt"]
    syncing.place.opened.clear()
    syncing.place.grants |= {"a.txt": staff, "b.txt": everyone}
    record = await syncing.sync()
    assert counts(record, "access", "changed", "added", "unchanged") == (2, 0, 0, 3)
    assert syncing.place.opened == []
    assert await syncing.names(viewer) == ["b.txt"]


async def test_access_is_narrowed_although_the_changed_content_cannot_be_read(syncing: Syncing) -> None:
    viewer = member(syncing.owner.tenant_id, "viewer", Role.VIEWER)
    syncing.place.grants = dict.fromkeys(FIVE, (SourceGrant("everyone"),))
    await syncing.add(access=follows(everyone="everyone"))
    await syncing.sync()
    assert "a.txt" in await syncing.names(viewer)
    syncing.place.texts["a.txt"] = "changed and secret"
    syncing.place.grants["a.txt"] = ()
    syncing.place.unreadable = {"a.txt": PermissionDeniedError("PLACE_CLOSED", "it is closed")}
    await syncing.sync()
    assert "a.txt" not in await syncing.names(viewer)


async def test_source_that_no_longer_follows_access_opens_what_it_had_bound(syncing: Syncing) -> None:
    viewer = member(syncing.owner.tenant_id, "viewer", Role.VIEWER)
    await syncing.add(access=follows())
    await syncing.sync()
    assert await syncing.names(viewer) == []
    source = await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "docs")
    open_spec = replace(source.spec, access=SourceSpec("x", source.spec.place).access)
    await syncing.sources.update(
        syncing.owner, syncing.knowledge_base_id, "docs", open_spec, etag=source.etag, takes_over=False
    )
    record = await syncing.sync()
    assert counts(record, "access") == (5,)
    assert await syncing.names(viewer) == sorted(FIVE)


async def test_items_of_hidden_documents_are_hidden_too(syncing: Syncing) -> None:
    editor = member(syncing.owner.tenant_id, "editor", Role.EDITOR)
    syncing.place.grants = dict.fromkeys(FIVE, ()) | {"a.txt": (SourceGrant("everyone"),)}
    syncing.place.texts["never.txt"] = "x" * 2000
    await syncing.add(access=follows(everyone="everyone"))
    await syncing.sync()
    rows = await syncing.sources.list_items(editor, syncing.knowledge_base_id, "docs", "", 100)
    assert [row.key for row in rows] == ["a.txt"]
    page = await syncing.sources.list_items(syncing.owner, syncing.knowledge_base_id, "docs", "c.txt", 2)
    assert [row.key for row in page] == ["d.txt", "e.txt"]


async def test_syncs_are_shown_to_those_who_may_write_alone(syncing: Syncing) -> None:
    viewer = member(syncing.owner.tenant_id, "viewer", Role.VIEWER)
    editor = member(syncing.owner.tenant_id, "editor", Role.EDITOR)
    await syncing.add(access=follows())
    record = await syncing.sync()
    runs = syncing.metadata.runs
    with pytest.raises(NotFoundError):
        await runs.get(viewer, syncing.knowledge_base_id, record.run.run_id)
    assert {row.run.kind for row in await runs.list(viewer, syncing.knowledge_base_id, "", 100)} == {"ingest"}
    assert {row.run.kind for row in await runs.list(editor, syncing.knowledge_base_id, "", 100)} == {"ingest", "sync"}
    assert (await runs.get(editor, syncing.knowledge_base_id, record.run.run_id)).run.kind == "sync"


async def test_mass_delete_is_allowed_by_those_alone_who_may_change_the_source(syncing: Syncing) -> None:
    editor = member(syncing.owner.tenant_id, "editor", Role.EDITOR)
    await syncing.add(access=follows())
    await syncing.sync()
    syncing.place.texts = {}
    with pytest.raises(PermissionDeniedError) as caught:
        await syncing.sources.start_sync(editor, syncing.knowledge_base_id, "docs", allow_mass_delete=True, headers={})
    assert caught.value.reason == "SOURCE_NOT_YOURS"
    await syncing.sources.start_sync(editor, syncing.knowledge_base_id, "docs", allow_mass_delete=False, headers={})
    await syncing.work(await syncing.claim())
    assert await syncing.names() == sorted(FIVE)


async def test_document_that_a_person_deleted_stays_away_until_it_changes(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    rows = await syncing.metadata.documents.list(syncing.owner, syncing.knowledge_base_id, "", 100)
    [gone] = [row.document_id for row in rows if row.display_name == "a.txt"]
    await syncing.metadata.documents.delete(syncing.owner, syncing.knowledge_base_id, [gone], "", {})
    assert counts(await syncing.sync(), "unchanged") == (5,)
    assert "a.txt" not in await syncing.names()
    syncing.place.texts["a.txt"] = "changed"
    await syncing.sync()
    assert "a.txt" in await syncing.names()


async def test_documents_whose_ingest_was_cancelled_are_taken_in_again(syncing: Syncing) -> None:
    await syncing.add()
    run_id = await syncing.start()
    await syncing.work(await syncing.claim())
    record = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, run_id)
    [child] = record.result["runs"]
    await syncing.metadata.runs.cancel(syncing.owner, syncing.knowledge_base_id, child)
    await syncing.metadata.work_off(syncing.owner.tenant_id)
    again = await syncing.sync()
    assert counts(again, "changed", "unchanged") == (5, 0)


async def test_worker_that_dies_before_it_noted_anything_does_no_harm(syncing: Syncing) -> None:
    await syncing.add()
    run_id = await syncing.start()
    claim = await syncing.claim()
    stage = syncing.stage()

    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    syncing.syncs.record = die  # type: ignore[method-assign] # the process ends here
    with pytest.raises(asyncio.CancelledError):
        await stage(TaskContext(claim, 60.0))
    del syncing.syncs.record
    assert len(await syncing.names()) == 5, "the versions were accepted, the items not noted"
    await asyncio.sleep(syncing.metadata.policy.lease_seconds + 0.1)
    await syncing.metadata.sweeper.expire_leases(100)
    await asyncio.sleep(0.2)
    await syncing.work(await syncing.claim())
    await syncing.metadata.work_off(syncing.owner.tenant_id)
    record = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, run_id)
    assert (record.run.state, counts(record, "added")) == (RunState.SUCCEEDED, (5,))
    rows = await syncing.metadata.documents.list(syncing.owner, syncing.knowledge_base_id, "", 100)
    assert [row.latest_version for row in rows] == [1] * 5, "nothing was made twice"


async def test_sync_counts_what_an_attempt_of_its_own_has_changed_before_it_died(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.place.texts["a.txt"] = "changed"
    run_id = await syncing.start()
    outcome = await syncing.stage()(TaskContext(await syncing.claim(), 60.0))
    assert not outcome.goes_on
    async with syncing.metadata.database.tenant(syncing.owner.tenant_id) as connection:
        await connection.execute("UPDATE corpusmesh.source_items SET etag = 'old', change = '' WHERE key = 'a.txt'")
        await connection.execute("UPDATE corpusmesh.source_items SET run_id = '' WHERE key = 'a.txt'")
    await asyncio.sleep(syncing.metadata.policy.lease_seconds + 0.1)
    await syncing.metadata.sweeper.expire_leases(100)
    await asyncio.sleep(0.2)
    await syncing.work(await syncing.claim())
    record = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, run_id)
    assert counts(record, "changed", "unchanged") == (1, 4)


async def test_touched_file_with_the_same_bytes_counts_as_unchanged(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    async with syncing.metadata.database.tenant(syncing.owner.tenant_id) as connection:
        await connection.execute("UPDATE corpusmesh.source_items SET etag = 'other'")
    record = await syncing.sync()
    assert counts(record, "changed", "unchanged") == (0, 5)
    assert len(syncing.place.opened) == 10


async def test_worker_that_was_thought_dead_writes_nothing(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.start()
    zombie = await syncing.claim()
    await asyncio.sleep(syncing.metadata.policy.lease_seconds + 0.1)
    await syncing.metadata.sweeper.expire_leases(100)
    await asyncio.sleep(0.2)
    fresh = await syncing.claim()
    update = ItemUpdate("a.txt", "a.txt", ItemChange.ADDED, etag="old")
    with pytest.raises(ConflictError):
        await syncing.syncs.record(zombie, [update], listed_count=1, runs=[])
    with pytest.raises(ConflictError):
        await syncing.syncs.finish(zombie, cursor="x", listed_count=1)
    await syncing.work(fresh)
    assert counts(await syncing.sync(), "unchanged") == (5,)


async def test_cancelled_sync_stops_and_writes_nothing_more(syncing: Syncing) -> None:
    await syncing.add()
    run_id = await syncing.start()
    claim = await syncing.claim()
    cancelled = await syncing.metadata.runs.cancel(syncing.owner, syncing.knowledge_base_id, run_id)
    assert cancelled.run.state is RunState.CANCELLING
    failure = await syncing.work(claim)
    assert isinstance(failure, TaskFailure)
    assert failure.reason == "SYNC_CLAIM_LOST"
    record = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, run_id)
    assert (record.run.state, record.run.open_task_count) == (RunState.CANCELLED, 0)
    assert counts(await syncing.sync(), "listed") == (5,)


async def test_long_sync_gives_way_and_goes_on_where_it_was(syncing: Syncing) -> None:
    syncing.place.texts = {f"{place:03}.txt": f"text {place}" for place in range(200)}
    syncing.settings = SourceSettings(slice_seconds=1e-9)
    await syncing.add()
    record = await syncing.sync()
    assert (record.run.state, record.run.batch_count) == (RunState.SUCCEEDED, 4)
    assert counts(record, "listed", "added", "changed", "unchanged") == (200, 200, 0, 0)
    assert sorted(syncing.place.opened) == sorted(syncing.place.texts), "nothing was read twice"


async def test_long_listing_without_changes_goes_on_where_it_was_if_its_connector_can(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.settings = SourceSettings(slice_seconds=1e-9)
    syncing.place.capabilities = replace(syncing.place.capabilities, resumes_listing=True)
    record = await syncing.sync()
    assert (record.run.state, record.run.batch_count) == (RunState.SUCCEEDED, 6)
    assert counts(record, "listed", "added", "changed", "unchanged", "removed") == (5, 0, 0, 5, 0)
    syncing.place.capabilities = replace(syncing.place.capabilities, resumes_listing=False)
    assert (await syncing.sync()).run.batch_count == 1


async def test_source_with_more_items_than_allowed_says_so(syncing: Syncing) -> None:
    syncing.settings = SourceSettings(max_items=3)
    await syncing.add()
    record = await syncing.sync()
    assert (record.run.state, record.run.error_reason) == (RunState.FAILED, "SOURCE_TOO_LARGE")


async def test_one_sync_of_a_source_at_a_time(syncing: Syncing) -> None:
    await syncing.add()
    run_id = await syncing.start()
    again = await syncing.sources.start_sync(
        syncing.owner, syncing.knowledge_base_id, "docs", allow_mass_delete=False, headers={}
    )
    assert (again.run_id, again.is_already_running) == (run_id, True)
    with pytest.raises(FailedPreconditionError) as caught:
        await syncing.start(allow_mass_delete=True)
    assert caught.value.reason == "SOURCE_BUSY"
    await syncing.work(await syncing.claim())
    assert await syncing.start() != run_id


async def test_schedule_starts_what_is_due_once_however_many_look(syncing: Syncing) -> None:
    await syncing.add(schedule_seconds=300)
    before = datetime.now(UTC)
    started = await asyncio.gather(*(syncing.syncs.start_due(100) for _ in range(5)))
    assert sum(started) == 1
    source = await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "docs")
    assert source.next_sync_time is not None
    assert 290 < (source.next_sync_time - before).total_seconds() < 330
    outcome = await syncing.work(await syncing.claim())
    assert not isinstance(outcome, TaskFailure)
    assert await syncing.syncs.start_due(100) == 0


async def test_paused_and_manual_sources_are_not_started_by_schedule(syncing: Syncing) -> None:
    await syncing.add(schedule_seconds=300, state=SourceState.PAUSED)
    assert await syncing.syncs.start_due(100) == 0
    run_id = await syncing.start()
    assert run_id, "on request it is"


@pytest.mark.parametrize("change", ["disabled", "demoted", "away"])
async def test_sync_ends_with_the_rights_of_its_owner(syncing: Syncing, change: str) -> None:
    admin = member(syncing.owner.tenant_id, "admin", Role.ADMIN)
    await syncing.add(admin)
    user = await syncing.metadata.tenants.get_user(syncing.owner.tenant_id, "admin")
    if change == "disabled":
        await syncing.metadata.tenants.update_user(replace(user, disabled=True))
    elif change == "demoted":
        await syncing.metadata.tenants.update_user(replace(user, role=Role.EDITOR))
    await syncing.start()
    failure = await syncing.work(await syncing.claim())
    if change == "away":
        assert not isinstance(failure, TaskFailure)
        return
    assert isinstance(failure, TaskFailure)
    assert (failure.kind, failure.reason) == (FailureKind.PERMANENT, "SOURCE_OWNER_GONE")
    assert await syncing.names() == []


async def test_sync_of_a_knowledge_base_that_became_private_is_refused(syncing: Syncing) -> None:
    admin = member(syncing.owner.tenant_id, "admin", Role.ADMIN)
    await syncing.add(admin)
    await syncing.metadata.knowledge_bases.update(
        syncing.owner, syncing.knowledge_base_id, KnowledgeBaseChange(permission=Permission.PRIVATE)
    )
    await syncing.start()
    failure = await syncing.work(await syncing.claim())
    assert isinstance(failure, TaskFailure)
    assert failure.reason == "KNOWLEDGE_BASE_NOT_FOUND"


async def test_sources_are_changed_by_their_owner_and_managers_alone(syncing: Syncing) -> None:
    editor = member(syncing.owner.tenant_id, "editor", Role.EDITOR)
    other = member(syncing.owner.tenant_id, "viewer", Role.EDITOR)
    web = WebPlace("https://example.org/")
    await syncing.sources.create(editor, syncing.knowledge_base_id, "docs", SourceSpec("Site", web))
    with pytest.raises(AlreadyExistsError):
        await syncing.sources.create(editor, syncing.knowledge_base_id, "docs", SourceSpec("Site", web))
    source = await syncing.sources.get(other, syncing.knowledge_base_id, "docs")
    spec = replace(source.spec, display_name="Other")
    with pytest.raises(PermissionDeniedError):
        await syncing.sources.update(other, syncing.knowledge_base_id, "docs", spec, etag=source.etag, takes_over=True)
    with pytest.raises(PermissionDeniedError):
        await syncing.sources.begin_delete(other, syncing.knowledge_base_id, "docs")
    taken = await syncing.sources.update(
        syncing.owner, syncing.knowledge_base_id, "docs", spec, etag=source.etag, takes_over=True
    )
    assert (taken.owner_user_id, taken.spec.display_name) == ("owner", "Other")
    with pytest.raises(ConflictError):
        await syncing.sources.update(
            syncing.owner, syncing.knowledge_base_id, "docs", spec, etag=source.etag, takes_over=True
        )


async def test_unknown_and_foreign_sources_are_alike(syncing: Syncing) -> None:
    await syncing.add()
    stranger = await syncing.metadata.tenant()
    viewer = member(syncing.owner.tenant_id, "viewer", Role.VIEWER)
    for identity in (stranger, viewer):
        with pytest.raises(NotFoundError):
            await syncing.sources.get(identity, syncing.knowledge_base_id, "docs")
        with pytest.raises(NotFoundError):
            await syncing.sources.list_items(identity, syncing.knowledge_base_id, "docs", "", 10)
    with pytest.raises(NotFoundError):
        await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "unknown")


async def test_deleted_source_stops_its_sync_and_names_its_documents(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.sync()
    syncing.place.texts["a.txt"] = "changed"
    run_id = await syncing.start()
    claim = await syncing.claim()
    documents = await syncing.sources.begin_delete(syncing.owner, syncing.knowledge_base_id, "docs")
    assert len(documents) == 5
    failure = await syncing.work(claim)
    assert isinstance(failure, TaskFailure)
    with pytest.raises(FailedPreconditionError):
        await syncing.start()
    await syncing.sources.finish_delete(syncing.owner, syncing.knowledge_base_id, "docs")
    with pytest.raises(NotFoundError):
        await syncing.sources.get(syncing.owner, syncing.knowledge_base_id, "docs")
    record = await syncing.metadata.runs.get(syncing.owner, syncing.knowledge_base_id, run_id)
    assert record.run.state is RunState.CANCELLED
    assert len(await syncing.names()) == 5, "what becomes of them is for the caller"


async def test_deleted_knowledge_base_takes_its_sources_with_it(syncing: Syncing) -> None:
    await syncing.add(schedule_seconds=300)
    await syncing.sync()
    await syncing.metadata.knowledge_bases.delete(syncing.owner, syncing.knowledge_base_id, "", {})
    assert await syncing.syncs.start_due(100) == 0
    async with syncing.metadata.database.tenant(syncing.owner.tenant_id) as connection:
        for table in ("sources", "source_items"):
            assert await connection.fetchval(f"SELECT count(*) FROM corpusmesh.{table}") == 0


async def test_a_file_of_a_source_and_an_upload_of_the_same_name_are_two_documents(syncing: Syncing) -> None:
    await syncing.add()
    await syncing.metadata.ingest(syncing.owner, syncing.knowledge_base_id, [upload("a.txt")])
    await syncing.sync()
    assert (await syncing.names()).count("a.txt") == 2
    del syncing.place.texts["a.txt"]
    await syncing.sync()
    assert (await syncing.names()).count("a.txt") == 1, "a sync deletes its own documents alone"
