"""What the mesh asks of the store of runs; rights are checked inside, as in `metadata`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from corpusmesh_core.orchestration.values import Run
from corpusmesh_core.ports.edits import NewEdit
from corpusmesh_core.tenancy.identity import Identity
from corpusmesh_core.tenancy.values import DuplicatePolicy, Upload, VersionRow


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is stored.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Its knowledge base.
        run: What the state machine knows.
        created_by: User.
        create_time: UTC.
        end_time: UTC; None while it goes on.
        result: What it has done beside its documents, JSON values; of a sync, source and counts.
    """

    tenant_id: str
    knowledge_base_id: str
    run: Run
    created_by: str
    create_time: datetime
    end_time: datetime | None
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How a group of uploads is taken in.

    Attributes:
        run_id: Run to add to; "" to begin one.
        request_id: Names a new run: the same id of the same user gives the same run; "" for none.
        is_interactive: Whether somebody waits.
        hold_publish: Whether versions are left unpublished.
        is_last: Whether no more groups follow. A run that waits for more ends by itself after a while.
        on_duplicate: What to do with bytes or names that are there already.
        config_hash: Hash of the configuration that they are parsed with.
        headers: Trace and request id, carried along by every message of the run.
    """

    run_id: str = ""
    request_id: str = ""
    is_interactive: bool = False
    hold_publish: bool = False
    is_last: bool = True
    on_duplicate: DuplicatePolicy = DuplicatePolicy.UNCHANGED
    config_hash: str = ""
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """A new version of a document from an original that it has already.

    Attributes:
        document_id: The document.
        version: Version to make it from; 0 for the published one, or the newest where none is published.
        seen_version: Version whose chunks the author of `edits` saw; 0 for none. It must have the original of the
            version to make it from.
        config: Sections of the configuration to set for this document, in place of what it has of its own.
        forgets_config: Whether sections that `config` does not name go back to the knowledge base's.
        sealed_password: What opens the original, sealed; b"" for none.
        edits: Edits to add, in the order in which they apply.
        withdrawn: Ids of edits to withdraw.
    """

    document_id: str
    version: int = 0
    seen_version: int = 0
    config: Mapping[str, object] = field(default_factory=dict)
    forgets_config: bool = False
    sealed_password: bytes = field(default=b"", repr=False)
    edits: tuple[NewEdit, ...] = ()
    withdrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of a group of uploads.

    Attributes:
        run_id: The run.
        versions: One for each upload, in its order.
        unchanged: Whether each was there already, so that nothing is to be done.
    """

    run_id: str
    versions: tuple[VersionRow, ...]
    unchanged: tuple[bool, ...]


class RunStore(Protocol):
    """Runs."""

    async def ingest(
        self,
        identity: Identity,
        knowledge_base_id: str,
        uploads: Sequence[Upload],
        options: IngestOptions,
        *,
        restore: Callable[[Sequence[str]], Awaitable[None]],
    ) -> IngestResult:
        """Make documents and versions of uploads and begin or extend the run that makes them searchable.

        Args:
            identity: Caller.
            knowledge_base_id: Where to.
            uploads: Originals that are stored already.
            options: How.
            restore: Puts originals back that a purge may have removed since they were stored, given their hashes; no
                purge removes them while it runs, nor once the versions exist. Called only for bytes that an earlier
                version had and that are purged, cancelled or failed.

        Returns:
            The run and one version for each upload.

        Raises:
            NotFoundError: If the knowledge base or the run is unknown or forbidden.
            OverloadedError: If too much work of the tenant waits already.
            FailedPreconditionError: If the run takes no more.
        """
        ...

    async def derive(
        self, identity: Identity, knowledge_base_id: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        """Make new versions from originals that documents have, and begin or extend the run that makes them.

        A document that the run has made a version of already is left as it is, so that a call may be made again.

        Args:
            identity: Caller.
            knowledge_base_id: Knowledge base.
            derivations: What to make; each document once.
            options: How; `on_duplicate` does not count.

        Returns:
            The run and one version for each derivation.

        Raises:
            NotFoundError: If the knowledge base, a document, a version or an edit is unknown or forbidden; then nothing
                is made.
            OverloadedError: If too much work of the tenant waits already.
            FailedPreconditionError: CHUNK_VERSION_OUTDATED if the author of edits saw another original than the one to
                make the version from; RUN_CLOSED if the run takes no more.
        """
        ...

    async def made_by(self, identity: Identity, knowledge_base_id: str, request_id: str) -> Sequence[VersionRow]:
        """Give the versions that an earlier call of the caller under a request id has begun, by ordinal.

        Raises:
            NotFoundError: If the knowledge base is unknown or forbidden.
        """
        ...

    async def get(self, identity: Identity, knowledge_base_id: str, run_id: str) -> RunRecord:
        """Read a run.

        Raises:
            NotFoundError: If it is unknown or forbidden.
        """
        ...

    async def list(self, identity: Identity, knowledge_base_id: str, after_key: str, limit: int) -> Sequence[RunRecord]:
        """List runs, newest first; the key of a run is its id (ids rise with time)."""
        ...

    async def failed_versions(
        self, identity: Identity, knowledge_base_id: str, run_id: str, limit: int
    ) -> Sequence[VersionRow]:
        """Give versions of a run that failed, by ordinal."""
        ...

    async def cancel(self, identity: Identity, knowledge_base_id: str, run_id: str) -> RunRecord:
        """Ask a run to stop; a run that has ended stays as it is."""
        ...

    async def retry(
        self, identity: Identity, knowledge_base_id: str, run_id: str, *, skip_publish_gate: bool = False
    ) -> tuple[RunRecord, int]:
        """Start failed parts again from the stage at which they failed, and tell how many.

        Where `skip_publish_gate` is set they are published without asking the gate.
        """
        ...
