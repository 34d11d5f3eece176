"""What a caller can ask of retrieval."""

from corpusmesh_core.query.plan import RetrievalPlan, SearchMode

__all__ = ["RetrievalPlan", "SearchMode"]
