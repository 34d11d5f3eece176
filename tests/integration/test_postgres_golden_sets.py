"""Golden sets and evaluations on a real server: rights, bounds, order, erasure."""

from collections.abc import AsyncIterator

import pytest
from pyroaring import BitMap

from corpusmesh_adapters.postgres import PostgresEvaluationStore, PostgresGoldenSetStore
from corpusmesh_adapters.postgres import golden_sets as module
from corpusmesh_app.stack import StackEndpoints
from corpusmesh_core.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from corpusmesh_core.evaluation import GoldItem
from corpusmesh_core.orchestration.transitions import SKIP_PUBLISH_GATE
from corpusmesh_core.orchestration.values import PartFailure, RunState, Stage
from corpusmesh_core.ports.golden_sets import GoldenQuestion
from corpusmesh_core.ports.work import StageOutcome
from corpusmesh_core.tenancy import Identity, Role
from corpusmesh_core.tenancy.values import Permission
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


@pytest.fixture
def sets(metadata: Metadata) -> PostgresGoldenSetStore:
    return PostgresGoldenSetStore(metadata.database)


@pytest.fixture
def evaluations(metadata: Metadata) -> PostgresEvaluationStore:
    return PostgresEvaluationStore(metadata.database)


def question(text: str, *sources: int) -> GoldenQuestion:
    return GoldenQuestion(text, ("yes",), (GoldItem("d1", "a quote", 3),), sources)


async def questions_of(sets: PostgresGoldenSetStore, identity: Identity, name: str = "g") -> dict[int, str]:
    found = await sets.questions(identity, "kb", name, after_position=-1, limit=100)
    return {entry.position: entry.question for entry in found}


async def test_questions_come_back_as_they_were_given_in_order_and_by_page(
    owner: Identity, sets: PostgresGoldenSetStore
) -> None:
    made = await sets.create(owner, "kb", "g", display_name="Gold", questions=[question("a"), question("b")])
    assert (made.display_name, made.question_count, made.create_user_id) == ("Gold", 2, "owner")
    added = await sets.append(owner, "kb", "g", [GoldenQuestion("c")])
    assert added.question_count == 3
    assert await questions_of(sets, owner) == {0: "a", 1: "b", 2: "c"}
    (second,) = await sets.questions(owner, "kb", "g", after_position=0, limit=1)
    assert second == GoldenQuestion("b", ("yes",), (GoldItem("d1", "a quote", 3),), (), 1)
    assert [item.golden_set_id for item in await sets.list(owner, "kb", "", 10)] == ["g"]
    assert await sets.get(owner, "kb", "g") == added


async def test_a_set_is_made_once_and_deleted_as_often_as_asked(owner: Identity, sets: PostgresGoldenSetStore) -> None:
    await sets.create(owner, "kb", "g", display_name="", questions=[question("a")])
    with pytest.raises(AlreadyExistsError):
        await sets.create(owner, "kb", "g", display_name="", questions=[question("b")])
    assert await questions_of(sets, owner) == {0: "a"}
    await sets.delete(owner, "kb", "g")
    await sets.delete(owner, "kb", "g")
    with pytest.raises(NotFoundError):
        await sets.get(owner, "kb", "g")


async def test_readers_and_strangers_have_no_golden_sets(
    metadata: Metadata, owner: Identity, sets: PostgresGoldenSetStore, evaluations: PostgresEvaluationStore
) -> None:
    await metadata.knowledge_base(owner, "own", Permission.PRIVATE)
    for base in ("kb", "own"):
        await sets.create(owner, base, "g", display_name="", questions=[])
    editor = member(owner.tenant_id, "editor", Role.EDITOR)
    assert (await sets.get(editor, "kb", "g")).golden_set_id == "g"
    for identity, base in (
        (member(owner.tenant_id, "viewer", Role.VIEWER), "kb"),
        (editor, "own"),
        (await metadata.tenant(), "kb"),
    ):
        with pytest.raises(NotFoundError):
            await sets.get(identity, base, "g")
        with pytest.raises(NotFoundError):
            await sets.questions(identity, base, "g", after_position=-1, limit=1)
        with pytest.raises(NotFoundError):
            await sets.append(identity, base, "g", [question("x")])
        with pytest.raises(NotFoundError):
            await sets.delete(identity, base, "g")
        with pytest.raises(NotFoundError):
            await evaluations.list(identity, base, "g", "", 1)


async def test_sets_and_questions_are_bounded(
    owner: Identity, sets: PostgresGoldenSetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SETS", 1)
    monkeypatch.setattr(module, "MAX_QUESTIONS", 2)
    with pytest.raises(FailedPreconditionError) as raised:
        await sets.create(owner, "kb", "g", display_name="", questions=[question(text) for text in "abc"])
    assert raised.value.reason == "GOLDEN_SET_FULL"
    await sets.create(owner, "kb", "g", display_name="", questions=[question("a")])
    with pytest.raises(FailedPreconditionError):
        await sets.append(owner, "kb", "g", [question("b"), question("c")])
    assert await questions_of(sets, owner) == {0: "a"}
    with pytest.raises(FailedPreconditionError) as raised:
        await sets.create(owner, "kb", "h", display_name="", questions=[])
    assert raised.value.reason == "GOLDEN_SETS_FULL"


async def test_questions_go_with_the_document_that_they_were_made_from(
    metadata: Metadata, owner: Identity, sets: PostgresGoldenSetStore
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt"), upload("b.txt")])
    await metadata.work_off(owner.tenant_id)
    first, second = result.versions
    found = await sets.ordinals_of(owner.tenant_id, "kb", [first.document_id, second.document_id, "unknown"])
    assert found == {first.document_id: (first.ordinal,), second.document_id: (second.ordinal,)}
    of_both = question("both", first.ordinal, second.ordinal)
    await sets.create(
        owner,
        "kb",
        "g",
        display_name="",
        questions=[question("a", first.ordinal), of_both, question("b", second.ordinal)],
    )
    await metadata.documents.delete(owner, "kb", [first.document_id], "", {})
    assert await questions_of(sets, owner) == {2: "b"}
    assert (await sets.get(owner, "kb", "g")).question_count == 1
    assert await sets.ordinals_of(owner.tenant_id, "kb", [first.document_id]) == {}
    # Positions are not given twice, and nothing is made from what has gone.
    added = await sets.append(owner, "kb", "g", [question("c"), question("late", first.ordinal)])
    assert added.question_count == 2
    assert await questions_of(sets, owner) == {2: "b", 3: "c"}


async def test_golden_sets_go_with_their_knowledge_base(
    metadata: Metadata, owner: Identity, sets: PostgresGoldenSetStore
) -> None:
    await sets.create(owner, "kb", "g", display_name="", questions=[question("a")])
    await metadata.knowledge_bases.delete(owner, "kb", "", {})
    async with metadata.database.tenant(owner.tenant_id) as connection:
        assert await connection.fetchval("SELECT count(*) FROM corpusmesh.golden_questions") == 0


async def test_the_newest_evaluations_are_kept_and_listed_first(
    owner: Identity,
    sets: PostgresGoldenSetStore,
    evaluations: PostgresEvaluationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_EVALUATIONS", 3)
    await sets.create(owner, "kb", "g", display_name="", questions=[])
    made = [
        await evaluations.add(owner, "kb", "g", snapshot_id=place, results={"recall": place / 10}) for place in range(5)
    ]
    ids = sorted((entry.evaluation_id for entry in made), reverse=True)
    listed = await evaluations.list(owner, "kb", "g", "", 10)
    assert len(listed) == 3
    assert [entry.evaluation_id for entry in listed] == ids[:3]
    assert [entry.evaluation_id for entry in await evaluations.list(owner, "kb", "g", ids[0], 1)] == [ids[1]]
    assert await evaluations.get(owner, "kb", "g", ids[0]) == listed[0]
    assert listed[0].results == {"recall": listed[0].snapshot_id / 10}
    with pytest.raises(NotFoundError):
        await evaluations.get(owner, "kb", "g", ids[-1])
    with pytest.raises(NotFoundError):
        await evaluations.add(owner, "kb", "h", snapshot_id=0, results={})


async def test_what_would_be_published_is_told_without_publishing_it(metadata: Metadata, owner: Identity) -> None:
    first = (await metadata.ingest(owner, "kb", [upload("a.txt", "one"), upload("b.txt", "two")])).versions
    await metadata.work_off(owner.tenant_id)
    again = await metadata.ingest(owner, "kb", [upload("a.txt", "three")])
    (waiting,) = again.versions
    held = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    assert len(held) == 1
    candidate = await metadata.snapshots.plan_candidate(owner.tenant_id, "kb", [waiting.ordinal])
    a, b = (next(row.ordinal for row in first if row.display_name == name) for name in ("a.txt", "b.txt"))
    assert set(BitMap.deserialize(candidate)) == {waiting.ordinal, b}
    assert await metadata.published(owner, "kb") == {a, b}
    today = await metadata.snapshots.plan_candidate(owner.tenant_id, "kb", [])
    assert set(BitMap.deserialize(today)) == {a, b}


async def test_a_part_that_a_gate_held_up_is_published_by_a_retry_that_leaves_it_alone(
    metadata: Metadata, owner: Identity
) -> None:
    result = await metadata.ingest(owner, "kb", [upload("a.txt")])
    (message,) = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    claim = await metadata.claim(message)
    failure = PartFailure(result.versions[0].ordinal, "PUBLISH_GATE_FAILED", "mrr would be 0.1")
    await metadata.queue.complete(claim, StageOutcome(failures=(failure,)))
    await metadata.work_off(owner.tenant_id)
    failed = await metadata.runs.get(owner, "kb", result.run_id)
    assert failed.run.state is RunState.FAILED
    assert await metadata.published(owner, "kb") == set()
    _, count = await metadata.runs.retry(owner, "kb", result.run_id, skip_publish_gate=True)
    assert count == 1
    (message,) = await metadata.work_off(owner.tenant_id, until=Stage.PUBLISH)
    claim = await metadata.claim(message)
    assert claim.payload == {SKIP_PUBLISH_GATE: "owner"}
    await metadata.finish(claim)
    assert await metadata.published(owner, "kb") == {result.versions[0].ordinal}
