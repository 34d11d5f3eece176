"""Asks a language model for what graphs are made of: entities, relations, descriptions, confirmations and reports."""

from corpusmesh_graph.models.desk import GraphModels
from corpusmesh_graph.models.session import Extracted, GraphSession

__all__ = ["Extracted", "GraphModels", "GraphSession"]
