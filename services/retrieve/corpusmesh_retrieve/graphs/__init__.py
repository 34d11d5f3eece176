"""Graphs of entities in a search: what each mode looks up, and what becomes of passages and evidence (ADR-0014)."""
