"""Prompt for keywords, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

KEYWORDS_V1: Final = ItemPrompt(
    version="keywords/1",
    task="""\
For every item, name up to {count} keywords that somebody would search for to find it: names, terms, and the usual \
synonyms of its terms. One to four words each, in the language of the item, best first. No sentences.""",
    form='{"items": [{"n": 1, "keywords": ["clustered index", "InnoDB"]}, {"n": 2, "keywords": ["聚簇索引"]}]}',
)
"""Current prompt for keywords."""
