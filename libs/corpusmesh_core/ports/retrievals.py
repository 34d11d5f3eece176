"""What the mesh asks of the ledger of retrievals: whoever searched reads the record, and nobody else.

A record holds no text of a document, and names in `sources` the versions that its hits were made of: it goes with them
when they are purged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.tenancy.identity import Identity

LEDGER: Final = "ledger"
"""Section of a knowledge base's configuration."""
DEFAULT_RETENTION_DAYS: Final = 30
MAX_RETENTION_DAYS: Final = 365


@dataclass(frozen=True, slots=True)
class LedgerSection:
    """Whether the searches of a knowledge base are recorded.

    Attributes:
        enabled: Whether they are.
        retention_days: Days until a record is deleted.
    """

    enabled: bool = False
    retention_days: int = DEFAULT_RETENTION_DAYS

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "LedgerSection":
        """Read the section of a configuration.

        Args:
            config: The configuration.

        Returns:
            The section.

        Raises:
            InvalidArgumentError: LEDGER_SETTING_INVALID with the field.
        """
        section = config.get(LEDGER)
        values = section if isinstance(section, Mapping) else {}
        days = values.get("retention_days") or DEFAULT_RETENTION_DAYS
        if not isinstance(days, int) or not 1 <= days <= MAX_RETENTION_DAYS:
            raise InvalidArgumentError(
                "LEDGER_SETTING_INVALID",
                f"retention_days must be 1 to {MAX_RETENTION_DAYS}",
                field="retention_days",
                setting="retention_days",
            )
        return cls(enabled=bool(values.get("enabled", False)), retention_days=days)


@dataclass(frozen=True, slots=True)
class RecordedHit:
    """A hit as it is recorded.

    Attributes:
        record_id: Its record.
        kind: Kind of the record.
        knowledge_base_id: Its knowledge base.
        document_id: Its document; "" for a record of a build.
        version: Number of its version; 0 for a record of a build.
        sources: Ordinals that it was made from, and that publish it.
        scores: Similarity and what it is made of, by name.
    """

    record_id: str
    kind: str
    knowledge_base_id: str
    document_id: str
    version: int
    sources: tuple[int, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NewRetrieval:
    """A retrieval to record.

    Attributes:
        snapshots: Snapshot by knowledge base; 0 where nothing was published.
        request: The request with its effective plan, serialised.
        hits: Its hits, best first.
        retention_days: Days until it is deleted.
        history_sources: Ordinals that the turns were made from of which the question was completed.
    """

    snapshots: Mapping[str, int]
    request: bytes
    hits: tuple[RecordedHit, ...]
    retention_days: int
    history_sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """A retrieval as it is stored.

    Attributes:
        retrieval_id: Id, rising with time.
        user_id: Who searched.
        snapshots: Snapshot by knowledge base.
        request: The request with its effective plan, serialised.
        hits: Its hits, best first; none in lists.
        create_time: UTC.
        expire_time: UTC.
        sources: Ordinals that hits and completed question were made from.
    """

    retrieval_id: str
    user_id: str
    snapshots: Mapping[str, int]
    request: bytes
    hits: tuple[RecordedHit, ...]
    create_time: datetime
    expire_time: datetime
    sources: tuple[int, ...] = ()


class RetrievalStore(Protocol):
    """The ledger."""

    async def add(self, identity: Identity, retrieval: NewRetrieval) -> str:
        """Record a retrieval of the caller's, and delete some that have expired.

        Returns:
            Its id; "" where a version that it found was deleted meanwhile: then nothing is recorded.
        """
        ...

    async def get(self, identity: Identity, retrieval_id: str) -> RetrievalRow:
        """Read a retrieval of the caller's.

        Raises:
            NotFoundError: If it is unknown, expired, or somebody else's.
        """
        ...

    async def list(self, identity: Identity, before_key: str, limit: int) -> Sequence[RetrievalRow]:
        """List the caller's retrievals, newest first, without their hits."""
        ...

    async def delete(self, identity: Identity, retrieval_id: str) -> None:
        """Delete a retrieval of the caller's; one that is gone already is no error."""
        ...
