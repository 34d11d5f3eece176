"""gRPC methods of the embed service; they connect the wire with the engine and do nothing else."""

from collections.abc import Sequence
from typing import Final

from corpusmesh.embed.v1 import embed_service_pb2 as pb
from corpusmesh.embed.v1.embed_service_pb2_grpc import EmbedServiceServicer
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError
from corpusmesh_embed.batching import BatchingEmbedder
from corpusmesh_embed.convert import (
    embed_response,
    lane_of,
    model_message,
    multi_vectors_message,
    rerank_model_message,
    role_of,
)
from corpusmesh_embed.pages import PageEngine
from corpusmesh_embed.reranking import RerankEngine
from corpusmesh_runtime.context import require_call
from corpusmesh_runtime.interceptor import Context

_MAX_COUNTED_TEXTS: Final = 4096


class EmbedHandlers(EmbedServiceServicer):
    """Answers `corpusmesh.embed.v1.EmbedService`."""

    def __init__(self, engine: BatchingEmbedder, pages: PageEngine, reranker: RerankEngine) -> None:
        """Create the handlers.

        Args:
            engine: The running engine.
            pages: The engine of the vision model.
            reranker: The engine of the cross-encoder.
        """
        self._engine = engine
        self._pages = pages
        self._reranker = reranker

    async def EmbedTexts(self, request: pb.EmbedTextsRequest, context: Context) -> pb.EmbedTextsResponse:
        """Embed texts in the order given.

        Args:
            request: Texts, role and lane.
            context: The call.

        Returns:
            The vectors.
        """
        del context
        self._check(request.space, request.texts)
        result = await self._engine.embed(
            list(request.texts),
            role=role_of(request),
            lane=lane_of(request),
            deadline_seconds=require_call().remaining_seconds(),
        )
        return embed_response(result, self._engine.space)

    async def CountTokens(self, request: pb.CountTokensRequest, context: Context) -> pb.CountTokensResponse:
        """Count tokens by the model's own tokenizer.

        Args:
            request: The texts.
            context: The call.

        Returns:
            One count a text.

        Raises:
            InvalidArgumentError: If there are too many texts.
        """
        del context
        self._check(request.space, request.texts)
        if len(request.texts) > _MAX_COUNTED_TEXTS:
            raise InvalidArgumentError(
                "EMBED_TOO_MANY_TEXTS",
                f"{len(request.texts)} texts in one call; send at most {_MAX_COUNTED_TEXTS}",
                field="texts",
                text_count=len(request.texts),
                max_text_count=_MAX_COUNTED_TEXTS,
            )
        counts = await self._engine.count_tokens(
            list(request.texts), deadline_seconds=require_call().remaining_seconds()
        )
        return pb.CountTokensResponse(token_counts=counts)

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        """Describe the models that are ready.

        Args:
            request: Nothing.
            context: The call.

        Returns:
            The models; the first is the default.
        """
        del request, context
        model = model_message(self._engine.space, max_input_tokens=self._engine.max_input_tokens)
        page_space = self._pages.page_space
        cross_encoder = self._reranker.model
        return pb.ListModelsResponse(
            models=[model],
            page_model=None if page_space is None else model_message(page_space, max_input_tokens=0),
            rerank_model=None if cross_encoder is None else rerank_model_message(cross_encoder),
        )

    async def EmbedPages(self, request: pb.EmbedPagesRequest, context: Context) -> pb.EmbedPagesResponse:
        """Embed page images.

        Args:
            request: The images.
            context: The call.

        Returns:
            Vectors of each page.
        """
        del context
        space = self._page_space(request.space)
        pages = await self._pages.embed_pages(list(request.images), deadline_seconds=require_call().remaining_seconds())
        return pb.EmbedPagesResponse(space=space, pages=[multi_vectors_message(page) for page in pages])

    async def EmbedPageQuestion(
        self, request: pb.EmbedPageQuestionRequest, context: Context
    ) -> pb.EmbedPageQuestionResponse:
        """Embed a question for pages.

        Args:
            request: The question.
            context: The call.

        Returns:
            Its vectors.
        """
        del context
        space = self._page_space(request.space)
        vectors = await self._pages.embed_page_question(
            request.text, deadline_seconds=require_call().remaining_seconds()
        )
        return pb.EmbedPageQuestionResponse(space=space, vectors=multi_vectors_message(vectors))

    async def Rerank(self, request: pb.RerankRequest, context: Context) -> pb.RerankResponse:
        """Score passages for a question.

        Args:
            request: The question and the passages.
            context: The call.

        Returns:
            One score a passage.
        """
        del context
        scores = await self._reranker.rerank(
            request.question, list(request.passages), deadline_seconds=require_call().remaining_seconds()
        )
        model = self._reranker.model
        return pb.RerankResponse(model="" if model is None else model.name, scores=scores.tolist())

    def _page_space(self, wanted: str) -> str:
        own = self._pages.page_space
        space = "" if own is None else own.space_id
        if own is not None and wanted and wanted != space:
            raise _unknown_space(wanted, space)
        return space

    def _check(self, space: str, texts: Sequence[str]) -> None:
        if space and space != self._engine.space.space_id:
            raise _unknown_space(space, self._engine.space.space_id)
        if not texts:
            raise InvalidArgumentError("EMBED_NO_TEXTS", "texts is empty; send at least one", field="texts")


def _unknown_space(space: str, ready_space: str) -> NotFoundError:
    return NotFoundError(
        "EMBED_SPACE_NOT_FOUND",
        f"the space {space[:80]} is not ready here; this service embeds into {ready_space}",
        field="space",
        space=space[:80],
        ready_space=ready_space,
    )
