"""The ingest service: knowledge bases, documents, versions, and the runs that make them searchable."""
