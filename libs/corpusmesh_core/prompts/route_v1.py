"""Prompt for the knowledge bases that a question is put to, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

ROUTE_V1: Final = StepPrompt(
    version="route/1",
    task="""\
The numbered blocks describe knowledge bases. Name the numbers of those that may hold the answer to the question, best \
first, at most {count}; an empty list where none can.""",
    form='{"numbers": [3, 1]}',
    max_token_count=100,
)
"""Current prompt for routing."""
