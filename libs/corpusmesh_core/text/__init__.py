"""Text analysis: one function for index time and query time (field report FR-A13)."""

from corpusmesh_core.text.analysis import AnalyzedText, analyze
from corpusmesh_core.text.byte_limit import cut_to_bytes
from corpusmesh_core.text.normalization import normalize
from corpusmesh_core.text.query_terms import MAX_QUERY_TERMS, Alternative, QueryTerms, analyze_query
from corpusmesh_core.text.scripts import Script, script_of
from corpusmesh_core.text.stop_words import is_stop_word

__all__ = [
    "MAX_QUERY_TERMS",
    "Alternative",
    "AnalyzedText",
    "QueryTerms",
    "Script",
    "analyze",
    "analyze_query",
    "cut_to_bytes",
    "is_stop_word",
    "normalize",
    "script_of",
]
