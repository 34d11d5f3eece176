"""What one request may see: a bitmap of ordinals, the filter made of it, and the rule it must obey."""

from corpusmesh_core.visibility.bitmaps import MAX_ORDINAL, Visibility, decode_bitmap, encode_bitmap
from corpusmesh_core.visibility.filters import (
    SINGLE_SOURCE_KINDS,
    VisibilityClause,
    VisibilityFilter,
    build_filter,
    check_sources,
    is_visible,
)

__all__ = [
    "MAX_ORDINAL",
    "SINGLE_SOURCE_KINDS",
    "Visibility",
    "VisibilityClause",
    "VisibilityFilter",
    "build_filter",
    "check_sources",
    "decode_bitmap",
    "encode_bitmap",
    "is_visible",
]
