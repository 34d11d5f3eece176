"""Enrichment over the real client of a model's service: what a service does wrong costs its items and nothing else."""

import json

import pytest

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.documents import Block, BlockKind, Chunk, ParsedDocument
from corpusmesh_core.enrichment import Enriched, EnrichmentSettings
from corpusmesh_ingest.enriching import Enricher, EnrichLimits, EnrichRequest
from tests.support.item_chat import MemoryCompletions
from tests.support.stub_chat import Behaviour, BreakOff, CutJson, ErrorInStream, Never, Refuse, Say, StubChat

COUNTER = WordTokenCounter()
TEXTS = [f"The engine number{place} stores whole rows in pages of word{place}." for place in range(3)]
GOOD = json.dumps({"items": [{"n": n, "keywords": [f"kw {n}"]} for n in (1, 2, 3)]})


async def enrich(stub: StubChat, *, seconds: float = 5.0, cache: MemoryCompletions | None = None) -> Enriched:
    chat = OpenAIChatModel(OpenAIChatSettings(base_url=stub.base_url, model="stub"), jitter=lambda: 0.0)
    chunks = tuple(Chunk(position, text, (), 0, (), 12) for position, text in enumerate(TEXTS))
    blocks = tuple(Block(BlockKind.PARAGRAPH, text) for text in TEXTS)
    request = EnrichRequest(
        "t",
        "kb",
        1,
        "Guide",
        ParsedDocument("text/plain", "", blocks),
        chunks,
        EnrichmentSettings.from_config({"keywords": {"method": "llm"}}),
    )
    limits = EnrichLimits(call_timeout_seconds=seconds)
    enricher = Enricher(counter=COUNTER, chat=chat, cache=cache, limits=limits)
    return await enricher.enrich(request, deadline_seconds=30)


def methods(enriched: Enriched) -> set[str]:
    assert all(chunk.keywords for chunk in enriched.chunks)
    return {chunk.attributes["keywords_method"] for chunk in enriched.chunks}


async def test_a_good_service_is_asked_once_and_what_it_said_is_kept() -> None:
    cache = MemoryCompletions()
    with StubChat([Say(GOOD), Never()]) as stub:
        first = await enrich(stub, cache=cache)
        again = await enrich(stub, cache=cache)
        assert len(stub.requests) == 1
        assert stub.requests[0].body["temperature"] == 0.0
    assert methods(first) == {"llm"}
    assert first == again
    assert len(cache.kept) == 3


async def test_a_slow_but_good_answer_is_waited_for() -> None:
    with StubChat([Say(GOOD, piece_characters=20, pause_seconds=0.05)]) as stub:
        assert methods(await enrich(stub)) == {"llm"}


@pytest.mark.parametrize(
    "behaviour",
    [
        Never(),
        Refuse(401),
        Refuse(404),
        Refuse(400),
        Refuse(503),
        BreakOff(GOOD[:40]),
        CutJson(GOOD[:40]),
        ErrorInStream("x"),
    ],
    ids=lambda behaviour: type(behaviour).__name__ + str(getattr(behaviour, "status", "")),
)
async def test_a_bad_service_is_replaced_and_nothing_of_it_is_said(behaviour: Behaviour) -> None:
    cache = MemoryCompletions()
    with StubChat([behaviour]) as stub:
        enriched = await enrich(stub, seconds=1.0, cache=cache)
    assert methods(enriched) == {"lite"}
    assert len(enriched.warnings) == 1
    assert "engine" not in enriched.warnings[0]
    assert cache.kept == {}


async def test_an_answer_that_is_cut_by_its_length_is_completed_by_the_second_call() -> None:
    rest = json.dumps({"items": [{"n": n, "keywords": [f"kw {n}"]} for n in (1, 2)]})
    with StubChat([Say(GOOD[:60], finish_reason="length"), Say(rest)]) as stub:
        enriched = await enrich(stub)
        assert len(stub.requests) == 2
    assert methods(enriched) == {"llm"}
    assert [chunk.keywords for chunk in enriched.chunks] == [("kw 1",), ("kw 1",), ("kw 2",)]
