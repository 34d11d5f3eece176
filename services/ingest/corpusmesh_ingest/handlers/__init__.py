"""gRPC handlers: they connect wire messages to stores, and decide nothing themselves."""

from corpusmesh_ingest.handlers.chunks import ChunkHandlers
from corpusmesh_ingest.handlers.documents import DocumentHandlers
from corpusmesh_ingest.handlers.knowledge_bases import KnowledgeBaseHandlers
from corpusmesh_ingest.handlers.runs import RunHandlers
from corpusmesh_ingest.handlers.sources import SourceHandlers

__all__ = ["ChunkHandlers", "DocumentHandlers", "KnowledgeBaseHandlers", "RunHandlers", "SourceHandlers"]
