"""In how many records a term occurs: what BM25 weighs terms by, read once and remembered for a while."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from corpusmesh_adapters.opensearch.transport import Transport
from corpusmesh_core.errors import DeadlineExceededError, OverloadedError, UnavailableError

_LOG = structlog.get_logger("corpusmesh.opensearch")
_MAX_AGE_SECONDS = 60.0
_MAX_TERM_COUNT = 200_000
_FIELD = "content_fine"


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Statistics of one space.

    Attributes:
        document_count: Records with text; 0 where nothing is known.
        document_frequencies: Records that hold a term, by term.
    """

    document_count: int = 0
    document_frequencies: Mapping[str, int] = field(default_factory=dict)


class TermStatisticsCache:
    """Term statistics by space, bounded in number and age.

    They are those of the whole space, as BM25's own are: how rare a word is, never which record holds it.
    """

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            transport: The way to the cluster.
            clock: Seconds, monotonic.
        """
        self._transport = transport
        self._clock = clock
        # (alias, term) → (records with it, records in all, when read); oldest first.
        self._known: OrderedDict[tuple[str, str], tuple[int, int, float]] = OrderedDict()

    async def of(self, alias: str, terms: Sequence[str], *, timeout_seconds: float) -> TermStatistics:
        """Tell the statistics of some terms.

        Args:
            alias: Alias of the space.
            terms: Fine terms.
            timeout_seconds: Deadline.

        Returns:
            Statistics of all terms; empty where the index does not tell now, since an order without them is still an
            order.
        """
        if not terms:
            return TermStatistics()
        expired = self._clock() - _MAX_AGE_SECONDS
        missing = [term for term in terms if self._known.get((alias, term), (0, 0, -1e18))[2] < expired]
        if missing:
            try:
                await self._read(alias, missing, timeout_seconds)
            except (UnavailableError, OverloadedError, DeadlineExceededError) as error:
                _LOG.warning("term statistics not available", reason=error.reason)
        entries = {term: self._known[(alias, term)] for term in terms if (alias, term) in self._known}
        if len(entries) < len(set(terms)):
            return TermStatistics()
        return TermStatistics(
            max(document_count for _, document_count, _ in entries.values()),
            {term: frequency for term, (frequency, _, _) in entries.items()},
        )

    async def _read(self, alias: str, terms: Sequence[str], timeout_seconds: float) -> None:
        response = await self._transport.request(
            "POST",
            f"/{alias}/_termvectors",
            body={
                "doc": {_FIELD: " ".join(terms)},
                "fields": [_FIELD],
                "term_statistics": True,
                "field_statistics": True,
                "positions": False,
                "offsets": False,
                "payloads": False,
                # One shard answers; always the same, so that equal questions get equal weights.
                "routing": "0",
            },
            timeout_seconds=timeout_seconds,
            is_repeatable=True,
        )
        found = response.get("term_vectors", {}).get(_FIELD, {})
        document_count = int(found.get("field_statistics", {}).get("doc_count", 0))
        now = self._clock()
        for term in terms:
            frequency = int(found.get("terms", {}).get(term, {}).get("doc_freq", 0))
            self._known[(alias, term)] = (frequency, document_count, now)
            self._known.move_to_end((alias, term))
        while len(self._known) > _MAX_TERM_COUNT:
            self._known.popitem(last=False)
