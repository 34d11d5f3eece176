"""What is made of a document before it is indexed: with and without a language model, pure in both cases."""

from corpusmesh_core.enrichment.schema import FieldSource, FieldType, MetadataField, MetadataSchema
from corpusmesh_core.enrichment.settings import EnrichmentSettings, EnrichMethod, SummaryScope
from corpusmesh_core.enrichment.values import (
    DERIVED_KINDS,
    IMAGE_CAPTION_PREFIX,
    Derived,
    Enriched,
    TagExample,
    derived_from_plain,
    derived_to_plain,
)

__all__ = [
    "DERIVED_KINDS",
    "IMAGE_CAPTION_PREFIX",
    "Derived",
    "EnrichMethod",
    "Enriched",
    "EnrichmentSettings",
    "FieldSource",
    "FieldType",
    "MetadataField",
    "MetadataSchema",
    "SummaryScope",
    "TagExample",
    "derived_from_plain",
    "derived_to_plain",
]
