"""Prompt that checks an answer against its evidence, version 1."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

VERIFY_V1 = StepPrompt(
    version="verify/1",
    task="""\
Check each numbered statement of an answer against the passages alone. `support` is 1 where the passages say it, 0.5 \
where they say a part of it, 0 where they do not say it or say otherwise. `useful` is how well the statements together \
answer the question, 0 to 1. Check every statement.""",
    form='{"statements": [{"n": 1, "support": 1.0}], "useful": 0.9}',
    max_token_count=500,
)
"""Current prompt of the check."""
