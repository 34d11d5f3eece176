"""The graph before, and what this build has made so far: what of it still holds is taken over."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_core.graphs.ledger import Ledger, unpack_ledger
from corpusmesh_core.graphs.records import texts_of
from corpusmesh_core.graphs.restoring import record_ids, restored
from corpusmesh_core.graphs.segments import Segment
from corpusmesh_core.graphs.values import Subgraph
from corpusmesh_graph.building.reading import GraphDocument
from corpusmesh_graph.building.scope import BuildScope
from corpusmesh_graph.building.shelf import SegmentShelf

LEDGER = "ledger"
SEGMENT = "segment."
RESOLUTION = "resolution"
NAMES = "names"
CORRECTIONS = "corrections"
COMMUNITIES = "communities"
"""Names in `BuildRow.artefacts`; segments are numbered from 0."""


@dataclass(slots=True)
class GraphBefore:
    """The published graph that a build begins from.

    Attributes:
        scope: The build's task.
        ledger: What it consists of; that of an empty graph where there is none.
        segments: Its segments by their objects, in order.
    """

    scope: BuildScope
    ledger: Ledger
    segments: dict[str, Segment] = field(default_factory=dict)

    async def taken_over(self, document: GraphDocument) -> Subgraph | None:
        """Take over what was found in an earlier version with equal texts.

        Args:
            document: The version.

        Returns:
            The subgraph; None where it must be found anew.
        """
        wanted = self.scope.draft.wanted
        origin = int(wanted.origins[document.place])
        place = self.ledger.place_of(origin) if origin else -1
        if place < 0:
            return None
        is_equal = bytes(self.ledger.fingerprints[place]) == bytes(wanted.fingerprints[document.place])
        if not is_equal or bytes(self.ledger.texts[place]) != document.texts:
            return None
        publisher = int(self.ledger.publishers[place])
        for segment in self.segments.values():
            found = int(np.searchsorted(segment.document_publisher, publisher))
            if found < segment.document_count and segment.document_publisher[found] == publisher:
                return await self._read(segment, found, origin, publisher)
        return None

    async def _read(self, segment: Segment, place: int, version: int, publisher: int) -> Subgraph | None:
        ids = await asyncio.to_thread(lambda: list(record_ids(segment, place)))
        records = await self.scope.records(ids, [version, publisher])
        if len(records) < len(ids):
            # What the index has lost is found again.
            return None
        texts = {record_id: texts_of(record) for record_id, record in records.items()}
        return await asyncio.to_thread(restored, segment, place, texts)


async def read_ledger(scope: BuildScope, artefacts: Mapping[str, str], space_id: str) -> Ledger:
    """Read what a published graph consists of.

    Args:
        scope: The build's task.
        artefacts: Its objects.
        space_id: Embedding space of now.

    Returns:
        The ledger; that of an empty graph where there is none, or its vectors are of another space.
    """
    content = await scope.find(artefacts[LEDGER]) if LEDGER in artefacts else None
    ledger = await asyncio.to_thread(unpack_ledger, content) if content is not None else Ledger(space_id)
    return ledger if ledger.space_id == space_id else Ledger(space_id)


async def read_segments(scope: BuildScope, shelf: SegmentShelf, keys: Sequence[str]) -> dict[str, Segment]:
    """Read segments.

    Args:
        scope: The build's task.
        shelf: What reads them.
        keys: Their objects.

    Returns:
        Segments by object, in that order; one that is gone or of another release is missing.
    """
    found: dict[str, Segment] = {}
    for key in keys:
        try:
            found[key] = await shelf.read(key, timeout_seconds=scope.context.remaining_seconds())
        except (NotFoundError, InvalidArgumentError):
            continue
    return found


def segment_keys(artefacts: Mapping[str, str]) -> list[str]:
    """List the objects of segments.

    Args:
        artefacts: Objects by name.

    Returns:
        Objects in the order of their numbers.
    """
    numbered = [(int(name.removeprefix(SEGMENT)), key) for name, key in artefacts.items() if name.startswith(SEGMENT)]
    return [key for _, key in sorted(numbered)]
