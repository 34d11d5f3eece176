"""Record index on OpenSearch with the k-NN plugin."""

from corpusmesh_adapters.opensearch.index import OpenSearchRecordIndex
from corpusmesh_adapters.opensearch.settings import OpenSearchSettings

__all__ = ["OpenSearchRecordIndex", "OpenSearchSettings"]
