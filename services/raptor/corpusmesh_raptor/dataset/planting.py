"""The leaves of a tree and their order: alike documents side by side, a new one beside those that are most like it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.errors import ConflictError, FailedPreconditionError
from corpusmesh_core.ports.index import MAX_REQUESTS, RecallRequest
from corpusmesh_core.records import RecordKind
from corpusmesh_core.tenancy import VersionRow
from corpusmesh_core.text import QueryTerms
from corpusmesh_core.trees.planting import join, placements
from corpusmesh_core.trees.seriation import seriate
from corpusmesh_core.trees.skeleton import Skeleton, plant, split_versions, version_leaves
from corpusmesh_core.trees.values import Leaf, Vectors
from corpusmesh_core.visibility import Visibility, build_filter
from corpusmesh_raptor.dataset.ground import Ground
from corpusmesh_raptor.leaves import LeafSet, read_leaves
from corpusmesh_raptor.stores import RaptorStores
from corpusmesh_runtime.worker import TaskContext

_BATCH_VERSIONS: Final = 64
_MAX_TEXT_LEAVES: Final = 50_000
"""Leaves whose texts are kept while the first layer is made; of larger trees they are read again from the index."""
_NEIGHBOURS: Final = 16


@dataclass(frozen=True, slots=True)
class Planted:
    """A tree that has leaves alone.

    Attributes:
        skeleton: Its shape.
        ground: The leaves that were read.
        moved: Leaf of the tree before that each leaf is or replaces, int64; empty for a full build.
        changed_count: Leaves added, changed and removed since the tree before; 0 for a full build.
    """

    skeleton: Skeleton
    ground: Ground
    moved: NDArray[np.int64]
    changed_count: int = 0


@dataclass(frozen=True, slots=True)
class Names:
    """What a tree is made under.

    Attributes:
        space_id: Embedding space.
        grouping: Digest of the settings that decide how nodes are put together.
        fingerprint: Digest of what decides the text of a summary.
    """

    space_id: str
    grouping: str
    fingerprint: bytes


class Planter:
    """Reads leaves, and puts them in order."""

    def __init__(self, stores: RaptorStores, context: TaskContext, names: Names, *, max_leaf_count: int) -> None:
        """Create it.

        Args:
            stores: Versions, artefacts and the index.
            context: The build's task.
            names: What the tree is made under.
            max_leaf_count: Most leaves of a tree.
        """
        self._stores = stores
        self._context = context
        self._names = names
        self._max_leaf_count = max_leaf_count

    async def plant_all(self, versions: Sequence[int]) -> Planted:
        """Begin a full build.

        Args:
            versions: Ordinals of the versions that it covers.

        Returns:
            The leaves, documents that are alike side by side.

        Raises:
            FailedPreconditionError: TREE_TOO_LARGE if there are too many leaves.
        """
        found = await self._read(versions, leaf_count=0)
        order = await asyncio.to_thread(_order, [found[version] for version in versions])
        return await asyncio.to_thread(self._plant, [versions[place] for place in order], found)

    async def plant_changes(self, old: Skeleton, versions: Sequence[int]) -> Planted:
        """Begin an update.

        Args:
            old: The tree before.
            versions: Ordinals of the versions that the tree covers from now on.

        Returns:
            Its leaves: those that stay in their order, a new version in the place of its document's old one, new
            documents beside those that are most like them. The ground holds new leaves alone.

        Raises:
            FailedPreconditionError: TREE_TOO_LARGE if there are too many leaves.
        """
        wanted, before = frozenset(versions), frozenset(old.versions.tolist())
        added = sorted(wanted - before)
        kept = int(old.leaf_counts[np.isin(old.versions, list(wanted & before))].sum())
        found = await self._read(added, leaf_count=kept)
        rows = await self._rows([*added, *sorted(before - wanted)])
        replaced = _replaced(rows, added, sorted(before - wanted))
        new = [version for version in added if version not in replaced]
        nearest = await self._nearest(wanted & before, {version: found[version] for version in new})
        entries = {version: version_leaves(version, entry.leaves) for version, entry in found.items()}
        order = join(split_versions(old), wanted, entries, replaced, placements(old, new, nearest))
        skeleton = plant(self._names.space_id, self._names.grouping, self._names.fingerprint, order.versions)
        dimension = self._dimension(found)
        ground = Ground(skeleton.leaf_count, dimension)
        for place, version in enumerate(skeleton.versions.tolist()):
            if version in found:
                start = int(skeleton.offsets[place])
                ground.put_leaves(start, found[version].leaves, found[version].vectors, with_texts=True)
        return Planted(skeleton, ground, order.moved, order.changed_count)

    def _plant(self, versions: Sequence[int], found: dict[int, LeafSet]) -> Planted:
        entries = [version_leaves(version, found[version].leaves) for version in versions]
        skeleton = plant(self._names.space_id, self._names.grouping, self._names.fingerprint, entries)
        ground = Ground(skeleton.leaf_count, self._dimension(found))
        with_texts = skeleton.leaf_count <= _MAX_TEXT_LEAVES
        for start, version in zip(skeleton.offsets[:-1].tolist(), versions, strict=True):
            # Taken out one by one: the vectors are never held twice as a whole.
            entry = found.pop(version)
            ground.put_leaves(start, entry.leaves, entry.vectors, with_texts=with_texts)
        return Planted(skeleton, ground, np.zeros(0, dtype=np.int64))

    async def _read(self, versions: Sequence[int], *, leaf_count: int) -> dict[int, LeafSet]:
        found: dict[int, LeafSet] = {}
        for start in range(0, len(versions), _BATCH_VERSIONS):
            rows = await self._rows(versions[start : start + _BATCH_VERSIONS])
            read = await self._read_batch(rows)
            leaf_count += sum(len(entry.leaves) for entry in read.values())
            if leaf_count > self._max_leaf_count:
                raise FailedPreconditionError(
                    "TREE_TOO_LARGE",
                    f"the tree of a knowledge base stands on {self._max_leaf_count:,} chunks at most; set the scope of"
                    " trees to files, or divide the knowledge base",
                    limit=self._max_leaf_count,
                )
            found.update((version, self._lean(entry, leaf_count)) for version, entry in read.items())
        return found

    async def _read_batch(self, rows: Sequence[VersionRow]) -> dict[int, LeafSet]:
        try:
            return await read_leaves(self._stores.objects, rows, timeout_seconds=self._context.remaining_seconds())
        except FailedPreconditionError:
            removed = await self._stores.trees.removed(self._context.claim, [row.ordinal for row in rows])
            if not removed:
                raise
            raise ConflictError(
                "TREE_SOURCES_CHANGED", "documents were deleted while the tree began; it begins again"
            ) from None

    @staticmethod
    def _lean(entry: LeafSet, leaf_count: int) -> LeafSet:
        """Forget texts where there are too many of them to be kept."""
        if leaf_count <= _MAX_TEXT_LEAVES:
            return entry
        leaves = tuple(Leaf(leaf.record_id, leaf.key, "", leaf.token_count, leaf.source) for leaf in entry.leaves)
        return LeafSet(leaves, entry.vectors, entry.positions)

    async def _rows(self, versions: Sequence[int]) -> Sequence[VersionRow]:
        return await self._stores.documents.versions_by_ordinal(self._context.claim.tenant_id, versions)

    def _dimension(self, found: Mapping[int, LeafSet]) -> int:
        return max(
            (entry.vectors.shape[1] for entry in found.values() if len(entry.leaves)),
            default=self._stores.embedder.space.dimension,
        )

    async def _nearest(self, kept: frozenset[int], new: Mapping[int, LeafSet]) -> dict[int, list[tuple[int, float]]]:
        """Find for each new document the most alike chunks of the tree: their versions and cosines, best first."""
        claim = self._context.claim
        visibility = Visibility.of("build", kept, max(kept, default=0) + 1)
        only = build_filter(visibility, (RecordKind.CHUNK,))
        found: dict[int, list[tuple[int, float]]] = {}
        centroids = {version: _centroid(entry.vectors) for version, entry in new.items() if len(entry.leaves)}
        asked = [version for version, centroid in centroids.items() if kept and centroid.any()]
        for start in range(0, len(asked), MAX_REQUESTS):
            batch = asked[start : start + MAX_REQUESTS]
            requests = [
                RecallRequest(
                    terms=QueryTerms((), ()),
                    query_vector=centroids[version],
                    visibility=only,
                    knowledge_base_ids=(claim.knowledge_base_id,),
                    window=_NEIGHBOURS,
                    other_script_window=0,
                )
                for version in batch
            ]
            answers = await self._stores.index.search(
                claim.tenant_id, self._names.space_id, requests, timeout_seconds=self._context.remaining_seconds()
            )
            for version, answer in zip(batch, answers, strict=True):
                found[version] = [(int(item.record.publisher), item.cosine or 0.0) for item in answer.items]
        return found


def _replaced(rows: Sequence[VersionRow], added: Sequence[int], removed: Sequence[int]) -> dict[int, int]:
    """Pair new versions with the ones of the same document that the tree held before."""
    by_ordinal = {int(row.ordinal): row.document_id for row in rows}
    before = {by_ordinal[version]: version for version in removed if version in by_ordinal}
    return {
        version: before[by_ordinal[version]]
        for version in added
        if version in by_ordinal and by_ordinal[version] in before
    }


def _order(entries: Sequence[LeafSet]) -> list[int]:
    """Put documents in an order in which neighbours are alike; those without a leaf last."""
    with_leaves = [place for place, entry in enumerate(entries) if len(entry.leaves)]
    without = [place for place, entry in enumerate(entries) if not len(entry.leaves)]
    if not with_leaves:
        return without
    centroids = np.stack([_centroid(entries[place].vectors) for place in with_leaves])
    return [*(with_leaves[place] for place in seriate(centroids).tolist()), *without]


def _centroid(vectors: Vectors) -> NDArray[np.float32]:
    if not len(vectors):
        return np.zeros(vectors.shape[1], dtype=np.float32)
    mean = vectors.mean(axis=0, dtype=np.float64)
    norm = float(np.linalg.norm(mean))
    unit: NDArray[np.float32] = (mean / norm if np.isfinite(norm) and norm > 0 else np.zeros_like(mean)).astype(
        np.float32
    )
    return unit
