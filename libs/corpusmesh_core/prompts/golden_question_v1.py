"""Prompt for a question with a known answer, drawn from a passage, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GOLDEN_QUESTION_V1: Final = StepPrompt(
    version="golden_question/1",
    task="""\
Write one question that a user would ask and that the passage answers, in the language of the passage. It names what \
it asks about (no "it", "this", "the passage"), and it can be understood by somebody who has not seen the passage. Use \
other words than the passage where that is natural. Copy the shortest run of words that answers it, letter for letter, \
as the quote.""",
    form='{"question": "How long may a guest stay without a visa?", "quote": "stays of up to 90 days"}',
    max_token_count=300,
)
"""Current prompt for golden questions."""
