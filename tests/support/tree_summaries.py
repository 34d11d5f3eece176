"""Clusters to summarize, a ledger in memory, and sessions over a stubbed language model."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import numpy as np

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.errors import UnavailableError
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, FinishReason
from corpusmesh_core.ports.usage import UsageEntry
from corpusmesh_core.records import Ordinal
from corpusmesh_core.trees.settings import SummaryMethod, TreeSettings
from corpusmesh_core.trees.values import Child, Cluster, TreeCost
from corpusmesh_raptor.config import RaptorSettings
from corpusmesh_raptor.summarizing import Summarizer, SummarySession
from tests.support.item_chat import MemoryCompletions
from tests.support.stub_chat import Behaviour, Say, SeenRequest, StubChat

COUNTER = WordTokenCounter()
_PASSAGE = re.compile(r"<<<(DATA-[0-9a-f]+) passage [^\n]*\n(.*?)\n\1>>>", re.DOTALL)


def cluster_of(texts: Sequence[str], *, number: int = 0, title: str = "", sources: Sequence[int] = (1,)) -> Cluster:
    """Make a cluster of texts whose vectors are all alike."""
    children = tuple(Child(text, COUNTER.count_tokens([text])[0]) for text in texts)
    vectors = np.zeros((len(texts), 8), np.float32)
    vectors[:, 0] = 1.0
    ordinals = tuple(Ordinal(source) for source in sources)
    return Cluster(number.to_bytes(16, "big"), children, vectors, ordinals, title)


def engine_cluster(number: int) -> Cluster:
    """Make a cluster about engine `number`, distinct from all others."""
    texts = [
        f"The engine Mark{number} was built by the Harland works in 18{number:02}. It ran on coal for many years.",
        f"Engineers of the Harland works improved Mark{number} twice. Its boiler held {number + 500} litres of water.",
    ]
    return cluster_of(texts, number=number)


def good_summary(number: int = 0) -> str:
    """Say something faithful about `engine_cluster(number)`."""
    return f"The Harland works built the engine Mark{number} in 18{number:02}, and its engineers improved it twice."


class QuotingStub(StubChat):
    """Writes well about anything: the first sentence of each of the first passages."""

    def begin(self, request: SeenRequest) -> Behaviour:
        super().begin(request)
        passages = [text.strip() for _, text in _PASSAGE.findall(request.prompt)]
        return Say(" ".join(re.split(r"(?<=[a-z]{3}[.。])\s", text)[0] for text in passages[:3]), 400)


class FlakyChat:
    """Is away as long as it is told to be."""

    model = "flaky"

    def __init__(self) -> None:
        self.calls = 0
        self.is_away = True
        self.text = ""

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_token_count: int, timeout_seconds: float, temperature: float = 0.0
    ) -> AsyncGenerator[ChatDelta, None]:
        self.calls += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise UnavailableError("CHAT_UNAVAILABLE", "the language model does not answer")
        yield ChatDelta(self.text or good_summary(0), FinishReason.STOP)


@dataclass
class MemoryUsage:
    """`UsageLedger` in memory."""

    tokens: int = 0
    calls: int = 0
    reserved: list[UsageEntry] = field(default_factory=list)
    settled: list[UsageEntry] = field(default_factory=list)
    is_away: bool = False

    async def reserve(self, tenant_id: str, entry: UsageEntry, *, max_tokens_per_day: int) -> bool:
        if self.is_away:
            raise UnavailableError("POSTGRES_UNAVAILABLE", "the store does not answer")
        wanted = entry.input_token_count + entry.output_token_count
        if max_tokens_per_day and self.tokens + wanted > max_tokens_per_day:
            return False
        self.reserved.append(entry)
        self.calls += entry.call_count
        self.tokens += wanted
        return True

    async def settle(self, tenant_id: str, reserved: UsageEntry, spent: UsageEntry) -> None:
        self.settled.append(spent)
        self.calls += spent.call_count - reserved.call_count
        self.tokens += spent.input_token_count + spent.output_token_count
        self.tokens -= reserved.input_token_count + reserved.output_token_count

    async def spent_by_run(self, tenant_id: str, purpose: str, run_id: str) -> tuple[int, int, int]:
        own = [entry for entry in self.reserved if (entry.purpose, entry.run_id) == (purpose, run_id)]
        return (
            sum(entry.call_count for entry in own),
            sum(entry.input_token_count for entry in own),
            sum(entry.output_token_count for entry in own),
        )

    async def spent_today(self, tenant_id: str) -> int:
        return self.tokens


@dataclass
class Desk:
    """A summarizer with all that it stands on."""

    stub: StubChat | None = None
    raptor: RaptorSettings = field(default_factory=lambda: RaptorSettings(model_call_timeout_seconds=2.0))
    attempts: int = 1
    usage: MemoryUsage = field(default_factory=MemoryUsage)
    cache: MemoryCompletions = field(default_factory=MemoryCompletions)
    cost: TreeCost = field(default_factory=TreeCost)

    def __post_init__(self) -> None:
        chat = None
        if self.stub is not None:
            settings = OpenAIChatSettings(self.stub.base_url, "stub", max_attempt_count=self.attempts)
            chat = OpenAIChatModel(settings, jitter=lambda: 0.0)
        self.summarizer = Summarizer(
            chat, self.cache, self.usage, COUNTER, self.raptor, make_rng=lambda: np.random.default_rng(1)
        )

    def open(self, *, spent: TreeCost | None = None, **settings: object) -> SummarySession:
        """Open a session for summaries by a language model, unless said otherwise."""
        made = TreeSettings(**{"summaries": SummaryMethod.LLM, **settings})  # type: ignore[arg-type]
        return self.summarizer.open(tenant_id="t", run_id="r", settings=made, cost=self.cost, spent=spent)
