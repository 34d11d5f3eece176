"""What a mesh asks, out of its configuration: its models, and the web."""

import random
from functools import lru_cache
from pathlib import Path

from corpusmesh_adapters.chat import OpenAIChatModel, OpenAIChatSettings
from corpusmesh_adapters.models.manifest import TOKENIZER_FILE, read_manifest
from corpusmesh_adapters.models.onnx_backend import OnnxEmbeddingBackend
from corpusmesh_adapters.models.openai_backend import OpenAIEmbeddingBackend, OpenAIEndpoint
from corpusmesh_adapters.models.page_backend import OnnxPageEmbeddingBackend
from corpusmesh_adapters.models.registry import model_directory
from corpusmesh_adapters.models.rerank_http import HttpRerankBackend, RerankEndpoint
from corpusmesh_adapters.models.rerank_onnx import OnnxRerankBackend
from corpusmesh_adapters.models.tokenization import ModelTokenizer
from corpusmesh_adapters.parsers import ParserPool
from corpusmesh_adapters.web_search import FetchedWebPages, SearxngSearch, TavilySearch, WebPageSettings
from corpusmesh_app.settings import MeshSettings, WebSearchProvider, require_setting
from corpusmesh_core.ports.chat import ChatModel
from corpusmesh_core.ports.embedding import Embedder, EmbeddingBackend
from corpusmesh_core.ports.page_embedding import PageEmbeddingBackend
from corpusmesh_core.ports.reranking import RerankBackend
from corpusmesh_core.ports.web_search import WebSearch
from corpusmesh_embed.config import BackendKind, RerankProtocol
from corpusmesh_retrieve.web import WebBounds, WebSource
from corpusmesh_runtime.config import read_secret

_TAVILY_URL = "https://api.tavily.com"


def embedding_backend(settings: MeshSettings) -> EmbeddingBackend:
    """Load the embedding model, or make the client of its endpoint; takes seconds.

    Args:
        settings: The configuration.

    Returns:
        The backend, proved by one real answer.

    Raises:
        FailedPreconditionError: If the model is not installed, or gives other vectors than it declares.
    """
    section = settings.embed
    if section.backend is BackendKind.ONNX:
        return OnnxEmbeddingBackend(model_directory(section.model), thread_count=section.thread_count or None)
    openai = section.openai
    endpoint = OpenAIEndpoint(
        base_url=openai.base_url,
        model=openai.model,
        dimension=openai.dimension,
        max_input_tokens=openai.max_input_tokens,
        api_key_file=openai.api_key_file,
        query_prefix=openai.query_prefix,
        passage_prefix=openai.passage_prefix,
        request_timeout_seconds=openai.request_timeout_seconds,
        max_attempt_count=openai.max_attempt_count,
    )
    backend = OpenAIEmbeddingBackend(endpoint, embedding_tokenizer(settings))
    backend.verify()
    return backend


def page_embedding_backend(settings: MeshSettings) -> PageEmbeddingBackend | None:
    """Load the vision model for late interaction; takes seconds.

    Args:
        settings: The configuration.

    Returns:
        The backend, proved by one real answer; None where none is configured.

    Raises:
        FailedPreconditionError: If the model cannot be used.
    """
    section = settings.embed
    if section.page_model_directory is None:
        return None
    return OnnxPageEmbeddingBackend(section.page_model_directory, thread_count=section.thread_count or None)


def rerank_backend(settings: MeshSettings) -> RerankBackend | None:
    """Load the cross-encoder, or make the client of its endpoint; takes seconds.

    Args:
        settings: The configuration.

    Returns:
        The backend, one in this process proved by one real answer; None where none is configured.

    Raises:
        FailedPreconditionError: If the model cannot be used.
    """
    section = settings.embed
    if section.rerank_model_directory is not None:
        return OnnxRerankBackend(section.rerank_model_directory, thread_count=section.thread_count or None)
    endpoint = section.rerank
    if not endpoint.base_url:
        return None
    if endpoint.protocol is RerankProtocol.COHERE:
        require_setting(endpoint.model, "embed.rerank.model")
    return HttpRerankBackend(
        RerankEndpoint(
            base_url=endpoint.base_url,
            model=endpoint.model,
            is_tei=endpoint.protocol is RerankProtocol.TEI,
            api_key_file=endpoint.api_key_file,
            scores_are_logits=endpoint.scores_are_logits,
            max_passage_characters=endpoint.max_passage_characters,
            max_batch_passages=endpoint.max_batch_passages,
            request_timeout_seconds=endpoint.request_timeout_seconds,
            max_attempt_count=endpoint.max_attempt_count,
        )
    )


def embedding_tokenizer(settings: MeshSettings) -> ModelTokenizer:
    """Load the embedder's tokenizer alone, for the budgets of chunks.

    Args:
        settings: The configuration.

    Returns:
        The tokenizer; services of one process share it, for loading it takes more than a processor second.

    Raises:
        FailedPreconditionError: If the model is not installed.
    """
    section = settings.embed
    name = section.model if section.backend is BackendKind.ONNX else section.openai.tokenizer_model
    return _tokenizer_of(model_directory(name))


@lru_cache(maxsize=2)
def _tokenizer_of(directory: Path) -> ModelTokenizer:
    return ModelTokenizer(directory / TOKENIZER_FILE, fold_traditional=read_manifest(directory).fold_traditional)


def chat_model(settings: MeshSettings) -> ChatModel | None:
    """Make the language model's client.

    Args:
        settings: The configuration.

    Returns:
        The client; None where no endpoint is configured.
    """
    section = settings.chat
    if not section.url:
        return None
    require_setting(section.model, "chat.model")
    return OpenAIChatModel(
        OpenAIChatSettings(base_url=section.url, model=section.model, api_key_file=section.api_key_file),
        jitter=random.random,
    )


def web_source(settings: MeshSettings, embedder: Embedder) -> WebSource | None:
    """Make the web as a source of evidence.

    Args:
        settings: The configuration.
        embedder: Compares passages with questions.

    Returns:
        The source, to be closed; None where no search engine is configured.

    Raises:
        FailedPreconditionError: If the engine's address or key is missing.
    """
    section = settings.web_search
    engine: WebSearch
    if section.provider is WebSearchProvider.NONE:
        return None
    if section.provider is WebSearchProvider.TAVILY:
        require_setting(str(section.api_key_file or ""), "web_search.api_key_file")
        assert section.api_key_file is not None
        read_secret(section.api_key_file, setting="web_search.api_key_file")
        engine = TavilySearch(section.url or _TAVILY_URL, section.api_key_file)
    else:
        require_setting(section.url, "web_search.url")
        engine = SearxngSearch(section.url)
    # Its process starts with the first page that is read.
    pages = FetchedWebPages(
        WebPageSettings(max_page_bytes=section.max_page_bytes, allowed_networks=section.allowed_networks),
        ParserPool(process_count=1, max_waiting=4 * section.max_concurrent_pages),
    )
    bounds = WebBounds(
        search_timeout_seconds=section.search_timeout_seconds,
        page_timeout_seconds=section.page_timeout_seconds,
        max_concurrent_pages=section.max_concurrent_pages,
    )
    return WebSource(engine, pages, embedder, bounds)
