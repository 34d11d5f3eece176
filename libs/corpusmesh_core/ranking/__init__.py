"""From the candidates of both legs to one explained order."""

from corpusmesh_core.ranking.derived import derived_kinds, lift_by_derived, links_to_fetch
from corpusmesh_core.ranking.fusion import fuse_min_max, fuse_ranks, fuse_weighted, fuse_z_scores
from corpusmesh_core.ranking.late_interaction import PageVectors, max_sim, pack_pages, quantize, unpack_page
from corpusmesh_core.ranking.options import Fusion, RankingOptions, VectorScale
from corpusmesh_core.ranking.pages import page_image_ids, rescore_by_pages
from corpusmesh_core.ranking.paging import Page, page_of
from corpusmesh_core.ranking.scoring import (
    LegScore,
    RankedCandidate,
    ScoreExplanation,
    in_order,
    raised,
    rank_candidates,
)
from corpusmesh_core.ranking.signals import inverse_document_frequencies, scale_cosines, term_coverage
from corpusmesh_core.ranking.variants import VariantCandidates, merge_ranked, rank_variants, trust_in

__all__ = [
    "Fusion",
    "LegScore",
    "Page",
    "PageVectors",
    "RankedCandidate",
    "RankingOptions",
    "ScoreExplanation",
    "VariantCandidates",
    "VectorScale",
    "derived_kinds",
    "fuse_min_max",
    "fuse_ranks",
    "fuse_weighted",
    "fuse_z_scores",
    "in_order",
    "inverse_document_frequencies",
    "lift_by_derived",
    "links_to_fetch",
    "max_sim",
    "merge_ranked",
    "pack_pages",
    "page_image_ids",
    "page_of",
    "quantize",
    "raised",
    "rank_candidates",
    "rank_variants",
    "rescore_by_pages",
    "scale_cosines",
    "term_coverage",
    "trust_in",
    "unpack_page",
]
