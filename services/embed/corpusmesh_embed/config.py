"""Settings of the embed service."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from corpusmesh_runtime.config import Section, ServerSettings


class BackendKind(StrEnum):
    """Where the model runs."""

    ONNX = "onnx"
    """In this process, through ONNX Runtime."""
    OPENAI = "openai"
    """Behind an OpenAI-compatible endpoint."""


class OpenAIEmbeddingSettings(Section):
    """An OpenAI-compatible endpoint that embeds."""

    base_url: str = ""
    """Address up to and including `/v1`; required with the backend `openai`."""
    model: str = ""
    """Name of the model at the endpoint; required with the backend `openai`."""
    dimension: int = Field(default=0, ge=0, le=16_000)
    """Numbers per vector of the model; required with the backend `openai`, and checked against its first answer."""
    max_input_tokens: int = Field(default=512, ge=8, le=131_072)
    """Tokens that the model reads of one text, counted by the tokenizer below; longer texts are cut."""
    tokenizer_model: str = "multilingual-e5-small"
    """Installed model whose tokenizer counts and cuts; ideally the endpoint model's own."""
    api_key_file: Path | None = None
    """File with the endpoint's key; none for an endpoint without one."""
    query_prefix: str = ""
    """Put before a query, as the model's card asks."""
    passage_prefix: str = ""
    """Put before a passage, as the model's card asks."""
    request_timeout_seconds: float = Field(default=30.0, gt=0, le=600)
    """Time for one request, retries apart."""
    max_attempt_count: int = Field(default=4, ge=1, le=10)
    """How often one request is tried when the endpoint is busy (429), fails (5xx) or does not answer."""
    concurrent_request_count: int = Field(default=4, ge=1, le=64)
    """Requests in flight at once."""


class RerankProtocol(StrEnum):
    """What an endpoint that reranks speaks."""

    COHERE = "cohere"
    """`{model, query, documents}` to `{results: [{index, relevance_score}]}`: Cohere, Jina, vLLM, and many more."""
    TEI = "tei"
    """`{query, texts}` to `[{index, score}]`: Hugging Face's text-embeddings-inference."""


class RerankEndpointSettings(Section):
    """An endpoint that reranks."""

    base_url: str = ""
    """Address before `/rerank`, such as `http://127.0.0.1:8000/v1`; empty for none."""
    protocol: RerankProtocol = RerankProtocol.COHERE
    """What it speaks."""
    model: str = ""
    """Name of the model at the endpoint; required with the protocol `cohere`."""
    api_key_file: Path | None = None
    """File with the endpoint's key; none for an endpoint without one."""
    scores_are_logits: bool = False
    """Whether its scores are raw and still have to go through a sigmoid; else they must be within 0 to 1."""
    max_passage_characters: int = Field(default=4_000, ge=100, le=32_000)
    """Characters that are sent of one passage; what is longer is cut, and the endpoint may cut further."""
    max_batch_passages: int = Field(default=32, ge=1, le=200)
    """Passages of one request."""
    request_timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    """Time for one request, retries apart."""
    max_attempt_count: int = Field(default=2, ge=1, le=10)
    """How often one request is tried when the endpoint is busy (429), fails (5xx) or does not answer."""
    concurrent_request_count: int = Field(default=4, ge=1, le=64)
    """Requests in flight at once."""


class EmbedSettings(Section):
    """How the embed service runs its model and bounds what waits for it."""

    backend: BackendKind = BackendKind.ONNX
    """Where the model runs."""
    model: str = "multilingual-e5-small"
    """Installed model that the backend `onnx` runs (`corpusmesh models list`)."""
    thread_count: int = Field(default=0, ge=0, le=256)
    """Threads that compute one batch; 0 for one per core. Batches run one after another, so this is the service's whole
    thread budget; the tokenizer's work is a hundredth of it."""
    max_batch_tokens: int = Field(default=1_024, ge=64, le=65_536)
    """Most tokens of a batch, padding included. A batch is also the longest time that a person's question waits for the
    model behind an ingest run: 0.15 s on 2 cores. One text that is longer makes a batch of its own."""
    max_batch_texts: int = Field(default=64, ge=1, le=2_048)
    """Most texts of a batch."""
    max_queued_interactive_texts: int = Field(default=1_024, ge=1)
    """Texts of the interactive lane that may wait; more are refused with a retry delay."""
    max_queued_bulk_texts: int = Field(default=4_096, ge=1)
    """Texts of the bulk lane that may wait; more are refused with a retry delay."""
    max_queued_bytes: int = Field(default=32 * 1024 * 1024, ge=1024 * 1024)
    """Bytes of text that may wait, over both lanes; more are refused with a retry delay."""
    max_consecutive_interactive_batches: int = Field(default=8, ge=1)
    """Interactive batches after which a waiting bulk batch runs, so that ingest never starves."""
    page_model_directory: Path | None = None
    """Directory of the vision model for late interaction over page images; none for no such model."""
    max_waiting_page_calls: int = Field(default=32, ge=1)
    """Calls that may wait for the vision model; one more is refused with a retry delay."""
    rerank_model_directory: Path | None = None
    """Directory of a cross-encoder that this process runs; none for no such model."""
    rerank: RerankEndpointSettings = RerankEndpointSettings()
    """The endpoint of a cross-encoder; used where no directory is set."""
    max_waiting_rerank_calls: int = Field(default=64, ge=1)
    """Calls that may wait for the cross-encoder; one more is refused with a retry delay."""
    openai: OpenAIEmbeddingSettings = OpenAIEmbeddingSettings()
    """The endpoint of the backend `openai`."""
    server: ServerSettings = ServerSettings(listen_port=7101, max_receive_message_bytes=20 * 1024 * 1024)
    """How it listens. A message may hold the most texts of the greatest length: 16 MiB."""

    def check(self) -> list[str]:
        """Look for settings that do not fit together.

        Returns:
            One warning or error a line, for a person; empty if all is well.
        """
        problems: list[str] = []
        if self.backend is BackendKind.OPENAI:
            missing = [name for name in ("base_url", "model", "dimension") if not getattr(self.openai, name)]
            problems.extend(f"embed.openai.{name} is required with embed.backend=openai" for name in missing)
        if self.rerank.base_url and self.rerank.protocol is RerankProtocol.COHERE and not self.rerank.model:
            problems.append("embed.rerank.model is required with embed.rerank.protocol=cohere")
        if self.rerank.base_url and self.rerank_model_directory is not None:
            problems.append("embed.rerank.base_url is not used while embed.rerank_model_directory is set")
        return problems
