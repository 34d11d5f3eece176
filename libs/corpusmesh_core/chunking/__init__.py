"""Cuts parsed documents into chunks: pure, deterministic, bounded by the embedder's own tokens."""

from corpusmesh_core.chunking.general import GeneralChunkSettings, chunk_general
from corpusmesh_core.chunking.tables import row_text, table_html, table_text
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.chunking.templates import (
    DEFAULT_TEMPLATE,
    TEMPLATES,
    chunk_document,
    chunk_with_warnings,
    find_template,
)
from corpusmesh_core.chunking.tokens import WordTokenCounter

__all__ = [
    "DEFAULT_TEMPLATE",
    "TEMPLATES",
    "ChunkResult",
    "ChunkTemplate",
    "GeneralChunkSettings",
    "WordTokenCounter",
    "chunk_document",
    "chunk_general",
    "chunk_with_warnings",
    "find_template",
    "row_text",
    "table_html",
    "table_text",
]
