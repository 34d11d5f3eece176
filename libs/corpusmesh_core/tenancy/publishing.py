"""Which ordinals a snapshot holds after a publish, a rollback or a withdrawal: bitmap algebra, no I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap


@dataclass(frozen=True, slots=True)
class VersionRef:
    """A version by its place in a document.

    Attributes:
        ordinal: Its ordinal.
        document_id: Its document.
        version: Its number from 1.
        superseded: Ordinal that it replaced when it was published; None where it replaced none.
    """

    ordinal: int
    document_id: str
    version: int
    superseded: int | None = None


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a publish changes.

    Attributes:
        ordinals: Portable roaring bitmap of the new snapshot, run-optimised.
        added: Ordinals that became visible.
        superseded: What to remember, by ordinal: the ordinal to show again should that one be withdrawn.
        outdated: Candidates that stay hidden because a newer version is published already.
        changed: Whether the bitmap differs from the old one.
    """

    ordinals: bytes
    added: tuple[int, ...]
    superseded: dict[int, int]
    outdated: tuple[int, ...]
    changed: bool


def load_bitmap(ordinals: bytes) -> BitMap:
    """Read a portable bitmap.

    Args:
        ordinals: Serialised bitmap; empty for none.

    Returns:
        The bitmap.
    """
    return BitMap.deserialize(ordinals) if ordinals else BitMap()


def dump_bitmap(bitmap: BitMap) -> bytes:
    """Write a bitmap in the portable format, run-optimised so that the filter stays cheap.

    Args:
        bitmap: The bitmap; it is optimised in place.

    Returns:
        Serialised bitmap.
    """
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def plan_publish(current: bytes, candidates: Iterable[VersionRef], siblings: Iterable[VersionRef]) -> PublishPlan:
    """Add versions to a snapshot so that each document shows exactly one, its newest.

    Args:
        current: Bitmap of the current snapshot.
        candidates: Versions that are complete and wait.
        siblings: All versions of the same documents, candidates may be among them.

    Returns:
        What changes; candidates that are visible already are neither added nor outdated.
    """
    bitmap = load_bitmap(current)
    siblings = tuple(siblings)
    number = {ref.ordinal: ref.version for ref in siblings}
    shown = {ref.document_id: ref for ref in siblings if ref.ordinal in bitmap}
    superseded: dict[int, int] = {}
    added: list[int] = []
    outdated: list[int] = []
    # Newest first: of two candidates of one document only the newer one is shown.
    for ref in sorted(candidates, key=lambda item: (-item.version, item.ordinal)):
        if ref.ordinal in bitmap:
            continue
        previous = shown.get(ref.document_id)
        if previous is not None and previous.version > ref.version:
            outdated.append(ref.ordinal)
            below = superseded.get(previous.ordinal, previous.superseded)
            if below is None or number.get(below, 0) < ref.version:
                superseded[previous.ordinal] = ref.ordinal
                if below is not None:
                    superseded[ref.ordinal] = below
            continue
        if previous is not None:
            bitmap.discard(previous.ordinal)
            superseded[ref.ordinal] = previous.ordinal
        bitmap.add(ref.ordinal)
        added.append(ref.ordinal)
        shown[ref.document_id] = ref
    return PublishPlan(dump_bitmap(bitmap), tuple(sorted(added)), superseded, tuple(sorted(outdated)), bool(added))


def plan_change(current: bytes, *, add: Iterable[int] = (), remove: Iterable[int] = ()) -> tuple[bytes, bool]:
    """Add and remove ordinals of a snapshot.

    Args:
        current: Bitmap of the current snapshot.
        add: Ordinals to add.
        remove: Ordinals to remove; they win over `add`.

    Returns:
        The new bitmap and whether it differs.
    """
    before = load_bitmap(current)
    after = (before | BitMap(add)) - BitMap(remove)
    return dump_bitmap(after), after != before


def plan_withdrawal(
    current: bytes, withdrawn: Iterable[int], superseded: Mapping[int, int], restorable: Collection[int]
) -> tuple[bytes, bool]:
    """Take back what a cancelled run had published and show again what it had replaced.

    Args:
        current: Bitmap of the current snapshot.
        withdrawn: Ordinals that the run published.
        superseded: What each version of the same documents replaced.
        restorable: Versions of the same documents that are complete and neither cancelled nor deleted.

    Returns:
        The new bitmap and whether it differs. A version that is no longer visible (replaced since, or rolled back)
        brings nothing back.
    """
    before = load_bitmap(current)
    after = before.copy()
    gone = frozenset(withdrawn)
    for ordinal in sorted(gone):
        if ordinal not in after:
            continue
        after.discard(ordinal)
        below = superseded.get(ordinal)
        visited = {ordinal}
        while below is not None and below not in visited and (below in gone or below not in restorable):
            visited.add(below)
            below = superseded.get(below)
        if below is not None and below not in visited:
            after.add(below)
    return dump_bitmap(after), after != before
