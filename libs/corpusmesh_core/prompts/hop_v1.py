"""Prompt for the questions of the next hop, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

HOP_V1: Final = StepPrompt(
    version="hop/1",
    task="""\
The question may take several steps, and the passages may answer the first ones. Write the questions that are still to \
be looked up: at most {count}, each understandable by itself, with names from the passages in the place of what they \
answer, in the language of the question. An empty list if the passages answer the question, or lead nowhere. Do not \
answer anything.""",
    form='{"questions": ["In which city was Diane Warren born?"]}',
    max_token_count=300,
)
"""Current prompt for the questions of the next hop."""
