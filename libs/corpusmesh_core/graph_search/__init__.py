"""How graphs of entities are searched: pure functions over views, records and scores (ADR-0014)."""
