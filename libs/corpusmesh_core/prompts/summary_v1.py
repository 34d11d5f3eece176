"""Prompt for summaries of pages and sections, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

SUMMARY_V1: Final = ItemPrompt(
    version="summary/1",
    task="""\
Summarise every item for somebody who looks for the place where a question is answered: what it is about, its main \
statements, names and numbers. At most {max_words} words or {max_characters} Chinese characters, whole sentences, in \
the language of the item. Say nothing that the item does not say, and do not speak of "the text".""",
    form='{"items": [{"n": 1, "summary": "InnoDB keeps rows in the leaf pages of the clustered index."}]}',
)
"""Current prompt for summaries."""
