"""Keywords, questions, tags and propositions of chunks."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment import EnrichMethod
from corpusmesh_core.enrichment.derivation import made_by, proposition_records, question_records
from corpusmesh_core.enrichment.keywords import extract_keywords
from corpusmesh_core.enrichment.propositions import extract_propositions
from corpusmesh_core.enrichment.questions import rule_questions
from corpusmesh_core.enrichment.readers import (
    read_keywords,
    read_propositions,
    read_prose,
    read_questions,
    read_scores,
)
from corpusmesh_core.enrichment.requests import ItemTask, PromptItem
from corpusmesh_core.enrichment.statements import centrality, is_running_text, pick_central, statements_of
from corpusmesh_core.enrichment.summaries import join_sentences
from corpusmesh_core.enrichment.tags import TagMatcher, merge_tags
from corpusmesh_core.prompts import CONTEXT_V1, KEYWORDS_V1, PROPOSITION_SCORES_V1, PROPOSITIONS_V1, QUESTIONS_V1
from corpusmesh_ingest.enriching.asking import Answers, Asker
from corpusmesh_ingest.enriching.draft import Draft

_KEYWORD_TOKENS: Final = 16
_QUESTION_TOKENS: Final = 60
_PROPOSITION_TOKENS: Final = 1200
_SCORE_TOKENS: Final = 16
_GIST_TOKENS: Final = 160
_CONTEXT_TOKENS: Final = 80


async def add_keywords(draft: Draft, asker: Asker | None) -> None:
    """Add keywords to chunks; those that a chunk has stay first, and those of an edited chunk stay alone.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    settings = draft.request.settings.keywords
    wanted = [chunk for chunk in draft.texts if not (chunk.is_edited and chunk.keywords)]
    answers: Answers[tuple[str, ...]] = Answers()
    if settings.method is EnrichMethod.LLM:
        if asker is None:
            draft.warn_of_no_model("keywords")
        else:
            task = ItemTask(KEYWORDS_V1, {"count": str(settings.count)}, 30 + _KEYWORD_TOKENS * settings.count)
            answers = await asker.ask(
                task, draft.items(wanted), lambda _, entry: read_keywords(entry, count=settings.count)
            )
            draft.warn_of_failures("keywords", answers.failures)
    found: dict[int, tuple[str, ...]] = {}
    if len(answers.values) < len(wanted):
        # Over all chunks: each is weighed against the others.
        extracted = await asyncio.to_thread(extract_keywords, wanted, count=settings.count, title=draft.request.title)
        found = dict(zip((chunk.position for chunk in wanted), extracted, strict=True))
    changed: dict[int, Chunk] = {}
    for chunk in wanted:
        is_answered = chunk.position in answers.values
        keywords = answers.values[chunk.position] if is_answered else found[chunk.position]
        if keywords:
            merged = _merged(chunk.keywords, keywords)
            method = EnrichMethod.LLM if is_answered else EnrichMethod.LITE
            attributes = {**chunk.attributes, "keywords_method": method.value}
            changed[chunk.position] = replace(chunk, keywords=merged, attributes=attributes)
    draft.change(changed)


async def add_questions(draft: Draft, asker: Asker | None) -> None:
    """Add questions to chunks, and make a record of every question, so that each has a vector of its own.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    settings = draft.request.settings.questions
    texts = draft.texts
    wanted = [chunk for chunk in texts if not (chunk.is_edited and chunk.questions)]
    answers: Answers[tuple[str, ...]] = Answers()
    if settings.method is EnrichMethod.LLM:
        if asker is None:
            draft.warn_of_no_model("questions")
        else:
            task = ItemTask(QUESTIONS_V1, {"count": str(settings.count)}, 40 + _QUESTION_TOKENS * settings.count)
            answers = await asker.ask(
                task, draft.items(wanted), lambda _, entry: read_questions(entry, count=settings.count)
            )
            draft.warn_of_failures("questions", answers.failures)
    rest = [chunk for chunk in wanted if chunk.position not in answers.values]
    found_by_rule = await asyncio.to_thread(rule_questions, rest, count=settings.count)
    ruled = dict(zip((chunk.position for chunk in rest), found_by_rule, strict=True))
    changed: dict[int, Chunk] = {}
    for chunk in texts:
        is_answered = chunk.position in answers.values
        found = answers.values.get(chunk.position) or ruled.get(chunk.position, ())
        how = made_by(EnrichMethod.LLM, QUESTIONS_V1.version) if is_answered else made_by(EnrichMethod.LITE)
        own = chunk.questions
        merged = _merged(own, found)
        # What a person or the document itself asked has a record too, and says so.
        records = question_records(chunk, merged, how)
        draft.derived.extend(
            replace(record, attributes={"method": "given"}) if record.text in own else record for record in records
        )
        if len(merged) > len(own):
            changed[chunk.position] = replace(chunk, questions=merged)
    draft.change(changed)


async def add_contexts(draft: Draft, asker: Asker | None) -> None:
    """Put what a chunk needs to be understood alone behind the headings that go before its text.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    wanted = [chunk for chunk in draft.texts if not chunk.is_edited]
    if asker is None:
        draft.warn_of_no_model("contexts of chunks", instead=False)
        return
    gist = await asyncio.to_thread(_gist, draft)
    items = [
        replace(item, text=f"{gist}\n\nPiece:\n{item.text}", token_count=item.token_count + _GIST_TOKENS)
        for item in draft.items(wanted)
    ]
    answers = await asker.ask(
        ItemTask(CONTEXT_V1, answer_tokens=2 * _CONTEXT_TOKENS),
        items,
        lambda _, entry: read_prose(entry, "context", draft.counter, max_tokens=_CONTEXT_TOKENS),
    )
    draft.warn_of_failures("contexts", answers.failures, instead=False)
    draft.change(
        {
            chunk.position: replace(
                chunk,
                context="\n".join(part for part in (chunk.context, answers.values[chunk.position]) if part),
                attributes={**chunk.attributes, "context_method": EnrichMethod.LLM.value},
            )
            for chunk in wanted
            if chunk.position in answers.values
        }
    )


def _gist(draft: Draft) -> str:
    """Say what the document is about: its most central sentences."""
    texts = [text for chunk in draft.texts if is_running_text(chunk) for text in statements_of(chunk.text)]
    # The first occurrence of each: chunks overlap.
    sentences = list(dict.fromkeys(texts))
    scores = centrality(sentences, towards=[draft.request.title])
    picked = pick_central(sentences, scores, draft.counter.count_tokens(sentences), _GIST_TOKENS)
    return join_sentences(sentences[place] for place in picked)


async def add_tags(draft: Draft, matcher: Callable[[], TagMatcher]) -> None:
    """Add the tags of the examples that a chunk resembles.

    Args:
        draft: The version.
        matcher: Makes the matcher of the request's examples, or takes one made before; called in a thread.
    """
    settings = draft.request.settings.tags
    if not draft.request.tag_examples:
        draft.warnings.append("The tag sets of the knowledge base hold no examples; no chunk was tagged.")
        return
    changed = await asyncio.to_thread(
        lambda: _tagged(draft, matcher(), max_tags=settings.max_tags, threshold=settings.threshold)
    )
    draft.change(changed)


def _tagged(draft: Draft, matcher: TagMatcher, *, max_tags: int, threshold: float) -> dict[int, Chunk]:
    changed: dict[int, Chunk] = {}
    for chunk in draft.texts:
        if chunk.is_edited and chunk.tags:
            continue
        text = f"{draft.heading(chunk.heading_path)}\n{chunk.text}"
        found = matcher.tags(text, max_tags=max_tags, threshold=threshold)
        if found:
            changed[chunk.position] = replace(chunk, tags=merge_tags(chunk.tags, found, max_tags=max_tags))
    return changed


async def add_propositions(draft: Draft, asker: Asker | None) -> None:
    """Make records of the statements in chunks of running text.

    Args:
        draft: The version.
        asker: The model; None for none.
    """
    settings = draft.request.settings.propositions
    wanted = [chunk for chunk in draft.texts if is_running_text(chunk)]
    scored: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    if settings.method is EnrichMethod.LLM:
        if asker is None:
            draft.warn_of_no_model("propositions")
        else:
            scored = await _ask_propositions(draft, asker, wanted)
    extracted = await asyncio.to_thread(
        lambda: {chunk.position: extract_propositions(chunk) for chunk in wanted if chunk.position not in scored}
    )
    for chunk in wanted:
        if chunk.position in scored:
            kept = [(text, marks) for text, marks in scored[chunk.position] if min(marks) >= settings.threshold]
            how = made_by(EnrichMethod.LLM, PROPOSITIONS_V1.version)
            draft.derived.extend(
                proposition_records(chunk, [text for text, _ in kept], how, [marks for _, marks in kept])
            )
        else:
            how = made_by(EnrichMethod.LITE)
            draft.derived.extend(proposition_records(chunk, extracted[chunk.position], how))


async def _ask_propositions(
    draft: Draft, asker: Asker, wanted: Sequence[Chunk]
) -> dict[int, list[tuple[str, tuple[int, ...]]]]:
    """Have statements made, then have them scored by a call that sees the text again."""
    items = draft.items(wanted)
    made = await asker.ask(
        ItemTask(PROPOSITIONS_V1, answer_tokens=_PROPOSITION_TOKENS), items, lambda _, entry: read_propositions(entry)
    )
    to_score = [_score_item(item, made.values[item.index]) for item in items if item.index in made.values]
    most = max((len(statements) for statements in made.values.values()), default=0)
    scores = await asker.ask(
        ItemTask(PROPOSITION_SCORES_V1, answer_tokens=50 + _SCORE_TOKENS * most),
        to_score,
        lambda item, entry: read_scores(entry, count=len(made.values[item.index])),
    )
    draft.warn_of_failures("propositions", {**made.failures, **scores.failures})
    return {position: list(zip(made.values[position], marks, strict=True)) for position, marks in scores.values.items()}


def _score_item(item: PromptItem, statements: Sequence[str]) -> PromptItem:
    numbered = "\n".join(f"{number}. {statement}" for number, statement in enumerate(statements, start=1))
    # About as many tokens again: the statements say what the text says.
    return replace(item, text=f"{item.text}\n\nStatements:\n{numbered}", token_count=2 * item.token_count)


def _merged(own: Sequence[str], found: Sequence[str]) -> tuple[str, ...]:
    by_form: dict[str, str] = {}
    for text in (*own, *found):
        by_form.setdefault(text.casefold(), text)
    return tuple(by_form.values())
