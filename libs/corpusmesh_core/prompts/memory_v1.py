"""Prompt for memory pairs (MemoRAG), version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

MEMORY_V1: Final = ItemPrompt(
    version="memory/1",
    task="""\
For every item, name its topics and what it says of each: up to {count} pairs. A topic is a short phrase, its details \
are one or two whole sentences with names and numbers, both in the language of the item. Say nothing that the item \
does not say.""",
    form='{"items": [{"n": 1, "pairs": [{"topic": "Ocean acidification", "details": "Oceans take up CO2."}]}]}',
)
"""Current prompt for memory pairs."""
