"""Orchestration of enrichment: threads for what is computed, bounded and cached calls for what a model is asked."""

from corpusmesh_ingest.enriching.enricher import Enricher, EnrichLimits, EnrichRequest

__all__ = ["EnrichLimits", "EnrichRequest", "Enricher"]
