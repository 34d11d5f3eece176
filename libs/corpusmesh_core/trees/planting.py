"""Where the documents of an update go in the order of a tree, and which leaves are those of before (ADR-0012)."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.trees.aligning import align
from corpusmesh_core.trees.regrouping import INSERTED
from corpusmesh_core.trees.skeleton import Skeleton, VersionLeaves


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a new document goes.

    Attributes:
        version: The new document's version.
        anchor: Version of the tree before that it stands beside.
        before: Whether it stands before it, rather than behind.
    """

    version: int
    anchor: int
    before: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """The leaves of a changed tree.

    Attributes:
        versions: Versions in order, with their leaves.
        moved: For each leaf the leaf of the tree before that it is or replaces, int64; INSERTED for none.
        changed_count: Leaves added, changed and removed.
    """

    versions: tuple[VersionLeaves, ...]
    moved: NDArray[np.int64]
    changed_count: int


def placements(
    old: Skeleton, new: Sequence[int], nearest: Mapping[int, Sequence[tuple[int, float]]]
) -> tuple[Placement, ...]:
    """Decide beside which document each new one goes.

    Args:
        old: The tree before.
        new: Versions of new documents, ascending.
        nearest: For each, the most alike leaves of the tree: their versions and cosines, best first. One that is like
            nothing goes to the end.

    Returns:
        One for each, but for those that have nothing to stand beside.
    """
    order = {int(version): place for place, version in enumerate(old.versions.tolist())}
    found: list[Placement] = []
    for version in new:
        best: dict[int, float] = {}
        for neighbour, cosine in nearest.get(version, ()):
            if neighbour in order:
                best[neighbour] = max(cosine, best.get(neighbour, -1.0))
        if not best:
            continue
        anchor = max(best, key=lambda neighbour: (best[neighbour], -order[neighbour]))
        place = order[anchor]
        # On the side whose neighbour is more like it.
        left = best.get(int(old.versions[place - 1]), -1.0) if place else -1.0
        right = best.get(int(old.versions[place + 1]), -1.0) if place + 1 < len(old.versions) else -1.0
        found.append(Placement(version, anchor, before=left > right))
    return tuple(found)


def join(
    old: Sequence[VersionLeaves],
    wanted: Collection[int],
    new: Mapping[int, VersionLeaves],
    replaced: Mapping[int, int],
    placed: Sequence[Placement],
) -> Joined:
    """Put the leaves of a changed tree in order.

    Args:
        old: Versions of the tree before, in its order.
        wanted: Versions of the changed tree.
        new: Leaves of those that are new, by version.
        replaced: New versions of documents that the tree held before, with the version that they replace.
        placed: Where new documents go; one that is not named goes to the end.

    Returns:
        The leaves.
    """
    by_old = {former: version for version, former in replaced.items()}
    before: dict[int, list[int]] = defaultdict(list)
    behind: dict[int, list[int]] = defaultdict(list)
    for placement in placed:
        (before if placement.before else behind)[placement.anchor].append(placement.version)
    named = {placement.version for placement in placed} | set(replaced)
    versions: list[VersionLeaves] = []
    moved: list[NDArray[np.int64]] = []
    changed = 0

    def insert(ordinals: Sequence[int]) -> None:
        nonlocal changed
        for ordinal in ordinals:
            versions.append(new[ordinal])
            moved.append(np.full(len(new[ordinal].positions), INSERTED, dtype=np.int64))
            changed += len(new[ordinal].positions)

    start = 0
    for entry in old:
        count = len(entry.positions)
        insert(before[entry.version])
        if entry.version in wanted:
            versions.append(entry)
            moved.append(np.arange(start, start + count, dtype=np.int64))
        elif entry.version in by_old:
            following = new[by_old[entry.version]]
            found = align([bytes(key) for key in entry.keys], [bytes(key) for key in following.keys])
            versions.append(following)
            moved.append(np.where(found.origins == INSERTED, INSERTED, found.origins + start))
            changed += found.changed_count
        else:
            changed += count
        insert(behind[entry.version])
        start += count
    insert([ordinal for ordinal in sorted(new) if ordinal not in named])
    return Joined(tuple(versions), np.concatenate([np.zeros(0, np.int64), *moved]), changed)
