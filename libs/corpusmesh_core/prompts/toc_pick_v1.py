"""Prompt for choosing the sections of a document that a question is about, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

TOC_PICK_V1: Final = StepPrompt(
    version="toc-pick/1",
    task="""\
The table of contents of one document is given, one numbered section a line, deeper ones indented. Name the numbers of \
the sections whose text is likely to hold what the question asks for, the likeliest first, at most {count}. Prefer the \
deepest section that fits. Where none fits, give an empty list.""",
    form='{"sections": [12, 4]}',
    max_token_count=120,
)
"""Current prompt for sections."""
