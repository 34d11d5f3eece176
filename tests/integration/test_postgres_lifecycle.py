"""Duplicates, versions derived from versions, people's edits and sealed passwords, on a real server."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from corpusmesh_adapters.postgres import PostgresChunkEditStore
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.orchestration.values import PartFailure, Stage
from corpusmesh_core.ports.edits import EditState, NewEdit
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.tenancy import Identity, Role
from corpusmesh_core.tenancy.values import AclEntry, DuplicatePolicy, VersionState
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


@pytest.fixture
async def owner(metadata: Metadata) -> Identity:
    identity = await metadata.tenant()
    await metadata.knowledge_base(identity)
    return identity


async def derive(metadata: Metadata, identity: Identity, *derivations: Derivation, **options: object) -> IngestResult:
    return await metadata.runs.derive(identity, "kb", derivations, replace(IngestOptions(), **options))  # type: ignore[arg-type]


async def hide(metadata: Metadata, owner: Identity, document_id: str, user_id: str) -> None:
    await metadata.documents.update(owner, "kb", document_id, acl=[AclEntry("user", user_id, "deny")])


async def test_skip_names_the_version_of_another_document_with_the_same_bytes(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    again = await metadata.ingest(
        owner,
        "kb",
        [upload("b.txt", "one"), upload("c.txt", "two"), upload("d.txt", "two")],
        on_duplicate=DuplicatePolicy.SKIP,
    )
    assert again.unchanged == (True, False, True)
    assert again.versions[0] == first.versions[0]
    assert again.versions[2] == again.versions[1]
    assert [row.display_name for row in await metadata.documents.list(owner, "kb", "", 9)] == ["a.txt", "c.txt"]


async def test_without_skip_the_same_bytes_under_another_name_are_another_document(
    metadata: Metadata, owner: Identity
) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    again = await metadata.ingest(owner, "kb", [upload("b.txt", "one")])
    assert again.unchanged == (False,)


async def test_skip_never_names_a_document_that_the_caller_may_not_see(metadata: Metadata, owner: Identity) -> None:
    editor = member(owner.tenant_id, "editor", Role.EDITOR)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    await hide(metadata, owner, first.versions[0].document_id, "editor")
    again = await metadata.ingest(editor, "kb", [upload("b.txt", "one")], on_duplicate=DuplicatePolicy.SKIP)
    assert again.unchanged == (False,)
    assert again.versions[0].document_id != first.versions[0].document_id


@pytest.mark.parametrize("policy", list(DuplicatePolicy))
async def test_an_upload_never_becomes_a_version_of_a_document_that_the_caller_may_not_see(
    metadata: Metadata, owner: Identity, policy: DuplicatePolicy
) -> None:
    editor = member(owner.tenant_id, "editor", Role.EDITOR)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    hidden = first.versions[0].document_id
    await hide(metadata, owner, hidden, "editor")
    made = await metadata.ingest(editor, "kb", [upload("a.txt", "one")], on_duplicate=policy)
    assert made.unchanged == (False,)
    assert made.versions[0].document_id != hidden
    assert made.versions[0].version == 1
    assert (await metadata.documents.get(owner, "kb", hidden)).latest_version == 1
    again = await metadata.ingest(editor, "kb", [upload("a.txt", "one")])
    assert again.unchanged == (True,), "the same name of the same user is the same document again"


async def test_keep_both_makes_a_second_document_and_keeps_the_name(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    both = await metadata.ingest(
        owner, "kb", [upload("a.txt", "one"), upload("a.txt", "two")], on_duplicate=DuplicatePolicy.KEEP_BOTH
    )
    base = first.versions[0].document_id
    assert [version.document_id for version in both.versions] == [f"{base}-2", f"{base}-3"]
    assert {row.display_name for row in await metadata.documents.list(owner, "kb", "", 9)} == {"a.txt"}
    assert all(version.version == 1 for version in both.versions)


async def test_keep_both_sent_again_under_one_request_makes_no_third_document(
    metadata: Metadata, owner: Identity
) -> None:
    await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    options = {"on_duplicate": DuplicatePolicy.KEEP_BOTH, "request_id": "r-1", "is_last": False}
    once = await metadata.ingest(owner, "kb", [upload("a.txt", "two")], **options)
    twice = await metadata.ingest(owner, "kb", [upload("a.txt", "two")], **options)
    assert twice.versions == once.versions
    assert twice.unchanged == (True,)


async def test_a_long_identifier_leaves_room_for_its_suffix(metadata: Metadata, owner: Identity) -> None:
    long = replace(upload("a.txt", "one"), document_id="x" * 63)
    await metadata.ingest(owner, "kb", [long])
    both = await metadata.ingest(owner, "kb", [long, long], on_duplicate=DuplicatePolicy.KEEP_BOTH)
    assert [len(version.document_id) for version in both.versions] == [63, 63]
    assert len({version.document_id for version in both.versions}) == 2


async def test_a_document_twice_in_a_group_is_refused(metadata: Metadata, owner: Identity) -> None:
    with pytest.raises(InvalidArgumentError, match="twice"):
        await metadata.ingest(owner, "kb", [upload("a.txt", "one"), upload("a.txt", "two")])


async def test_a_derived_version_has_the_original_of_the_published_one_and_its_own_settings(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    await metadata.work_off(owner.tenant_id)
    document_id = first.versions[0].document_id
    held = await metadata.ingest(owner, "kb", [upload("a.txt", "two")], hold_publish=True)
    config = {"chunking": {"template": "one", "settings": {}}}
    made = (await derive(metadata, owner, Derivation(document_id, config=config))).versions[0]
    assert made.version == 3
    assert made.original_sha256 == first.versions[0].original_sha256
    assert made.base_ordinal == first.versions[0].ordinal
    assert made.config == config
    chosen = (await derive(metadata, owner, Derivation(document_id, version=2))).versions[0]
    assert chosen.original_sha256 == held.versions[0].original_sha256
    assert chosen.config == {}
    await metadata.work_off(owner.tenant_id)
    assert await metadata.published(owner, "kb") == {chosen.ordinal}


async def test_settings_of_a_document_hold_for_its_next_upload_until_they_are_forgotten(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    chunking, parsing = {"template": "one"}, {"recognition": "never"}
    await derive(metadata, owner, Derivation(document_id, version=1, config={"chunking": chunking}))
    next_upload = (await metadata.ingest(owner, "kb", [upload("a.txt", "two")])).versions[0]
    assert next_upload.config == {"chunking": chunking}
    more = (await derive(metadata, owner, Derivation(document_id, version=3, config={"parsing": parsing}))).versions[0]
    assert more.config == {"chunking": chunking, "parsing": parsing}
    forgotten = Derivation(document_id, version=4, config={"parsing": parsing}, forgets_config=True)
    assert (await derive(metadata, owner, forgotten)).versions[0].config == {"parsing": parsing}


async def test_a_derivation_sent_again_under_one_request_makes_no_second_version(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    wanted = Derivation(first.versions[0].document_id, seen_version=1, edits=(NewEdit({"a": 1}, {"c": 1}),))
    once = await derive(metadata, owner, wanted, request_id="r-1")
    twice = await derive(metadata, owner, wanted, request_id="r-1")
    assert twice.versions == once.versions
    assert (once.unchanged, twice.unchanged) == ((False,), (True,))
    edits = PostgresChunkEditStore(metadata.database)
    assert len(await edits.list(owner, "kb", wanted.document_id, (), "", 9)) == 1


async def test_nothing_is_derived_from_a_document_that_the_caller_may_not_see(
    metadata: Metadata, owner: Identity
) -> None:
    editor = member(owner.tenant_id, "editor", Role.EDITOR)
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one"), upload("b.txt", "two")])
    ids = [version.document_id for version in first.versions]
    await hide(metadata, owner, ids[0], "editor")
    for caller, wanted in ((editor, ids), (viewer, ids[1:])):
        with pytest.raises(NotFoundError):
            await derive(metadata, caller, *map(Derivation, wanted))
    assert (await metadata.documents.get(owner, "kb", ids[1])).latest_version == 1


async def test_an_edit_of_a_chunk_of_another_original_is_refused(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    await metadata.ingest(owner, "kb", [upload("a.txt", "two")])
    await metadata.work_off(owner.tenant_id)
    stale = Derivation(first.versions[0].document_id, seen_version=1, edits=(NewEdit({}, {}),))
    with pytest.raises(FailedPreconditionError, match="version 2"):
        await derive(metadata, owner, stale)


async def test_a_version_takes_the_edits_made_and_not_withdrawn_before_it(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    edits = PostgresChunkEditStore(metadata.database)
    tenant_id = owner.tenant_id
    two = (
        await derive(
            metadata,
            owner,
            Derivation(
                document_id, seen_version=1, edits=(NewEdit({"n": 1}, {"text": "x"}), NewEdit({"n": 2}, {"text": "y"}))
            ),
        )
    ).versions[0]
    made = await edits.edits_of(tenant_id, "kb", document_id, ordinal=two.ordinal)
    assert [(row.anchor, row.change, row.state) for row in made] == [
        ({"n": 1}, {"text": "x"}, EditState.PENDING),
        ({"n": 2}, {"text": "y"}, EditState.PENDING),
    ]
    assert await edits.edits_of(tenant_id, "kb", document_id, ordinal=two.ordinal - 1) == []
    three = (await derive(metadata, owner, Derivation(document_id, withdrawn=(made[0].edit_id,)))).versions[0]
    after = await edits.edits_of(tenant_id, "kb", document_id, ordinal=three.ordinal)
    assert [row.edit_id for row in after] == [made[1].edit_id]
    still = await edits.edits_of(tenant_id, "kb", document_id, ordinal=two.ordinal)
    assert [row.edit_id for row in still] == [row.edit_id for row in made], "a retry of the older version is the same"
    with pytest.raises(NotFoundError):
        await derive(metadata, owner, Derivation(document_id, withdrawn=(made[0].edit_id,)))
    listed = await edits.list(owner, "kb", document_id, (), "", 9)
    assert [row.edit_id for row in listed] == [made[1].edit_id]
    withdrawn = await edits.list(owner, "kb", document_id, (EditState.WITHDRAWN,), "", 9)
    assert [row.edit_id for row in withdrawn] == [made[0].edit_id]


async def test_what_became_of_an_edit_is_what_the_newest_version_says(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    edits = PostgresChunkEditStore(metadata.database)
    made = (await derive(metadata, owner, Derivation(document_id, seen_version=1, edits=(NewEdit({}, {}),)))).versions[
        0
    ]
    (edit,) = await edits.list(owner, "kb", document_id, (), "", 9)

    async def state() -> EditState:
        (row,) = await edits.list(owner, "kb", document_id, (), "", 9)
        return row.state

    await edits.note_placement(owner.tenant_id, made.ordinal, [edit.edit_id], [])
    assert await state() is EditState.PLACED
    await edits.note_placement(owner.tenant_id, made.ordinal + 1, [], [edit.edit_id])
    assert await state() is EditState.UNPLACED
    await edits.note_placement(owner.tenant_id, made.ordinal, [edit.edit_id], [])
    assert await state() is EditState.UNPLACED, "an older version that is cut later changes nothing"


async def test_edits_are_for_those_who_may_write_and_see_the_document(metadata: Metadata, owner: Identity) -> None:
    editor = member(owner.tenant_id, "editor", Role.EDITOR)
    viewer = member(owner.tenant_id, "viewer", Role.VIEWER)
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    edits = PostgresChunkEditStore(metadata.database)
    await derive(metadata, owner, Derivation(document_id, seen_version=1, edits=(NewEdit({}, {}),)))
    assert len(await edits.list(editor, "kb", document_id, (), "", 9)) == 1
    await hide(metadata, owner, document_id, "editor")
    for caller in (editor, viewer):
        with pytest.raises(NotFoundError):
            await edits.list(caller, "kb", document_id, (), "", 9)


async def test_a_deleted_document_leaves_no_edit(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    await derive(metadata, owner, Derivation(document_id, seen_version=1, edits=(NewEdit({}, {}),)))
    await metadata.documents.delete(owner, "kb", [document_id], "", {})
    await metadata.work_off(owner.tenant_id)
    assert await metadata.purges.count_rows(owner.tenant_id, "kb", document_id) == 0


@pytest.mark.parametrize("ending", ["deleted", "cancelled", "unreadable"])
async def test_a_sealed_password_does_not_outlive_its_version(metadata: Metadata, owner: Identity, ending: str) -> None:
    made = await metadata.ingest(owner, "kb", [replace(upload("a.pdf", "one"), sealed_password=b"sealed")])
    version = made.versions[0]
    assert version.sealed_password == b"sealed"
    if ending == "deleted":
        await metadata.documents.delete(owner, "kb", [version.document_id], "", {})
    elif ending == "cancelled":
        await metadata.runs.cancel(owner, "kb", made.run_id)
    else:
        (message,) = await metadata.due_messages(owner.tenant_id)
        assert message.stage is Stage.PARSE
        claim = await metadata.claim(message)
        failure = PartFailure(version.ordinal, "DOCUMENT_ENCRYPTED", "the password does not open it")
        await metadata.queue.complete(claim, StageOutcome(failures=(failure,)))
    (row,) = await metadata.documents.versions_by_ordinal(owner.tenant_id, [version.ordinal])
    assert row.state is not VersionState.PENDING
    assert row.sealed_password == b""


async def test_a_folder_lists_and_counts_what_lies_in_it(metadata: Metadata, owner: Identity) -> None:
    names = ["a/one.txt", "a/b/two.txt", "ab.txt", "a%/three.txt"]
    await metadata.ingest(owner, "kb", [upload(name) for name in names])

    async def names_of(prefix: str) -> set[str]:
        rows = await metadata.documents.list(owner, "kb", "", 9, name_prefix=prefix)
        assert await metadata.documents.count(owner, "kb", prefix) == len(rows)
        return {row.display_name for row in rows}

    assert await names_of("a/") == {"a/one.txt", "a/b/two.txt"}
    assert await names_of("a%/") == {"a%/three.txt"}
    assert await names_of("") == set(names)
    assert await names_of("a_") == set()


async def test_a_request_that_was_made_names_its_versions_to_its_caller_alone(
    metadata: Metadata, owner: Identity
) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    made = await derive(metadata, owner, Derivation(first.versions[0].document_id), request_id="r-1")
    assert list(await metadata.runs.made_by(owner, "kb", "r-1")) == list(made.versions)
    assert list(await metadata.runs.made_by(owner, "kb", "r-2")) == []
    admin = member(owner.tenant_id, "admin", Role.ADMIN)
    assert list(await metadata.runs.made_by(admin, "kb", "r-1")) == []


async def test_a_withdrawn_edit_is_forgotten_after_a_while_and_no_other_is(metadata: Metadata, owner: Identity) -> None:
    first = await metadata.ingest(owner, "kb", [upload("a.txt", "one")])
    document_id = first.versions[0].document_id
    edits = PostgresChunkEditStore(metadata.database)
    await derive(
        metadata,
        owner,
        Derivation(document_id, seen_version=1, edits=(NewEdit({}, {}), NewEdit({}, {}), NewEdit({}, {}))),
    )
    ids = [row.edit_id for row in await edits.list(owner, "kb", document_id, (), "", 9)]
    await derive(metadata, owner, Derivation(document_id, withdrawn=tuple(ids[:2])))
    async with metadata.database.tenant(owner.tenant_id) as connection:
        await connection.execute(
            "UPDATE corpusmesh.chunk_edits SET update_time = now() - interval '1 year' WHERE edit_id = ANY ($1)",
            [ids[0], ids[2]],
        )
    await metadata.sweeper.prune()
    left = await edits.list(owner, "kb", document_id, tuple(EditState), "", 9)
    assert [row.edit_id for row in left] == ids[1:]
