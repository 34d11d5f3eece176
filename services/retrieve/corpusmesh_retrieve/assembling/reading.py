"""Reads records by id for the stages after scoring, under the visibility of the request and in one round trip."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from corpusmesh_core.ports.index import MAX_WINDOW, RecordIndex
from corpusmesh_core.ranking import RankedCandidate
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.visibility import build_filter
from corpusmesh_retrieve.outcome import SearchOutcome
from corpusmesh_runtime.context import CallContext

_MAX_SECONDS = 3.0
_SHARE_OF_DEADLINE = 0.3
"""Of the caller's time: what is read here makes a result better, and its absence must not cost it."""


class RecordReader:
    """Reads records by id."""

    def __init__(self, index: RecordIndex) -> None:
        """Create the reader.

        Args:
            index: Holds the records.
        """
        self._index = index

    async def read(
        self,
        call: CallContext,
        outcome: SearchOutcome,
        wanted: Mapping[str, Sequence[str]],
        kinds: Iterable[RecordKind],
        *,
        with_vectors: bool = False,
    ) -> dict[str, Record]:
        """Read records.

        Args:
            call: The call; its deadline bounds the read.
            outcome: The search; what it may see decides what comes back.
            wanted: Ids by knowledge base; of more than MAX_WINDOW in one space, the first.
            kinds: Kinds that may come back.
            with_vectors: Whether to read vectors too.

        Returns:
            The visible ones by id.
        """
        reads = []
        seconds = min(_MAX_SECONDS, call.remaining_seconds() * _SHARE_OF_DEADLINE)
        for view in outcome.views:
            ids = list(dict.fromkeys(name for key in view.knowledge_base_ids for name in wanted.get(key, ())))
            if ids and not view.visibility.is_empty:
                reads.append(
                    self._index.fetch(
                        call.identity.tenant_id,
                        view.space_id,
                        ids[:MAX_WINDOW],
                        build_filter(view.visibility, kinds),
                        with_vectors=with_vectors,
                        timeout_seconds=seconds,
                    )
                )
        return {record.record_id: record for part in await asyncio.gather(*reads) for record in part}

    async def vectors_of(
        self, call: CallContext, outcome: SearchOutcome, items: Sequence[RankedCandidate]
    ) -> dict[str, Record]:
        """Read candidates again with their vectors.

        Args:
            call: The call.
            outcome: The search.
            items: Candidates.

        Returns:
            Those that have a vector, by id.
        """
        records = [item.candidate.record for item in items]
        kinds = {record.kind for record in records} - {RecordKind.WEB_PAGE, RecordKind.PARENT}
        found = await self.read(
            call,
            outcome,
            by_knowledge_base(record for record in records if record.kind in kinds),
            kinds,
            with_vectors=True,
        )
        return {name: record for name, record in found.items() if record.vector is not None}


def by_knowledge_base(records: Iterable[Record]) -> dict[str, list[str]]:
    """Group the ids of records by their knowledge bases.

    Args:
        records: Records.

    Returns:
        Ids by knowledge base, in order.
    """
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(record.knowledge_base_id, []).append(record.record_id)
    return found


def space_of(outcome: SearchOutcome, record: Record) -> str:
    """Tell which space a record was found in.

    Args:
        outcome: The search.
        record: A record that it found.

    Returns:
        The space; "" for a record of the web.
    """
    return next((view.space_id for view in outcome.views if record.knowledge_base_id in view.knowledge_base_ids), "")
