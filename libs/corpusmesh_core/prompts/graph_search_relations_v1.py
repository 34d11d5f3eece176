"""Prompt for choosing the relations of a graph that answer a question, with reasons, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_RELATIONS_V1: Final = StepPrompt(
    version="graph_search_relations/1",
    task="""\
Numbered relations of a graph of entities are given. A question may need several of them, each one leading to the \
next: who is meant first, then who stands next to that one, then what is asked of it. Think step by step in \
"reasoning", in a few sentences, which relations lead from question to answer. Then give the numbers of those \
relations, the most useful first, at most {count}; only numbers that are given. Where none helps, \
give an empty list.""",
    form='{"reasoning": "The question is about the capital of the country where Ada was born; relation 4 names the '
    'country, relation 9 its capital.", "relations": [9, 4]}',
    max_token_count=500,
)
"""Current prompt for relations."""
