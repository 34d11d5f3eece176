"""Prompt for the telling words of a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

QUERY_KEYWORDS_V1: Final = StepPrompt(
    version="query_keywords/1",
    task="""\
Name up to {count} words or short phrases of the question that a passage with the answer must be about: names, \
technical terms, what is asked for. Copy them from the question letter by letter, best first. No function words.""",
    form='{"keywords": ["clustered index", "InnoDB"]}',
    max_token_count=200,
)
"""Current prompt for telling words."""
