"""Summaries, table of contents, metadata and memory of a document."""

import asyncio
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment import EnrichMethod, FieldSource, FieldType, MetadataField
from corpusmesh_core.enrichment.derivation import made_by, memory_records, summary_record, toc_records
from corpusmesh_core.enrichment.extraction import document_text, extract_metadata, missing_fields
from corpusmesh_core.enrichment.memories import MemoryPair, extract_memories
from corpusmesh_core.enrichment.readers import read_levels, read_pairs, read_prose, read_toc_title, read_values
from corpusmesh_core.enrichment.requests import ItemTask, PromptItem
from corpusmesh_core.enrichment.schema import describe_bad_value
from corpusmesh_core.enrichment.statements import is_running_text
from corpusmesh_core.enrichment.summaries import Passage, extract_summary, find_passages
from corpusmesh_core.enrichment.toc import (
    MAX_TITLE_TOKENS,
    TocEntry,
    clean_title,
    finish_entries,
    has_structure,
    is_title,
    read_toc,
)
from corpusmesh_core.prompts import MEMORY_V1, METADATA_V1, SUMMARY_V1, TOC_LEVELS_V1, TOC_TITLES_V1
from corpusmesh_ingest.enriching.asking import Answers, Asker
from corpusmesh_ingest.enriching.draft import Draft

_TITLES_PER_ITEM: Final = 150
_LEVEL_TOKENS: Final = 4
_TITLE_TOKENS: Final = 40
_PAIRS_PER_CHUNK: Final = 3
_PAIR_TOKENS: Final = 160
_METADATA_TOKENS: Final = 1500
_VALUE_TOKENS: Final = 60
_CHARACTERS_PER_WORD: Final = 8


async def add_summaries(draft: Draft, asker: Asker | None, *, max_item_tokens: int) -> None:
    """Make a record of each page's and section's summary.

    Args:
        draft: The version.
        asker: The model; None for none.
        max_item_tokens: Longest text that a model is given; a longer one is first cut to its central sentences.
    """
    settings = draft.request.settings.summaries
    passages = await asyncio.to_thread(find_passages, draft.request.document.blocks, draft.texts, settings.scope)
    answers: Answers[str] = Answers()
    if settings.method is EnrichMethod.LLM:
        if asker is None:
            draft.warn_of_no_model("summaries")
        else:
            # A word is about 1.3 tokens of English, an ideograph one.
            limits = {"max_words": str(settings.max_tokens * 2 // 3), "max_characters": str(settings.max_tokens)}
            answers = await asker.ask(
                ItemTask(SUMMARY_V1, limits, 60 + 2 * settings.max_tokens),
                await asyncio.to_thread(_passage_items, draft, passages, max_item_tokens),
                lambda _, entry: read_prose(entry, "summary", draft.counter, max_tokens=settings.max_tokens),
            )
            draft.warn_of_failures("summaries", answers.failures, of="passages")
    extracted = await asyncio.to_thread(
        lambda: {
            number: extract_summary(passage, draft.counter, max_tokens=settings.max_tokens)
            for number, passage in enumerate(passages)
            if number not in answers.values
        }
    )
    for number, passage in enumerate(passages):
        if number in answers.values:
            how = made_by(EnrichMethod.LLM, SUMMARY_V1.version)
            draft.derived.append(summary_record(passage, answers.values[number], how))
        elif extracted[number]:
            draft.derived.append(summary_record(passage, extracted[number], made_by(EnrichMethod.LITE)))


def _passage_items(draft: Draft, passages: Sequence[Passage], max_tokens: int) -> list[PromptItem]:
    items: list[PromptItem] = []
    counts = draft.counter.count_tokens([passage.text for passage in passages])
    for number, (passage, count) in enumerate(zip(passages, counts, strict=True)):
        text = passage.text
        if count > max_tokens:
            shortened = extract_summary(passage, draft.counter, max_tokens=max_tokens)
            text = shortened or text[: max_tokens * 2]
        items.append(PromptItem(number, text, draft.heading(passage.heading_path), min(count, max_tokens)))
    return items


async def add_toc(draft: Draft, asker: Asker | None) -> None:
    """Make the records of the table of contents; a model is asked only for a document without bookmarks and headings.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    document, texts = draft.request.document, draft.texts
    if draft.request.settings.toc.method is EnrichMethod.LITE or has_structure(document):
        entries = await asyncio.to_thread(read_toc, document, texts, draft.counter)
        draft.derived.extend(toc_records(entries, made_by(EnrichMethod.LITE)))
    elif asker is None:
        draft.warn_of_no_model("entries of a table of contents", instead=False)
    else:
        entries = await _ask_toc(draft, asker, texts)
        draft.derived.extend(toc_records(entries, made_by(EnrichMethod.LLM, TOC_TITLES_V1.version)))


async def _ask_toc(draft: Draft, asker: Asker, texts: Sequence[Chunk]) -> list[TocEntry]:
    titles = await asker.ask(
        ItemTask(TOC_TITLES_V1, answer_tokens=_TITLE_TOKENS), draft.items(texts), lambda _, entry: read_toc_title(entry)
    )
    draft.warn_of_failures("titles", titles.failures, instead=False)
    places = {chunk.position: place for place, chunk in enumerate(texts)}
    found = [(position, clean_title(titles.values[position])) for position in sorted(titles.values)]
    sizes = await asyncio.to_thread(draft.counter.count_tokens, [title for _, title in found])
    kept = [
        (position, title)
        for (position, title), size in zip(found, sizes, strict=True)
        if is_title(title) and size <= MAX_TITLE_TOKENS
    ]
    groups = [kept[start : start + _TITLES_PER_ITEM] for start in range(0, len(kept), _TITLES_PER_ITEM)]
    levels = await asker.ask(
        ItemTask(TOC_LEVELS_V1, answer_tokens=50 + _LEVEL_TOKENS * min(len(kept), _TITLES_PER_ITEM)),
        [_titles_item(number, group) for number, group in enumerate(groups)],
        lambda item, entry: read_levels(entry, count=len(groups[item.index])),
    )
    entries: list[TocEntry] = []
    for number, group in enumerate(groups):
        # Without levels the entries stand side by side, which is still a table of contents.
        depths = levels.values.get(number) or (1,) * len(group)
        entries.extend(
            TocEntry(title, depth, places[position], texts[places[position]].page)
            for (position, title), depth in zip(group, depths, strict=True)
        )
    return finish_entries(entries, texts)


def _titles_item(number: int, group: Sequence[tuple[int, str]]) -> PromptItem:
    lines = [f"{line}. {title}" for line, (_, title) in enumerate(group, start=1)]
    return PromptItem(number, "\n".join(lines), token_count=MAX_TITLE_TOKENS * len(group))


async def add_metadata(draft: Draft, asker: Asker | None) -> None:
    """Read the values of the schema's fields.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    document, schema = draft.request.document, draft.request.schema
    values, warnings = await asyncio.to_thread(extract_metadata, document, schema)
    draft.metadata.update(values)
    draft.warnings.extend(warnings)
    sources = {FieldSource.RULE, FieldSource.PARSER}
    fields = schema.of_source(FieldSource.LLM)
    if fields and draft.request.settings.metadata.method is EnrichMethod.LLM:
        sources.add(FieldSource.LLM)
        if asker is None:
            draft.warn_of_no_model("values of metadata fields that a model reads", instead=False)
        else:
            await _ask_metadata(draft, asker, fields)
    draft.warnings.extend(missing_fields(schema, draft.metadata, frozenset(sources)))


async def _ask_metadata(draft: Draft, asker: Asker, fields: Sequence[MetadataField]) -> None:
    item = await asyncio.to_thread(_beginning, draft)
    task = ItemTask(
        METADATA_V1, {"fields": "\n".join(map(_described, fields))}, answer_tokens=100 + _VALUE_TOKENS * len(fields)
    )
    answers = await asker.ask(task, [item], lambda _, entry: read_values(entry, fields))
    draft.warn_of_failures("metadata values", answers.failures, of="documents", instead=False)
    for values, bad in answers.values.values():
        draft.metadata.update(values)
        draft.warnings.extend(describe_bad_value(entry) for entry in bad)


def _described(entry: MetadataField) -> str:
    allowed = f", one of: {'; '.join(entry.values)}" if entry.type is FieldType.ENUM else ""
    return f"- {entry.name} ({entry.type}{allowed}){': ' if entry.description else ''}{entry.description}"


def _beginning(draft: Draft) -> PromptItem:
    text = document_text(draft.request.document, max_characters=_METADATA_TOKENS * _CHARACTERS_PER_WORD)
    offsets = draft.counter.token_offsets(text)
    if len(offsets) > _METADATA_TOKENS:
        text = text[: offsets[_METADATA_TOKENS][0]]
    return PromptItem(0, text, draft.request.title, min(len(offsets), _METADATA_TOKENS))


async def add_memory(draft: Draft, asker: Asker | None) -> None:
    """Make records of topics and what the document says of each.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    wanted = [chunk for chunk in draft.texts if is_running_text(chunk)]
    by_position = {chunk.position: chunk for chunk in wanted}
    answers: Answers[tuple[tuple[str, str], ...]] = Answers()
    if draft.request.settings.memory.method is EnrichMethod.LLM:
        if asker is None:
            draft.warn_of_no_model("memories")
        else:
            task = ItemTask(MEMORY_V1, {"count": str(_PAIRS_PER_CHUNK)}, 40 + _PAIR_TOKENS * _PAIRS_PER_CHUNK)
            answers = await asker.ask(
                task, draft.items(wanted), lambda _, entry: read_pairs(entry, count=_PAIRS_PER_CHUNK)
            )
            draft.warn_of_failures("memories", answers.failures)
    rest = [chunk for chunk in wanted if chunk.position not in answers.values]
    found = await asyncio.to_thread(extract_memories, rest, draft.counter, title=draft.request.title)
    asked = [
        MemoryPair(topic, details, (position,))
        for position in sorted(answers.values)
        for topic, details in answers.values[position]
    ]
    draft.derived.extend(memory_records(asked, by_position, made_by(EnrichMethod.LLM, MEMORY_V1.version)))
    draft.derived.extend(memory_records(found, by_position, made_by(EnrichMethod.LITE)))
