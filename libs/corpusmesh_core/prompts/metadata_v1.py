"""Prompt for metadata, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

METADATA_V1: Final = ItemPrompt(
    version="metadata/1",
    task="""\
Every item is the beginning of a document. Read the values of these fields from it:
{fields}
Give null where the item does not say it; never guess. Dates as YYYY-MM-DD, numbers as digits, booleans as true or \
false, enumerations exactly as they are listed.""",
    form='{"items": [{"n": 1, "values": {"field_name": "value", "another_field": null}}]}',
)
"""Current prompt for metadata."""
