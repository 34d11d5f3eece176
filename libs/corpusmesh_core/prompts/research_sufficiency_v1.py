"""Prompt that judges whether evidence answers a question of a research, version 1 (seed 000, section 4)."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

RESEARCH_SUFFICIENCY_V1 = StepPrompt(
    version="research_sufficiency/1",
    task="""\
Judge whether the passages hold all that is needed to answer the question completely. Judge by the passages alone, not \
by what you know. If something is missing, name each missing piece of information in a few words of the question's \
language, at most {max_missing}.""",
    form='{"sufficient": false, "missing": ["year in which the bridge was opened"]}',
    max_token_count=300,
)
"""Current prompt of the judgement."""
