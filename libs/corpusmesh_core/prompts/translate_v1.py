"""Prompt for the translations of a question, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

TRANSLATE_V1: Final = StepPrompt(
    version="translate/1",
    task="""\
Translate the question into these languages: {languages}. Use the technical terms that documents in that language use. \
Keep product names, code, numbers and quotations as they are. Do not answer it.""",
    form='{"translations": {"zh": "聚簇索引是什么？", "de": "Was ist ein gruppierter Index?"}}',
    max_token_count=600,
)
"""Current prompt for translations."""
