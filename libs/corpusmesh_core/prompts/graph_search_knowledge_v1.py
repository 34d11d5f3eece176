"""Prompt for the types of the answer and the entities of a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_KNOWLEDGE_V1: Final = StepPrompt(
    version="graph_search_knowledge/1",
    task="""\
A graph of entities is searched for what answers the question. Say:
- answer_type_keywords: of which types the answer may be, the likeliest first, at most {types}; only types from the \
list of types, copied letter by letter.
- entities_from_query: the entities that the question names or describes, in the language of the question, the most \
particular first, at most {entities}.""",
    form='{"answer_type_keywords": ["person"], "entities_from_query": ["Bletchley Park", "Enigma"]}',
    max_token_count=200,
)
"""Current prompt for types and entities."""
