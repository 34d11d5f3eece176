"""Prompt that asks whether a question needs documents at all, version 1."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

REFLECT_V1 = StepPrompt(
    version="reflect/1",
    task="""\
Decide whether the user's message asks for something that documents could hold. Greetings, thanks and small talk do \
not; every question about a matter does, also one that you could answer yourself.""",
    form='{"needs_documents": true}',
    max_token_count=60,
)
"""Current prompt of the decision."""
