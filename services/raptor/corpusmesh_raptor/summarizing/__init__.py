"""Makes the summaries of clusters: by a language model within hard budgets, or of the clusters' own sentences."""

from corpusmesh_raptor.summarizing.session import SummarySession
from corpusmesh_raptor.summarizing.summarizer import Summarizer

__all__ = ["Summarizer", "SummarySession"]
