"""Cuts parsed documents into chunks: pure, deterministic, bounded by the embedder's own tokens."""

from corpusmesh_core.chunking.difference import ChangeKind, ChunkChange, diff_chunks
from corpusmesh_core.chunking.edits import (
    ChunkAnchor,
    ChunkEdit,
    EditAction,
    EditedChunks,
    anchor_of,
    apply_edits,
    is_disabled,
    text_digest,
)
from corpusmesh_core.chunking.general import GeneralChunkSettings, chunk_general
from corpusmesh_core.chunking.settings import BudgetSettings, RunningTextSettings
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
    "BudgetSettings",
    "ChangeKind",
    "ChunkAnchor",
    "ChunkChange",
    "ChunkEdit",
    "ChunkResult",
    "ChunkTemplate",
    "EditAction",
    "EditedChunks",
    "GeneralChunkSettings",
    "RunningTextSettings",
    "WordTokenCounter",
    "anchor_of",
    "apply_edits",
    "chunk_document",
    "chunk_general",
    "chunk_with_warnings",
    "diff_chunks",
    "find_template",
    "is_disabled",
    "row_text",
    "table_html",
    "table_text",
    "text_digest",
]
