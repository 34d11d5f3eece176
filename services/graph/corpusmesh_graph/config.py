"""Settings of the graph service and its worker."""

from pydantic import Field

from corpusmesh_runtime.config import Section, ServerSettings
from corpusmesh_runtime.worker import WorkerSettings


class GraphServiceSettings(Section):
    """How the graph service makes graphs."""

    server: ServerSettings = ServerSettings(listen_port=7105)
    """How it listens."""
    worker: WorkerSettings = WorkerSettings()
    """How the worker takes and does work."""
    model_calls_in_flight: int = Field(default=16, ge=1)
    """Calls to the language model that one worker keeps under way, over all graphs."""
    model_call_timeout_seconds: float = Field(default=120.0, gt=0)
    """Longest call to the language model; what it does not answer is done without."""
    model_rest_seconds: float = Field(default=60.0, ge=0)
    """How long graphs do without a language model when five calls in a row were lost, before one call tries it again; 0
    to ask it whatever happens."""
    max_tenant_tokens_per_day: int = Field(default=0, ge=0)
    """Tokens that language models may read and write for the graphs of one tenant on one day (UTC); 0 for no bound."""
    max_chunk_count: int = Field(default=1_000_000, ge=1)
    """Chunks of the graph of one knowledge base; a larger one is refused."""
    update_quiet_seconds: float = Field(default=30.0, ge=0)
    """How long nothing must have been published before the graph of a knowledge base follows by itself."""
    update_poll_seconds: float = Field(default=5.0, gt=0)
    """How often graphs that should follow are looked for."""
    slice_seconds: float = Field(default=45.0, gt=0)
    """How long one task works on a graph before another one goes on, so that workers take turns."""
    max_concurrent_plans: int = Field(default=4, ge=1)
    """Plans made at once; a quarter is left to other tenants."""
    max_concurrent_watches: int = Field(default=256, ge=1)
    """Builds watched at once; a quarter is left to other tenants."""
    max_concurrent_exports: int = Field(default=8, ge=1)
    """Graphs exported at once; a quarter is left to other tenants."""
    batch_documents: int = Field(default=64, ge=1)
    """Documents that are read, and without a language model also kept and written, at once."""
    segment_cache_bytes: int = Field(default=256 * 1024 * 1024, ge=0)
    """Bytes of graphs' segments that a worker keeps in memory between builds."""
    plan_max_chunks: int = Field(default=50_000, ge=100)
    """Chunks that a plan reads; of more, whole documents taken evenly over all, and what those cost is projected."""
    plan_sample_chunks: int = Field(default=200, ge=1)
    """Chunks of them in which a plan looks for names, to tell how many there are and how long that takes."""
    plan_milliseconds_per_record: float = Field(default=3.0, gt=0)
    """Milliseconds of resolving, grouping and writing each entity, relation and report that a plan expects."""
    plan_embedded_tokens_per_second: float = Field(default=2000.0, gt=0)
    """Tokens of names and relations embedded in a second that a plan expects."""
    plan_read_tokens_per_second: float = Field(default=2000.0, gt=0)
    """Tokens that a language model reads in a second of one call, that a plan expects."""
    plan_written_tokens_per_second: float = Field(default=40.0, gt=0)
    """Tokens that a language model writes in a second of one call, that a plan expects."""
