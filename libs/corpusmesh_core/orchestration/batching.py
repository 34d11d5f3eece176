"""How the parts of a run become tasks: small documents together, large ones alone."""

from collections.abc import Iterable


def plan_batches(
    sizes_bytes: Iterable[tuple[int, int]], *, max_part_count: int = 64, max_batch_bytes: int = 8 * 1024 * 1024
) -> tuple[tuple[int, ...], ...]:
    """Group documents so that the cost of a message is shared and no task takes long.

    Args:
        sizes_bytes: Ordinal and size of each document.
        max_part_count: Most documents of a task, at least 1.
        max_batch_bytes: Most bytes of a task; a document above it is alone.

    Returns:
        Ordinals of each task, in the order given.
    """
    batches: list[tuple[int, ...]] = []
    current: list[int] = []
    current_bytes = 0
    for ordinal, size_bytes in sizes_bytes:
        if current and (len(current) >= max_part_count or current_bytes + size_bytes > max_batch_bytes):
            batches.append(tuple(current))
            current, current_bytes = [], 0
        current.append(ordinal)
        current_bytes += size_bytes
    if current:
        batches.append(tuple(current))
    return tuple(batches)
