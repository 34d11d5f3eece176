"""Graphs as callers see them, read from segments and kept as long as they are asked for (ADR-0014)."""

from corpusmesh_runtime.graphs.config import GraphCacheSettings
from corpusmesh_runtime.graphs.reader import GraphReader

__all__ = ["GraphCacheSettings", "GraphReader"]
