"""Prompt for choosing the sentences of passages that matter for a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

COMPRESS_V1: Final = StepPrompt(
    version="compress/1",
    task="""\
Each passage is given as numbered sentences. Name the numbers of the sentences that are needed to answer the question, \
and of those without which such a sentence cannot be understood. Leave out the rest. Do not write the sentences.""",
    form='{"sentences": [2, 3, 17]}',
    max_token_count=300,
)
"""Current prompt for sentences."""
