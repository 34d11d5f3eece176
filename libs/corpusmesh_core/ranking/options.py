"""What the ranking of one request can be told."""

from dataclasses import dataclass
from enum import StrEnum


class Fusion(StrEnum):
    """How the legs become one order."""

    ADAPTIVE = "adaptive"
    """Term coverage and scaled cosine, both absolute, so that words weigh as much as the question's words carry."""
    TERM_COVERAGE = "term_coverage"
    """The seed's formula: (1 - w) * term coverage + w * cosine + rank feature."""
    RECIPROCAL_RANK = "reciprocal_rank"
    MIN_MAX = "min_max"
    Z_SCORE = "z_score"


@dataclass(frozen=True, slots=True)
class VectorScale:
    """How the cosines of an embedding model are to be read; measured once per model.

    Attributes:
        floor: Cosine of texts that have nothing to do with each other, below 1. E5's cosines lie within 0.7..1.
        cross_script_gain: What is added to the cosine of texts in scripts that share no words: a model that holds
            several languages still puts them a little apart, so that without it the other language never comes up.
    """

    floor: float = 0.7
    cross_script_gain: float = 0.06


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Settings of one ranking; defaults were fixed on the development halves of the evaluation sets (ADR-0004).

    Attributes:
        fusion: How the legs become one order.
        vector_weight: Weight of the vector similarity, 0 to 1.
        similarity_threshold: Candidates below it are dropped.
        bigram_share: Share of the term coverage that pairs of neighbouring terms have, 0 to 1.
        scale: How to read the model's cosines; not used by TERM_COVERAGE, which takes them as they are.
    """

    fusion: Fusion = Fusion.ADAPTIVE
    vector_weight: float = 0.7
    similarity_threshold: float = 0.0
    bigram_share: float = 0.1
    scale: VectorScale = VectorScale()
