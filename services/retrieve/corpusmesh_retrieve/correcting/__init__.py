"""Corrective loops: check what was found, grade it, and search again or in the web where it is not enough."""

from corpusmesh_retrieve.correcting.stage import CorrectionStage, FurtherSearch, WebSearcher

__all__ = ["CorrectionStage", "FurtherSearch", "WebSearcher"]
