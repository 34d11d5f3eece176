"""Prompt for the stand-alone question of a conversation, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

REFINE_V1: Final = StepPrompt(
    version="refine/1",
    task="""\
The block named "question" is the last turn of a conversation; the other blocks are the turns before it. Write the \
question so that somebody who has not seen the conversation understands it: put names in the place of pronouns and of \
what is left out, keep its language, its names, its numbers and what it asks for, and add nothing else. A question \
that stands alone is copied as it is. Do not answer it.""",
    form='{"question": "When does the probation period of contractors end?"}',
    max_token_count=300,
)
"""Current prompt for the stand-alone question."""
