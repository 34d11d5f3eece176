"""What becomes of the best candidates before they are returned: pure rules, one module each."""

from corpusmesh_core.assembly.candidates import candidate_of
from corpusmesh_core.assembly.capping import cap_per_document
from corpusmesh_core.assembly.diversity import (
    order_by_information_gain,
    order_by_mmr,
    term_similarities,
    vector_similarities,
)
from corpusmesh_core.assembly.duplicates import (
    DuplicateSettings,
    collapse,
    confirmed_pairs,
    exact_duplicates,
    near_pairs,
)
from corpusmesh_core.assembly.joining import join_records, join_texts
from corpusmesh_core.assembly.ordering import (
    DUPLICATE_OF_BETTER,
    MERGED_INTO_NEIGHBOUR,
    MERGED_INTO_PARENT,
    MERGED_INTO_SEGMENT,
    OVER_DOCUMENT_CAP,
    arranged,
    kept_of,
    level_scores,
    reordered,
)
from corpusmesh_core.assembly.parents import parents_of, replace_children
from corpusmesh_core.assembly.rerank import mix_rerank_scores
from corpusmesh_core.assembly.segments import (
    ChunkSpan,
    SegmentSettings,
    join_spans,
    missing_chunks,
    plan_neighbours,
    plan_segments,
)

__all__ = [
    "DUPLICATE_OF_BETTER",
    "MERGED_INTO_NEIGHBOUR",
    "MERGED_INTO_PARENT",
    "MERGED_INTO_SEGMENT",
    "OVER_DOCUMENT_CAP",
    "ChunkSpan",
    "DuplicateSettings",
    "SegmentSettings",
    "arranged",
    "candidate_of",
    "cap_per_document",
    "collapse",
    "confirmed_pairs",
    "exact_duplicates",
    "join_records",
    "join_spans",
    "join_texts",
    "kept_of",
    "level_scores",
    "missing_chunks",
    "mix_rerank_scores",
    "near_pairs",
    "order_by_information_gain",
    "order_by_mmr",
    "parents_of",
    "plan_neighbours",
    "plan_segments",
    "reordered",
    "replace_children",
    "term_similarities",
    "vector_similarities",
]
