"""Prompt for the keywords of two levels that a graph is searched by, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_LEVELS_V1: Final = StepPrompt(
    version="graph_search_levels/1",
    task="""\
A graph of entities and relations is searched for what answers the question. Name two kinds of keywords of it:
- high_level_keywords: what it is about as a whole: topics, subjects, kinds of relations, what is asked for.
- low_level_keywords: what it is about in particular: names, proper nouns, technical terms, products.
Words or short phrases in the language of the question, best first, at most {count} of each kind, none that the \
question does not imply. For a question that asks for nothing, such as a greeting or random letters, give two empty \
lists.""",
    form='{"high_level_keywords": ["lineage of teachers", "contribution"], "low_level_keywords": ["Euler"]}',
    max_token_count=300,
)
"""Current prompt for keywords of two levels."""
