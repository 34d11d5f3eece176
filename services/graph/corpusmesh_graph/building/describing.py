"""One description of what many documents say of an entity or relation, by a language model where there is one."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from corpusmesh_core.graphs.cost import MAX_FRAGMENTS
from corpusmesh_core.graphs.fingerprints import digest
from corpusmesh_core.graphs.keys import key_text, pair_of
from corpusmesh_core.graphs.ledger import ReportEntry
from corpusmesh_core.graphs.records import description_record, texts_of
from corpusmesh_core.graphs.view import GraphView
from corpusmesh_core.records import Record
from corpusmesh_graph.building.before import GraphBefore
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.models import GraphSession

DESCRIBED: Final = "described."
"""Begins the keys of merged descriptions in `Ledger.reports`; the keys of entity or pair follow."""
_BATCH: Final = 64
_SHARE_OF_TIME: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Subject:
    """What many documents speak of.

    Attributes:
        key: Its key in the ledger.
        name: What a person calls it.
        keys: Key of the entity, or of both ends.
        record_ids: Records of its fragments, at most MAX_FRAGMENTS.
        fingerprint: Digest of the documents that speak of it.
    """

    key: str
    name: str
    keys: tuple[int, ...]
    record_ids: tuple[str, ...]
    fingerprint: bytes


class Describer:
    """Merges descriptions."""

    def __init__(self, scope: BuildScope, session: GraphSession, before: GraphBefore) -> None:
        """Create it.

        Args:
            scope: The build's task.
            session: What the language model may be asked.
            before: The graph before.
        """
        self._scope = scope
        self._session = session
        self._before = before
        self.made: list[int] = []
        """Ordinals of the descriptions that this build has written, by this slice or one before."""

    async def describe(self, view: GraphView) -> bool:
        """Bring merged descriptions up to date, until all is done or the time of a slice is over.

        Args:
            view: The graph, wholly visible.

        Returns:
            Whether all is done.
        """
        scope, draft = self._scope, self._scope.draft
        there = {key: item for key, item in draft.reports.items() if key.startswith(DESCRIBED)}
        others = {key: item for key, item in draft.reports.items() if not key.startswith(DESCRIBED)}
        if not scope.graph.model_methods or not self._session.described_by:
            draft.reports = others
            return True
        subjects = await asyncio.to_thread(self._subjects, view)
        old = self._before.ledger.reports
        kept = {item.key: old[item.key] for item in subjects if _holds(old.get(item.key), item)}
        orders = [item for item in subjects if item.key not in kept]
        first = await self._reserved(orders)
        waiting: list[int] = []
        for place, item in enumerate(orders):
            done = there.get(item.key)
            if done is not None and done.ordinal == first + place:
                kept[item.key] = done
                self.made.append(done.ordinal)
            else:
                waiting.append(place)
        draft.reports = others | kept
        return await self._work_off(view, orders, waiting, first)

    async def _work_off(self, view: GraphView, orders: Sequence[_Subject], waiting: Sequence[int], first: int) -> bool:
        scope = self._scope
        if waiting:
            # What this slice has written is read again here.
            await scope.refresh()
        seen = FrozenBitMap([*view.graph.document_version.tolist(), *view.graph.document_publisher.tolist()])
        for start in range(0, len(waiting), _BATCH):
            places = waiting[start : start + _BATCH]
            found = await scope.records([record_id for place in places for record_id in orders[place].record_ids], seen)
            seconds = _SHARE_OF_TIME * scope.context.remaining_seconds()
            async with asyncio.TaskGroup() as tasks:
                asked = [
                    tasks.create_task(
                        self._merged(
                            orders[place],
                            first + place,
                            [found[name] for name in orders[place].record_ids if name in found],
                            seconds,
                        )
                    )
                    for place in places
                ]
            records = [record for task in asked if (record := task.result()) is not None]
            await scope.write(records)
            for record in records:
                item = orders[int(record.publisher) - first]
                scope.draft.reports[item.key] = ReportEntry(item.key, "", int(record.publisher), item.fingerprint)
                self.made.append(int(record.publisher))
            if scope.is_over and start + _BATCH < len(waiting):
                return False
        return True

    async def _merged(self, item: _Subject, ordinal: int, records: Sequence[Record], seconds: float) -> Record | None:
        told = [(record, said) for record in records if (said := texts_of(record).description)]
        if len(told) < self._scope.graph.merged_description_count:
            return None
        sources = sorted({int(source) for record, _ in told for source in record.sources})
        text = await self._session.merge_description(
            item.name, [said for _, said in told], sources, timeout_seconds=seconds
        )
        if text is None:
            return None
        links = tuple(dict.fromkeys(record.links[0] for record, _ in told if record.links))
        return description_record(
            self._scope.row.knowledge_base_id,
            ordinal,
            item.keys,
            (item.name, text),
            sources=sources,
            links=links,
            made_by=self._session.described_by,
        )

    def _subjects(self, view: GraphView) -> list[_Subject]:
        least = self._scope.graph.merged_description_count
        graph = view.graph
        found = []
        for place in _many(graph.fragment_offsets, least):
            key = int(view.entity_keys[place])
            found.append(self._subject(view.name(place), (key,), view.entity_records(place)))
        for place in _many(graph.relation_fragment_offsets, least):
            ends = view.relation_ends[place].tolist()
            keys = pair_of(*(int(view.entity_keys[end]) for end in ends))
            name = " \u2013 ".join(view.name(end) for end in ends)
            found.append(self._subject(name, keys, view.relation_records(place)))
        return sorted(found, key=lambda item: item.key)

    def _subject(self, name: str, keys: tuple[int, ...], record_ids: tuple[str, ...]) -> _Subject:
        fingerprint = digest(self._session.described_by, self._scope.graph.merged_description_count, record_ids)
        key = DESCRIBED + "".join(map(key_text, keys))
        return _Subject(key, name, keys, record_ids[:MAX_FRAGMENTS], fingerprint)

    async def _reserved(self, orders: Sequence[_Subject]) -> int:
        if not orders:
            return 0
        named = hashlib.blake2b(digest_size=8)
        for item in orders:
            named.update(item.key.encode() + item.fingerprint)
        slot = f"descriptions.{named.hexdigest()}"
        return await self._scope.stores.builds.reserve(self._scope.context.claim, slot, len(orders))


def _many(offsets: NDArray[np.int64], least: int) -> list[int]:
    found: list[int] = np.flatnonzero(np.diff(offsets) >= least).tolist()
    return found


def _holds(before: ReportEntry | None, item: _Subject) -> bool:
    return before is not None and before.fingerprint == item.fingerprint
