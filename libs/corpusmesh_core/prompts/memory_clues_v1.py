"""Prompt for clues from memory records (MemoRAG), version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

MEMORY_CLUES_V1: Final = StepPrompt(
    version="memory_clues/1",
    task="""\
The blocks named "memory" say in short what documents hold. Use them to say what to look for: clues, which are short \
phrases that the passage with the answer probably holds, and questions, which are clearer or more exact forms of the \
question in the words of the documents. Up to {count} of each, in the language of the memories; empty lists where no \
memory has to do with the question.""",
    form='{"clues": ["annual leave entitlement"], "questions": ["How many days of annual leave do new staff have?"]}',
    max_token_count=500,
)
"""Current prompt for clues (Qian et al., "MemoRAG", 2024)."""
