"""What a graph consists of: the subgraph of each version, and each report, with digests of what they were made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack, unpack
from corpusmesh_core.errors import InternalError

DIGEST_BYTES: Final = 16
"""Length of the digests."""
Digests = NDArray[np.uint8]
"""Shape (n, DIGEST_BYTES)."""

_FORMAT: Final = 1
_NUMBERS: Final = ("versions", "publishers", "chunk_counts")
_DIGESTS: Final = ("fingerprints", "texts")


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A published report.

    Attributes:
        key: Key of the community.
        parent: Key of the community above; "" at the top.
        ordinal: Ordinal that publishes it.
        fingerprint: Digest of all that its text depends on, the documents that it stands on included.
    """

    key: str
    parent: str
    ordinal: int
    fingerprint: bytes

    def plain(self) -> list[Any]:
        """Write it as plain values.

        Returns:
            The values, for `ReportEntry.of_plain`.
        """
        return [self.key, self.parent, self.ordinal, self.fingerprint]

    @classmethod
    def of_plain(cls, values: Sequence[Any]) -> "ReportEntry":
        """Read what `plain` wrote.

        Args:
            values: The values.

        Returns:
            The entry.
        """
        return cls(*values)


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """A published graph; d documents.

    Attributes:
        space_id: Embedding space of its records.
        form: Digest of how records are made of fragments, such as which have vectors.
        versions: Ordinals of versions, ascending, shape (d,).
        publishers: Ordinal that publishes the subgraph of each, shape (d,).
        chunk_counts: Chunks of each, shape (d,).
        fingerprints: Digest of what the extraction of each depends on besides its texts.
        texts: Digest of the texts that each was extracted from.
        triples: Digest of the triples of documents that have some, by document.
        linking: Digest of what decides which names are one entity.
        grouping: Digest of what decides the communities.
        reports: Published reports by key.
    """

    space_id: str
    form: bytes = b""
    versions: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    publishers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    chunk_counts: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    fingerprints: Digests = field(default_factory=lambda: no_digests(0))
    texts: Digests = field(default_factory=lambda: no_digests(0))
    triples: Mapping[str, str] = field(default_factory=dict)
    linking: bytes = b""
    grouping: bytes = b""
    reports: Mapping[str, ReportEntry] = field(default_factory=dict)

    def place_of(self, version: int) -> int:
        """Find a version.

        Args:
            version: Its ordinal.

        Returns:
            Its place; -1 if it is not here.
        """
        place = int(np.searchsorted(self.versions, version))
        return place if place < len(self.versions) and self.versions[place] == version else -1


def no_digests(count: int) -> Digests:
    """Make room for digests.

    Args:
        count: How many.

    Returns:
        Zeros, shape (count, DIGEST_BYTES).
    """
    return np.zeros((count, DIGEST_BYTES), np.uint8)


def as_digests(items: Sequence[bytes]) -> Digests:
    """Put digests together.

    Args:
        items: Of DIGEST_BYTES each.

    Returns:
        Shape (n, DIGEST_BYTES).
    """
    return np.frombuffer(b"".join(items), np.uint8).reshape(len(items), DIGEST_BYTES).copy()


def pack_ledger(ledger: Ledger) -> bytes:
    """Write the artefact.

    Args:
        ledger: The graph.

    Returns:
        The object; equal graphs give equal bytes.
    """
    values: dict[str, Any] = {
        "format": _FORMAT,
        "space_id": ledger.space_id,
        "form": ledger.form,
        "triples": dict(sorted(ledger.triples.items())),
        "linking": ledger.linking,
        "grouping": ledger.grouping,
        "reports": [item.plain() for _, item in sorted(ledger.reports.items())],
    }
    values |= {name: getattr(ledger, name).astype("<i4").tobytes() for name in _NUMBERS}
    return pack(values | {name: getattr(ledger, name).tobytes() for name in _DIGESTS})


def unpack_ledger(packed: bytes) -> Ledger:
    """Read the artefact.

    Args:
        packed: What `pack_ledger` wrote.

    Returns:
        The graph.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such object.
    """
    values = unpack(packed)
    try:
        if values["format"] != _FORMAT:
            raise InternalError("ARTEFACT_UNREADABLE", "the ledger of a graph is of another format")
        columns: dict[str, Any] = {name: np.frombuffer(values[name], "<i4").astype(np.int32) for name in _NUMBERS}
        columns |= {name: np.frombuffer(values[name], np.uint8).reshape(-1, DIGEST_BYTES) for name in _DIGESTS}
        return Ledger(
            space_id=values["space_id"],
            form=values["form"],
            triples=values["triples"],
            linking=values["linking"],
            grouping=values["grouping"],
            reports={item.key: item for item in map(ReportEntry.of_plain, values["reports"])},
            **columns,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "the ledger of a graph cannot be read") from error
