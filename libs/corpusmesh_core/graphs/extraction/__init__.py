"""Finds entities and relations in the chunks of a document without a model, and in what users give (ADR-0014)."""

from corpusmesh_core.graphs.extraction.document import extract_entities
from corpusmesh_core.graphs.extraction.merging import merge_subgraphs
from corpusmesh_core.graphs.extraction.questions import names_in
from corpusmesh_core.graphs.extraction.sentences import sentences
from corpusmesh_core.graphs.extraction.triples import from_triples

__all__ = ["extract_entities", "from_triples", "merge_subgraphs", "names_in", "sentences"]
