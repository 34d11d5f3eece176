"""Prompt for propositions, version 1."""

from typing import Final

from corpusmesh_core.prompts.item_prompt import ItemPrompt

PROPOSITIONS_V1: Final = ItemPrompt(
    version="propositions/1",
    task="""\
Break every item into simple statements that can be understood alone:
1. Each states one fact, with one subject and one verb, in the language of the item.
2. Replace every pronoun and every "this" by the full name of what it stands for; use the headings for it.
3. Keep dates, places, numbers and conditions that belong to the fact.
4. Say nothing that the item does not say.""",
    form='{"items": [{"n": 1, "propositions": ["Jane Doe founded ACME in 1999.", "ACME is based in Berlin."]}]}',
)
"""Current prompt for propositions."""
