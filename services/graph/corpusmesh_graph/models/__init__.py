"""Asks a language model for what graphs are made of: entities, relations, descriptions, confirmations and reports."""

from corpusmesh_graph.models.desk import GraphModels
from corpusmesh_graph.models.orders import GRAPH_BUDGET_SPENT, GRAPH_TIME_SPENT
from corpusmesh_graph.models.session import Extracted, GraphSession, WrittenReport

__all__ = ["GRAPH_BUDGET_SPENT", "GRAPH_TIME_SPENT", "Extracted", "GraphModels", "GraphSession", "WrittenReport"]
