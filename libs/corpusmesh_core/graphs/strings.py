"""Strings in one column: written once each, decoded when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.graphs.columns import offsets_of


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """Strings of a segment.

    Attributes:
        offsets: Where each begins, shape (n + 1,).
        content: UTF-8, shape (offsets[-1],).
    """

    offsets: NDArray[np.int64]
    content: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def raw(self, place: int) -> bytes:
        """Read one string.

        Args:
            place: Its place from 0.

        Returns:
            UTF-8.
        """
        return self.content[int(self.offsets[place]) : int(self.offsets[place + 1])].tobytes()


class StringWriter:
    """Collects strings, each once, in the order in which they are met."""

    def __init__(self) -> None:
        """Create it empty."""
        self._places: dict[bytes, int] = {}

    def add(self, text: str) -> int:
        """Keep a string.

        Args:
            text: The string.

        Returns:
            Its place.
        """
        return self._places.setdefault(text.encode("utf-8", "replace"), len(self._places))

    def add_all(self, pools: Sequence[tuple[int, Strings]], places: NDArray[np.int64]) -> list[int]:
        """Keep strings of others, one after the other.

        Args:
            pools: Others' strings, each with the place at which they begin.
            places: Which, shape (n,).

        Returns:
            The place of each here, length n.
        """
        known: dict[int, int] = {}
        bases = np.array([base for base, _ in pools], np.int64)
        own: list[int] = []
        for place in places.tolist():
            found = known.get(place)
            if found is None:
                base, strings = pools[int(np.searchsorted(bases, place, "right")) - 1]
                found = known[place] = self._places.setdefault(strings.raw(place - base), len(self._places))
            own.append(found)
        return own

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Give what was collected.

        Returns:
            Offsets, shape (n + 1,), and UTF-8.
        """
        texts = list(self._places)
        offsets = offsets_of(np.array([len(text) for text in texts], np.int64))
        return offsets, np.frombuffer(b"".join(texts), np.uint8)
