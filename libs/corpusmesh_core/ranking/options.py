"""What the ranking of one request can be told."""

from dataclasses import dataclass
from enum import StrEnum

from corpusmesh_core.text import Script


class Fusion(StrEnum):
    """How the legs become one order."""

    ADAPTIVE = "adaptive"
    """Term coverage and scaled cosine, both absolute, so that words weigh as much as the question's words carry."""
    TERM_COVERAGE = "term_coverage"
    """The seed's formula: (1 - w) * term coverage + w * cosine + rank feature."""
    RECIPROCAL_RANK = "reciprocal_rank"
    MIN_MAX = "min_max"
    Z_SCORE = "z_score"


_WEIGHT_BY_FUSION = {Fusion.TERM_COVERAGE: 0.3, Fusion.MIN_MAX: 0.5, Fusion.Z_SCORE: 0.5}
_WEIGHT_BY_SCRIPT = {Script.SPACED: 0.8, Script.MIXED: 0.5, Script.UNSPACED: 0.5}
_SEED_BIGRAM_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class VectorScale:
    """How the cosines of an embedding model are to be read; measured once per model.

    Attributes:
        floor: Cosine of texts that have nothing to do with each other, below 1. E5's cosines lie within 0.7..1.
        cross_script_gain: What is added to the cosine of texts in scripts that share no words: a model that holds
            several languages still puts them a little apart, so that without it the other language never comes up.
    """

    floor: float = 0.7
    cross_script_gain: float = 0.05


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Settings of one ranking; defaults were fixed on the development halves of the evaluation sets (ADR-0006).

    Attributes:
        fusion: How the legs become one order.
        vector_weight: Weight of the vector similarity, 0 to 1; None for the fusion's own: the seed's 0.3 for
            TERM_COVERAGE, 0.5 for MIN_MAX and Z_SCORE; for the others 0.8, and 0.5 for a question in a script without
            spaces, whose terms are pairs of characters and hold the order of words too.
        similarity_threshold: Candidates below it are dropped.
        bigram_share: Share of the term coverage that pairs of neighbouring terms have, 0 to 1; None for the fusion's
            own: 0.1 for TERM_COVERAGE, else 0.
        scale: How to read the model's cosines; not used by TERM_COVERAGE, which takes them as they are.
    """

    fusion: Fusion = Fusion.ADAPTIVE
    vector_weight: float | None = None
    similarity_threshold: float = 0.0
    bigram_share: float | None = None
    scale: VectorScale = VectorScale()

    def vector_weight_for(self, script: Script) -> float:
        """Fill in the default weight.

        Args:
            script: Script of the question.

        Returns:
            Weight of the vector similarity, 0 to 1.
        """
        if self.vector_weight is not None:
            return self.vector_weight
        if self.fusion in _WEIGHT_BY_FUSION:
            return _WEIGHT_BY_FUSION[self.fusion]
        return _WEIGHT_BY_SCRIPT[script]

    @property
    def effective_bigram_share(self) -> float:
        """The share of pairs, default filled in."""
        if self.bigram_share is not None:
            return self.bigram_share
        return _SEED_BIGRAM_SHARE if self.fusion is Fusion.TERM_COVERAGE else 0.0
