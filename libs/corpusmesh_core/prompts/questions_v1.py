"""Prompt for hypothetical questions (HyPE), version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

QUESTIONS_V1: Final = ItemPrompt(
    version="questions/1",
    task="""\
For every item, write up to {count} questions that users would ask and that the item answers completely. Each asks for \
another fact, names what it asks about (no "it", "this", "the text"), and stands in the language of the item. Fewer \
questions where the item answers fewer; an empty list where it answers none.""",
    form='{"items": [{"n": 1, "questions": ["What is a clustered index?"]}, {"n": 2, "questions": []}]}',
)
"""Current prompt for questions."""
