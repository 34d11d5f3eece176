"""A small library for researches: a searcher over texts, and a language model that follows a script."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from corpusmesh_core.citation.weights import telling_terms
from corpusmesh_core.errors import DeadlineExceededError, UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankingOptions, rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.tenancy import FilterCondition
from corpusmesh_core.text import analyze, analyze_query
from corpusmesh_core.visibility import Visibility
from corpusmesh_retrieve.asking import ModelBudget, ModelSession
from corpusmesh_retrieve.outcome import SearchOutcome, SearchRequest, SpaceView
from corpusmesh_runtime.context import CallContext

BLOCK = re.compile(r"<<<(DATA-[0-9a-f]+) ([^\n]*)\n(.*?)\n\1>>>", re.DOTALL)


@dataclass
class Library:
    """A searcher over texts by words; remembers what it was asked."""

    texts: Mapping[str, str]
    delay_of: Callable[[str], float] = lambda _: 0.0
    broken_words: tuple[str, ...] = ()
    snapshots: Mapping[str, int] = field(default_factory=lambda: {"base": 7})
    inferred: tuple[FilterCondition, ...] = ()
    busy_count: int = 0
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[SearchRequest] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    cancelled_count: int = 0
    hidden_at_last: bool = False
    """Whether the caller's rights are gone when the research looks for the last time."""

    async def look(self, call: CallContext, outcome: SearchOutcome) -> None:
        ordinals = () if self.hidden_at_last else (1,)
        outcome.views = (SpaceView("e5", ("base",), Visibility.of("base/7", ordinals, 100)),)

    async def search(self, call: CallContext, request: SearchRequest) -> SearchOutcome:
        self.requests.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.at_once == self.busy_count:
                self.busy.set()
            await asyncio.sleep(self.delay_of(request.query))
        except asyncio.CancelledError:
            self.cancelled_count += 1
            raise
        finally:
            self.at_once -= 1
        call.remaining_seconds()
        if any(word in request.query for word in self.broken_words):
            raise UnavailableError("INDEX_UNAVAILABLE", "the index does not answer")
        terms = analyze_query(request.query)
        items = [candidate(key, text, telling_terms(request.query)) for key, text in self.texts.items()]
        held = [item for item in items if item.lexical_score]
        return SearchOutcome(
            request=request,
            plan=request.make_plan([{}]),
            question=request.query,
            snapshots=dict(self.snapshots),
            inferred=self.inferred,
            terms=terms,
            ranked=rank_candidates(Candidates(tuple(held)), terms, RankingOptions()),
        )

    @property
    def queries(self) -> list[str]:
        return [request.query for request in self.requests]


def candidate(record_id: str, text: str, wanted: Collection[str]) -> Candidate:
    """A chunk that is recalled by its words."""
    terms = analyze(text).fine
    return Candidate(
        Record(
            record_id,
            RecordKind.CHUNK,
            "base",
            Ordinal(1),
            (Ordinal(1),),
            text,
            document_id="doc",
            version=1,
            display_name="doc.txt",
            token_count=len(text) // 4,
        ),
        " ".join(terms),
        lexical_score=float(len(set(wanted) & set(terms))),
        lexical_rank=1,
    )


class ScriptedModel:
    """A language model: what it says of a step is a function of the step's blocks; None never answers."""

    model = "scripted"

    def __init__(self, steps: Mapping[str, Callable[[dict[str, str]], object] | None]) -> None:
        self.steps = steps
        self.calls: list[str] = []
        self.left_early_count = 0

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_token_count: int,
        timeout_seconds: float,
        temperature: float = 0.0,
    ) -> AsyncIterator[ChatDelta]:
        system, prompt = messages[0].content, messages[-1].content
        step = next(name for name in ("sufficiency", "questions", "answer") if MARKS[name] in system)
        self.calls.append(step)
        say = self.steps.get(step)
        if say is None:
            try:
                await asyncio.sleep(timeout_seconds)
            except asyncio.CancelledError:
                self.left_early_count += 1
                raise
            raise DeadlineExceededError("CHAT_DEADLINE", "the language model did not finish within the time given")
        blocks = {name: text for _, name, text in BLOCK.findall(prompt)}
        said = say(blocks)
        yield ChatDelta(said if isinstance(said, str) else json.dumps(said), FinishReason.STOP)


MARKS = {
    "sufficiency": "Judge whether the passages hold",
    "questions": "Evidence was searched for the question",
    "answer": "You answer questions from the evidence",
}


def session(model: ScriptedModel | None, budget: ModelBudget | None = None) -> ModelSession:
    """Access to a model for one research."""
    return ModelSession(model, lambda: np.random.default_rng(1), budget or ModelBudget())
