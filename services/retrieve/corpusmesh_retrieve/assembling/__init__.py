"""The stages after scoring, in their order: each works on the ranked candidates; none recalls by question."""

from collections.abc import Sequence

from corpusmesh_core.ports.embedding import Embedder
from corpusmesh_core.ports.index import RecordIndex
from corpusmesh_core.ports.reranking import PassageReranker
from corpusmesh_retrieve.assembling.capping import DocumentCapStage
from corpusmesh_retrieve.assembling.compression import CompressionStage
from corpusmesh_retrieve.assembling.contents import ContentsStage
from corpusmesh_retrieve.assembling.diversity import DiversityStage
from corpusmesh_retrieve.assembling.duplicates import DuplicateStage
from corpusmesh_retrieve.assembling.parents import ParentStage
from corpusmesh_retrieve.assembling.reading import RecordReader
from corpusmesh_retrieve.assembling.spans import NeighbourStage, SegmentStage
from corpusmesh_retrieve.reranking import RerankStage
from corpusmesh_retrieve.stages import Stage


def assembly_stages(
    index: RecordIndex,
    embedder: Embedder,
    reranker: PassageReranker,
    *,
    between: Sequence[Stage] = (),
    compress_by_model: bool = False,
) -> tuple[Stage, ...]:
    """Make the stages that follow scoring.

    Args:
        index: Reads records by id.
        embedder: Embeds titles and sentences.
        reranker: The cross-encoder.
        between: Stages after reranking and before what is made of the hits: page images, hops.
        compress_by_model: Whether the language model chooses the sentences that stay, where it can.

    Returns:
        Rerank, `between`, table of contents, parents, duplicates, diversity, segments, neighbours, bound per document,
        compression.
    """
    reader = RecordReader(index)
    return (
        RerankStage(reranker),
        *between,
        ContentsStage(reader, embedder),
        ParentStage(reader),
        DuplicateStage(reader),
        DiversityStage(reader),
        SegmentStage(reader),
        NeighbourStage(reader),
        DocumentCapStage(),
        CompressionStage(embedder, by_model=compress_by_model),
    )


__all__ = ["assembly_stages"]
