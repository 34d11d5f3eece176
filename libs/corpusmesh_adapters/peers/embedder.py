"""The embed service behind the port `Embedder`."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from corpusmesh.embed.v1 import embed_service_pb2 as pb
from corpusmesh.embed.v1.embed_service_pb2_grpc import EmbedServiceStub
from corpusmesh_client.errors import error_from_rpc
from corpusmesh_core.errors import InternalError, UnavailableError
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.page_embedding import MultiVectors
from corpusmesh_core.ports.reranking import RerankModel

if TYPE_CHECKING:
    # The class exists in the stubs alone.
    from corpusmesh.embed.v1.embed_service_pb2_grpc import EmbedServiceAsyncStub

_ROLES = {EmbedRole.QUERY: pb.EMBED_ROLE_QUERY, EmbedRole.PASSAGE: pb.EMBED_ROLE_PASSAGE}
_LANES = {EmbedLane.INTERACTIVE: pb.EMBED_LANE_INTERACTIVE, EmbedLane.BULK: pb.EMBED_LANE_BULK}
_MAX_COUNTED_TEXTS = 4096
_CONNECT_RETRY_SECONDS = 0.1
_REFRESH_SECONDS = 2.0
_UNKNOWN_SPACE = "EMBED_SPACE_NOT_FOUND"


class GrpcEmbedder:
    """Embeds through the embed service; its default model decides the space."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Create the embedder.

        Args:
            channel: Channel to the embed service that signs the caller's identity.
        """
        self._stub: EmbedServiceAsyncStub = EmbedServiceStub(channel)
        self._space: EmbeddingSpace | None = None
        self._page_space: EmbeddingSpace | None = None
        self._rerank_model: RerankModel | None = None
        self._max_input_tokens = 0

    async def connect(self, *, deadline_seconds: float) -> None:
        """Learn the service's default model.

        Args:
            deadline_seconds: How long to wait for the service.

        Raises:
            UnavailableError: If it does not answer in time, or has no model.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                response = await self._list_models()
        except TimeoutError as error:
            raise UnavailableError("EMBED_SERVICE_UNAVAILABLE", "the embed service does not answer") from error
        self._learn(response)

    async def refresh(self, *, deadline_seconds: float) -> None:
        """Learn which space the service embeds into now; see `Embedder.refresh`.

        Args:
            deadline_seconds: How long the caller waits.

        Raises:
            UnavailableError: If the service does not answer in time, or has no model.
            CorpusMeshError: What else the service answered.
        """
        try:
            # Waits for a service that has just come back: gRPC tries again only after a pause of up to 3 seconds.
            response = await self._stub.ListModels(
                pb.ListModelsRequest(), timeout=deadline_seconds, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise UnavailableError("EMBED_SERVICE_UNAVAILABLE", "the embed service does not answer") from error
            raise error_from_rpc(error) from error
        self._learn(response)

    def _learn(self, response: pb.ListModelsResponse) -> None:
        if not response.models:
            raise UnavailableError("EMBED_MODEL_MISSING", "the embed service has no model ready")
        self._space = _space_of(response.models[0])
        self._page_space = _space_of(response.page_model) if response.HasField("page_model") else None
        self._rerank_model = _rerank_model_of(response.rerank_model) if response.HasField("rerank_model") else None
        self._max_input_tokens = response.models[0].max_input_tokens

    async def _list_models(self) -> pb.ListModelsResponse:
        while True:
            try:
                return await self._stub.ListModels(pb.ListModelsRequest(), timeout=5.0)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise error_from_rpc(error) from error
            await asyncio.sleep(_CONNECT_RETRY_SECONDS)

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors.

        Raises:
            UnavailableError: If `connect` did not succeed yet.
        """
        if self._space is None:
            raise UnavailableError("EMBED_SERVICE_UNAVAILABLE", "the embed service has not been reached yet")
        return self._space

    @property
    def max_input_tokens(self) -> int:
        """Tokens that the model reads of one text."""
        return self._max_input_tokens

    async def embed(
        self, texts: Sequence[str], *, role: EmbedRole, lane: EmbedLane, deadline_seconds: float
    ) -> EmbedResult:
        """Embed texts; see `Embedder.embed`.

        Args:
            texts: The texts.
            role: What they are.
            lane: Who waits.
            deadline_seconds: How long the caller waits.

        Returns:
            The vectors in the order of the texts.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
            UnavailableError: EMBED_MODEL_CHANGED if the service embeds into another space by now (FR-A11).
            InternalError: If the vectors do not fit the texts or the space.
        """
        space = self.space
        if not texts:
            return EmbedResult(np.empty((0, space.dimension), dtype=np.float32), 0)
        request = pb.EmbedTextsRequest(space=space.space_id, texts=texts, role=_ROLES[role], lane=_LANES[lane])
        try:
            response = await self._stub.EmbedTexts(request, timeout=deadline_seconds)
        except grpc.aio.AioRpcError as error:
            failure = error_from_rpc(error)
            if failure.reason != _UNKNOWN_SPACE:
                raise failure from error
            await self.refresh(deadline_seconds=_REFRESH_SECONDS)
            raise UnavailableError(
                "EMBED_MODEL_CHANGED", "the embed service runs another model than a moment ago; try again"
            ) from error
        dimension = response.dense.dimension
        vectors = np.frombuffer(response.dense.values, dtype="<f4")
        if dimension != space.dimension or vectors.size != dimension * len(texts):
            raise InternalError("EMBED_RESPONSE_INVALID", "the embed service gave vectors that do not fit the texts")
        return EmbedResult(
            vectors=vectors.reshape(len(texts), dimension),
            token_count=response.token_count,
            truncated_positions=tuple(response.truncated_positions),
        )

    async def count_tokens(self, texts: Sequence[str], *, deadline_seconds: float) -> list[int]:
        """Count tokens; see `Embedder.count_tokens`.

        Args:
            texts: The texts.
            deadline_seconds: How long the caller waits.

        Returns:
            One count a text.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
        """
        counts: list[int] = []
        for start in range(0, len(texts), _MAX_COUNTED_TEXTS):
            request = pb.CountTokensRequest(space=self.space.space_id, texts=texts[start : start + _MAX_COUNTED_TEXTS])
            try:
                response = await self._stub.CountTokens(request, timeout=deadline_seconds)
            except grpc.aio.AioRpcError as error:
                raise error_from_rpc(error) from error
            counts.extend(response.token_counts)
        return counts

    @property
    def page_space(self) -> EmbeddingSpace | None:
        """Space of the vision model, as far as this process knows; None where none is configured."""
        return self._page_space

    async def embed_pages(self, images: Sequence[bytes], *, deadline_seconds: float) -> list[MultiVectors]:
        """Embed page images; see `PageEmbedder.embed_pages`.

        Args:
            images: PNG or JPEG.
            deadline_seconds: How long the caller waits.

        Returns:
            Vectors of each page.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
            InternalError: If the vectors do not fit the pages.
        """
        try:
            response = await self._stub.EmbedPages(pb.EmbedPagesRequest(images=images), timeout=deadline_seconds)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        if len(response.pages) != len(images):
            raise InternalError("EMBED_RESPONSE_INVALID", "the embed service gave vectors that do not fit the pages")
        return [_multi_vectors(page) for page in response.pages]

    async def embed_page_question(self, text: str, *, deadline_seconds: float) -> MultiVectors:
        """Embed a question for pages; see `PageEmbedder.embed_page_question`.

        Args:
            text: The question.
            deadline_seconds: How long the caller waits.

        Returns:
            Its vectors.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
        """
        try:
            response = await self._stub.EmbedPageQuestion(
                pb.EmbedPageQuestionRequest(text=text), timeout=deadline_seconds
            )
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        return _multi_vectors(response.vectors)

    @property
    def rerank_model(self) -> RerankModel | None:
        """The cross-encoder, as far as this process knows; None where none is configured."""
        return self._rerank_model

    async def rerank(self, question: str, passages: Sequence[str], *, deadline_seconds: float) -> NDArray[np.float32]:
        """Score passages; see `PassageReranker.rerank`.

        Args:
            question: The question.
            passages: The passages.
            deadline_seconds: How long the caller waits.

        Returns:
            One score a passage.

        Raises:
            CorpusMeshError: What the service answered, rebuilt from its status.
            InternalError: If the scores do not fit the passages.
        """
        request = pb.RerankRequest(question=question, passages=passages)
        try:
            response = await self._stub.Rerank(request, timeout=deadline_seconds)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        scores = np.array(response.scores, dtype=np.float32)
        if len(scores) != len(passages) or not bool(np.all((scores >= 0.0) & (scores <= 1.0))):
            raise InternalError("EMBED_RESPONSE_INVALID", "the embed service gave scores that do not fit the passages")
        return scores


def _rerank_model_of(model: pb.Model) -> RerankModel:
    return RerankModel(model.model, model.max_input_tokens, model.fingerprint)


def _space_of(model: pb.Model) -> EmbeddingSpace:
    space = EmbeddingSpace(model=model.model, dimension=model.dimension, normalized=True, fingerprint=model.fingerprint)
    if space.space_id != model.space:
        raise InternalError("EMBED_SPACE_MISMATCH", "the embed service names its space in another way")
    return space


def _multi_vectors(message: pb.DenseVectors) -> MultiVectors:
    values = np.frombuffer(message.values, dtype="<f4")
    if message.dimension < 1 or values.size % message.dimension:
        raise InternalError("EMBED_RESPONSE_INVALID", "the embed service gave vectors of no whole number")
    return values.reshape(-1, message.dimension)
