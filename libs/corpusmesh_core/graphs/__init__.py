"""Graphs of entities and relations over chunks: how they are found, resolved, put together and ranked (ADR-0014)."""
