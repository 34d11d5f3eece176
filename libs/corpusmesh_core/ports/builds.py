"""Port of builds: trees and graphs of knowledge bases; an ordinal of its own publishes each part (ADR-0012)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from corpusmesh_core.ports.work import Claim
from corpusmesh_core.tenancy import Identity

DATASET_TREE = "tree"
"""Kind of the build of a knowledge base's tree; a knowledge base has at most one."""
DATASET_GRAPH = "graph"
"""Kind of the build of a knowledge base's graph; a knowledge base has at most one."""


class BuildState(StrEnum):
    """Where a build stands."""

    EMPTY = "empty"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class BuildRow:
    """A build.

    Attributes:
        tenant_id: Tenant.
        build_id: Id.
        knowledge_base_id: Knowledge base.
        state: Where it stands.
        run_id: Run that builds it, or built it last.
        is_building: Whether that run is still under way.
        ordinals: Ordinals whose records are in the index, published or kept for earlier snapshots, as a portable
            roaring bitmap.
        published: Those of them that the current snapshot shows.
        sources: Ordinals of the versions that it covers, as a portable roaring bitmap.
        snapshot_id: Snapshot that it was made from; 0 for none.
        artefacts: Storage keys by name.
        figures: Plain values that describe it.
        plan: What its last build was expected to cost, as plain values.
        progress: What the build under way tells of itself, as plain values.
        error_reason: Why its last run failed; "" if it did not.
        error_message: One sentence for a person.
        publish_time: When it was published last.
    """

    tenant_id: str
    build_id: str
    knowledge_base_id: str
    state: BuildState
    run_id: str = ""
    is_building: bool = False
    ordinals: bytes = b""
    published: bytes = b""
    sources: bytes = b""
    snapshot_id: int = 0
    artefacts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, object] = field(default_factory=dict)
    plan: Mapping[str, object] = field(default_factory=dict)
    progress: Mapping[str, object] = field(default_factory=dict)
    error_reason: str = ""
    error_message: str = ""
    publish_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class PublishedState:
    """What a knowledge base shows at one moment.

    Attributes:
        snapshot_id: Its current snapshot; 0 before the first.
        versions: Ordinals of the published versions of documents, without builds, ascending.
        space_id: Its embedding space.
    """

    snapshot_id: int
    versions: tuple[int, ...]
    space_id: str


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """How a build is asked for.

    Attributes:
        full: Whether the whole is built anew.
        request_id: The same id of the same user gives the same run; "" for none.
        plan: What it is expected to cost, as plain values.
        headers: Trace and request id.
    """

    full: bool = False
    request_id: str = ""
    plan: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class BuildStore(Protocol):
    """Builds of one kind. Every method raises `UnavailableError` where the store does not answer."""

    async def get(self, identity: Identity, knowledge_base_id: str) -> BuildRow | None:
        """Read the build of a knowledge base that the caller may read; None if it has none."""
        ...

    async def published(self, tenant_id: str, knowledge_base_id: str) -> PublishedState:
        """Read what a knowledge base shows now, by a worker or for a plan.

        Raises:
            NotFoundError: If it is deleted.
        """
        ...

    async def start_build(self, identity: Identity, knowledge_base_id: str, order: BuildOrder) -> tuple[BuildRow, bool]:
        """Begin a run that brings the build up to date; one at a time.

        Returns:
            The build with its run, and whether the run is new: one that is under way already is given again.

        Raises:
            NotFoundError: If the caller may not write to the knowledge base.
            OverloadedError: If too much work waits.
        """
        ...

    async def start_due(self, limit: int, *, quiet_seconds: float) -> int:
        """Begin builds that follow by themselves and are outdated, where nothing was published for a while.

        One that a configuration does not ask for any more is removed. A graph that has lost a document to a deletion,
        or that people have given something for, is due whether it follows otherwise or not. What was tried once and
        failed is not tried again before something is published; but a removal is, an hour later.

        Returns:
            How many runs were begun.
        """
        ...

    async def cancel(self, identity: Identity, knowledge_base_id: str) -> BuildRow:
        """Ask the build under way to stop; nothing happens where there is none.

        Raises:
            NotFoundError: If there is none that the caller may write.
        """
        ...

    async def delete(self, identity: Identity, knowledge_base_id: str, *, request_id: str) -> BuildRow:
        """Withdraw the build from what is published, and begin the run that removes it.

        Raises:
            NotFoundError: If there is none that the caller may write.
        """
        ...

    async def of_claim(self, claim: Claim) -> BuildRow:
        """Read the build that a task works on.

        Raises:
            NotFoundError: If it is gone.
        """
        ...

    async def reserve(self, claim: Claim, slot: str, count: int) -> int:
        """Give a build ordinals for what it is about to write; the same slot of the same run gives the same ones.

        They are known before anything is written under them, so that whatever becomes of the task, a sweep finds it.

        Args:
            claim: The build's claim.
            slot: Names the records within the run.
            count: How many.

        Returns:
            The first of `count` consecutive ordinals.

        Raises:
            ConflictError: If the claim is not valid any more.
        """
        ...

    async def tell_progress(self, claim: Claim, progress: Mapping[str, object]) -> None:
        """Show how far a build is; watchers are told.

        Raises:
            ConflictError: If the claim is not valid any more.
        """
        ...

    async def removed(self, claim: Claim, versions: Sequence[int]) -> frozenset[int]:
        """Tell which versions have been deleted: nothing may be made of them any more."""
        ...

    async def left_over(self, claim: Claim) -> Sequence[int]:
        """List the ordinals of a build that are to be swept.

        Those are all of one that is being deleted; of another one those that are not part of it, that no kept
        snapshot shows, and that no build under way has reserved.

        Returns:
            Ordinals, ascending; none if the build is gone.
        """
        ...

    async def living_runs(self, claim: Claim) -> frozenset[str]:
        """Tell whose artefacts of the claim's build are still needed: runs that build it."""
        ...

    async def swept(self, claim: Claim, ordinals: Sequence[int]) -> None:
        """Forget ordinals whose records are removed; a build that is being deleted is forgotten with its last one."""
        ...

    async def artefacts(self, tenant_id: str, knowledge_base_id: str) -> Mapping[str, str]:
        """Read the storage keys of what a published build consists of besides records, by name.

        It asks nobody's rights: whoever reads has been guarded, and shows of it what the caller may see.

        Returns:
            Keys; none where nothing is published.
        """
        ...

    async def versions_of(
        self, tenant_id: str, knowledge_base_id: str, document_ids: Collection[str]
    ) -> Mapping[str, tuple[int, ...]]:
        """Read the ordinals of all versions of documents that are not deleted, ascending; for a worker."""
        ...
