"""Makes of a version's chunks what its knowledge base asks for."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment import Enriched, EnrichmentSettings, EnrichMethod, TagExample
from corpusmesh_core.enrichment.captions import caption_pictures
from corpusmesh_core.enrichment.derivation import finish
from corpusmesh_core.enrichment.tags import TagMatcher
from corpusmesh_core.errors import DeadlineExceededError
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer
from corpusmesh_ingest.enriching.asking import Asker, AskScope, EnrichLimits
from corpusmesh_ingest.enriching.chunk_parts import (
    add_contexts,
    add_keywords,
    add_propositions,
    add_questions,
    add_tags,
)
from corpusmesh_ingest.enriching.document_parts import add_memory, add_metadata, add_summaries, add_toc
from corpusmesh_ingest.enriching.draft import Draft, EnrichRequest

_RESERVE_SHARE: Final = 0.2
_MAX_RESERVE_SECONDS: Final = 30.0
_TOC_BATCH_TOKENS: Final = 1024
"""Tokens of a call for titles, as in RAGFlow: a model that sees too much at once names too few."""


class Enricher:
    """Enriches versions; one for a process, which bounds its calls to the model over all documents."""

    def __init__(
        self,
        *,
        counter: TextTokenizer,
        chat: ChatModel | None = None,
        cache: CompletionCache | None = None,
        limits: EnrichLimits | None = None,
    ) -> None:
        """Create it.

        Args:
            counter: The embedder's tokenizer.
            chat: The language model; None for the forms without a model.
            cache: Keeps what it answered; None to ask again at every retry.
            limits: Bounds of its calls; None for the defaults.
        """
        self._counter = counter
        self._chat = chat
        self._cache = cache
        self._limits = limits or EnrichLimits()
        self._last_matcher: tuple[tuple[TagExample, ...], TagMatcher] | None = None
        self._slots = asyncio.Semaphore(self._limits.max_concurrent_calls)

    async def enrich(self, request: EnrichRequest, *, deadline_seconds: float) -> Enriched:
        """Make all that a request's settings ask for.

        Args:
            request: The version.
            deadline_seconds: How long the caller waits, from now; the model is asked no more when 80 % of it are over.

        Returns:
            Chunks with what was added, and further records; what a model did not give is made without one, and said
            so in the attribute "method" and in a warning.

        Raises:
            DeadlineExceededError: ENRICH_DEADLINE if the time is over.
        """
        settings = request.settings
        if settings.is_off:
            return Enriched(request.chunks)
        draft = Draft(request, self._counter, list(request.chunks))
        now = asyncio.get_running_loop().time()
        reserve = min(_MAX_RESERVE_SECONDS, _RESERVE_SHARE * deadline_seconds)
        scope = AskScope(request.tenant_id, request.ordinal, now + deadline_seconds - reserve)
        try:
            async with asyncio.timeout(deadline_seconds):
                if settings.captions.method is not EnrichMethod.OFF:
                    draft.chunks = await asyncio.to_thread(self._captioned, draft)
                for part in self._parts(draft, settings, scope):
                    await part()
                chunks, derived = await asyncio.to_thread(finish, draft.chunks, draft.derived, self._counter)
        except TimeoutError as error:
            raise DeadlineExceededError("ENRICH_DEADLINE", "the document was not enriched in time") from error
        return Enriched(chunks, derived, dict(draft.metadata), tuple(dict.fromkeys(draft.warnings)))

    def _parts(
        self, draft: Draft, settings: EnrichmentSettings, scope: AskScope
    ) -> list[Callable[[], Awaitable[None]]]:
        asker = self._asker(scope, self._limits)
        toc_limits = replace(self._limits, batch_tokens=min(_TOC_BATCH_TOKENS, self._limits.batch_tokens))
        parts: tuple[tuple[EnrichMethod, Callable[[], Awaitable[None]]], ...] = (
            (settings.context.method, lambda: add_contexts(draft, asker)),
            (settings.keywords.method, lambda: add_keywords(draft, asker)),
            (settings.questions.method, lambda: add_questions(draft, asker)),
            (
                settings.summaries.method,
                lambda: add_summaries(draft, asker, max_item_tokens=self._limits.batch_tokens),
            ),
            (settings.toc.method, lambda: add_toc(draft, self._asker(scope, toc_limits))),
            (settings.tags.method, lambda: add_tags(draft, lambda: self._matcher(draft.request.tag_examples))),
            (settings.metadata.method, lambda: add_metadata(draft, asker)),
            (settings.propositions.method, lambda: add_propositions(draft, asker)),
            (settings.memory.method, lambda: add_memory(draft, asker)),
        )
        return [part for method, part in parts if method is not EnrichMethod.OFF]

    def _matcher(self, examples: tuple[TagExample, ...]) -> TagMatcher:
        """Make the matcher of some examples, or take the last one: all documents of a batch have the same."""
        last = self._last_matcher
        if last is None or last[0] is not examples:
            self._last_matcher = last = (examples, TagMatcher(examples))
        return last[1]

    def _asker(self, scope: AskScope, limits: EnrichLimits) -> Asker | None:
        if self._chat is None:
            return None
        return Asker(self._chat, self._cache, scope, limits=limits, slots=self._slots)

    def _captioned(self, draft: Draft) -> list[Chunk]:
        return list(caption_pictures(draft.request.document.blocks, draft.chunks))
