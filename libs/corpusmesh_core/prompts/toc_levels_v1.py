"""Prompt for the levels of a table of contents, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

TOC_LEVELS_V1: Final = ItemPrompt(
    version="toc-levels/1",
    task="""\
Every item is a list of section titles of one document in reading order, one a line, each with its number. Give the \
level of every title: 1 for the outermost sections, 2 for sections inside them, and so on, at most 6. Exactly one \
whole number for each title, in the same order.""",
    form='{"items": [{"n": 1, "levels": [1, 2, 2, 1]}]}',
)
"""Current prompt for levels."""
