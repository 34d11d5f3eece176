"""Makes trees of summaries over chunks: of single documents, and of whole knowledge bases."""
