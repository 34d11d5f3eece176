"""The web as a source of evidence: a search engine's results, read through the one safe fetcher.

Off unless the installation has a search engine and the plan of the request says so (`correction.web`). What leaves the
installation is the text of a query, made of the user's own words alone, and the addresses of pages that are read; never
text of a document. What is read is data like any document's, and is never written to the index.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corpusmesh_core.documents import ParsedDocument
from corpusmesh_core.errors import CorpusMeshError, DeadlineExceededError, OverloadedError, UnavailableError
from corpusmesh_core.ports.embedding import MAX_TEXT_BYTES, Embedder, EmbedLane, EmbedRole
from corpusmesh_core.ports.index import Candidates
from corpusmesh_core.ports.web_search import WebPages, WebResult, WebSearch
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, rank_candidates
from corpusmesh_core.records import Record
from corpusmesh_core.research.outgoing import outgoing_query
from corpusmesh_core.research.web_passages import (
    best_by_terms,
    page_records,
    passage_text,
    text_document,
    text_record,
    web_candidates,
)
from corpusmesh_core.text import analyze_query, cut_to_bytes
from corpusmesh_runtime.context import CallContext
from corpusmesh_runtime.logging import get_logger

_SHARE_OF_DEADLINE = 0.5
_MIN_SECONDS = 0.2
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebBounds:
    """What one search of the web may cost.

    Attributes:
        search_timeout_seconds: Longest wait for the engine.
        page_timeout_seconds: Longest time of one page, fetching and parsing together.
        max_concurrent_pages: Pages read at once, over all requests.
        max_waiting_searches: Searches under way at once, over all requests; one more is refused.
        max_passages_per_page: Passages of one page.
        max_embedded_passages: Passages of all pages that are compared with the question by vector.
    """

    search_timeout_seconds: float = 8.0
    page_timeout_seconds: float = 8.0
    max_concurrent_pages: int = 8
    max_waiting_searches: int = 32
    max_passages_per_page: int = 64
    max_embedded_passages: int = 24


class WebSource:
    """Finds evidence in the web."""

    def __init__(self, engine: WebSearch, pages: WebPages, embedder: Embedder, bounds: WebBounds | None = None) -> None:
        """Create the source.

        Args:
            engine: Finds pages.
            pages: Reads them.
            embedder: Compares passages with the question.
            bounds: What a search may cost.
        """
        self._engine = engine
        self._pages = pages
        self._embedder = embedder
        self._bounds = bounds or WebBounds()
        self._page_slots = asyncio.Semaphore(self._bounds.max_concurrent_pages)
        self._search_count = 0

    async def close(self) -> None:
        """Close connections and stop what reads pages."""
        await self._engine.close()
        await self._pages.close()

    async def search(
        self, call: CallContext, query: str, *, max_results: int, asked: str | None = None
    ) -> list[RankedCandidate]:
        """Search the web, read what it names, and put its passages in order.

        Args:
            call: The call; its deadline bounds all of it.
            query: What to look for.
            max_results: Pages that are read, and passages that are returned, at most.
            asked: What the user wrote, turns of a conversation included: words of `query` that it does not hold do not
                leave the installation. None where `query` is what the user wrote.

        Returns:
            Passages of kind WEB_PAGE, best first, each with its address; empty where nothing is left to ask, or nothing
            was found. A page that cannot be read stands for what the engine shows of it.

        Raises:
            UnavailableError: If the engine does not answer.
            OverloadedError: If it asks to wait, or too many searches are under way.
            DeadlineExceededError: If it does not answer in time.
        """
        sent = outgoing_query(query, query if asked is None else asked)
        if not sent or max_results < 1:
            return []
        if self._search_count >= self._bounds.max_waiting_searches:
            raise OverloadedError("WEB_SEARCH_BUSY", "too many searches of the web are under way; try again")
        self._search_count += 1
        try:
            seconds = min(self._bounds.search_timeout_seconds, call.remaining_seconds() * _SHARE_OF_DEADLINE)
            results = await self._engine.search(sent, max_results, max(seconds, _MIN_SECONDS))
            left = call.remaining_seconds() * _SHARE_OF_DEADLINE
            seconds = min(self._bounds.page_timeout_seconds, left)
            async with asyncio.TaskGroup() as group:
                reads = [group.create_task(self._read(result, seconds)) for result in results[:max_results]]
            records = [record for read in reads for record in read.result()]
        finally:
            self._search_count -= 1
        return list((await self._ranked(call, query, records))[:max_results])

    async def _read(self, result: WebResult, seconds: float) -> Sequence[Record]:
        """Read one page; never fails, since the others may serve."""
        try:
            if result.content:
                return await self._cut(result, result.url, text_document(result.title, result.content))
            async with asyncio.timeout(seconds), self._page_slots:
                page = await self._pages.read(result.url, timeout_seconds=seconds)
            records = await self._cut(result, page.url, page.document)
        except (CorpusMeshError, TimeoutError) as error:
            reason = error.reason if isinstance(error, CorpusMeshError) else "WEB_PAGE_DEADLINE"
            _log.info("page of the web not read", reason=reason)
            records = ()
        if records or not result.snippet:
            return records
        return [text_record(result.url, result.title, result.snippet)]

    async def _cut(self, result: WebResult, url: str, document: ParsedDocument) -> Sequence[Record]:
        most = self._bounds.max_passages_per_page
        return await asyncio.to_thread(page_records, url, document, title=result.title, max_passages=most)

    async def _ranked(self, call: CallContext, query: str, records: Sequence[Record]) -> tuple[RankedCandidate, ...]:
        distinct = tuple({record.record_id: record for record in records}.values())
        if not distinct:
            return ()
        chosen = await asyncio.to_thread(best_by_terms, query, distinct, max_count=self._bounds.max_embedded_passages)
        cosines = await self._cosines(call, query, chosen)
        candidates = Candidates(await asyncio.to_thread(web_candidates, query, chosen, cosines))
        return rank_candidates(candidates, analyze_query(query), RankingOptions())

    async def _cosines(self, call: CallContext, query: str, records: Sequence[Record]) -> list[float] | None:
        texts = [cut_to_bytes(passage_text(record), MAX_TEXT_BYTES) for record in records]
        seconds = max(call.remaining_seconds() * _SHARE_OF_DEADLINE, _MIN_SECONDS)
        try:
            asked, passages = await asyncio.gather(
                self._embedder.embed(
                    [cut_to_bytes(query, MAX_TEXT_BYTES)],
                    role=EmbedRole.QUERY,
                    lane=EmbedLane.INTERACTIVE,
                    deadline_seconds=seconds,
                ),
                self._embedder.embed(
                    texts, role=EmbedRole.PASSAGE, lane=EmbedLane.INTERACTIVE, deadline_seconds=seconds
                ),
            )
        except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
            call.remaining_seconds()
            _log.warning("passages of the web are put in order by words alone", reason=error.reason)
            return None
        values = passages.vectors @ asked.vectors[0]
        return [float(value) for value in np.clip(values, -1.0, 1.0)]
