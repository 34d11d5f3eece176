"""Settings of the ingest service and its worker."""

from pydantic import Field

from corpusmesh_ingest.parse_limits import ParseLimitSettings
from corpusmesh_ingest.syncing.config import SourceSettings
from corpusmesh_runtime.config import Section, ServerSettings
from corpusmesh_runtime.housekeeper import HousekeeperSettings
from corpusmesh_runtime.worker import WorkerSettings


class IngestSettings(Section):
    """How the ingest service takes documents and works on them."""

    server: ServerSettings = ServerSettings(listen_port=7102)
    """How it listens."""
    max_document_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    """Largest original; a larger one is refused while it is uploaded."""
    max_documents_per_upload: int = Field(default=20_000, ge=1)
    """Documents of one upload stream."""
    max_open_tasks_per_tenant: int = Field(default=20_000, ge=1)
    """Tasks of a tenant that may wait; above it an upload is refused with RESOURCE_EXHAUSTED and a delay."""
    max_concurrent_uploads: int = Field(default=32, ge=1)
    """Upload streams taken at once."""
    spool_memory_bytes: int = Field(default=1024 * 1024, ge=0)
    """Bytes of an upload kept in memory; the rest goes to a temporary file."""
    batch_documents: int = Field(default=64, ge=1, le=1024)
    """Small documents that one task covers."""
    batch_bytes: int = Field(default=512 * 1024, ge=1)
    """Bytes of originals that one task covers; a larger document is a task of its own."""
    parse_processes: int = Field(default=2, ge=1)
    """Parser processes."""
    parse_limits: ParseLimitSettings = ParseLimitSettings()
    """What one document may cost while it is read."""
    embed_batch_texts: int = Field(default=128, ge=1, le=256)
    """Texts of one call to the embed service."""
    embed_calls_in_flight: int = Field(default=2, ge=1)
    """Calls to the embed service that one task keeps under way."""
    max_preview_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    """Largest original that is read anew for a preview of its chunks."""
    max_previews: int = Field(default=8, ge=1)
    """Previews at once, those that wait included; one is made at a time."""
    preview_timeout_seconds: float = Field(default=60.0, gt=0)
    """Longest time of a preview."""
    enrich_calls_in_flight: int = Field(default=4, ge=1)
    """Calls to the language model that one worker keeps under way for enrichment, over all documents."""
    enrich_call_timeout_seconds: float = Field(default=60.0, gt=0)
    """Longest call to the language model for enrichment; what it does not answer is made without it."""
    sources: SourceSettings = SourceSettings()
    """What sources may read, and how much a sync may do."""
    worker: WorkerSettings = WorkerSettings()
    """How the worker takes and does work."""
    housekeeper: HousekeeperSettings = HousekeeperSettings()
    """How often stuck work is looked for."""
    lease_seconds: float = Field(default=30.0, gt=0)
    """How long a claim on a task holds without a heartbeat."""
    max_attempts: int = Field(default=3, ge=1)
    """Attempts of a task before its documents fail."""
    purge_verify_delay_seconds: float = Field(default=120.0, ge=0)
    """Time after which a purge looks again for what a late writer left; above every lease and the index's own memory
    of deleted ids (60 s)."""
