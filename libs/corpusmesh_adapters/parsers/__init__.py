"""Readers of every document format, and the pool of processes in which they run."""

from corpusmesh_adapters.parsers.pool import ParserPool

__all__ = ["ParserPool"]
