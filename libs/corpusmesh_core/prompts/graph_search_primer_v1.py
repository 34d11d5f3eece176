"""Prompt for the start of a search: a first answer from reports of communities, and what to ask next, version 1."""

from typing import Final

from corpusmesh_core.prompts.step_prompt import StepPrompt

GRAPH_SEARCH_PRIMER_V1: Final = StepPrompt(
    version="graph_search_primer/1",
    task="""\
A search in documents begins with reports on their main subjects. First say in "answer", in at most three sentences, \
what the reports let one say about the question. Then write in "follow_ups" what should be looked up in the documents \
themselves to answer it well: questions about particular names, events or figures of the reports, each understandable \
by itself, in the language of the question, the most useful first, at most {count}.""",
    form='{"answer": "The bridges were rebuilt after a flood.", "follow_ups": ['
    '"Who paid for the bridge at Westerby?"]}',
    max_token_count=600,
)
"""Current prompt for the start of a search."""
