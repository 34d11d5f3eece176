"""Makes the summaries of clusters: by a language model within hard budgets, or of the clusters' own sentences."""

from corpusmesh_raptor.summarizing.summarizer import Summarizer, SummarySession

__all__ = ["Summarizer", "SummarySession"]
