"""What a layer stands on: texts and vectors of leaves or nodes, read from the index where they are wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import InternalError
from corpusmesh_core.ports.index import MAX_WINDOW, RecordIndex
from corpusmesh_core.records import Record, RecordKind
from corpusmesh_core.trees.skeleton import Skeleton
from corpusmesh_core.trees.values import Child, Leaf, Vectors
from corpusmesh_core.trees.vectors import as_kept
from corpusmesh_core.visibility import Visibility, VisibilityFilter, build_filter
from corpusmesh_runtime.worker import TaskContext

_PAGE_WITH_VECTORS: Final = 500


@dataclass(frozen=True, slots=True)
class GroundText:
    """What is summarized of one place.

    Attributes:
        text: Its text.
        token_count: Its tokens.
        title: Title of the one document that it is of; "" where it is of several.
        heading: What it speaks of.
    """

    text: str
    token_count: int
    title: str
    heading: str = ""


class TreeReader:
    """Reads records of a build from the index, published or not: what it stands on, and what it has written itself."""

    def __init__(self, index: RecordIndex, context: TaskContext, space_id: str) -> None:
        """Create it.

        Args:
            index: The index.
            context: The build's task.
            space_id: Space of the knowledge base.
        """
        self._index = index
        self._context = context
        self._space_id = space_id

    async def refresh(self) -> None:
        """Make what was written before readable."""
        await self._index.refresh(
            self._context.claim.tenant_id, self._space_id, timeout_seconds=self._context.remaining_seconds()
        )

    async def read(
        self, record_ids: Sequence[str], visibility: VisibilityFilter, *, with_vectors: bool
    ) -> dict[str, Record]:
        """Read records.

        Args:
            record_ids: Any number of ids.
            visibility: What the build may see.
            with_vectors: Whether to read the vectors too.

        Returns:
            Those that are there, by id.
        """
        size = _PAGE_WITH_VECTORS if with_vectors else MAX_WINDOW
        found: dict[str, Record] = {}
        for start in range(0, len(record_ids), size):
            records = await self._index.fetch(
                self._context.claim.tenant_id,
                self._space_id,
                record_ids[start : start + size],
                visibility,
                with_vectors=with_vectors,
                timeout_seconds=self._context.remaining_seconds(),
            )
            found.update((record.record_id, record) for record in records)
        return found


def build_visibility(versions: NDArray[np.int32], ordinals: NDArray[np.int32]) -> VisibilityFilter:
    """Let a build see the versions that it covers and its nodes, whether they are published or not.

    Args:
        versions: Ordinals of versions.
        ordinals: Ordinals of nodes.

    Returns:
        The filter.
    """
    seen = np.concatenate([versions, ordinals])
    universe = int(seen.max(initial=0)) + 1
    return build_filter(Visibility.of("build", seen.tolist(), universe), (RecordKind.CHUNK, RecordKind.TREE_NODE))


class Ground:
    """Texts and vectors of one layer, by place; what is not here yet is read when it is asked for."""

    def __init__(self, count: int, dimension: int) -> None:
        """Make room.

        Args:
            count: Places.
            dimension: Of the vectors.
        """
        self.vectors: Vectors = np.zeros((count, dimension), dtype=np.float32)
        self.has_vector: NDArray[np.bool_] = np.zeros(count, dtype=bool)
        self.ignored: NDArray[np.bool_] = np.zeros(count, dtype=bool)
        """Places that nothing is read of: what they are made of was deleted."""
        self._texts: dict[int, GroundText] = {}

    def __len__(self) -> int:
        return len(self.vectors)

    def put_leaves(self, start: int, leaves: Sequence[Leaf], vectors: Vectors, *, with_texts: bool) -> None:
        """Take in leaves that were read otherwise.

        Args:
            start: Place of the first.
            leaves: The leaves, in order.
            vectors: Their vectors.
            with_texts: Whether there is room for their texts.
        """
        self.vectors[start : start + len(leaves)] = as_kept(vectors)
        self.has_vector[start : start + len(leaves)] = True
        if with_texts:
            for place, leaf in enumerate(leaves, start=start):
                self._texts[place] = GroundText(leaf.text, leaf.token_count, leaf.title, _heading(leaf.heading_path))

    def put(self, place: int, text: GroundText, vector: Vectors) -> None:
        """Take in a node that was made.

        Args:
            place: Its place.
            text: Its text.
            vector: Its vector, shape (dimension,).
        """
        self._texts[place] = text
        self.vectors[place] = vector
        self.has_vector[place] = True

    def text(self, place: int) -> GroundText:
        """Give a text that was loaded.

        Args:
            place: Its place.

        Returns:
            The text.
        """
        return self._texts[place]

    def child(self, place: int, leaf_count: int) -> Child:
        """Give what is summarized of a place that was loaded.

        Args:
            place: The place.
            leaf_count: Leaves beneath it.

        Returns:
            The child.
        """
        text = self._texts[place]
        return Child(text.text, text.token_count, leaf_count, text.heading or text.title)

    def ignore(self, rows: Sequence[NDArray[np.int32]], gone: NDArray[np.bool_]) -> None:
        """Read nothing more of places above leaves that were deleted.

        Args:
            rows: Leaves beneath each place.
            gone: Whether each leaf was deleted.
        """
        for place, leaves in enumerate(rows):
            if gone[leaves].any():
                self.ignored[place] = True

    async def load(
        self,
        places: Sequence[int] | NDArray[np.int64],
        skeleton: Skeleton,
        number: int,
        reader: TreeReader,
        *,
        with_texts: bool = True,
    ) -> None:
        """Read from the index what is missing of some places.

        Args:
            places: The places; those of nodes that were not made stay as they are.
            skeleton: The tree.
            number: The layer that stands on this ground, from 1.
            reader: Reads records.
            with_texts: Whether texts are wanted beside vectors.

        Raises:
            InternalError: TREE_RECORDS_MISSING if a record is not there.
        """
        asked = np.asarray(places, dtype=np.int64)
        asked = asked[~self.ignored[asked]]
        # Without a loop where vectors alone are wanted: that is asked of a whole layer, most of which is there.
        is_missing = ~self.has_vector[asked]
        if with_texts:
            is_missing |= np.array([place not in self._texts for place in asked.tolist()], dtype=bool)
        wanted = {skeleton.ground_record_id(number, place): place for place in asked[is_missing].tolist()}
        wanted.pop("", None)
        if not wanted:
            return
        with_vectors = not all(self.has_vector[place] for place in wanted.values())
        visibility = build_visibility(skeleton.versions, skeleton.ordinals)
        records = await reader.read(list(wanted), visibility, with_vectors=with_vectors)
        missing = [record_id for record_id in wanted if record_id not in records]
        if missing:
            raise InternalError(
                "TREE_RECORDS_MISSING", "the index does not hold what a tree stands on", record_ids=missing[:10]
            )
        for record_id, record in records.items():
            place = wanted[record_id]
            if record.vector is not None:
                self.vectors[place] = record.vector
                self.has_vector[place] = True
            if with_texts:
                heading = _heading(record.heading_path) if number == 1 else ""
                self._texts[place] = GroundText(record.text, record.token_count, record.title, heading)


def _heading(path: Sequence[str]) -> str:
    return path[-1] if path else ""
