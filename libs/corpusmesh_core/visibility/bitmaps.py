"""Roaring bitmaps of ordinals and their wire form."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from pyroaring import BitMap, FrozenBitMap

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import Ordinal

MAX_ORDINAL = 2**31 - 1
"""Largest ordinal: the index keeps them in a signed 32-bit field."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The ordinals that one request may see: published, permitted and within the caller's filter.

    Attributes:
        snapshot_id: The snapshot it was made from; the same from the first to the last stage of a request.
        ordinals: Visible ordinals.
        universe_size: One more than the largest ordinal that the tenant had given out when the snapshot was read.
    """

    snapshot_id: str
    ordinals: FrozenBitMap
    universe_size: int

    def __post_init__(self) -> None:
        if not 0 <= self.universe_size <= MAX_ORDINAL + 1:
            raise InvalidArgumentError(
                "UNIVERSE_SIZE_INVALID",
                f"universe size must be between 0 and {MAX_ORDINAL + 1}",
                field="universe_size",
                universe_size=self.universe_size,
            )
        if self.ordinals and self.ordinals.max() >= self.universe_size:
            raise InvalidArgumentError(
                "ORDINAL_OUTSIDE_UNIVERSE",
                f"ordinal {self.ordinals.max()} is not below the universe size {self.universe_size}",
                field="ordinals",
                ordinal=self.ordinals.max(),
                universe_size=self.universe_size,
            )

    @classmethod
    def of(cls, snapshot_id: str, ordinals: Iterable[int], universe_size: int) -> "Visibility":
        """Make a visibility from plain integers.

        Args:
            snapshot_id: The snapshot it was made from.
            ordinals: Visible ordinals, in any order.
            universe_size: One more than the largest ordinal given out.

        Returns:
            The visibility.
        """
        return cls(snapshot_id, FrozenBitMap(ordinals), universe_size)

    def narrow(self, ordinals: FrozenBitMap) -> "Visibility":
        """Intersect with a permission or a metadata filter; the snapshot stays the same.

        Args:
            ordinals: Ordinals that the further condition allows.

        Returns:
            A visibility that is never larger than this one.
        """
        return Visibility(self.snapshot_id, FrozenBitMap(self.ordinals & ordinals), self.universe_size)

    def __contains__(self, ordinal: Ordinal | int) -> bool:
        return ordinal in self.ordinals

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is visible."""
        return not self.ordinals


def encode_bitmap(ordinals: FrozenBitMap | BitMap) -> str:
    """Serialise a bitmap for a `terms` filter with `value_type: bitmap`.

    Args:
        ordinals: The set.

    Returns:
        Base64 of the portable roaring format, run-optimised: 500,000 contiguous ordinals take 156 bytes.
    """
    compact = BitMap(ordinals)
    compact.run_optimize()
    return base64.b64encode(compact.serialize()).decode("ascii")


def decode_bitmap(text: str) -> FrozenBitMap:
    """Read what `encode_bitmap` wrote.

    Args:
        text: Base64 of the portable roaring format.

    Returns:
        The set.

    Raises:
        InvalidArgumentError: If the text is not such a bitmap.
    """
    try:
        return FrozenBitMap(BitMap.deserialize(base64.b64decode(text, validate=True)))
    except (ValueError, IndexError, binascii.Error) as error:
        raise InvalidArgumentError("BITMAP_INVALID", "the bitmap is not a base64 roaring bitmap") from error
