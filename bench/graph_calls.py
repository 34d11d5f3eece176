"""What graphs ask of a language model, beside LightRAG on the same text: calls and tokens for each chunk.

    PYTHONPATH=. .venv/bin/python bench/graph_calls.py [--chunks 200] [--latency-ms 300] [--peer results.jsonl]

The text and the rule by which the model answers are those of `../shared/bench` (`corpus.py`, `stub_llm.py`: names are
capitalised words in a row, two names of one sentence are related, a description is the sentence), so that the lines of
`peer_lightrag.py --skip query,insert --out results.jsonl` can be read with `--peer` and stand beside ours; without it
the figures recorded in `../shared/research/performance.md`, section 2, do. Tokens are counted by tiktoken's cl100k_base
where it can be imported, as there; else four characters are one.

A build is: extraction of all documents at once, descriptions merged of what enough documents name, and reports on all
communities of all levels. With a latency, the wall time of
extraction is compared with what its calls take at best (goal G11: at most 1.25 times).
"""

import argparse
import asyncio
import importlib.util
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
from graph_stub import answer

from corpusmesh_adapters.communities import LeidenFinder
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.graphs.communities import WeightedGraph, update_communities
from corpusmesh_core.graphs.cost import GraphCounts, plan_calls
from corpusmesh_core.graphs.reports import ReportEntity, ReportInput, ReportRelation
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings, ReportMethod
from corpusmesh_core.graphs.values import Community, GraphBill, GraphChunk, Subgraph
from corpusmesh_core.ports.chat import ChatDelta, ChatMessage, ChatUsage, FinishReason
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.models import GraphModels, GraphSession
from tests.support.tree_summaries import MemoryUsage

SHARED: Final = Path(os.environ.get("CORPUSMESH_SHARED", Path(__file__).resolve().parents[2] / "shared"))
RECORDED: Final = {200: (3.28, 7587, 1795), 1000: (3.36, 7665, 1805)}
"""LightRAG 1.5.7 with its defaults: calls, tokens sent and received for each chunk, by chunks."""
CALLS_GOAL: Final = 1.7
PROMPT_GOAL: Final = 0.55
WALL_GOAL: Final = 1.25


def shared_corpus() -> ModuleType:
    """Load the corpus of the comparison."""
    path = SHARED / "bench" / "corpus.py"
    spec = importlib.util.spec_from_file_location("bench_corpus", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SystemExit(f"{path} is not there")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def token_counter() -> tuple[Callable[[str], int], str]:
    """Give a way to count tokens, and its name."""
    try:
        import tiktoken  # type: ignore[import-not-found,unused-ignore]

        encoding = tiktoken.get_encoding("cl100k_base")
    except (ImportError, OSError):
        return (lambda text: max(1, len(text) // 4)), "four characters"
    return (lambda text: len(encoding.encode_ordinary(text))), "cl100k_base"


class CountingChat:
    """Answers after `latency_seconds`, and counts what is asked."""

    model = "stub"

    def __init__(self, count: Callable[[str], int], latency_seconds: float) -> None:
        self.count = count
        self.latency_seconds = latency_seconds
        self.calls: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()

    async def stream(
        self, messages: Sequence[ChatMessage], *, max_token_count: int, timeout_seconds: float, temperature: float = 0.0
    ) -> AsyncIterator[ChatDelta]:
        """Answer."""
        del timeout_seconds, temperature
        kind, text = answer("\n\n".join(message.content for message in messages))
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        # As in the comparison, four tokens a message.
        sent = sum(self.count(message.content) + 4 for message in messages)
        is_cut = (received := self.count(text)) > max_token_count
        if is_cut:
            text = text[: len(text) * max_token_count // received]
            received = self.count(text)
        self.calls[kind] += 1
        self.sent[kind] += sent
        self.received[kind] += received
        yield ChatDelta(text, FinishReason.LENGTH if is_cut else FinishReason.STOP, ChatUsage(sent, received))


class Build:
    """One build."""

    def __init__(self, documents: Sequence[Sequence[GraphChunk]], settings: GraphSettings, chat: CountingChat) -> None:
        self.documents = documents
        self.settings = settings
        self.chat = chat
        self.service = GraphServiceSettings()
        self.bill = GraphBill()
        self.names: dict[int, list[str]] = defaultdict(list)
        self.pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
        self.report_count = 0

    async def run(self) -> None:
        """Extract, merge and report, and print what it took."""
        models = GraphModels(self.chat, None, MemoryUsage(), WordTokenCounter(), self.service)
        session = models.open(tenant_id="t", run_id="r", settings=self.settings, bill=self.bill)
        began, used = time.monotonic(), time.process_time()
        found = await asyncio.gather(
            *(
                session.extract(document, [number], timeout_seconds=3600)
                for number, document in enumerate(self.documents, 1)
            )
        )
        wall, processor = time.monotonic() - began, time.process_time() - used
        for one in found:
            self._add(one.subgraph)
        self._tell_extraction(wall, processor)
        await self._merge(session)
        await self._report(session)

    def _add(self, subgraph: Subgraph) -> None:
        for entity in subgraph.entities:
            self.names[entity.key].append(f"{entity.name} | {entity.description}")
        for relation in subgraph.relations:
            pair = (min(relation.source, relation.target), max(relation.source, relation.target))
            self.pairs[pair].append(relation.description)

    def _tell_extraction(self, wall: float, processor: float) -> None:
        chunks = sum(map(len, self.documents))
        calls = sum(self.chat.calls.values())
        print(
            f"extraction: {calls / chunks:.2f} calls a chunk, {1000 * processor / chunks:.1f} ms of processor a chunk,"
            f" {len(self.names):,} entities, {len(self.pairs):,} relations"
        )
        if self.chat.latency_seconds:
            best = calls * self.chat.latency_seconds / self.service.model_calls_in_flight + processor
            told = "met" if wall <= WALL_GOAL * best else "MISSED"
            print(f"wall {wall:.1f} s, at best {best:.1f} s: {wall / best:.2f} times, goal {WALL_GOAL} {told}")

    async def _merge(self, session: GraphSession) -> None:
        limit = self.settings.merged_description_count
        many = [texts for texts in [*self.names.values(), *self.pairs.values()] if len(texts) > limit]
        await asyncio.gather(
            *(session.merge_description(texts[0].split(" | ")[0], texts, [1], timeout_seconds=3600) for texts in many)
        )

    async def _report(self, session: GraphSession) -> None:
        keys = np.array(sorted(self.names), np.uint64)
        pairs = sorted(self.pairs)
        ends = np.searchsorted(keys, np.array(pairs, np.uint64)).astype(np.int32)
        weights = np.array([len(self.pairs[pair]) for pair in pairs], np.float32)
        graph = WeightedGraph(keys, ends[:, 0], ends[:, 1], weights)
        size = self.settings.max_community_size
        grouping = update_communities(graph, None, max_size=size, finder=LeidenFinder())
        given = [self._given(community) for community in grouping.communities]
        self.report_count = len(given)
        await asyncio.gather(*(session.report(one, [1], timeout_seconds=3600) for one in given))

    def _given(self, community: Community) -> ReportInput:
        members = frozenset(community.members)
        entities = []
        for key in community.members:
            name, _, text = self.names[key][0].partition(" | ")
            entities.append(ReportEntity(key, name, "organization", text, float(len(self.names[key]))))
        relations = [
            ReportRelation(source, target, texts[0], float(len(texts)))
            for (source, target), texts in self.pairs.items()
            if source in members and target in members
        ]
        return ReportInput(community, tuple(entities), tuple(relations))

    def tell(self, peer: tuple[float, float, float], source: str) -> None:
        """Print calls and tokens a chunk beside the peer's."""
        chunks = sum(map(len, self.documents))
        own = tuple(sum(counts.values()) / chunks for counts in (self.chat.calls, self.chat.sent, self.chat.received))
        print(f"calls by kind {dict(self.chat.calls)}; failed {self.bill.failed_call_count}")
        print(f"{'':24}{'calls':>10}{'sent':>10}{'received':>10}   a chunk")
        print(f"{'CorpusMesh':24}{own[0]:>10.2f}{own[1]:>10,.0f}{own[2]:>10,.0f}")
        print(f"{'LightRAG, ' + source:24}{peer[0]:>10.2f}{peer[1]:>10,.0f}{peer[2]:>10,.0f}")
        print(f"{'share':24}{own[0] / peer[0]:>10.2f}{own[1] / peer[1]:>10.2f}{own[2] / peer[2]:>10.2f}")
        is_met = own[0] <= CALLS_GOAL and own[1] <= PROMPT_GOAL * peer[1]
        print(f"goal G2, {CALLS_GOAL} calls and {PROMPT_GOAL} of the tokens sent: {'met' if is_met else 'MISSED'}")
        merged = self.chat.calls["describe"]
        counts = GraphCounts(len(self.names), len(self.pairs), merged, 0, self.report_count)
        tokens = [[chunk.token_count for chunk in document] for document in self.documents]
        plan = plan_calls(tokens, self.settings, counts)
        sent, received = self.bill.input_token_count, self.bill.output_token_count
        print(
            f"plan {plan.model_call_count:,} calls, {plan.input_token_count:,} sent, {plan.output_token_count:,}"
            f" received at most; bill {self.bill.model_call_count:,}, {sent:,}, {received:,}"
        )


def peer_of(path: str, chunks: int) -> tuple[tuple[float, float, float], str]:
    """Read the peer's line of a run, or take what was recorded."""
    if path:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["peer"].startswith("lightrag") and row["phase"] == "index":
                count = row["n"]
                figures = (row["calls"] / count, row["prompt_tokens"] / count, row["completion_tokens"] / count)
                return figures, f"run at {count}"
        raise SystemExit(f"{path} has no line of LightRAG")
    nearest = min(RECORDED, key=lambda count: abs(count - chunks))
    return RECORDED[nearest], f"recorded {nearest}"


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--extraction-tokens", type=int, default=0, help="0 for the default of knowledge bases")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--peer", default="", help="lines of peer_lightrag.py")
    options = parser.parse_args()
    count, counted_by = token_counter()
    corpus = shared_corpus().synthetic(options.chunks)
    documents = [
        [
            GraphChunk(position, text, document["title"], (), count(text), "en")
            for position, text in enumerate(document["passages"])
        ]
        for document in corpus.docs
    ]
    mean = sum(chunk.token_count for document in documents for chunk in document) / options.chunks
    print(f"{options.chunks:,} chunks of {mean:.0f} tokens ({counted_by}) in {len(documents)} documents")
    settings = GraphSettings(
        methods=(GraphMethod.LIGHT,),
        reports=ReportMethod.LLM,
        extraction_tokens=options.extraction_tokens or GraphSettings().extraction_tokens,
    )
    build = Build(documents, settings, CountingChat(count, options.latency_ms / 1000))
    asyncio.run(build.run())
    build.tell(*peer_of(options.peer, options.chunks))


if __name__ == "__main__":
    main()
