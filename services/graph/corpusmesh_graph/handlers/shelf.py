"""Visible records of a kind of which a graph has not many, listed once for each snapshot and each sight of it."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.graphs.records import WEIGHT
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_graph.scenes import GraphScene, seconds_left
from corpusmesh_runtime.context import require_call

MAX_LISTED: Final = 20_000
"""Records of a kind that are listed of one graph."""
_MAX_KEPT: Final = 8


@dataclass(frozen=True, slots=True)
class Listed:
    """A record of a listing.

    Attributes:
        record_id: The record.
        key: What its id ends in: what it speaks of.
        level: Level of a community, 0 for the coarsest; -1 for everything else.
        weight: Weight of a report; 0 for everything else.
    """

    record_id: str
    key: str
    level: int
    weight: float


class RecordShelf:
    """Lists records of one kind; what was listed last is kept for the next pages."""

    def __init__(self, index: RecordIndex, kind: RecordKind) -> None:
        """Create it.

        Args:
            index: The records.
            kind: Their kind.
        """
        self._index = index
        self._kind = kind
        self._kept: OrderedDict[object, tuple[Listed, ...]] = OrderedDict()

    async def listed(self, scene: GraphScene) -> Sequence[Listed]:
        """List the records that a caller may see.

        Args:
            scene: What the caller may see.

        Returns:
            Records by level, then by weight, the weightiest first.
        """
        inputs = scene.view.inputs
        visible = scene.view.filter_of(self._kind)
        if visible.matches_nothing:
            return ()
        tenant_id = require_call().identity.tenant_id
        seen = scene.view.visibility.ordinals.serialize()
        # Whoever sees the same is given the same, and nobody else is.
        mark = (tenant_id, scene.knowledge_base_id, inputs.snapshot_id, inputs.space_id, seen)
        if mark in self._kept:
            self._kept.move_to_end(mark)
            return self._kept[mark]
        records = await self._index.scan(
            tenant_id,
            inputs.space_id,
            visible,
            knowledge_base_ids=[scene.knowledge_base_id],
            max_count=MAX_LISTED,
            timeout_seconds=seconds_left(),
        )
        found = tuple(sorted(map(_listed, records), key=lambda one: (one.level, -one.weight, one.key)))
        self._kept[mark] = found
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found


def _listed(record: Record) -> Listed:
    weight = float(record.attributes.get(WEIGHT, "0"))
    return Listed(record.record_id, record.record_id.rsplit("-", 1)[1], record.layer - 1, weight)
