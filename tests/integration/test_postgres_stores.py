"""Stores on a real Postgres: rights, counts, snapshots, deletion, keys."""

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyroaring import BitMap

from corpusmesh_adapters.postgres import (
    PostgresAuditLog,
    PostgresIdempotencyStore,
    PostgresRunStore,
    WorkLimits,
    migrate,
    publishing,
)
from corpusmesh_adapters.postgres.originals import allocate_ordinals
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import (
    AlreadyExistsError,
    ConflictError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
)
from corpusmesh_core.orchestration.values import RunState, Stage
from corpusmesh_core.ports.metadata import KnowledgeBaseChange
from corpusmesh_core.ports.runs import IngestOptions
from corpusmesh_core.tenancy import Access, Identity, Role, Scope
from corpusmesh_core.tenancy.keys import make_key, parse_key
from corpusmesh_core.tenancy.publishing import dump_bitmap
from corpusmesh_core.tenancy.values import AclEntry, DuplicatePolicy, Permission, VersionState
from corpusmesh_core.tenancy.visibility import FilterCondition, FilterOperator, MetadataFilter, visible_bitmap
from tests.support.metadata import POSTGRES_DSN, Metadata, fresh_metadata, member, upload

pytestmark = pytest.mark.servers

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


def as_user(owner: Identity, user_id: str, role: Role, *groups: str) -> Identity:
    return member(owner.tenant_id, user_id, role, groups)


async def test_migrating_at_the_same_time_is_safe_and_repeatable(metadata: Metadata) -> None:
    assert len(set(await asyncio.gather(*(migrate(metadata.dsn) for _ in range(3))))) == 1


# Keys and members


async def test_key_is_known_by_its_secret_alone(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    key = make_key(secrets.token_bytes(10), secrets.token_bytes(32))
    await metadata.keys.create_key(owner.tenant_id, "editor", key, Scope.WRITE, None)
    found = await metadata.keys.identify(key)
    assert found is not None
    assert (found.tenant_id, found.user_id, found.role, found.scope) == (
        owner.tenant_id, "editor", Role.EDITOR, Scope.WRITE,
    )  # fmt: skip
    forged = make_key(secrets.token_bytes(10), secrets.token_bytes(32))
    assert await metadata.keys.identify(replace(forged, key_id=key.key_id)) is None
    assert await metadata.keys.identify(forged) is None
    async with metadata.database.system() as connection:
        stored = await connection.fetchval(
            "SELECT string_agg(k::text, ' ') FROM corpusmesh.api_keys k WHERE k.key_id = $1", key.key_id
        )
    assert key.secret not in stored


async def test_key_ends_with_expiry_revocation_and_disabled_user(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    keys = [make_key(secrets.token_bytes(10), secrets.token_bytes(32)) for _ in range(3)]
    past = datetime.now(UTC) - timedelta(seconds=1)
    await metadata.keys.create_key(owner.tenant_id, "editor", keys[0], Scope.READ, past)
    await metadata.keys.create_key(owner.tenant_id, "editor", keys[1], Scope.READ, None)
    await metadata.keys.create_key(owner.tenant_id, "viewer", keys[2], Scope.READ, None)
    assert await metadata.keys.identify(keys[0]) is None
    assert await metadata.keys.identify(keys[1]) is not None
    await metadata.keys.revoke_key(owner.tenant_id, "editor", keys[1].key_id)
    assert await metadata.keys.identify(keys[1]) is None
    viewer = await metadata.tenants.get_user(owner.tenant_id, "viewer")
    await metadata.tenants.update_user(replace(viewer, disabled=True))
    assert await metadata.keys.identify(keys[2]) is None


def test_key_text_is_parsed_strictly() -> None:
    key = make_key(secrets.token_bytes(10), secrets.token_bytes(32))
    assert parse_key(key.text) == key
    assert key.secret not in repr(key)
    for text in ("", "cm_", key.text + "x", key.text[:-1], key.text.replace("cm_", "km_"), "cm_" + "a" * 10_000):
        assert parse_key(text) is None


async def test_last_owner_cannot_be_demoted_or_disabled(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    user = await metadata.tenants.get_user(owner.tenant_id, "owner")
    for change in (replace(user, role=Role.ADMIN), replace(user, disabled=True)):
        with pytest.raises(FailedPreconditionError):
            await metadata.tenants.update_user(change)
    assert (await metadata.tenants.get_user(owner.tenant_id, "owner")).role is Role.OWNER


async def test_users_and_tenants_are_made_once(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    with pytest.raises(AlreadyExistsError):
        await metadata.tenants.create_tenant(owner.tenant_id, "again", "x")
    with pytest.raises(AlreadyExistsError):
        await metadata.tenants.create_user(owner.tenant_id, "viewer", "again", Role.OWNER, ())
    assert [user.user_id for user in await metadata.tenants.list_users(owner.tenant_id, "admin", 2)] == [
        "editor", "owner",
    ]  # fmt: skip


# Rights


async def test_forbidden_and_unknown_knowledge_bases_answer_alike(metadata: Metadata) -> None:
    owner, stranger = await metadata.tenant(), await metadata.tenant()
    editor = as_user(owner, "editor", Role.EDITOR)
    await metadata.knowledge_base(editor, "mine", Permission.PRIVATE)
    texts = set()
    for caller in (stranger, as_user(owner, "viewer", Role.VIEWER), as_user(owner, "admin", Role.ADMIN)):
        with pytest.raises(NotFoundError) as caught:
            await metadata.knowledge_bases.get(caller, "mine")
        texts.add(str(caught.value))
        with pytest.raises(NotFoundError) as caught:
            await metadata.snapshots.visibility_inputs(caller, "mine")
        texts.add(str(caught.value))
        assert await metadata.knowledge_bases.list(caller, "", 10) == []
    with pytest.raises(NotFoundError) as caught:
        await metadata.knowledge_bases.get(editor, "other")
    texts.add(str(caught.value).replace("other", "mine"))
    assert len(texts) == 1
    assert (await metadata.knowledge_bases.get(owner, "mine")).knowledge_base_id == "mine"
    assert [kb.knowledge_base_id for kb in await metadata.knowledge_bases.list(editor, "", 10)] == ["mine"]


async def test_viewers_read_a_team_knowledge_base_and_change_nothing(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner, "team")
    viewer = as_user(owner, "viewer", Role.VIEWER)
    await metadata.knowledge_bases.get(viewer, "team")
    with pytest.raises(NotFoundError):
        await metadata.ingest(viewer, "team", [upload("a.txt")])
    with pytest.raises(NotFoundError):
        await metadata.knowledge_bases.update(viewer, "team", KnowledgeBaseChange(description="x"))
    with pytest.raises(NotFoundError):
        await metadata.knowledge_bases.delete(as_user(owner, "editor", Role.EDITOR), "team", "", {})


async def test_etag_refuses_the_second_of_two_changes(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner, "kb")
    etag = (await metadata.knowledge_bases.get(owner, "kb")).etag
    changed = await metadata.knowledge_bases.update(owner, "kb", KnowledgeBaseChange(description="1", etag=etag))
    assert changed.etag != etag
    with pytest.raises(ConflictError):
        await metadata.knowledge_bases.update(owner, "kb", KnowledgeBaseChange(description="2", etag=etag))
    epoch = changed.policy_epoch
    again = await metadata.knowledge_bases.update(owner, "kb", KnowledgeBaseChange(permission=Permission.PRIVATE))
    assert again.policy_epoch == epoch + 1


# Ingest


async def test_counts_are_right_after_concurrent_uploads_and_deletes_fr_a03(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    uploads = [upload(f"doc {place}.txt") for place in range(20)]
    await asyncio.gather(*(metadata.ingest(owner, "kb", [one]) for one in uploads))
    assert (await metadata.knowledge_bases.count(owner, ["kb"]))["kb"][0] == 20
    listed = await metadata.documents.list(owner, "kb", "", 100)
    assert len(listed) == 20
    assert len({document.latest.ordinal for document in listed if document.latest}) == 20
    await asyncio.gather(
        *(metadata.documents.delete(owner, "kb", [document.document_id], "", {}) for document in listed[:7])
    )
    assert (await metadata.knowledge_bases.count(owner, ["kb"]))["kb"][0] == 13
    assert len(await metadata.documents.list(owner, "kb", "", 100)) == 13


async def test_pages_by_key_hold_every_document_once(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(7)])
    seen: list[str] = []
    while True:
        page = await metadata.documents.list(owner, "kb", seen[-1] if seen else "", 3)
        if not page:
            break
        seen.extend(document.document_id for document in page)
    assert len(seen) == len(set(seen)) == 7


async def test_same_bytes_are_recognised_until_the_document_changes(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one"), upload("b.txt", "two")])
    second = await metadata.ingest(owner, "kb", [upload("a.txt", "one"), upload("b.txt", "three")])
    assert second.unchanged == (True, False)
    assert second.versions[0].ordinal == first.versions[0].ordinal
    assert second.versions[1].version == 2
    forced = await metadata.ingest(owner, "kb", [upload("a.txt", "one")], on_duplicate=DuplicatePolicy.NEW_VERSION)
    assert (forced.unchanged, forced.versions[0].version) == ((False,), 2)
    other_config = await metadata.ingest(owner, "kb", [upload("b.txt", "three")], config_hash="new")
    assert other_config.unchanged == (False,)


async def test_request_id_gives_the_same_run_again(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    first = await metadata.ingest(owner, "kb", [upload("a.txt")], request_id="r1")
    again = await metadata.ingest(owner, "kb", [upload("a.txt")], request_id="r1")
    assert again.run_id == first.run_id
    assert again.unchanged == (True,)
    assert (await metadata.runs.get(owner, "kb", first.run_id)).run.part_count == 1


async def test_a_run_takes_groups_until_the_last_one(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    first = await metadata.ingest(owner, "kb", [upload("a.txt")], is_last=False)
    await metadata.work_off(owner.tenant_id)
    assert (await metadata.runs.get(owner, "kb", first.run_id)).run.state is RunState.RUNNING
    await metadata.ingest(owner, "kb", [upload("b.txt")], run_id=first.run_id, is_last=True)
    await metadata.work_off(owner.tenant_id)
    record = await metadata.runs.get(owner, "kb", first.run_id)
    assert (record.run.state, record.run.succeeded_part_count) == (RunState.SUCCEEDED, 2)
    with pytest.raises(FailedPreconditionError):
        await metadata.ingest(owner, "kb", [upload("c.txt")], run_id=first.run_id)


async def test_too_much_waiting_work_is_refused_early(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    runs = PostgresRunStore(metadata.database, WorkLimits(max_open_tasks=3, batch_part_count=1))
    small = replace_runs(metadata, runs)
    await small.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(3)])
    with pytest.raises(OverloadedError) as caught:
        await small.ingest(owner, "kb", [upload("more.txt")])
    assert caught.value.retry_delay_seconds
    assert len(await metadata.documents.list(owner, "kb", "", 10)) == 3


def replace_runs(metadata: Metadata, runs: PostgresRunStore) -> Metadata:
    other = Metadata(metadata.dsn, metadata.database)
    other.runs = runs
    return other


# Publishing


async def test_a_run_publishes_its_documents_in_one_snapshot(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(5)])
    waiting = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    assert await metadata.published(owner, "kb") == set()
    for message in waiting:
        await metadata.finish(await metadata.claim(message))
    assert await metadata.published(owner, "kb") == {version.ordinal for version in result.versions}
    assert len((await metadata.snapshots.list(owner, "kb", 0, 10))[0]) == 1


async def test_new_version_replaces_the_old_one_and_rollback_brings_it_back(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "1"), upload("b.txt", "1")])
    await metadata.work_off(owner.tenant_id)
    old, kept = (version.ordinal for version in first.versions)
    assert await metadata.published(owner, "kb") == {old, kept}
    second = await metadata.ingest(owner, "kb", [upload("a.txt", "2")])
    await metadata.work_off(owner.tenant_id)
    new = second.versions[0].ordinal
    assert await metadata.published(owner, "kb") == {new, kept}
    snapshots, current_id = await metadata.snapshots.list(owner, "kb", 0, 10)
    assert [snapshot.snapshot_id for snapshot in snapshots] == [2, 1]
    assert current_id == 2
    back = await metadata.snapshots.rollback(owner, "kb", 1)
    assert (back.snapshot_id, back.parent_id, back.reason) == (3, 2, "rollback")
    assert await metadata.published(owner, "kb") == {old, kept}
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=2)
    assert set(visible_bitmap(as_of)) == {new, kept}
    document = await metadata.documents.get(owner, "kb", first.versions[0].document_id)
    assert (document.published_version, document.latest_version) == (1, 2)
    await metadata.snapshots.publish_version(owner, "kb", document.document_id, 2)
    assert await metadata.published(owner, "kb") == {new, kept}


async def test_deleted_documents_leave_at_once_and_no_rollback_brings_them_back(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(owner.tenant_id)
    gone, kept = result.versions
    run_id = await metadata.documents.delete(owner, "kb", [gone.document_id], "req", {})
    assert await metadata.documents.delete(owner, "kb", [gone.document_id], "req", {}) == run_id
    assert await metadata.published(owner, "kb") == {kept.ordinal}
    with pytest.raises(NotFoundError):
        await metadata.documents.get(owner, "kb", gone.document_id)
    with pytest.raises(NotFoundError):
        await metadata.documents.delete(owner, "kb", [gone.document_id], "other", {})
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=1)
    assert set(visible_bitmap(as_of)) == {kept.ordinal}
    await metadata.snapshots.rollback(owner, "kb", 1)
    assert await metadata.published(owner, "kb") == {kept.ordinal}
    # Uploaded again it is a new version, and the deleted one stays away.
    again = await metadata.ingest(owner, "kb", [upload("a.txt")])
    assert again.unchanged == (False,)
    await metadata.work_off(owner.tenant_id)
    assert await metadata.published(owner, "kb") == {kept.ordinal, again.versions[0].ordinal}


async def test_steps_of_a_long_run_do_not_push_out_the_snapshots_before_it(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "KEPT_SNAPSHOT_COUNT", 3)
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)

    async def publish(run_id: str, first: bool = False) -> int:
        result = await metadata.ingest(
            owner, "kb", [upload(f"{run_id}-{uuid.uuid4().hex}.txt")], run_id="" if first else run_id, is_last=False
        )
        await metadata.work_off(owner.tenant_id)
        runs[run_id] = result.run_id
        return (await metadata.snapshots.visibility_inputs(owner, "kb")).snapshot_id

    async def grow_old() -> None:
        async with metadata.database.system() as connection:
            await connection.execute("UPDATE corpusmesh.snapshots SET create_time = create_time - interval '1 hour'")

    async def kept() -> set[int]:
        return {snapshot.snapshot_id for snapshot in (await metadata.snapshots.list(owner, "kb", 0, 100))[0]}

    runs: dict[str, str] = {}
    before = await publish("before", first=True)
    steps = [await publish("long", first=True)]
    steps += [await publish(runs["long"]) for _ in range(6)]
    assert await kept() == {before, *steps}, "a reader who turns pages finds every step"
    await grow_old()
    last = await publish(runs["long"])
    assert await kept() == {before, steps[-1], last}
    await grow_old()
    others = [await publish(f"run {place}", first=True) for place in range(4)]
    await grow_old()
    others.append(await publish("one more", first=True))
    assert await kept() == set(others[-3:]), "beyond the count, what is old goes"


async def add_build(metadata: Metadata, owner: Identity, kb: str, kind: str) -> int:
    """Publish a build, as a worker of trees or graphs would."""
    async with metadata.database.tenant(owner.tenant_id) as connection:
        ordinal = await allocate_ordinals(connection, owner.tenant_id, 1)
        await connection.execute(
            "INSERT INTO corpusmesh.builds (tenant_id, build_id, knowledge_base_id, kind, state, ordinals)"
            " VALUES ($1, $2, $3, $4, 'ready', $5)",
            owner.tenant_id,
            f"{kb}-{ordinal}",
            kb,
            kind,
            dump_bitmap(BitMap([ordinal])),
        )
    await metadata.snapshots.change(owner.tenant_id, kb, add=[ordinal], remove=[], created_by="run")
    return ordinal


async def test_build_passes_the_filter_on_documents_that_its_records_are_judged_by(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(owner.tenant_id)
    build = await add_build(metadata, owner, "kb", "tree")
    only_a = MetadataFilter(document_ids=(result.versions[0].document_id,))
    inputs = await metadata.snapshots.visibility_inputs(owner, "kb", metadata_filter=only_a)
    assert set(visible_bitmap(inputs)) == {result.versions[0].ordinal, build}
    nowhere = MetadataFilter(conditions=(FilterCondition("no such key", FilterOperator.EXISTS),))
    inputs = await metadata.snapshots.visibility_inputs(owner, "kb", metadata_filter=nowhere)
    assert set(visible_bitmap(inputs)) == {build}, "with no source visible, neither rule shows a record of it"


async def test_build_that_was_purged_comes_back_by_no_rollback_and_no_earlier_snapshot(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    await metadata.work_off(owner.tenant_id)
    old = await add_build(metadata, owner, "kb", "tree")
    earlier = (await metadata.snapshots.visibility_inputs(owner, "kb")).snapshot_id
    new = await add_build(metadata, owner, "kb", "graph")
    await metadata.snapshots.change(owner.tenant_id, "kb", add=[], remove=[old], created_by="run")
    version = result.versions[0].ordinal
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=earlier)
    assert set(visible_bitmap(as_of)) == {version, old}
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute(
            "UPDATE corpusmesh.builds SET state = 'deleting' WHERE tenant_id = $1 AND kind = 'tree'", owner.tenant_id
        )
    as_of = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=earlier)
    assert set(visible_bitmap(as_of)) == {version}
    await metadata.snapshots.rollback(owner, "kb", earlier)
    assert await metadata.published(owner, "kb") == {version}
    assert new not in await metadata.published(owner, "kb")


async def test_read_of_nothing_published_stays_that_after_the_first_publish(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    before = await metadata.snapshots.visibility_inputs(owner, "kb")
    assert before.snapshot_id == 0
    await metadata.ingest(owner, "kb", [upload("a.txt")])
    await metadata.work_off(owner.tenant_id)
    again = await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=0)
    assert (again.snapshot_id, set(visible_bitmap(again))) == (0, set())


async def test_counts_of_many_knowledge_bases_are_those_of_each_by_the_callers_rights(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    viewer = as_user(owner, "viewer", Role.VIEWER)
    for name in ("one", "two", "none"):
        await metadata.knowledge_base(owner, name)
    hidden = replace(upload("hidden.txt"), acl=(AclEntry("user", "admin", "allow"),))
    for name, uploads in (("one", [upload("a.txt"), hidden]), ("two", [upload("a.txt"), upload("b.txt")])):
        result = await metadata.ingest(owner, name, uploads)
        async with metadata.database.tenant(owner.tenant_id) as connection:
            await connection.execute("UPDATE corpusmesh.versions SET chunk_count = 10 WHERE run_id = $1", result.run_id)
    await metadata.work_off(owner.tenant_id)
    await metadata.ingest(owner, "two", [upload("a.txt", "newer")])
    names = ["one", "two", "none"]
    assert await metadata.knowledge_bases.count(owner, names) == {"one": (2, 20), "two": (2, 20), "none": (0, 0)}
    assert await metadata.knowledge_bases.count(viewer, names) == {"one": (1, 10), "two": (2, 20), "none": (0, 0)}
    await metadata.knowledge_base(owner, "private", Permission.PRIVATE)
    for wanted in (["one", "private"], ["one", "unknown"]):
        with pytest.raises(NotFoundError):
            await metadata.knowledge_bases.count(viewer, wanted)
        with pytest.raises(NotFoundError):
            await metadata.knowledge_bases.check(viewer, wanted, Access.READ)
    await metadata.knowledge_bases.check(viewer, names, Access.READ)
    with pytest.raises(NotFoundError):
        await metadata.knowledge_bases.check(viewer, names, Access.WRITE)


@pytest.mark.parametrize("metadata_of", [{"k": "a\x00b"}, {"\x00": "v"}])
async def test_value_that_the_store_cannot_keep_is_the_callers_error(
    metadata: Metadata, metadata_of: dict[str, str]
) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    with pytest.raises(InvalidArgumentError) as caught:
        await metadata.ingest(owner, "kb", [replace(upload("a.txt"), metadata=metadata_of)])
    assert caught.value.reason == "VALUE_INVALID"
    assert caught.value.__cause__ is None, "the driver's text quotes the value"
    with pytest.raises(InvalidArgumentError):
        await metadata.snapshots.visibility_inputs(owner, "kb", snapshot_id=2**40)


async def test_bytes_uploaded_again_while_they_are_purged_are_put_back_and_then_kept(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "same")])
    await metadata.work_off(owner.tenant_id)
    version = first.versions[0]
    await metadata.documents.delete(owner, "kb", [version.document_id], "", {})
    events: list[str] = []
    removing = asyncio.Event()
    go_on = asyncio.Event()

    async def remove(sha256: str) -> None:
        removing.set()
        await go_on.wait()
        events.append(f"removed {sha256}")

    async def restore(hashes: Sequence[str]) -> None:
        events.extend(f"restored {sha256}" for sha256 in hashes)

    purge = asyncio.create_task(metadata.purges.remove_originals(owner.tenant_id, [version.ordinal], remove))
    await removing.wait()
    uploads = [upload("b.txt", "same"), upload("c.txt", "other")]
    again = asyncio.create_task(metadata.runs.ingest(owner, "kb", uploads, IngestOptions(), restore=restore))
    await asyncio.wait({again}, timeout=0.3)
    assert not again.done(), "the upload waits for the purge of its bytes"
    go_on.set()
    assert await purge == 1
    await again
    assert events == [f"removed {version.original_sha256}", f"restored {version.original_sha256}"]
    assert await metadata.purges.remove_originals(owner.tenant_id, [version.ordinal], remove) == 0, "needed again"


async def test_purge_looks_twice_and_leaves_only_a_mark(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload("secret name.txt", "same"), upload("b.txt", "same")])
    await metadata.work_off(owner.tenant_id)
    version, twin = result.versions
    await metadata.documents.update(owner, "kb", version.document_id, metadata={"k": "v"})
    run_id = await metadata.documents.delete(owner, "kb", [version.document_id], "", {})
    removed: list[str] = []

    async def remove(sha256: str) -> None:
        removed.append(sha256)

    assert await metadata.purges.remove_originals(owner.tenant_id, [version.ordinal], remove) == 0
    assert await metadata.purges.remove_originals(owner.tenant_id, [version.ordinal, twin.ordinal], remove) == 1
    assert removed == [version.original_sha256]
    stages = []
    for _ in range(100):
        messages = await metadata.due_messages(owner.tenant_id)
        for message in messages:
            claim = await metadata.claim(message)
            assert claim.parts == (version.ordinal,)
            stages.append(claim.stage)
            await metadata.finish(claim)
        if len(stages) == 2:
            break
        await asyncio.sleep(0.05)
    assert stages == [Stage.PURGE, Stage.VERIFY]
    record = await metadata.runs.get(owner, "kb", run_id)
    assert (record.run.state, record.run.succeeded_part_count) == (RunState.SUCCEEDED, 1)
    assert await metadata.purges.count_rows(owner.tenant_id, "kb", version.document_id) == 0
    async with metadata.database.tenant(owner.tenant_id) as connection:
        left = await connection.fetchval(
            "SELECT count(*) FROM corpusmesh.documents d, corpusmesh.versions v"
            " WHERE d::text LIKE '%secret name%' OR v::text LIKE '%secret name%'"
        )
    assert left == 0


async def test_deleted_knowledge_base_is_gone_for_all_and_its_work_stops(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    done = await metadata.ingest(owner, "kb", [upload("a.txt")])
    await metadata.work_off(owner.tenant_id)
    running = await metadata.ingest(owner, "kb", [upload("b.txt")])
    run_id = await metadata.knowledge_bases.delete(owner, "kb", "", {})
    with pytest.raises(NotFoundError):
        await metadata.snapshots.visibility_inputs(owner, "kb")
    with pytest.raises(NotFoundError):
        await metadata.ingest(owner, "kb", [upload("c.txt")])
    await metadata.work_off(owner.tenant_id)
    assert (await metadata.runs.get(owner, "kb", running.run_id)).run.state is RunState.CANCELLED
    record = await metadata.runs.get(owner, "kb", run_id)
    assert record.run.part_count == len(done.versions) + len(running.versions)
    with pytest.raises(AlreadyExistsError):
        await metadata.knowledge_base(owner)


# Visibility


async def test_document_access_lists_hide_before_the_query_leaves(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(4)])
    await metadata.work_off(owner.tenant_id)
    everyone, for_user, for_group, denied = result.versions
    epoch = (await metadata.snapshots.visibility_inputs(owner, "kb")).policy_epoch
    for version, entries in (
        (for_user, [AclEntry("user", "viewer", "allow")]),
        (for_group, [AclEntry("group", "staff", "allow"), AclEntry("user", "editor", "deny")]),
        (denied, [AclEntry("group", "staff", "deny")]),
    ):
        await metadata.documents.update(owner, "kb", version.document_id, acl=entries)
    assert (await metadata.snapshots.visibility_inputs(owner, "kb")).policy_epoch == epoch + 3
    cases = [
        (owner, [everyone, for_user, for_group, denied]),
        (as_user(owner, "admin", Role.ADMIN), [everyone, for_user, for_group, denied]),
        (as_user(owner, "viewer", Role.VIEWER), [everyone, for_user, denied]),
        (as_user(owner, "editor", Role.EDITOR, "staff"), [everyone]),
        (as_user(owner, "other", Role.VIEWER, "staff"), [everyone, for_group]),
        (as_user(owner, "other", Role.VIEWER), [everyone, denied]),
    ]
    for caller, expected in cases:
        assert await metadata.published(caller, "kb") == {version.ordinal for version in expected}, caller
        listed = await metadata.documents.list(caller, "kb", "", 10)
        assert {document.document_id for document in listed} == {version.document_id for version in expected}
        assert (await metadata.knowledge_bases.count(caller, ["kb"]))["kb"][0] == len(expected)
        for version in result.versions:
            if version not in expected:
                with pytest.raises(NotFoundError):
                    await metadata.documents.get(caller, "kb", version.document_id)
                with pytest.raises(NotFoundError):
                    await metadata.documents.list_versions(caller, "kb", version.document_id, 0, 10)


async def test_metadata_filter_finds_documents_by_text_number_and_time(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    values = [
        {"lang": "en", "year": "2020", "date": "2020-05-01"},
        {"lang": "en", "year": "2024", "date": "2024-05-01"},
        {"lang": "zh", "year": "2024"},
        {},
    ]
    uploads = [replace(upload(f"{place}.txt"), metadata=each) for place, each in enumerate(values)]
    result = await metadata.ingest(owner, "kb", uploads)
    await metadata.work_off(owner.tenant_id)
    ordinals = [int(version.ordinal) for version in result.versions]

    async def found(*conditions: FilterCondition, documents: tuple[str, ...] | None = None) -> list[int]:
        wanted = MetadataFilter(conditions, documents)
        inputs = await metadata.snapshots.visibility_inputs(owner, "kb", metadata_filter=wanted)
        return [ordinals.index(ordinal) for ordinal in visible_bitmap(inputs)]

    year = FilterCondition("year", FilterOperator.GREATER_OR_EQUAL, numbers=(2021,))
    english = FilterCondition("lang", texts=("en",))
    assert await found(english) == [0, 1]
    assert await found(FilterCondition("lang", texts=("en", "zh"))) == [0, 1, 2]
    assert await found(year) == [1, 2]
    assert await found(english, year) == [1]
    assert await found(FilterCondition("lang", texts=("en",), negated=True)) == [2, 3]
    assert await found(year, FilterCondition("lang", texts=("en",), negated=True)) == [2]
    assert await found(FilterCondition("lang", FilterOperator.EXISTS)) == [0, 1, 2]
    assert await found(FilterCondition("date", FilterOperator.LESS, moments=(datetime(2022, 1, 1, tzinfo=UTC),))) == [0]
    assert await found(FilterCondition("lang", FilterOperator.PREFIX, texts=("z",))) == [2]
    assert await found(documents=(result.versions[3].document_id,)) == [3]
    assert await found(english, documents=(result.versions[1].document_id,)) == [1]
    assert await found(FilterCondition("lang", texts=("fr",))) == []


async def test_next_ordinal_is_above_every_ordinal_given(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload(f"{place}.txt") for place in range(3)])
    inputs = await metadata.snapshots.visibility_inputs(owner, "kb")
    assert inputs.next_ordinal == max(version.ordinal for version in result.versions) + 1
    assert inputs.space_id == "e5-small"
    assert inputs.config == {"template": "general"}


# Idempotency and audit


async def test_request_id_replays_the_first_response(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    store = PostgresIdempotencyStore(metadata.database)
    assert await store.begin(owner, "m", "r", b"f") is None
    with pytest.raises(ConflictError):
        await store.begin(owner, "m", "r", b"f")
    await store.finish(owner, "m", "r", b"answer")
    assert await store.begin(owner, "m", "r", b"f") == b"answer"
    with pytest.raises(InvalidArgumentError):
        await store.begin(owner, "m", "r", b"another")
    assert await store.begin(member(owner.tenant_id, "viewer"), "m", "r", b"f") is None
    await store.abandon(member(owner.tenant_id, "viewer"), "m", "r")
    assert await store.begin(member(owner.tenant_id, "viewer"), "m", "r", b"f") is None


async def test_audit_lines_are_kept(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await PostgresAuditLog(metadata.database).append(owner, "a.B/C", "kb/x", "OK", "r", {"k": "v"})
    async with metadata.database.tenant(owner.tenant_id) as connection:
        row = await connection.fetchrow("SELECT actor, action, detail FROM corpusmesh.audit_log")
    assert row is not None
    assert tuple(row) == ("owner", "a.B/C", {"k": "v"})


async def test_version_states_follow_the_stages(metadata: Metadata) -> None:
    owner = await metadata.tenant()
    await metadata.knowledge_base(owner)
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    states = [result.versions[0].state]
    for _ in range(7):
        for message in await metadata.due_messages(owner.tenant_id):
            await metadata.finish(await metadata.claim(message))
        states.append(
            (await metadata.documents.versions_by_ordinal(owner.tenant_id, [result.versions[0].ordinal]))[0].state
        )
    assert states == [
        VersionState.PENDING, VersionState.CHUNKING, VersionState.ENRICHING, VersionState.EMBEDDING,
        VersionState.SUMMARIZING, VersionState.INDEXING, VersionState.READY, VersionState.READY,
    ]  # fmt: skip
