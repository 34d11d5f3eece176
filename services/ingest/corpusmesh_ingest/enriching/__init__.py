"""Orchestration of enrichment: threads for what is computed, bounded and cached calls for what a model is asked."""

from corpusmesh_ingest.enriching.asking import EnrichLimits
from corpusmesh_ingest.enriching.draft import EnrichRequest
from corpusmesh_ingest.enriching.enricher import Enricher

__all__ = ["EnrichLimits", "EnrichRequest", "Enricher"]
