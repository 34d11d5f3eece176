"""Pages of one search: every page reads the snapshots and the candidates of the first one."""

import base64
import json
import time
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.ports.index import MAX_WINDOW, Candidate, Candidates
from corpusmesh_core.ranking import RankingOptions, rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze_query
from corpusmesh_retrieve.asking import ModelSession
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.handlers import RetrievalHandlers
from corpusmesh_retrieve.ledger import Recorder
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest
from corpusmesh_retrieve.paging import SearchPosition, make_search_token, read_search_token
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.golden_shelf import MemoryLedger

SNAPSHOTS = {"shown": 5, "empty": 0}


class RecordingSearcher:
    """Finds the same records whatever is asked; remembers what was."""

    def __init__(self, hit_count: int) -> None:
        self.requests: list[SearchRequest] = []
        vector = np.ones(1, dtype=np.float32)
        self._candidates = Candidates(
            tuple(
                Candidate(
                    Record(f"1-{place}", RecordKind.CHUNK, "shown", Ordinal(1), (Ordinal(1),), "word", vector=vector),
                    "word",
                    lexical_score=1.0,
                    lexical_rank=place + 1,
                )
                for place in range(hit_count)
            )
        )

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        self.requests.append(request)
        ranked = rank_candidates(self._candidates, analyze_query("word"), RankingOptions())
        return SearchOutcome(
            request=request,
            plan=request.make_plan([{}]),
            question=request.query,
            ranked=ranked,
            snapshots=dict(SNAPSHOTS),
        )


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.VIEWER, Scope.READ)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


def request(page_size: int, page_token: str = "") -> pb.SearchChunksRequest:
    return pb.SearchChunksRequest(
        knowledge_bases=["knowledgeBases/shown", "knowledgeBases/empty"],
        query="word",
        page_size=page_size,
        page_token=page_token,
    )


def open_session(*, model_free: bool) -> ModelSession:
    return ModelSession(None, np.random.default_rng)


async def test_later_pages_are_pinned_to_snapshots_and_window_of_the_first() -> None:
    searcher = RecordingSearcher(hit_count=30)
    handlers = RetrievalHandlers(cast(Searcher, searcher), RetrieveSettings(), open_session, Recorder(MemoryLedger()))
    first = await handlers.SearchChunks(request(10), None)
    second = await handlers.SearchChunks(request(150, first.next_page_token), None)
    opening, following = searcher.requests
    assert opening.snapshots == {}
    assert following.snapshots == SNAPSHOTS, "a knowledge base that was empty stays empty for all pages"
    assert following.make_plan([{}]).window == opening.make_plan([{}]).window, (
        "a larger page must not widen what the order is made of"
    )
    ids = [hit.record_id for hit in (*first.hits, *second.hits)]
    assert len(ids) == len(set(ids)) == 30
    assert second.next_page_token == ""


@pytest.mark.parametrize(
    "snapshots",
    [{"": 1}, {"a\x00": 1}, {f"kb-{place}": 1 for place in range(17)}, {"kb": -1}, {"kb": 2**40}, {"kb": "1"}],
)
async def test_forged_knowledge_bases_are_refused_before_anything_is_asked(snapshots: dict[str, int]) -> None:
    searcher = RecordingSearcher(hit_count=30)
    handlers = RetrievalHandlers(cast(Searcher, searcher), RetrieveSettings(), open_session, Recorder(MemoryLedger()))
    routed = pb.SearchChunksRequest(query="word", page_size=10)
    first = await handlers.SearchChunks(routed, None)
    text = base64.urlsafe_b64decode(first.next_page_token + "===").decode()
    forged = json.loads(text)
    forged[2] = snapshots
    routed.page_token = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode().rstrip("=")
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        await handlers.SearchChunks(routed, None)
    assert len(searcher.requests) == 1


@pytest.mark.parametrize("window", [-1, MAX_WINDOW + 1])
def test_forged_window_is_refused(window: int) -> None:
    token = make_search_token("fits", SearchPosition(10, SNAPSHOTS, window))
    with pytest.raises(InvalidArgumentError):
        read_search_token("fits", token)
