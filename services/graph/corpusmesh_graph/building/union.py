"""The graph that is being published as columns: which documents it has, and what names they use."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from corpusmesh_core.graphs.names import NamedEntity
from corpusmesh_core.graphs.segments import Segment, select
from corpusmesh_core.graphs.strings import Strings
from corpusmesh_graph.building.drafts import GraphDraft


@dataclass(frozen=True, slots=True)
class GraphUnion:
    """Names of a graph; k keys, f fragments.

    Attributes:
        keys: Every key that a document names, ascending, shape (k,).
        offsets: Where the fragments of each begin, shape (k + 1,).
        names: Place of the name of each fragment, by key, shape (f,).
        types: Place of its type, likewise.
        publishers: Publisher of its document, likewise.
        versions: Version of its document, likewise.
        pools: Strings, each with the place at which they begin.
    """

    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    names: NDArray[np.int64]
    types: NDArray[np.int64]
    publishers: NDArray[np.uint32]
    versions: NDArray[np.uint32]
    pools: Sequence[tuple[int, Strings]]

    @classmethod
    def of(cls, segments: Sequence[Segment], shown: BitMap) -> "GraphUnion":
        """Put documents together.

        Args:
            segments: Segments.
            shown: Versions and publishers of the documents.

        Returns:
            Their names.
        """
        chosen, pools = select(segments, [segment.shows(shown) for segment in segments])
        owners = np.repeat(np.arange(chosen.document_count), np.diff(chosen.document_entities))
        order = np.lexsort((chosen.document_publisher[owners], chosen.entity_key))
        keys, starts = np.unique(chosen.entity_key[order], return_index=True)
        return cls(
            keys.astype(np.uint64),
            np.append(starts, len(order)).astype(np.int64),
            chosen.entity_name[order].astype(np.int64),
            chosen.entity_type[order].astype(np.int64),
            chosen.document_publisher[owners][order],
            chosen.document_version[owners][order],
            pools,
        )

    def named(self, keys: Iterable[int]) -> dict[int, NamedEntity]:
        """Tell names and types.

        Args:
            keys: Keys; unknown ones are left out.

        Returns:
            For each what most documents say; of several the longest, then the first by letters.
        """
        wanted = np.fromiter(keys, np.uint64)
        places = np.searchsorted(self.keys, wanted)
        found: dict[int, NamedEntity] = {}
        for key, place in zip(wanted.tolist(), places.tolist(), strict=True):
            if place < len(self.keys) and int(self.keys[place]) == key:
                span = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
                found[key] = NamedEntity(self._most(self.names[span]), self._most(self.types[span]))
        return found

    def versions_of(self, keys: Collection[int]) -> list[int]:
        """List the versions of documents that name one of some keys.

        Args:
            keys: Keys.

        Returns:
            Ordinals, ascending.
        """
        found: set[int] = set()
        for place in np.searchsorted(self.keys, np.fromiter(keys, np.uint64)).tolist():
            if place < len(self.keys):
                found.update(self.versions[int(self.offsets[place]) : int(self.offsets[place + 1])].tolist())
        return sorted(found)

    def _most(self, places: NDArray[np.int64]) -> str:
        votes: dict[str, int] = {}
        # A name that a thousand documents use is read once for each segment.
        for place, count in zip(*(column.tolist() for column in np.unique(places, return_counts=True)), strict=True):
            if text := self._text(place):
                votes[text] = votes.get(text, 0) + count
        return min(votes, key=lambda text: (-votes[text], -len(text), text), default="")

    def _text(self, place: int) -> str:
        base, strings = next(pool for pool in reversed(self.pools) if pool[0] <= place)
        return strings.raw(place - base).decode("utf-8", "replace")


def shown_by(draft: GraphDraft, publishers: NDArray[np.int32]) -> BitMap:
    """Tell what the graph of a draft consists of.

    Args:
        draft: The draft.
        publishers: Publishers of the versions that it keeps.

    Returns:
        Versions and publishers of its documents.
    """
    made = draft.wanted.made
    return BitMap(
        np.concatenate([draft.kept, publishers, draft.wanted.versions[made], draft.wanted.ordinals[made]]).tolist()
    )


def keys_of(segments: Iterable[Segment], publishers: NDArray[np.int32]) -> NDArray[np.uint64]:
    """List the keys that some documents name.

    Args:
        segments: Segments.
        publishers: Publishers of the documents.

    Returns:
        Keys, ascending.
    """
    found = [np.zeros(0, np.uint64)]
    for segment in segments:
        chosen = np.isin(segment.document_publisher, publishers)
        found.append(segment.entity_key[np.repeat(chosen, np.diff(segment.document_entities))])
    return np.unique(np.concatenate(found)).astype(np.uint64)
