"""Settings of the raptor service and its worker."""

from pydantic import Field

from corpusmesh_runtime.config import Section, ServerSettings
from corpusmesh_runtime.worker import WorkerSettings


class RaptorSettings(Section):
    """How the raptor service makes trees."""

    server: ServerSettings = ServerSettings(listen_port=7104)
    """How it listens."""
    worker: WorkerSettings = WorkerSettings()
    """How the worker takes and does work."""
    model_calls_in_flight: int = Field(default=8, ge=1)
    """Calls to the language model that one worker keeps under way, over all trees."""
    model_call_timeout_seconds: float = Field(default=60.0, gt=0)
    """Longest call to the language model; what it does not answer is made of sentences."""
    model_rest_seconds: float = Field(default=60.0, ge=0)
    """How long trees do without a language model when five calls in a row were lost, before one call tries it again; 0
    to ask it whatever happens."""
    max_tenant_tokens_per_day: int = Field(default=0, ge=0)
    """Tokens that language models may read and write for the trees of one tenant on one day (UTC); 0 for no bound."""
    max_leaf_count: int = Field(default=500_000, ge=1)
    """Chunks of the tree of one knowledge base; a larger one is refused."""
    max_mixture_leaf_count: int = Field(default=20_000, ge=1)
    """Chunks of a tree by METHOD_MIXTURE, which takes some milliseconds a chunk."""
    update_quiet_seconds: float = Field(default=30.0, ge=0)
    """How long nothing must have been published before the tree of a knowledge base follows by itself."""
    update_poll_seconds: float = Field(default=5.0, gt=0)
    """How often trees that should follow are looked for."""
    slice_nodes: int = Field(default=256, ge=1)
    """Nodes of a knowledge base's tree that are made before they are written and progress is told."""
    max_concurrent_plans: int = Field(default=4, ge=1)
    """Plans made at once, each up to some 200 MB; a quarter is left to other tenants."""
    max_concurrent_watches: int = Field(default=256, ge=1)
    """Builds watched at once; a quarter is left to other tenants."""
    plan_max_leaves: int = Field(default=50_000, ge=100)
    """Chunks that a plan reads; of more, whole documents taken evenly over all, and what those cost is projected."""
    plan_milliseconds_per_leaf: float = Field(default=1.0, gt=0)
    """Milliseconds of work on each chunk of a tree that a plan expects where no build has told."""
    plan_milliseconds_per_node: float = Field(default=10.0, gt=0)
    """Milliseconds of work on each summary made of sentences that a plan expects where no build has told."""
    plan_embedded_tokens_per_second: float = Field(default=2000.0, gt=0)
    """Tokens of summaries embedded in a second that a plan expects where no build has told."""
    plan_read_tokens_per_second: float = Field(default=2000.0, gt=0)
    """Tokens that a language model reads in a second of one call, that a plan expects where no build has told."""
    plan_written_tokens_per_second: float = Field(default=40.0, gt=0)
    """Tokens that a language model writes in a second of one call, that a plan expects where no build has told."""
    slice_seconds: float = Field(default=45.0, gt=0)
    """How long one task works on a knowledge base's tree before another one goes on, so that workers take turns."""
