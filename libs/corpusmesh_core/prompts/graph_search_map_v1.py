"""Prompt for what reports of communities say about a question, as points with scores, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_MAP_V1: Final = StepPrompt(
    version="graph_search_map/1",
    task="""\
Numbered reports are given, each on one subject of a collection of documents. Collect what they say that helps with \
the question: short points in the language of the question, each one taken from one report alone and understandable \
by itself, with names and figures as the report has them. For each give a score from 0 to 100, by how far it helps, \
and the number of its report. Add nothing that no report says. At most {count} points, the most helpful first; an \
empty list where nothing helps.""",
    form='{"points": [{"text": "Three of the five bridges were built after the flood of 1910.", "score": 80, '
    '"report": 2}]}',
    max_token_count=1_500,
)
"""Current prompt for points of reports."""
