"""Prompt that grades passages, version 1."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRADE_V1 = StepPrompt(
    version="grade/1",
    task="""\
Grade how much each passage helps to answer the question: 1 for a passage that answers it or a part of it, 0.5 for one \
that is about the same matter and does not answer, 0 for one that does not help. `n` is the number of the passage. \
Grade every passage.""",
    form='{"grades": [{"n": 1, "grade": 0.5}]}',
    max_token_count=500,
)
"""Current prompt of the grades."""
