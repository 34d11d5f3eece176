"""Prompt for the titles of a table of contents, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

TOC_TITLES_V1: Final = ItemPrompt(
    version="toc-titles/1",
    task="""\
The items are consecutive pieces of one document. Where a new section begins in an item, give the section's title as \
the item writes it, or, if it writes none, a title of at most eight words in the language of the item. Where an item \
only continues what came before, give -1.""",
    form='{"items": [{"n": 1, "title": "Clustered indexes"}, {"n": 2, "title": -1}]}',
)
"""Current prompt for titles."""
