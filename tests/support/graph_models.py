"""A language model that answers well what graphs ask, over real HTTP; and sessions that ask it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.graphs.keys import entity_key
from corpusmesh_core.graphs.reports import ReportEntity, ReportInput
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import Community, GraphBill, GraphChunk
from corpusmesh_graph.config import GraphServiceSettings
from corpusmesh_graph.models import GraphModels, GraphSession
from tests.support.item_chat import MemoryCompletions
from tests.support.stub_chat import Behaviour, Say, SeenRequest, StubChat
from tests.support.tree_summaries import MemoryUsage

COUNTER = WordTokenCounter()
WELL = Say("well")
"""Stands for an answer that fits the question."""
_BLOCK = re.compile(r"<<<(DATA-[0-9a-f]+) ([^\n]*)\n(.*?)\n\1>>>", re.DOTALL)
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+|\bMark\d+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def works_chunk(position: int, number: int = 0) -> GraphChunk:
    """Make a chunk about engine `position`, of document `number`."""
    text = (
        f"The Harland Works built Mark{position} for Anna Berg in 18{position:02}. "
        f"Karl Lund improved Mark{position}. The Harland Works belonged to Karl Lund of document {number}."
    )
    return GraphChunk(position, text, f"Works {number}", ("Engines",), COUNTER.count_tokens([text])[0])


def works(count: int, number: int = 0) -> tuple[GraphChunk, ...]:
    """Make the chunks of document `number`."""
    return tuple(works_chunk(position, number) for position in range(count))


def community_of(*entities: tuple[str, str, str]) -> ReportInput:
    """Make a community of names, types and descriptions."""
    members = tuple(
        ReportEntity(entity_key(name), name, kind, text, 1.0 / number)
        for number, (name, kind, text) in enumerate(entities, 1)
    )
    return ReportInput(Community("0" * 16, 0, tuple(sorted(entity.key for entity in members))), members)


def answer_well(prompt: str) -> str:
    """Answer a question of graphs as a good model does."""
    blocks = [(header.split(" ")[0], text) for _, header, text in _BLOCK.findall(prompt)]
    kind, text = blocks[0]
    if kind == "pairs":
        numbers = [int(line.split(" | ")[0]) for line in text.splitlines()]
        return json.dumps({"same": numbers[::2], "different": numbers[1::2]})
    if kind == "community":
        names = list(dict.fromkeys(_NAME.findall(text)))[:3]
        finding = {"summary": text.splitlines()[0].split(": ")[-1], "explanation": ""}
        report = {"title": " and ".join(names[:2]), "summary": f"About {names[0]}.", "rating": 7, "findings": [finding]}
        return json.dumps(report)
    if kind == "name":
        return _SENTENCE.split(blocks[1][1].strip())[0]
    if blocks[-1][0] == "names":
        return "END"
    return _records(text, is_json='{"entities"' in prompt)


def _records(text: str, *, is_json: bool) -> str:
    entities: dict[str, str] = {}
    relations: dict[tuple[str, str], str] = {}
    for sentence in _SENTENCE.split(text):
        names = list(dict.fromkeys(_NAME.findall(sentence)))
        for name in names:
            entities.setdefault(name, sentence.strip())
        for pair in combinations(names, 2):
            relations.setdefault(pair, sentence.strip())
    if is_json:
        return json.dumps(
            {
                "entities": [{"name": name, "type": "person", "description": said} for name, said in entities.items()],
                "relations": [
                    {"source": a, "target": b, "predicate": "knows", "description": said, "strength": 6}
                    for (a, b), said in relations.items()
                ],
            }
        )
    rows = [f"entity | {name} | person | {said}" for name, said in entities.items()]
    rows += [f"relation | {a} | {b} | work | {said} | 6" for (a, b), said in relations.items()]
    return "\n".join([*rows, "END"])


class GraphStub(StubChat):
    """Answers well wherever a behaviour says `WELL`."""

    def begin(self, request: SeenRequest) -> Behaviour:
        behaviour = super().begin(request)
        # As a real one, it writes no more than it may.
        room = 4 * int(request.body["max_tokens"])
        return Say(answer_well(request.prompt)[:room], 400) if behaviour == WELL else behaviour


@dataclass
class GraphDesk:
    """Models with all that they stand on."""

    stub: StubChat | None = None
    service: GraphServiceSettings = field(default_factory=lambda: GraphServiceSettings(model_call_timeout_seconds=2.0))
    attempts: int = 1
    usage: MemoryUsage = field(default_factory=MemoryUsage)
    cache: MemoryCompletions = field(default_factory=MemoryCompletions)
    bill: GraphBill = field(default_factory=GraphBill)

    def __post_init__(self) -> None:
        chat = None
        if self.stub is not None:
            settings = OpenAIChatSettings(self.stub.base_url, "stub", max_attempt_count=self.attempts)
            chat = OpenAIChatModel(settings, jitter=lambda: 0.0)
        self.models = GraphModels(
            chat, self.cache, self.usage, COUNTER, self.service, make_rng=lambda: np.random.default_rng(1)
        )

    def open(
        self, *, methods: Sequence[GraphMethod] = (GraphMethod.LIGHT,), spent: GraphBill | None = None, **more: object
    ) -> GraphSession:
        """Open a session."""
        settings = GraphSettings(methods=tuple(methods), **more)  # type: ignore[arg-type]
        return self.models.open(tenant_id="t", run_id="r", settings=settings, bill=self.bill, spent=spent)
