import time
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from pyroaring import BitMap

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.query import RecallPlan, RetrievalPlan
from corpusmesh_core.ranking.features import page_rank_share, tag_overlap
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, MetadataFilter, Permission, Role, Scope, VisibilityInputs
from corpusmesh_core.text import analyze_query
from corpusmesh_retrieve.features import PageRankFeature, TagFeature, page_rank_of
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, StageState
from corpusmesh_runtime.context import CallContext

TAGGED_BY: Mapping[str, object] = {"enrichment": {"tags": {"method": "lite", "tag_sets": ["tag-set"], "max_tags": 2}}}


def _inputs(name: str, config: Mapping[str, object], *, published: bool = True) -> VisibilityInputs:
    return VisibilityInputs(
        knowledge_base_id=name,
        owner_user_id="ann",
        permission=Permission.TEAM,
        config=config,
        space_id="space",
        policy_epoch=1,
        snapshot_id=1 if published else 0,
        published=BitMap([1]).serialize() if published else b"",
        hidden=(),
        matching=None,
        next_ordinal=2,
    )


def _record(record_id: str, *, knowledge_base: str = "kb", tags: Mapping[str, float] | None = None) -> Record:
    return Record(
        record_id, RecordKind.CHUNK, knowledge_base, Ordinal(1), (Ordinal(1),), record_id, tags=dict(tags or {})
    )


def _call() -> CallContext:
    return CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)


def _outcome(plan: RetrievalPlan, inputs: tuple[VisibilityInputs, ...], *records: Record) -> SearchOutcome:
    request = SearchRequest(("kb",), "huawei phone", lambda _: plan, cast("Any", None))
    outcome = SearchOutcome(request, plan=plan, question=request.query, inputs=inputs)
    outcome.terms = analyze_query(request.query)
    outcome.query_vector, outcome.query_space_id = np.ones(1, dtype=np.float32), "space"
    outcome.found = [[Candidates(tuple(Candidate(record, record.text) for record in records))]]
    return outcome


class KnownSnapshots:
    """Knows one tag set, or hides it."""

    def __init__(self, *, hidden: bool = False, published: bool = True) -> None:
        self._hidden = hidden
        self._published = published

    async def visibility_inputs(
        self,
        identity: Identity,
        knowledge_base_id: str,
        *,
        snapshot_id: int | None = None,
        metadata_filter: MetadataFilter | None = None,
    ) -> VisibilityInputs:
        assert (identity.user_id, knowledge_base_id, snapshot_id, metadata_filter) == ("ann", "tag-set", None, None)
        if self._hidden:
            raise NotFoundError("KNOWLEDGE_BASE_NOT_FOUND", "there is no such knowledge base")
        return _inputs(knowledge_base_id, {}, published=self._published)


class ExampleIndex:
    """Finds two examples of which the first resembles the question."""

    def __init__(self) -> None:
        self.requests: list[RecallRequest] = []

    async def search(
        self,
        tenant_id: str,
        space_id: str,
        requests: list[RecallRequest],
        *,
        timeout_seconds: float,
    ) -> list[Candidates]:
        assert (tenant_id, space_id) == ("acme", "space")
        assert timeout_seconds > 0
        self.requests += requests
        return [
            Candidates(
                tuple(
                    Candidate(
                        Record(
                            tag, RecordKind.TAG_EXAMPLE, "tag-set", Ordinal(1), (Ordinal(1),), text, tags={tag: 1.0}
                        ),
                        " ".join(analyze_query(text).fine),
                        script="spaced",
                        lexical_score=1.0,
                        cosine=cosine,
                    )
                    for tag, text, cosine in (("phone", "huawei phone", 0.95), ("case", "leather", 0.76))
                ),
                has_vector_leg=True,
            )
        ]


def _stage(index: ExampleIndex, **known: bool) -> TagFeature:
    return TagFeature(KnownSnapshots(**known), cast("RecordIndex", index))


PLAN = RetrievalPlan(recall=RecallPlan(tags=True, tag_weight=0.2))


async def test_a_question_is_tagged_like_the_examples_it_resembles_and_lifts_what_has_these_tags() -> None:
    index = ExampleIndex()
    records = [_record("a", tags={"phone": 0.5}), _record("b", tags={"case": 1.0}), _record("c")]
    mixed = _record("d", tags={"phone": 0.5, "case": 0.5})
    outcome = _outcome(PLAN, (_inputs("kb", TAGGED_BY),), *records, mixed)
    stage = _stage(index)
    assert stage.is_wanted(outcome)
    result = await stage.run(_call(), outcome)
    assert result.state is StageState.RAN
    assert outcome.rank_features.keys() == {"a", "d"}
    assert 0.15 < outcome.rank_features["a"] <= 0.2
    assert outcome.rank_features["d"] == pytest.approx(outcome.rank_features["a"] / 2**0.5)
    [request] = index.requests
    assert request.visibility.kinds == (RecordKind.TAG_EXAMPLE,)
    assert request.knowledge_base_ids == ("tag-set",)
    assert request.query_vector is not None


@pytest.mark.parametrize("known", [{"hidden": True}, {"published": False}])
async def test_a_tag_set_that_the_caller_may_not_see_or_that_is_empty_tags_nothing(known: dict[str, bool]) -> None:
    index = ExampleIndex()
    outcome = _outcome(PLAN, (_inputs("kb", TAGGED_BY),), _record("a", tags={"phone": 0.5}))
    result = await _stage(index, **known).run(_call(), outcome)
    assert result.state is StageState.SKIPPED
    assert outcome.rank_features == {}
    assert index.requests == []


async def test_tags_of_a_knowledge_base_count_by_its_own_sets_alone() -> None:
    index = ExampleIndex()
    stage = _stage(index)
    inputs = (_inputs("kb", TAGGED_BY), _inputs("plain", {}))
    outcome = _outcome(
        PLAN, inputs, _record("a", tags={"phone": 1.0}), _record("p", knowledge_base="plain", tags={"phone": 1.0})
    )
    await stage.run(_call(), outcome)
    assert outcome.rank_features.keys() == {"a"}
    untagged = _outcome(PLAN, inputs, _record("c"))
    assert (await stage.run(_call(), untagged)).state is StageState.SKIPPED
    assert len(index.requests) == 1, "without a tagged candidate no tag set is searched"


def test_tags_are_not_looked_at_where_the_plan_or_the_knowledge_base_has_none() -> None:
    stage = _stage(ExampleIndex())
    off = {"enrichment": {"tags": {"method": "off", "tag_sets": ["tag-set"]}}}
    assert not stage.is_wanted(_outcome(PLAN, (_inputs("kb", {}),)))
    assert not stage.is_wanted(_outcome(PLAN, (_inputs("kb", off),)))
    assert not stage.is_wanted(_outcome(RetrievalPlan(), (_inputs("kb", TAGGED_BY),)))
    idle = RetrievalPlan(recall=RecallPlan(tags=True, tag_weight=0.0))
    assert not stage.is_wanted(_outcome(idle, (_inputs("kb", TAGGED_BY),)))


async def test_page_rank_lifts_the_higher_knowledge_base_and_adds_to_other_features() -> None:
    plan = RetrievalPlan(recall=RecallPlan(page_rank_weight=0.1))
    inputs = (_inputs("kb", {"ranking": {"page_rank": 50}}), _inputs("mail", {}))
    outcome = _outcome(plan, inputs, _record("a"), _record("m", knowledge_base="mail"))
    outcome.rank_features["a"] = 0.2
    stage = PageRankFeature()
    assert stage.is_wanted(outcome)
    assert (await stage.run(_call(), outcome)).state is StageState.RAN
    assert outcome.rank_features == {"a": pytest.approx(0.25)}


def test_page_rank_that_all_share_is_not_looked_at() -> None:
    plan = RetrievalPlan(recall=RecallPlan(page_rank_weight=0.1))
    ranked = {"ranking": {"page_rank": 50}}
    stage = PageRankFeature()
    assert not stage.is_wanted(_outcome(plan, (_inputs("kb", ranked), _inputs("other", ranked))))
    assert not stage.is_wanted(_outcome(RetrievalPlan(), (_inputs("kb", ranked), _inputs("other", {}))))


def test_page_rank_is_read_and_scaled() -> None:
    assert page_rank_of({"ranking": {"page_rank": 40}}) == 40.0
    assert page_rank_of({"ranking": {}}) == page_rank_of({}) == page_rank_of({"ranking": "high"}) == 0.0
    assert [page_rank_share(value) for value in (-5, 0, 25, 100, 900)] == [0.0, 0.0, 0.25, 1.0, 1.0]


def test_tags_overlap_by_direction_and_by_how_sure_the_question_is() -> None:
    assert tag_overlap({"a": 1.0}, {"a": 0.3}) == pytest.approx(1.0)
    assert tag_overlap({"a": 0.4}, {"a": 0.3}) == pytest.approx(0.4)
    assert tag_overlap({"a": 1.0}, {"b": 1.0}) == 0.0
    assert tag_overlap({}, {"b": 1.0}) == tag_overlap({"a": 1.0}, {}) == 0.0
    assert tag_overlap({"a": 1.0, "b": 1.0}, {"a": 1.0}) == pytest.approx(2**-0.5)
