"""Wire messages to values and back."""

from corpusmesh.embed.v1 import embed_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.embedding import EmbeddingSpace, EmbedLane, EmbedResult, EmbedRole
from corpusmesh_core.ports.page_embedding import MultiVectors
from corpusmesh_core.ports.reranking import RerankModel

_ROLES = {pb.EMBED_ROLE_QUERY: EmbedRole.QUERY, pb.EMBED_ROLE_PASSAGE: EmbedRole.PASSAGE}
_LANES = {
    pb.EMBED_LANE_UNSPECIFIED: EmbedLane.BULK,
    pb.EMBED_LANE_INTERACTIVE: EmbedLane.INTERACTIVE,
    pb.EMBED_LANE_BULK: EmbedLane.BULK,
}


def role_of(request: pb.EmbedTextsRequest) -> EmbedRole:
    """Read the role of a request's texts.

    Args:
        request: The request.

    Returns:
        The role.

    Raises:
        InvalidArgumentError: If it is not set or not known.
    """
    role = _ROLES.get(request.role)
    if role is None:
        raise InvalidArgumentError(
            "EMBED_ROLE_INVALID", "set role to EMBED_ROLE_QUERY or EMBED_ROLE_PASSAGE", field="role", role=request.role
        )
    return role


def lane_of(request: pb.EmbedTextsRequest) -> EmbedLane:
    """Read the lane of a request.

    Args:
        request: The request.

    Returns:
        The lane; bulk where none is set.

    Raises:
        InvalidArgumentError: If it is not known.
    """
    lane = _LANES.get(request.lane)
    if lane is None:
        raise InvalidArgumentError(
            "EMBED_LANE_INVALID",
            "set lane to EMBED_LANE_INTERACTIVE or EMBED_LANE_BULK",
            field="lane",
            lane=request.lane,
        )
    return lane


def embed_response(result: EmbedResult, space: EmbeddingSpace) -> pb.EmbedTextsResponse:
    """Write vectors.

    Args:
        result: The vectors.
        space: Their space.

    Returns:
        The message.
    """
    values = result.vectors.astype("<f4", copy=False).tobytes()
    return pb.EmbedTextsResponse(
        space=space.space_id,
        dense=pb.DenseVectors(dimension=space.dimension, values=values),
        token_count=result.token_count,
        truncated_positions=result.truncated_positions,
    )


def model_message(space: EmbeddingSpace, *, max_input_tokens: int) -> pb.Model:
    """Write a model.

    Args:
        space: The space of its vectors.
        max_input_tokens: Tokens that it reads of one text.

    Returns:
        The message.
    """
    return pb.Model(
        model=space.model,
        space=space.space_id,
        dimension=space.dimension,
        max_input_tokens=max_input_tokens,
        fingerprint=space.fingerprint,
    )


def multi_vectors_message(vectors: MultiVectors) -> pb.DenseVectors:
    """Write the vectors of one page or question.

    Args:
        vectors: Shape (n, dimension).

    Returns:
        The message.
    """
    return pb.DenseVectors(dimension=vectors.shape[1], values=vectors.astype("<f4", copy=False).tobytes())


def rerank_model_message(model: RerankModel) -> pb.Model:
    """Write a cross-encoder.

    Args:
        model: The model.

    Returns:
        The message, without a space.
    """
    return pb.Model(model=model.name, max_input_tokens=model.max_input_tokens, fingerprint=model.fingerprint)
