"""Prompt for the general question behind a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

STEP_BACK_V1: Final = StepPrompt(
    version="step_back/1",
    task="""\
Write the more general question whose answer holds the background of this question: its rule, its concept, its cause. \
One question in the language of the question; null where the question is general already. Do not answer it.""",
    form='{"question": "How does InnoDB organise its indexes?"}',
    max_token_count=200,
)
"""Current prompt for stepping back (Zheng et al., "Take a Step Back", 2023)."""
