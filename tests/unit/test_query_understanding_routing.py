"""Which knowledge bases a question is put to when its caller names none."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, Embedder, EmbeddingSpace, EmbedResult
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.query import RetrievalPlan
from corpusmesh_core.query.understanding import content_marks, pick_knowledge_bases
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, KnowledgeBase, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.tenancy.publishing import dump_bitmap
from corpusmesh_core.tenancy.values import LifeState
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, StageState
from corpusmesh_retrieve.understanding import KnowledgeBaseRouter
from corpusmesh_retrieve.understanding.probing import Prober
from corpusmesh_retrieve.viewing import Viewer
from corpusmesh_runtime.context import CallContext

SPACE = EmbeddingSpace("stub", 8, normalized=True, fingerprint="1")
NOW = datetime(2026, 11, 30, tzinfo=UTC)
TOPICS = ("finance", "cooking", "law", "sport", "music", "travel", "health", "science")


def test_contents_count_more_than_descriptions_and_weak_ones_are_left_out() -> None:
    picked = pick_knowledge_bases(
        ["said", "holds", "neither"],
        {"holds": 0.9, "neither": 0.1},
        {"said": 0.9, "holds": 0.2, "neither": 0.1},
        most=4,
    )
    assert [mark.knowledge_base_id for mark in picked] == ["holds"]
    picked = pick_knowledge_bases(["a", "b"], {"a": 0.5, "b": 0.5}, {"a": 0.1, "b": 0.9}, most=1)
    assert [mark.knowledge_base_id for mark in picked] == ["b"]
    assert pick_knowledge_bases([], {}, {}, most=4) == ()
    assert len(pick_knowledge_bases([str(n) for n in range(9)], {}, {}, most=4)) == 4


def test_one_lucky_hit_is_less_than_three_good_ones() -> None:
    marks = content_marks([("lucky", 0.9), *([("good", 0.7)] * 3), *([("good", 0.1)] * 30)])
    assert marks["good"] == pytest.approx(0.7)
    assert marks["lucky"] == pytest.approx(0.3)


def knowledge_base(topic: str) -> KnowledgeBase:
    return KnowledgeBase(
        tenant_id="acme",
        knowledge_base_id=topic,
        display_name=topic.title(),
        description=f"All about {topic}",
        owner_user_id="ann",
        permission=Permission.TEAM,
        config={},
        space_id=SPACE.space_id,
        current_snapshot_id=1,
        policy_epoch=1,
        etag="1",
        state=LifeState.ACTIVE,
        create_time=NOW,
        update_time=NOW,
    )


@dataclass
class Fixture:
    """Knowledge bases with one topic each; texts are embedded by the topic that they name."""

    topics: Sequence[str] = TOPICS
    contents: Sequence[str] = TOPICS
    failure: Exception | None = None
    embedded: list[str] = field(default_factory=list)
    seen: list[RecallRequest] = field(default_factory=list)
    space = SPACE

    async def list(self, identity: Identity, after_key: str, limit: int) -> Sequence[KnowledgeBase]:
        return [knowledge_base(topic) for topic in self.topics][:limit]

    async def embed(self, texts: Sequence[str], **_: object) -> EmbedResult:
        self.embedded.extend(texts)
        vectors = np.array(
            [[float(topic in text.casefold()) + 1e-3 for topic in TOPICS] for text in texts], dtype=np.float32
        )
        return EmbedResult(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), len(texts))

    async def visibility_inputs(self, identity: Identity, knowledge_base_id: str, **_: object) -> VisibilityInputs:
        ordinal = TOPICS.index(knowledge_base_id)
        return VisibilityInputs(
            knowledge_base_id=knowledge_base_id,
            owner_user_id="ann",
            permission=Permission.TEAM,
            config={},
            space_id=SPACE.space_id,
            policy_epoch=1,
            snapshot_id=1,
            published=dump_bitmap(BitMap([ordinal])),
            hidden=(),
            matching=None,
            next_ordinal=9,
        )

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> Sequence[Candidates]:
        self.seen.extend(requests)
        if self.failure is not None:
            raise self.failure
        question = next(topic for topic in TOPICS if topic in " ".join(requests[0].terms.coarse))
        return [
            Candidates(
                tuple(
                    Candidate(
                        Record(f"{place}", RecordKind.CHUNK, topic, Ordinal(place), (Ordinal(place),), topic),
                        topic,
                        cosine=0.95 if topic == question else 0.75,
                        vector_rank=place + 1,
                    )
                    for place, topic in enumerate(self.contents)
                )
            )
        ]

    async def routed(self, query: str) -> SearchOutcome:
        return await self.routed_by(self.router(), query)

    def router(self) -> KnowledgeBaseRouter:
        prober = Prober(cast(RecordIndex, self), cast(Embedder, self))
        return KnowledgeBaseRouter(cast(Any, self), Viewer(cast(Any, self)), prober, cast(Embedder, self))

    async def routed_by(self, router: KnowledgeBaseRouter, query: str) -> SearchOutcome:
        request = SearchRequest((), query, lambda _: RetrievalPlan(), ModelSession(None, np.random.default_rng))
        outcome = SearchOutcome(request, question=query)
        identity = Identity("acme", "ann", Role.VIEWER, Scope.READ)
        await router.route(CallContext(identity, "r", time.monotonic() + 60), outcome)
        return outcome


async def test_the_router_picks_by_contents_and_description_and_tells_why() -> None:
    outcome = await Fixture().routed("a question on music")
    assert outcome.request.knowledge_base_ids == ("music",)
    [report] = outcome.stages
    assert report.name == "route"
    assert report.detail.startswith("1 of 8 that you may read: music")
    assert "contents" in report.detail
    assert "description" in report.detail
    assert outcome.notes == ["1 of 8 knowledge bases were searched"]


async def test_few_knowledge_bases_are_all_searched_without_a_probe() -> None:
    fixture = Fixture(topics=TOPICS[:3])
    outcome = await fixture.routed("music")
    assert outcome.request.knowledge_base_ids == TOPICS[:3]
    assert fixture.seen == []


async def test_who_may_read_nothing_is_told_so() -> None:
    outcome = await Fixture(topics=()).routed("music")
    assert outcome.request.knowledge_base_ids == ()
    assert outcome.stages[0].state is StageState.SKIPPED
    assert outcome.notes == ["there is no knowledge base that you may read"]


@pytest.mark.parametrize("failure", [UnavailableError("DOWN", "down"), NotFoundError("GONE", "gone")])
async def test_descriptions_decide_where_the_contents_cannot_be_asked(failure: Exception) -> None:
    outcome = await Fixture(failure=failure).routed("music")
    assert outcome.request.knowledge_base_ids == ("music",)


async def test_descriptions_are_embedded_once_and_again_where_they_change() -> None:
    fixture = Fixture()
    router = fixture.router()
    await fixture.routed_by(router, "music")
    first = len(fixture.embedded)
    await fixture.routed_by(router, "law")
    assert len(fixture.embedded) == first + 2, "the question alone, for its description and for its contents"

    async def changed(identity: Identity, after_key: str, limit: int) -> Sequence[KnowledgeBase]:
        return [replace(knowledge_base(topic), description=f"Now about {topic}") for topic in TOPICS]

    fixture.list = changed  # type: ignore[method-assign]
    await fixture.routed_by(router, "law")
    assert len(fixture.embedded) == first + 2 + 2 + len(TOPICS)


async def test_what_the_caller_may_not_see_is_not_probed() -> None:
    fixture = Fixture()
    await fixture.routed("music")
    [asked] = fixture.seen
    assert asked.visibility.kinds == (RecordKind.CHUNK,)
    assert set(asked.knowledge_base_ids) == set(TOPICS)
    published = asked.visibility.clauses[0].source_in
    assert published is not None
    assert set(published) == set(range(8))


async def test_descriptions_that_another_request_pushes_out_meanwhile_are_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = Fixture(topics=TOPICS[:-1])
    router = fixture.router()
    await fixture.routed_by(router, "cooking")
    embed = fixture.embed

    async def embed_while_another_request_ends(texts: Sequence[str], **more: object) -> EmbedResult:
        if texts != ["cooking"]:
            fixture.topics, listed = TOPICS[:-1], fixture.topics
            monkeypatch.setattr("corpusmesh_retrieve.understanding.routing._MAX_CACHED_DESCRIPTIONS", 0)
            await fixture.routed_by(router, "cooking")
            fixture.topics = listed
        return await embed(texts, **more)

    monkeypatch.setattr(fixture, "embed", embed_while_another_request_ends)
    fixture.topics = TOPICS
    outcome = await fixture.routed_by(router, "cooking")
    assert outcome.request.knowledge_base_ids


async def test_a_question_longer_than_the_model_takes_is_cut_and_not_refused() -> None:
    fixture = Fixture()
    await fixture.routed("cooking " + "鲸" * 39_000)
    assert max(len(text.encode()) for text in fixture.embedded) <= MAX_TEXT_BYTES
