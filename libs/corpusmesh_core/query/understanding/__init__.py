"""Understanding a question before the search, without I/O: rules, and readers of what a model answers."""

from corpusmesh_core.query.understanding.conditions import common_fields, conditions_in
from corpusmesh_core.query.understanding.emphasis import emphasis_of, emphasis_of_terms
from corpusmesh_core.query.understanding.follow_up import needs_context, stand_alone
from corpusmesh_core.query.understanding.languages import LANGUAGE_NAMES, language_of, languages_to_ask_in
from corpusmesh_core.query.understanding.parts import general_question, parts_of
from corpusmesh_core.query.understanding.routing import KnowledgeBaseMark, content_marks, pick_knowledge_bases

__all__ = [
    "LANGUAGE_NAMES",
    "KnowledgeBaseMark",
    "common_fields",
    "conditions_in",
    "content_marks",
    "emphasis_of",
    "emphasis_of_terms",
    "general_question",
    "language_of",
    "languages_to_ask_in",
    "needs_context",
    "parts_of",
    "pick_knowledge_bases",
    "stand_alone",
]
