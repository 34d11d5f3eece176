"""Prompt for conditions on metadata, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

METADATA_FILTER_V1: Final = StepPrompt(
    version="metadata_filter/1",
    task="""\
The block named "fields" lists the metadata fields of documents. Name the conditions that the question sets on the \
documents it wants to be answered from: only those that it says, only with these fields, none for what the documents \
are merely about. Operators: eq, ne, lt, lte, gt, gte. Dates as YYYY, YYYY-MM or YYYY-MM-DD; today is {today}. Numbers \
as digits, enumerations as they are listed, texts as the question writes them. An empty list where it sets none.""",
    form="""\
{"conditions": [{"field": "kind", "operator": "eq", "values": ["law"]}, \
{"field": "effective_date", "operator": "gte", "values": ["2024-03"]}]}""",
    max_token_count=400,
)
"""Current prompt for conditions."""
