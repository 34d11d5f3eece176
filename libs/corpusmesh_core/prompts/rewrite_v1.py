"""Prompt that rewrites a question that found too little, version 1."""

from corpusmesh_core.prompts.step_prompt import StepPrompt

REWRITE_V1 = StepPrompt(
    version="rewrite/1",
    task="""\
A search with this question found too little. Write {count} other search queries that would find the answer: other \
words for the same thing, the words that a document would use, or the part that is still missing. Keep names and \
numbers as they are. Do not answer the question.""",
    form='{"queries": ["other words for the question"]}',
    max_token_count=300,
)
"""Current prompt of the rewriting."""
