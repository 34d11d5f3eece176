"""What one slice of a build hands to the next: how far it is, without any text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpusmesh_core.artefacts.codec import pack, unpack
from corpusmesh_core.errors import InternalError
from corpusmesh_core.graphs.ledger import DIGEST_BYTES, Digests, ReportEntry, no_digests
from corpusmesh_core.graphs.telling import bill_of, bill_values
from corpusmesh_core.graphs.values import GraphBill

WAITS: Final = -1
GONE: Final = -2
"""Counts of records of what is not written yet, and of what was deleted meanwhile."""
_GROUP_CHUNKS: Final = 1_500
_FORMAT: Final = 1


class Phase(StrEnum):
    """What a build does, in this order."""

    EXTRACT = "extract"
    RESOLVE = "resolve"
    COMMUNITIES = "communities"
    REPORTS = "reports"
    PUBLISH = "publish"


@dataclass(slots=True)
class Wanted:
    """Subgraphs that are made; n versions.

    Attributes:
        versions: Their ordinals, ascending, shape (n,).
        ordinals: Ordinal that publishes each, shape (n,).
        chunk_counts: Chunks of each, shape (n,).
        origins: Version in the graph before whose subgraph may be the same, 0 for none, shape (n,).
        fingerprints: See `Ledger`, shape (n, DIGEST_BYTES).
        texts: Likewise; zeros before the version was read.
        record_counts: Records of each; WAITS or GONE where there are none.
    """

    versions: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    ordinals: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    chunk_counts: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    origins: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    fingerprints: Digests = field(default_factory=lambda: no_digests(0))
    texts: Digests = field(default_factory=lambda: no_digests(0))
    record_counts: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def done_count(self) -> int:
        """How many are written or gone."""
        return int((self.record_counts != WAITS).sum())

    @property
    def made(self) -> NDArray[np.bool_]:
        """Which are written."""
        made: NDArray[np.bool_] = self.record_counts >= 0
        return made

    def groups(self, max_documents: int) -> Iterator[NDArray[np.int64]]:
        """Cut them into what is read at once; the same cuts whatever is done already.

        Args:
            max_documents: Most documents of a group.

        Yields:
            Places of those of each group that wait, ascending; no group that is done.
        """
        start, chunk_count = 0, 0
        for place, count in enumerate(self.chunk_counts.tolist()):
            if place > start and (place - start >= max_documents or chunk_count + count > _GROUP_CHUNKS):
                yield from self._waiting(start, place)
                start, chunk_count = place, 0
            chunk_count += count
        yield from self._waiting(start, len(self.versions))

    def _waiting(self, start: int, end: int) -> Iterator[NDArray[np.int64]]:
        places = start + np.flatnonzero(self.record_counts[start:end] == WAITS)
        if len(places):
            yield places


@dataclass(slots=True)
class GraphDraft:
    """How far a build is.

    Attributes:
        space_id: Embedding space.
        snapshot_id: Snapshot that it is made from.
        inputs: Digest of settings and language model: where they differ by now, the build begins anew.
        kept: Versions whose subgraphs stay as they are, ascending.
        wanted: Subgraphs that are made.
        triples: Digests of triples by document.
        phase: What is done now.
        parts: Objects of the segments of what was made, by slice.
        artefacts: Objects of what is published, by name, as far as they are made.
        reports: Reports that stay or are made.
        bill: What it cost so far.
    """

    space_id: str
    snapshot_id: int
    inputs: bytes
    kept: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    wanted: Wanted = field(default_factory=Wanted)
    triples: Mapping[str, str] = field(default_factory=dict)
    phase: Phase = Phase.EXTRACT
    parts: list[str] = field(default_factory=list)
    artefacts: dict[str, str] = field(default_factory=dict)
    reports: dict[str, ReportEntry] = field(default_factory=dict)
    bill: GraphBill = field(default_factory=GraphBill)


_NUMBERS: Final = ("versions", "ordinals", "chunk_counts", "origins", "record_counts")
_DIGESTS: Final = ("fingerprints", "texts")


def pack_draft(draft: GraphDraft) -> bytes:
    """Write a draft.

    Args:
        draft: The draft.

    Returns:
        The object.
    """
    values: dict[str, Any] = {
        "format": _FORMAT,
        "space_id": draft.space_id,
        "snapshot_id": draft.snapshot_id,
        "inputs": draft.inputs,
        "kept": draft.kept.tobytes(),
        "triples": dict(draft.triples),
        "phase": draft.phase.value,
        "parts": draft.parts,
        "artefacts": draft.artefacts,
        "reports": [item.plain() for item in draft.reports.values()],
        "bill": bill_values(draft.bill),
    }
    names = (*_NUMBERS, *_DIGESTS)
    return pack(values | {f"wanted_{name}": getattr(draft.wanted, name).tobytes() for name in names})


def unpack_draft(packed: bytes) -> GraphDraft:
    """Read what `pack_draft` wrote.

    Args:
        packed: The object.

    Returns:
        The draft.

    Raises:
        InternalError: ARTEFACT_UNREADABLE if it is no such object.
    """
    values = unpack(packed)
    try:
        if values["format"] != _FORMAT:
            raise InternalError("ARTEFACT_UNREADABLE", "a draft of a graph is of another format")
        columns: dict[str, Any] = {name: np.frombuffer(values[f"wanted_{name}"], np.int32).copy() for name in _NUMBERS}
        columns |= {
            name: np.frombuffer(values[f"wanted_{name}"], np.uint8).reshape(-1, DIGEST_BYTES).copy()
            for name in _DIGESTS
        }
        return GraphDraft(
            space_id=values["space_id"],
            snapshot_id=values["snapshot_id"],
            inputs=values["inputs"],
            kept=np.frombuffer(values["kept"], np.int32).copy(),
            wanted=Wanted(**columns),
            triples=values["triples"],
            phase=Phase(values["phase"]),
            parts=values["parts"],
            artefacts=values["artefacts"],
            reports={item.key: item for item in map(ReportEntry.of_plain, values["reports"])},
            bill=bill_of(values["bill"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError("ARTEFACT_UNREADABLE", "a draft of a graph has another form") from error
