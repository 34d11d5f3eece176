"""From the candidates of both legs to one explained order."""

from corpusmesh_core.ranking.fusion import fuse_min_max, fuse_ranks, fuse_weighted, fuse_z_scores
from corpusmesh_core.ranking.options import Fusion, RankingOptions, VectorScale
from corpusmesh_core.ranking.paging import Page, page_of
from corpusmesh_core.ranking.scoring import LegScore, RankedCandidate, ScoreExplanation, rank_candidates
from corpusmesh_core.ranking.signals import inverse_document_frequencies, scale_cosines, term_coverage

__all__ = [
    "Fusion",
    "LegScore",
    "Page",
    "RankedCandidate",
    "RankingOptions",
    "ScoreExplanation",
    "VectorScale",
    "fuse_min_max",
    "fuse_ranks",
    "fuse_weighted",
    "fuse_z_scores",
    "inverse_document_frequencies",
    "page_of",
    "rank_candidates",
    "scale_cosines",
    "term_coverage",
]
