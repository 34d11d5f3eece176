import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from pyroaring import FrozenBitMap

from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.index import Candidate, Candidates, RecallRequest, RecordIndex
from corpusmesh_core.prompts.hop_v1 import HOP_V1
from corpusmesh_core.query import AssemblyPlan, QueryVariant, RetrievalPlan, VariantOrigin
from corpusmesh_core.ranking import rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze, analyze_query
from corpusmesh_core.visibility import Visibility
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.hopping import HopStage
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, SpaceView, StageState
from corpusmesh_retrieve.recalling import Recaller
from corpusmesh_retrieve.stages import run_stages
from corpusmesh_runtime.context import CallContext
from tests.support.step_chat import StepChat

_PAGES = {
    "song": ("Cry Over Me", "Cry Over Me is a song written by Diane Warren."),
    "author": ("Diane Warren", "She grew up in Van Nuys and writes ballads."),
    "place": ("Van Nuys", "A quarter with an airport."),
    "other": ("Songs", "Every country has a song."),
}
_QUESTION = "Where did the author of the song Cry Over Me grow up?"


_SPACE = EmbeddingSpace("model", 2, normalized=True, fingerprint="f")


class TitleIndex:
    """Finds pages by their titles, or by a shared word."""

    def __init__(self) -> None:
        self.requests: list[RecallRequest] = []
        self.is_away = False

    async def search(
        self, tenant_id: str, space_id: str, requests: Sequence[RecallRequest], *, timeout_seconds: float
    ) -> list[Candidates]:
        assert (tenant_id, space_id) == ("acme", _SPACE.space_id)
        assert timeout_seconds > 0
        if self.is_away:
            raise UnavailableError("INDEX_UNAVAILABLE", "the index does not answer")
        self.requests.extend(requests)
        return [Candidates(tuple(filter(None, (self._found(r, name) for name in _PAGES))), 100) for r in requests]

    def _found(self, request: RecallRequest, name: str) -> Candidate | None:
        assert request.visibility.kinds == (RecordKind.CHUNK,)
        title, text = _PAGES[name]
        if request.titles is not None:
            is_found = analyze(title).fine in request.titles
        else:
            is_found = bool(set(request.terms.fine) & set(analyze(text).fine))
        return candidate(name) if is_found else None


class OneEmbedder:
    space = _SPACE

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        return EmbedResult(np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1)), len(texts))


def candidate(name: str) -> Candidate:
    title, text = _PAGES[name]
    record = Record(name, RecordKind.CHUNK, "kb", Ordinal(1), (Ordinal(1),), text, title=title)
    terms = " ".join(analyze(f"{title} {text}").fine)
    score = {"song": 5.0, "other": 1.0}.get(name, 0.5)
    return Candidate(record, terms, script="spaced", lexical_score=score, reference_lexical_score=score)


def searched(hops: int, chat: StepChat | None = None) -> tuple[CallContext, SearchOutcome]:
    plan = RetrievalPlan(assembly=AssemblyPlan(hops=hops))
    session = ModelSession(cast("Any", chat), lambda: np.random.default_rng(1))
    outcome = SearchOutcome(SearchRequest(("kb",), _QUESTION, lambda _: plan, session), plan, _QUESTION)
    outcome.terms = analyze_query(_QUESTION)
    outcome.variants = [QueryVariant(_QUESTION, VariantOrigin.QUESTION)]
    outcome.variant_vectors = [None]
    outcome.views = (SpaceView(_SPACE.space_id, ("kb",), Visibility("s", FrozenBitMap([1]), 2)),)
    first = Candidates((candidate("song"), candidate("other")), 100)
    outcome.found = [[first]]
    outcome.ranked = rank_candidates(first, outcome.terms, plan.ranking_options())
    call = CallContext(Identity("acme", "ann", Role.VIEWER, Scope.READ), "r-1", time.monotonic() + 60.0)
    return call, outcome


def ids(outcome: SearchOutcome) -> list[str]:
    return [item.candidate.record.record_id for item in outcome.kept]


def stage(index: TitleIndex) -> HopStage:
    return HopStage(Recaller(cast("RecordIndex", index), cast("Any", OneEmbedder())))


async def test_one_hop_is_one_further_request_for_titles_and_asks_no_model() -> None:
    index, chat = TitleIndex(), StepChat()
    call, outcome = searched(1, chat)
    await run_stages((stage(index),), call, outcome)
    assert ids(outcome)[:2] == ["song", "author"]
    assert len(index.requests) == 1
    assert index.requests[0].titles is not None
    assert not chat.asked
    [report] = outcome.stages
    assert (report.state, report.by_model) == (StageState.RAN, False)
    assert "Warren" not in report.detail
    assert "1 further record" in report.detail


async def test_second_hop_follows_what_the_first_has_found() -> None:
    index = TitleIndex()
    call, outcome = searched(2)
    await run_stages((stage(index),), call, outcome)
    assert "place" in ids(outcome)
    assert len(index.requests) == 2
    names = [name for request in index.requests for name in request.titles or ()]
    assert len(names) == len(set(names)), "no name is searched twice"
    assert "no language model" in outcome.stages[0].detail


async def test_questions_of_a_model_are_searched_where_two_hops_are_wanted() -> None:
    index = TitleIndex()
    chat = StepChat([(HOP_V1, {"questions": ["Which quarter has an airport?"]})])
    call, outcome = searched(2, chat)
    await run_stages((stage(index),), call, outcome)
    assert chat.asked == ["hop"]
    assert "place" in ids(outcome)
    assert [variant.origin for variant in outcome.variants] == [VariantOrigin.QUESTION, VariantOrigin.HOP]
    assert outcome.stages[0].by_model


async def test_bad_answer_of_the_model_leaves_the_names() -> None:
    call, outcome = searched(2, StepChat())
    await run_stages((stage(TitleIndex()),), call, outcome)
    assert "author" in ids(outcome)
    assert not outcome.stages[0].by_model


async def test_index_that_is_away_leaves_the_first_search() -> None:
    index = TitleIndex()
    index.is_away = True
    call, outcome = searched(1)
    before = outcome.ranked
    await run_stages((stage(index),), call, outcome)
    assert outcome.ranked == before
    assert outcome.stages[0].state is StageState.FAILED


async def test_plan_without_hops_does_not_run_the_stage() -> None:
    call, outcome = searched(0)
    await run_stages((stage(TitleIndex()),), call, outcome)
    assert not outcome.stages
