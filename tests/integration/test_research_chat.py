"""Researches with a language model behind a real HTTP server: one that answers well, badly, slowly, or never."""

import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import pytest

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import research_service_pb2 as pb
from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_retrieve.answer_handlers import ModelBounds
from corpusmesh_retrieve.answering import Answerer
from corpusmesh_retrieve.asking import ModelBudget, ModelSession
from corpusmesh_retrieve.config import RetrieveSettings
from corpusmesh_retrieve.researching.handlers import ResearchHandlers, ResearchTools
from corpusmesh_retrieve.searching import Searcher
from corpusmesh_runtime.context import CallContext, current_call
from tests.support.research_library import Library
from tests.support.stub_chat import AnswerFromEvidence, Behaviour, Never, Refuse, Say, StubChat

TEXTS = {
    "falcon-price": "The Falcon scooter has a price of 900 euros with a battery.",
    "heron-price": "The Heron scooter has a price of 1200 euros without a battery.",
}
COMPARE = "Compare the Falcon and the Heron in price"
MODEL = answer_pb.AnswerSummary.METHOD_MODEL
EXTRACTIVE = answer_pb.AnswerSummary.METHOD_EXTRACTIVE


class NoEmbedder:
    """An embedder that never answers."""

    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        raise UnavailableError("EMBED_UNAVAILABLE", "the embed service does not answer")


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    identity = Identity("acme", "ann", Role.VIEWER, Scope.READ)
    token = current_call.set(CallContext(identity, "request-1", time.monotonic() + 60))
    yield
    current_call.reset(token)


@asynccontextmanager
async def handlers(stub: StubChat) -> AsyncIterator[ResearchHandlers]:
    chat = OpenAIChatModel(OpenAIChatSettings(stub.base_url, "stub", max_attempt_count=1), jitter=random.random)

    def open_session(*, model_free: bool, budget: ModelBudget | None = None) -> ModelSession:
        return ModelSession(None if model_free else chat, np.random.default_rng, budget)

    tools = ResearchTools(
        searcher=cast(Searcher, Library(TEXTS)),
        answerer=Answerer(cast(Embedder, NoEmbedder()), chat, np.random.default_rng),
        web=None,
        open_session=open_session,
        has_model=True,
        bounds=ModelBounds(max_answer_tokens=300, deadline_seconds=5),
    )
    try:
        yield ResearchHandlers(tools, RetrieveSettings())
    finally:
        await chat.close()


def judged(is_sufficient: bool) -> Say:
    return Say(json.dumps({"sufficient": is_sufficient, "missing": [] if is_sufficient else ["the prices"]}))


@pytest.mark.parametrize(
    ("behaviours", "method", "question_count", "max_request_count"),
    [
        (
            [
                judged(False),
                Say('Sure! ```json\n{"questions": ["Falcon price", "Heron price"]}\n```'),
                judged(True),
                judged(True),
                AnswerFromEvidence(evidence_count=2),
            ],
            MODEL,
            3,
            5,
        ),
        ([Say("I am sorry, I cannot."), Say("No."), AnswerFromEvidence(evidence_count=2)], MODEL, 1, 3),
        ([Say("{" + '"sufficient": true' + " " * 200 + "}", 1, 0.2)], EXTRACTIVE, 1, 1),
        ([Never()], EXTRACTIVE, 1, 1),
        ([Refuse(500)], EXTRACTIVE, 1, 1),
    ],
    ids=["well", "badly", "slowly", "never", "refuses"],
)
async def test_every_kind_of_model_ends_in_an_answer_from_both_sides(
    behaviours: Sequence[Behaviour],
    method: "answer_pb.AnswerSummary.Method.ValueType",
    question_count: int,
    max_request_count: int,
) -> None:
    budget = pb.ResearchBudget(max_seconds=4, max_concurrency=1)
    wanted = pb.ResearchRequest(knowledge_bases=["knowledgeBases/base"], question=COMPARE, budget=budget)
    with StubChat(behaviours) as stub:
        async with handlers(stub) as asked:
            pieces = [piece async for piece in asked.Research(wanted, None)]
        summary = pieces[-1].summary
        assert len(stub.requests) <= max_request_count
    assert summary.answer.method == method
    assert len(summary.questions) == question_count
    assert not summary.answer.abstained
    assert {citation.hit.record_id for citation in summary.answer.citations} == set(TEXTS)
    assert "".join(piece.text_delta for piece in pieces) == summary.answer.text
