"""Prompt for the scores of propositions, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

PROPOSITION_SCORES_V1: Final = ItemPrompt(
    version="proposition-scores/1",
    task="""\
Every item is a text, and behind the line "Statements:" a numbered list of statements made from it. Score every \
statement from 1 (bad) to 10 (perfect) in four respects:
accuracy: it says what the text says; clarity: it is understood without the text; completeness: it has the details \
that it needs, such as dates and conditions; conciseness: it has no needless words.
Give for each statement its four whole numbers in this order, statements in the order of the list.""",
    form='{"items": [{"n": 1, "scores": [[10, 9, 8, 9], [4, 9, 8, 9]]}]}',
)
"""Current prompt for scores."""
