"""What waits for the model: one bounded queue per lane that hands out batches of texts of like length.

No I/O, no clock, no threads: the engine (`batching`) owns those.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from corpusmesh_core.ports.embedding import EmbedRole

_WIDEST_RATIO: Final = 1.5
_WIDEST_SLACK: Final = 16


@dataclass(eq=False, slots=True)
class QueuedText:
    """One text of one call.

    Attributes:
        sequence: Number of the text in its lane, ascending in order of arrival.
        owner: What is told of the text's end; the queue does not look into it.
        position: Place of the text in its call.
        text: The text.
        role: What it is.
        token_count: Tokens that the model will read, prefix and special tokens included.
        enqueued_seconds: When it came, by the engine's clock.
    """

    sequence: int
    owner: object
    position: int
    text: str
    role: EmbedRole
    token_count: int
    enqueued_seconds: float


@dataclass(slots=True)
class LaneQueue:
    """Texts of one lane: oldest first, and sorted by length for each role.

    Every batch contains the oldest text, so that none waits for ever; its companions are the texts of the same role
    that are nearest in length, so that little is computed in vain.
    """

    _by_age: OrderedDict[int, QueuedText] = field(default_factory=OrderedDict)
    _by_length: dict[EmbedRole, list[tuple[int, int, QueuedText]]] = field(
        default_factory=lambda: {role: [] for role in EmbedRole}
    )
    _token_count: int = 0

    def __len__(self) -> int:
        return len(self._by_age)

    @property
    def token_count(self) -> int:
        """Tokens of all texts that wait."""
        return self._token_count

    def add(self, item: QueuedText) -> None:
        """Add a text.

        Args:
            item: The text; its sequence number is new.
        """
        self._by_age[item.sequence] = item
        insort(self._by_length[item.role], _key(item))
        self._token_count += item.token_count

    def remove(self, item: QueuedText) -> bool:
        """Take a text out because nobody waits for it any more.

        Args:
            item: The text.

        Returns:
            Whether it was still there.
        """
        if self._by_age.pop(item.sequence, None) is None:
            return False
        ordered = self._by_length[item.role]
        del ordered[bisect_left(ordered, _key(item))]
        self._token_count -= item.token_count
        return True

    def take(self, *, max_tokens: int, max_texts: int) -> list[QueuedText]:
        """Take the next batch.

        Args:
            max_tokens: Most tokens, padding included; a single text may be longer.
            max_texts: Most texts.

        Returns:
            Texts of one role, shortest first; empty if none waits.
        """
        if not self._by_age:
            return []
        oldest = next(iter(self._by_age.values()))
        ordered = self._by_length[oldest.role]
        low = bisect_left(ordered, _key(oldest))
        high = low + 1  # The batch is ordered[low:high].
        while high - low < max_texts:
            side = _cheaper_side(ordered, low, high, max_tokens)
            if side is None:
                break
            low, high = (low - 1, high) if side < 0 else (low, high + 1)
        batch = [item for _, _, item in ordered[low:high]]
        del ordered[low:high]
        for item in batch:
            del self._by_age[item.sequence]
            self._token_count -= item.token_count
        return batch

    def drain(self) -> list[QueuedText]:
        """Take everything out.

        Returns:
            All texts, oldest first.
        """
        items = list(self._by_age.values())
        self._by_age.clear()
        for ordered in self._by_length.values():
            ordered.clear()
        self._token_count = 0
        return items


def _key(item: QueuedText) -> tuple[int, int, QueuedText]:
    # Sequence numbers are unique, so that texts themselves are never compared.
    return item.token_count, item.sequence, item


def _cheaper_side(ordered: list[tuple[int, int, QueuedText]], low: int, high: int, max_tokens: int) -> int | None:
    """Say on which side the next companion pads least: -1 shorter, 1 longer, None if neither fits."""
    count = high - low
    shortest, longest = ordered[low][0], ordered[high - 1][0]
    costs: list[tuple[int, int]] = []
    if low > 0 and (count + 1) * longest <= max_tokens and _alike(ordered[low - 1][0], longest):
        costs.append((longest - ordered[low - 1][0], -1))
    if high < len(ordered):
        longer = ordered[high][0]
        if (count + 1) * longer <= max_tokens and _alike(shortest, longer):
            costs.append((count * (longer - longest), 1))
    return min(costs)[1] if costs else None


def _alike(shortest: int, longest: int) -> bool:
    return longest <= shortest * _WIDEST_RATIO + _WIDEST_SLACK
