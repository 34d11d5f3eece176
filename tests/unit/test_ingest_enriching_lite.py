"""Enrichment of whole versions without a model."""

import re
from dataclasses import replace

import pytest

from corpusmesh_core.chunking import chunk_document
from corpusmesh_core.chunking.tokens import WordTokenCounter
from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.enrichment import (
    IMAGE_CAPTION_PREFIX,
    EnrichmentSettings,
    MetadataSchema,
    TagExample,
)
from corpusmesh_core.errors import DeadlineExceededError
from corpusmesh_core.records import RecordKind
from corpusmesh_ingest.enriching import Enricher, EnrichRequest

COUNTER = WordTokenCounter()
ALL_LITE = EnrichmentSettings.from_config(
    {
        "keywords": {"method": "lite"},
        "questions": {"method": "lite"},
        "summaries": {"method": "lite", "scope": "both"},
        "toc": {"method": "lite"},
        "tags": {"method": "lite", "tag_sets": ["tags"]},
        "metadata": {"method": "lite"},
        "propositions": {"method": "lite"},
        "memory": {"method": "lite"},
        "captions": {"method": "lite"},
    }
)
EXAMPLES = (TagExample("clustered index and leaf pages of a tree", {"storage": 1.0}),)
SCHEMA = MetadataSchema.from_config(
    {
        "fields": [
            {"name": "author", "type": "text", "source": "parser", "key": "author"},
            {"name": "version", "type": "number", "source": "rule", "pattern": r"version (\S+)"},
            {"name": "number", "type": "text", "source": "rule", "pattern": r"No\. (\d+)", "required": True},
        ]
    }
)


def document() -> ParsedDocument:
    sentences = [
        "A clustered index is a tree that keeps whole rows in its leaf pages.",
        "The leaf pages of the clustered index are linked in key order.",
        "A range query reads the linked leaf pages in order.",
        "二级索引是指叶子节点只存放主键的索引。",
        "范围查询沿着叶子节点顺序读取数据。",
    ]
    blocks = [Block(BlockKind.TITLE, "Storage engines", level=1, page=1)]
    for number, name in enumerate(("Clustered index", "Secondary index"), start=1):
        path = ("Storage engines", name)
        blocks.append(Block(BlockKind.HEADING, name, level=2, page=number, heading_path=path[:1]))
        for sentence in sentences:
            boxes = (Box(number, 10, 10, 90, 20),)
            blocks.append(Block(BlockKind.PARAGRAPH, sentence, page=number, heading_path=path, boxes=boxes))
        blocks.append(Block(BlockKind.FIGURE, "", page=number, heading_path=path, picture=f"figure-{number}-1"))
        blocks.append(Block(BlockKind.CAPTION, f"Figure {number}: a tree of pages", page=number, heading_path=path))
    blocks.append(Block(BlockKind.PARAGRAPH, "This is version 3.5 of it.", page=2, heading_path=("Storage engines",)))
    return ParsedDocument(
        "application/pdf", "Storage engines", tuple(blocks), page_count=2, metadata={"author": "Jane Doe"}
    )


def request(settings: EnrichmentSettings = ALL_LITE, **changes: object) -> EnrichRequest:
    parsed = document()
    chunks = chunk_document(parsed, COUNTER, template="general", settings={"max_tokens": 40})
    parent = Chunk(0, "parent", (), 1, (), 1, role=ChunkRole.PARENT)
    made = EnrichRequest("t", "kb", 7, "Storage engines", parsed, (*chunks, parent), settings, SCHEMA, EXAMPLES)
    return replace(made, **changes)  # type: ignore[arg-type]


async def test_nothing_is_touched_where_nothing_is_asked_for() -> None:
    asked = request(EnrichmentSettings())
    enriched = await Enricher(counter=COUNTER).enrich(asked, deadline_seconds=10)
    assert enriched.chunks == asked.chunks
    assert (enriched.derived, dict(enriched.metadata), enriched.warnings) == ((), {}, ())


async def test_everything_is_made_without_a_model_and_leads_to_its_chunks() -> None:
    asked = request()
    enriched = await Enricher(counter=COUNTER).enrich(asked, deadline_seconds=60)
    texts = [chunk for chunk in enriched.chunks if chunk.role is ChunkRole.TEXT]
    assert [chunk.position for chunk in texts] == list(range(len(texts)))
    assert enriched.chunks[-1] == asked.chunks[-1]
    assert all(chunk.keywords for chunk in texts)
    assert any(chunk.questions for chunk in texts)
    assert any("storage" in chunk.tags for chunk in texts)
    assert {item.kind for item in enriched.derived} == {
        RecordKind.QUESTION,
        RecordKind.SUMMARY,
        RecordKind.PROPOSITION,
        RecordKind.TOC,
        RecordKind.MEMORY,
    }
    for item in enriched.derived:
        assert item.attributes["method"] == "lite"
        assert re.fullmatch(r"[a-z0-9-]{1,60}", item.key)
        assert item.token_count == COUNTER.count_tokens([item.text])[0] > 0
        assert item.chunks
        assert set(item.chunks) <= {chunk.position for chunk in texts}
        assert list(item.chunks) == sorted(item.chunks)
        assert item.is_embedded is (item.kind is not RecordKind.TOC)
    assert len({(item.kind, item.key) for item in enriched.derived}) == len(enriched.derived)
    assert enriched.metadata == {"author": "Jane Doe", "version": 3.5}
    assert enriched.warnings == ("The metadata field number is required and was not found in the document.",)


async def test_records_stand_for_what_their_chunks_say() -> None:
    enriched = await Enricher(counter=COUNTER).enrich(request(), deadline_seconds=60)
    texts = {chunk.position: chunk for chunk in enriched.chunks if chunk.role is ChunkRole.TEXT}
    by_text = {item.text: item for item in enriched.derived}
    question = by_text["二级索引是什么？"]
    assert "二级索引是指" in texts[question.chunks[0]].text
    assert question.text in texts[question.chunks[0]].questions
    linked = "The leaf pages of the clustered index are linked in key order."
    statement = next(item for item in enriched.derived if item.text == linked)
    assert "linked in key order" in texts[statement.chunks[0]].text
    assert statement.heading_path == ("Storage engines", "Clustered index")
    page = next(item for item in enriched.derived if item.key == "page-2")
    assert page.page == 2
    assert all(2 in {texts[at].page, *(box.page for box in texts[at].boxes)} for at in page.chunks)
    toc = [item for item in enriched.derived if item.kind is RecordKind.TOC]
    assert [(item.text, item.attributes["level"]) for item in toc] == [
        ("Storage engines", "1"),
        ("Clustered index", "2"),
        ("Secondary index", "2"),
    ]


async def test_equal_input_gives_equal_output() -> None:
    one = await Enricher(counter=COUNTER).enrich(request(), deadline_seconds=60)
    other = await Enricher(counter=COUNTER).enrich(request(), deadline_seconds=60)
    assert one == other


async def test_captions_become_chunks_with_the_prefix_and_their_tokens_counted() -> None:
    asked = request(EnrichmentSettings.from_config({"captions": {"method": "lite"}}))
    enriched = await Enricher(counter=COUNTER).enrich(asked, deadline_seconds=10)
    captions = [chunk for chunk in enriched.chunks if chunk.block_kind is BlockKind.FIGURE]
    assert [chunk.picture for chunk in captions] == ["figure-1-1", "figure-2-1"]
    for chunk in captions:
        assert chunk.text.startswith(f"{IMAGE_CAPTION_PREFIX} Figure ")
        assert chunk.token_count == COUNTER.count_tokens([chunk.text])[0]
    assert len([chunk for chunk in enriched.chunks if chunk.role is ChunkRole.TEXT]) == len(
        {chunk.position for chunk in enriched.chunks if chunk.role is ChunkRole.TEXT}
    )


async def test_what_a_person_wrote_stays_and_the_documents_own_questions_get_records() -> None:
    asked = request()
    edited = replace(asked.chunks[0], keywords=("mine",), questions=("Mine?",), tags={"own": 1.0}, is_edited=True)
    given = replace(asked.chunks[1], keywords=("Leaf Pages",), questions=("Who asked?",))
    asked = replace(asked, chunks=(edited, given, *asked.chunks[2:]))
    enriched = await Enricher(counter=COUNTER).enrich(asked, deadline_seconds=60)
    first = next(chunk for chunk in enriched.chunks if chunk.is_edited)
    assert (first.keywords, first.questions, first.tags) == (("mine",), ("Mine?",), {"own": 1.0})
    second = next(chunk for chunk in enriched.chunks if "Who asked?" in chunk.questions)
    assert second.keywords[0] == "Leaf Pages"
    assert len({keyword.casefold() for keyword in second.keywords}) == len(second.keywords) > 1
    methods = {item.text: item.attributes["method"] for item in enriched.derived if item.kind is RecordKind.QUESTION}
    assert methods["Mine?"] == methods["Who asked?"] == "given"


async def test_without_examples_nothing_is_tagged_and_it_is_said() -> None:
    settings = EnrichmentSettings.from_config({"tags": {"method": "lite", "tag_sets": ["empty"]}})
    enriched = await Enricher(counter=COUNTER).enrich(request(settings, tag_examples=()), deadline_seconds=10)
    assert not any(chunk.tags for chunk in enriched.chunks)
    assert enriched.warnings == ("The tag sets of the knowledge base hold no examples; no chunk was tagged.",)


async def test_an_empty_document_is_enriched_with_nothing() -> None:
    empty = ParsedDocument("text/plain", "", ())
    enriched = await Enricher(counter=COUNTER).enrich(request(document=empty, chunks=()), deadline_seconds=60)
    assert (enriched.chunks, enriched.derived) == ((), ())


async def test_the_callers_time_is_kept() -> None:
    with pytest.raises(DeadlineExceededError) as caught:
        await Enricher(counter=COUNTER).enrich(request(), deadline_seconds=0.0)
    assert caught.value.reason == "ENRICH_DEADLINE"
