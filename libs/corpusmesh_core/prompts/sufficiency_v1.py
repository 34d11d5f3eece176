"""Prompt that checks whether evidence is enough, version 1."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

SUFFICIENCY_V1 = StepPrompt(
    version="sufficiency/1",
    task="""\
Decide whether the passages hold everything that is needed to answer the question. Judge by the passages alone, not by \
what you know. `missing` names at most three things that are missing, each as a short search query in the language of \
the question; it is empty where nothing is missing. `confidence` is how sure you are, 0 to 1.""",
    form='{"is_sufficient": false, "missing": ["what is missing"], "confidence": 0.8}',
    max_token_count=300,
)
"""Current prompt of the check."""
