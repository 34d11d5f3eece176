"""Prompt for choosing the communities of a graph that bear on a question, by the titles of their reports, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_RATE_V1: Final = StepPrompt(
    version="graph_search_rate/1",
    task="""\
Documents were sorted into subjects, and each subject has a numbered title. Name the numbers of the subjects under \
which something could stand that helps with the question, the likeliest first, at most {count}. A title says little: \
where in doubt, name its number. A question about everything takes the subjects that weigh most.""",
    form='{"reports": [4, 1, 7]}',
    max_token_count=160,
)
"""Current prompt for choosing communities."""
